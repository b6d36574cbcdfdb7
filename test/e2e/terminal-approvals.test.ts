// Approvals on a real terminal: what is shown of them, what the choices say, and what typed text does to them.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import type { Entry } from "../../src/core/session.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { holds, rests } from "../fakes/chat-screen.ts";
import { llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import type { Screen } from "../fakes/pty.ts";

useProgram({ config: "terminal: {sandbox: off}\n" });

const SESSION = "agent:main:terminal:dm:talk";
/** So long nothing that is pressed is an answer. */
const ARMED_MS = 500;
const BOTH = "rm -rf build && git push --force origin main";

async function chat(env: NodeJS.ProcessEnv = {}): Promise<Screen> {
  const screen = openTerminal(["chat", "--session", "talk"], { env, cols: 120, rows: 40 });
  await screen.shows("Ctrl+D leaves");
  return screen;
}
/** Until it asks about a call of this tool. */
async function asking(screen: Screen, name: string, args: object): Promise<void> {
  llm.script([{ calls: [{ name, args }] }, { text: "Very well." }, { text: "And the next." }]);
  screen.type("go\r");
  await screen.shows("type its number");
}
async function journal(): Promise<Entry[]> {
  const store = await openSqlite({ file: join(place.home, "hermes.db"), readOnly: true });
  const entries = await store.journal.entries(SESSION, 0, 10_000);
  await store.close();
  return entries;
}
const made = () => existsSync(join(place.dir, "made"));

it("lists every risky part with its reason, says how far each choice goes, and that it waits", async () => {
  const screen = await chat();
  await asking(screen, "terminal", { command: BOTH });
  const text = screen.text();
  expect(text).toContain("2 parts need approval.");
  expect(text).toContain("- rm -rf build: `rm` can delete files, so approval is needed.");
  expect(text).toContain("- git push --force origin main: `git push` can change another repository");
  expect(text).toContain("1. Yes, once");
  expect(text).toContain("2. Yes, this exact command in this folder for the rest of this conversation");
  expect(text).toContain(`3. Always in this folder; saves to policy.yaml: allow_exact: ${BOTH}`);
  expect(text).toContain("4. No, and tell it why");
  expect(text).toMatch(/^waiting for you/m);
});

it("shows one reason on one line", async () => {
  const screen = await chat();
  await asking(screen, "terminal", { command: "touch made" });
  expect(screen.lines().join("")).toContain(`in ${place.dir}: \`touch\` can change files, so approval is needed.`);
});

it("/yolo lets it run without asking until /yolo off, and says so", async () => {
  const screen = await chat();
  screen.type("/yolo\r");
  await screen.shows("/yolo off ends this");
  llm.script([{ calls: [{ name: "terminal", args: { command: "touch made" } }] }, { text: "Very well." }]);
  screen.type("go\r");
  await screen.shows("Very well.");
  expect(made()).toBe(true);
  screen.type("/yolo off\r");
  await screen.shows("I ask again");
  await asking(screen, "terminal", { command: "touch made" });
});

it("a no with its reason is told to the model", async () => {
  const screen = await chat();
  await asking(screen, "terminal", { command: "touch made" });
  screen.type("no, use husky\r");
  await screen.shows("Very well.");
  expect(llm.requests[1]?.messages.at(-1)).toMatchObject({
    role: "tool",
    text: expect.stringMatching(/no: use husky$/),
  });
  expect(made()).toBe(false);
});

it("the choice No waits for the reason", async () => {
  const screen = await chat();
  await asking(screen, "terminal", { command: "touch made" });
  await sleep(ARMED_MS);
  screen.key("up");
  await screen.shows("❯ 4. No");
  screen.key("enter");
  await holds(screen, "no,");
  screen.type("not here\r");
  await screen.shows("✗ denied: The user said no: not here");
});

it.each(["interrupt", "queue", "steer"])(
  "%s mode: a message that is no answer leaves the question open",
  async (mode) => {
    const screen = await chat({ HERMES_GATEWAY_BUSY_INPUT_MODE: mode });
    await asking(screen, "terminal", { command: "touch made" });
    screen.type("and mind the umlauts\r");
    await screen.shows(`1. [${mode === "queue" ? "queue" : "steer"}] and mind the umlauts`);
    await screen.shows("4. No, and tell it why");
    expect((await journal()).some(({ kind }) => kind === "decided" || kind === "stopping")).toBe(false);
    screen.type("yes\r");
    await screen.shows(mode === "queue" ? "And the next." : "Very well.");
    await rests(screen);
    expect(made()).toBe(true);
    const outcomes = (await journal()).flatMap((e) => (e.kind === "ended" ? [e.outcome] : []));
    expect(outcomes).toEqual(mode === "queue" ? ["completed", "completed"] : ["completed"]);
    expect(llm.requests.at(-1)?.raw).toContain("mind the umlauts");
  },
);

it("says what a yes for the conversation leaves, and how to take it back", async () => {
  const screen = await chat();
  await asking(screen, "terminal", { command: "touch made" });
  screen.type("session\r");
  await screen.shows("To take it back: /grants revoke 1");
  await screen.shows("Very well.");
  screen.type("/grants revoke 1\r");
  await screen.shows("Taken back");
});

it("says what always saves, and saves exactly that", async () => {
  const screen = await chat();
  await asking(screen, "terminal", { command: "touch made" });
  screen.type("3\r");
  await screen.shows("Saved to policy.yaml: allow_exact: touch made");
  await screen.shows("Very well.");
  expect(readFileSync(join(place.home, "policy.yaml"), "utf8")).toBe(
    `rules:\n  - allow_exact: touch made\n    in: ${place.dir}\n`,
  );
});

it("shows a write as a diff", async () => {
  writeFileSync(join(place.dir, ".bashrc"), "alias a=b\nexport API_TOKEN=abcdefgh12345678\nalias z=y\n");
  const screen = await chat();
  const content = "alias a=c\nexport API_TOKEN=abcdefgh12345678\nalias z=y\n";
  await asking(screen, "write_file", { path: ".bashrc", content, overwrite: true });
  const lines = screen.lines().map((line) => line.trimEnd());
  expect(lines).toEqual(expect.arrayContaining(["-alias a=b", "+alias a=c", " alias z=y"]));
  expect(screen.text()).not.toContain("⟨line⟩");
  expect(screen.text()).not.toContain("abcdefgh12345678");
});

it("plain lines name the word for each choice", async () => {
  llm.script([{ calls: [{ name: "terminal", args: { command: "touch made" } }] }, { text: "Very well." }]);
  const plain = place.start(["chat", "--plain"]);
  plain.type("go\n");
  await plain.prints(/ {2}once: Yes, once\n {2}session: Yes, this exact command in this folder/);
  await plain.prints(/ {2}always: Always in this folder; saves to policy\.yaml: allow_exact: touch made\n/);
  plain.type("no, use husky\n");
  await plain.prints(/Denied: The user said no: use husky/);
  plain.type("/quit\n");
  await plain.exit;
});
