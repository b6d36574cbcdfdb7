// What a person has allowed for longer than once: real processes, real commands, and a restart in between.
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { llm, place, useProgram } from "../fakes/program.ts";

vi.setConfig({ testTimeout: 120_000 }); // up to ten processes, one after the other

useProgram({ config: "terminal: {sandbox: off}\n" });

const terminal = (command: string, more = {}) => ({ calls: [{ name: "terminal", args: { command, ...more } }] });
const policyFile = () => join(place.home, "policy.yaml");
async function hermes(...args: string[]) {
  const running = place.start(args);
  running.hangUp();
  const code = await running.exit;
  return { code, out: running.stdout(), err: running.stderr() };
}

const ASKED = /approval is needed/;

/** One message in a process of its own, with what is answered if it asks. Whether it did is in the journal. */
async function talk(text: string, until: RegExp, answer = ""): Promise<"asked" | "unasked"> {
  const before = await questions();
  const chat = place.start(["chat", "-c"]);
  chat.type(`${text}\n`);
  if (answer) {
    // What was asked before is shown again, when a conversation is taken up.
    await chat.prints(new RegExp(`(?:${ASKED.source}[^]*){${before + 1}}`));
    chat.type(`${answer}\n`);
  }
  await chat.prints(until);
  chat.type("/quit\n");
  await chat.exit;
  return (await questions()) > before ? "asked" : "unasked";
}

async function questions(): Promise<number> {
  const file = join(place.home, "hermes.db");
  if (!existsSync(file)) return 0;
  const store = await openSqlite({ file, readOnly: true });
  const [talking] = await store.catalog.sessions({ limit: 1 });
  const entries = talking ? await store.journal.entries(talking.session, 0, 1_000) : [];
  await store.close();
  return entries.filter(({ kind }) => kind === "asked").length;
}

describe("a yes for the session", () => {
  it("holds in the next process for that command in that directory, is listed, and can be taken back", async () => {
    mkdirSync(join(place.dir, "sub"));
    llm.script([terminal("touch made"), { text: "first done" }]);
    await talk("go", /first done/, "session");
    rmSync(join(place.dir, "made"));

    llm.script([terminal("touch made"), { text: "second done" }]);
    expect(await talk("again", /second done/)).toBe("unasked");
    expect(readFileSync(join(place.dir, "made"), "utf8")).toBe("");

    llm.script([terminal("touch made", { workdir: "sub" }), { text: "third done" }]);
    expect(await talk("elsewhere", /third done/, "no")).toBe("asked");

    const listed = await hermes("policy", "grants");
    expect(listed.out).toMatch(new RegExp(`terminal .*\\n {4}touch made\\n {4}in ${place.dir}\\n$`));
    const [id = ""] = listed.out.split(/\s/, 1);
    expect((await hermes("policy", "revoke", "nothing")).code).toBe(1);
    expect(await hermes("policy", "revoke", id)).toMatchObject({ code: 0, out: expect.stringMatching(/^Revoked/) });
    expect((await hermes("policy", "grants")).out).toMatch(/^There are no grants/);

    llm.script([terminal("touch made"), { text: "fourth done" }]);
    expect(await talk("once more", /fourth done/, "no")).toBe("asked");
  });

  it("is taken back in the conversation too", async () => {
    llm.script([terminal("touch made"), { text: "done" }, terminal("touch made"), { text: "not done" }]);
    const chat = place.start(["chat"]);
    chat.type("go\n");
    await chat.prints(ASKED);
    chat.type("session\n");
    await chat.prints(/done/);
    chat.type("/grants\n");
    await chat.prints(new RegExp(`1\\. touch made in ${place.dir}`));
    chat.type("/grants revoke 1\n");
    await chat.prints(/Taken back/);
    chat.type("/grants\n");
    await chat.prints(/Nothing is allowed for the rest/);
    chat.type("/quit\n");
    await chat.exit;
  });
});

describe("always", () => {
  it("is one rule for exactly that command in that directory, written before it runs", async () => {
    llm.script([terminal("touch made"), { text: "done" }]);
    await talk("go", /done/, "always");
    expect(readFileSync(policyFile(), "utf8")).toContain("touch made");
    expect((await hermes("policy", "grants")).out).toMatch(/^There are no grants/);
    llm.script([terminal("touch made"), { text: "again done" }]);
    expect(await talk("again", /again done/)).toBe("unasked");
  });
});

describe("a policy file", () => {
  it("that is there and cannot be read stops the start: no deny rule is dropped, nothing is overwritten", async () => {
    mkdirSync(policyFile()); // the same for root, whom no mode keeps out
    const { code, err } = await hermes("run", "hello");
    expect(code).toBe(78);
    expect(err).toContain("policy.yaml cannot be read");
  });
});
