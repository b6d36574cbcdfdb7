// hermes chat on a real terminal: every way out of it. It is short whatever hangs, the terminal is as it was, nothing that was
// started is left, and the conversation goes on where it was.
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { alive, eventually, holds, isWorking, rests, typed } from "../fakes/chat-screen.ts";
import { closeAfterTest, configure, llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import { type Screen, startShell } from "../fakes/pty.ts";

// Nothing is asked about a command here.
useProgram({ env: { HERMES_YOLO_MODE: "yes" } });
let servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

const SIZE = { cols: 100, rows: 30 };
const READY = "Ctrl+D leaves";

async function chat(args: string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Screen> {
  const screen = openTerminal(["chat", ...args], { ...SIZE, env });
  await screen.shows(READY);
  await screen.until(({ text }) => /^(working|fake-model) /m.test(text()), "the status bar");
  return screen;
}
/** `place.clear()` closes its window if the test fails. */
async function inShell(): Promise<Screen> {
  const shell = startShell(place, SIZE);
  await prompted(shell);
  return shell;
}
const prompted = (shell: Screen) =>
  shell.until(({ rows }) => rows().findLast(Boolean) === "$", "the prompt of the shell");

async function gateway(port: number) {
  const served = place.start(["gateway"], { API_SERVER_PORT: String(port) });
  closeAfterTest(served);
  await served.prints(/hermes gateway ready on/);
  return served;
}

/** Takes connections, and never says a word. */
async function silentServer(): Promise<string> {
  const server = createServer((socket) => socket.on("error", () => {}));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
async function freePort(): Promise<number> {
  const { port } = new URL(await silentServer());
  const server = servers.pop();
  await new Promise((resolve) => server?.close(resolve));
  return Number(port);
}

const runs = (command: string) => ({ calls: [{ name: "terminal", args: { command } }] });
const SLEEPS = runs("sleep 120");
const DEAF = "trap '' TERM HUP INT; while :; do sleep 1; done";
const runsNow = (what: string) => eventually(() => alive(place).some((command) => command.startsWith(what)));
const lastSaid = () => JSON.stringify(llm.requests.at(-1)?.messages.findLast(({ role }) => role === "user"));

/** The last of these that the program has sent to its terminal. */
const last = (screen: Screen, ...sequences: string[]) => {
  const places = sequences.map((one) => screen.raw().lastIndexOf(one));
  return sequences[places.indexOf(Math.max(...places))];
};
const count = (screen: Screen, sequence: string) => screen.raw().split(sequence).length - 1;

describe("leaving", () => {
  it.each([
    ["/quit", "/quit\r"],
    ["/exit", "/exit\r"],
    ["Ctrl+D", "\x04"],
  ])("by %s, with nothing going on", async (_, keys) => {
    const screen = await chat();
    screen.type(keys);
    expect(await screen.exit).toBe(0);
    expect(screen.text()).toContain("Shutting down… (finalizing session)");
    expect(screen.text()).not.toContain("Resume with"); // nothing was said
  });

  it("by Ctrl+D in the middle of a turn, which goes on when one comes back, but not while something is typed", async () => {
    llm.script([{ text: "never told", fault: { silence: "text" } }, { text: "Here it is." }]);
    const screen = await chat();
    screen.type("abc\x04d");
    await holds(screen, "abcd");
    screen.type("\r");
    await screen.shows("never told");
    screen.type("\x04");
    expect(await screen.exit).toBe(0);
    const again = await chat(["-c"]);
    await again.shows("Here it is.");
    expect(llm.requests).toHaveLength(2);
  });

  it("Ctrl+C stops the turn and, a second time within two seconds, leaves with 130", async () => {
    llm.script([{ text: "on and on", fault: { silence: "text" } }]);
    const screen = await chat();
    screen.type("go\r");
    await screen.shows("on and on");
    screen.key("ctrl+c");
    await rests(screen);
    screen.key("ctrl+c");
    expect(await screen.exit).toBe(130);
    expect(screen.text()).toContain("Shutting down… (finalizing session)");
  });

  it("a Ctrl+C too many does not leave behind what a turn has started", async () => {
    llm.script(runs(DEAF));
    const screen = await chat();
    screen.type("go\r");
    await runsNow("sleep 1");
    screen.type("\x03\x03");
    await screen.shows("Shutting down");
    screen.key("ctrl+c");
    await screen.shows("^C");
    expect(await screen.exit).toBe(130);
    expect(alive(place)).toEqual([]);
  });

  it("two Ctrl+C with a message between them stop twice", async () => {
    const more = { text: "on and on", fault: { silence: "text" } } as const;
    llm.script([more, more, { text: "Still here." }]);
    const screen = await chat();
    for (const text of ["one", "two"]) {
      screen.type(`${text}\r`);
      await (await llm.nextRequest()).holding;
      await screen.until(isWorking);
      screen.key("ctrl+c");
      await rests(screen);
    }
    screen.type("three\r");
    await screen.shows("Still here.");
  });

  it("the terminal is as it was, and what is printed to come back with works", async () => {
    llm.script([{ text: "Hello you." }, { text: "Welcome back." }]);
    const shell = await inShell();
    const before = shell.settings();
    shell.type("hermes chat\r");
    await shell.shows(READY);
    expect(shell.settings()).not.toEqual(before);
    shell.type("hi\r");
    await shell.shows("Hello you.");
    shell.type("/quit\r");
    await shell.shows(/Resume with: .*\n\$$/);
    expect(shell.settings()).toEqual(before);
    expect(shell.cursor().hidden).toBe(false);
    expect(last(shell, "\x1b[?2004h", "\x1b[?2004l")).toBe("\x1b[?2004l"); // no brackets around what is pasted
    expect(last(shell, "\x1b[>4;2m", "\x1b[>4;0m")).toBe("\x1b[>4;0m"); // keys as they always were
    expect(count(shell, "\x1b[<u")).toBe(count(shell, "\x1b[>7u"));
    const [, command = ""] = /Resume with: (hermes -c \S+)/.exec(shell.text()) ?? [];
    shell.type(`${command}\r`);
    await shell.shows(/▸ hi/);
    shell.type("me again\r");
    await shell.shows("Welcome back.");
    expect(JSON.stringify(llm.requests.at(-1)?.messages)).toContain("Hello you.");
    shell.type("\x04");
    await prompted(shell);
    expect(shell.settings()).toEqual(before);
    shell.type("exit 7\r");
    expect(await shell.exit).toBe(7);
  });
});

describe("over within five seconds", () => {
  async function leaves(screen: Screen): Promise<void> {
    const began = performance.now();
    screen.type("\x04");
    await screen.shows("Shutting down… (finalizing session)", 1_000);
    expect(await screen.exit).toBe(0);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(alive(place)).toEqual([]);
  }

  it.each([
    ["that heeds no signal", DEAF],
    ["that leaves others behind", "(setsid sleep 121 &); sleep 122 & exec sleep 123"],
  ])("with a command %s", async (_, command) => {
    llm.script(runs(command));
    const screen = await chat();
    screen.type("go\r");
    await runsNow("sleep 1");
    await leaves(screen);
  });

  it("with a command of one's own that heeds no signal", async () => {
    const screen = await chat();
    screen.type(`!${DEAF}\r`);
    await runsNow("sleep 1");
    await leaves(screen);
  });

  it("with a memory, a collector of traces and an MCP tool that never answer, and a deaf command", async () => {
    const fake = join(import.meta.dirname, "../fakes/mcp-server.ts");
    const server = ["sh", "-c", `trap '' TERM HUP; '${process.execPath}' '${fake}'`];
    configure(`memory: { provider: [http], http: { url: "${await silentServer()}" } }
mcp_servers: { fake: { command: ${JSON.stringify(server)} } }
telemetry: { endpoint: "${await silentServer()}" }\n`);
    llm.script([{ text: "Hello." }, { calls: [{ name: "mcp_fake_hang", args: {} }, ...runs(DEAF).calls] }]);
    const screen = await chat();
    screen.type("hi\r");
    await screen.shows("Hello.");
    screen.type("go\r");
    await screen.shows(/mcp_fake_hang/);
    await runsNow("sleep 1");
    await leaves(screen);
  });

  it("before it is open, with an MCP server that never answers", async () => {
    configure(`mcp_servers: { deaf: { command: ${JSON.stringify(["sh", "-c", DEAF])} } }\n`);
    const screen = openTerminal(["chat"], SIZE);
    await runsNow("sleep 1");
    expect(screen.text()).not.toContain(READY);
    await leaves(screen);
  });

  it("and if it were not, it would be killed", async () => {
    configure(`telemetry: { endpoint: "${await silentServer()}" }\n`); // it is told the last for two seconds
    const screen = await chat([], { HERMES_EXIT_WATCHDOG_S: "1" });
    screen.type("hi\r");
    await screen.shows("Hello from the fake model.");
    const began = performance.now();
    screen.type("\x04");
    expect(await screen.exit).toBe("SIGKILL");
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(screen.cursor().hidden).toBe(false);
  });
});

describe("ended from outside", () => {
  const ENDS: [string, number, (screen: Screen) => void][] = [
    ["SIGTERM", 143, (screen) => screen.kill("SIGTERM")],
    ["SIGHUP", 129, (screen) => screen.kill("SIGHUP")],
    ["a closed window", 129, (screen) => screen.close()],
  ];
  it.each(ENDS)("by %s: nothing is left, and the turn goes on by itself", async (_, code, end) => {
    llm.script([SLEEPS, { text: "Taken up again." }]);
    const screen = await chat();
    screen.type("go\r");
    await runsNow("sleep 120");
    end(screen);
    expect(await screen.exit).toBe(code);
    expect(alive(place)).toEqual([]);
    const again = await chat(["-c"]);
    await again.shows("Taken up again.");
    expect(llm.requests).toHaveLength(2);
  });

  it("by a second SIGHUP as well: the tools are still ended", async () => {
    llm.script(runs(DEAF));
    const screen = await chat();
    screen.type("go\r");
    await runsNow("sleep 1");
    screen.kill("SIGHUP");
    await screen.shows("Shutting down");
    screen.kill("SIGHUP");
    expect(await screen.exit).toBe(129);
    expect(alive(place)).toEqual([]);
  });

  it.each(["in front", "suspended"])("by closing the window of its shell, %s", async (where) => {
    llm.script(SLEEPS);
    const shell = await inShell();
    shell.type("hermes chat\r");
    await shell.shows(READY);
    shell.type("go\r");
    await runsNow("sleep 120");
    if (where === "suspended") {
      shell.key("ctrl+z");
      await prompted(shell);
    }
    shell.close();
    await eventually(() => alive(place).length === 0, 5_000);
  });

  it("by SIGTERM while one chooses a conversation", async () => {
    const first = await chat();
    first.type("hi\r");
    await first.shows("Hello from the fake model.");
    first.type("/quit\r");
    await first.exit;
    const screen = openTerminal(["--resume"], SIZE);
    await screen.shows("Which conversation?");
    screen.kill("SIGTERM");
    expect(await screen.exit).toBe(143);
  });
});

describe("suspended with Ctrl+Z", () => {
  it("the shell has its terminal, and `fg` shows everything again while the turn goes on", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ text: "The beginning", hold: hold.promise, holdAt: "text" }]);
    const shell = await inShell();
    const before = shell.settings();
    shell.type("hermes chat\r");
    await shell.shows(READY);
    shell.type("go\r");
    await shell.shows("The beginning");
    shell.type("half a thought");
    await holds(shell, "half a thought");
    // Several times: whether the program's clock or the wake-up call comes first is chance.
    for (let i = 0; i < 4; i++) {
      shell.key("ctrl+z");
      await prompted(shell);
      expect(shell.settings()).toEqual(before);
      expect(shell.cursor().hidden).toBe(false);
      expect(last(shell, "\x1b[?2004h", "\x1b[?2004l")).toBe("\x1b[?2004l");
      shell.type(`echo in the shell ${i}\r`);
      await shell.shows(new RegExp(`^in the shell ${i}$`, "m"));
      shell.type("fg\r");
      await holds(shell, "half a thought");
      await shell.until(isWorking, "the turn at work");
    }
    expect(shell.text()).toMatch(/in the shell[\s\S]*The beginning/);
    hold.resolve();
    await rests(shell);
    shell.key("ctrl+c");
    await shell.shows("Cleared");
    shell.type("/quit\r");
    await prompted(shell);
    expect(shell.settings()).toEqual(before);
    shell.type("exit\r");
    await shell.exit;
  });

  it("where nobody could wake it, it goes on", async () => {
    const screen = await chat();
    screen.type("half a ");
    await holds(screen, "half a");
    screen.key("ctrl+z");
    await screen.until(({ raw }) => raw().split("\x1b[?2004h").length > 2, "the screen once more");
    screen.type("thought");
    await holds(screen, "half a thought");
  });
});

describe("attached to a gateway", () => {
  it("the turn outlives the terminal, and another one shows it", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script({ text: ["From afar, ", "to the end."], hold: hold.promise, holdAt: "finish" });
    await gateway(0);
    const first = await chat(["--session", "shared"]);
    expect(first.text()).toContain("Attached to the gateway");
    first.type("hi\r");
    await first.shows("From afar");
    first.close();
    await first.exit;
    const second = await chat(["--session", "shared"]);
    await second.until(() => isWorking(second) && second.text().includes("From afar"), "the same turn");
    hold.resolve();
    await rests(second);
    expect(llm.requests).toHaveLength(1);
  });

  it("the gateway is killed and started again: the screen goes on, and so does the turn", async () => {
    const port = await freePort();
    const first = await gateway(port);
    llm.script([{ text: "lost", fault: { silence: "text" } }, { text: "Found again." }, { text: "And more." }]);
    const screen = await chat();
    screen.type("one\r");
    await screen.shows("lost");
    first.kill("SIGKILL");
    await first.exit;
    await screen.shows("The connection to the server is broken");
    await gateway(port);
    await screen.shows("Found again.");
    screen.type("two\r");
    await screen.shows("And more.");
    expect(screen.text()).not.toContain("The connection to the server is broken");
    expect(llm.requests).toHaveLength(3);
  });

  it("what cannot be sent stays in the editor, with what was typed behind it, and the reason is said", async () => {
    const port = await freePort();
    const first = await gateway(port);
    const screen = await chat();
    first.kill("SIGKILL");
    await first.exit;
    screen.type("one\rtwo\rthree");
    await screen.shows(/Cannot reach http/);
    // At once: "two" is not sent with it, which would take another four seconds to fail.
    await screen.until(() => typed(screen) === "one\ntwo\nthree", "all of it in the editor", 2_000);
    await gateway(port);
    screen.type("\r");
    await screen.shows("Hello from the fake model.");
    expect(typed(screen)).toBe("");
    expect(lastSaid()).toContain("one\\ntwo\\nthree");
    expect(llm.requests).toHaveLength(1);
  });

  it("a gateway that hangs does not keep one from leaving", async () => {
    const served = await gateway(0);
    const screen = await chat();
    served.kill("SIGSTOP");
    screen.type("one\r\x03\x03");
    expect(await screen.exit).toBe(130);
    served.kill("SIGCONT");
  });

  it("a message stands in the editor until it is stored, and what is typed meanwhile comes behind it", async () => {
    const served = await gateway(0);
    const screen = await chat([], { HERMES_GATEWAY_BUSY_INPUT_MODE: "queue" });
    served.kill("SIGSTOP");
    screen.type("one\rtwo\rthree");
    await holds(screen, "one");
    await sleep(300);
    expect(typed(screen)).toBe("one");
    served.kill("SIGCONT");
    await holds(screen, "three");
    await eventually(() => llm.requests.length === 2);
    expect(lastSaid()).toContain("two");
  });
});
