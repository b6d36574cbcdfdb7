// The person's own commands, with real processes; and the whole of it once, opened here and attached to a gateway.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openOrAttach } from "../../src/compose/attach.ts";
import { createShell } from "../../src/compose/shell.ts";
import { makePlace } from "../fakes/hermes.ts";
import { marked, SHAPES, until } from "../fakes/shapes.ts";

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-shell-")));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const never = new AbortController().signal;
const shellIn = (env: NodeJS.ProcessEnv = {}, cwd = dir) =>
  createShell({ cwd, env: { PATH: process.env["PATH"], ...env }, home: dir });
async function ran(command: string, env: NodeJS.ProcessEnv = {}) {
  let printed = "";
  const print = (text: string) => {
    printed += text;
  };
  return { ...(await shellIn(env)(command, print, never)), printed: () => printed };
}

describe("a command of the person's own", () => {
  it("runs in the workspace, prints as it comes, and gives its exit code", async () => {
    const { code, text, printed } = await ran("pwd; echo wrong >&2; exit 3");
    expect(code).toBe(3);
    expect(text).toBe(`${dir}\nwrong\n`);
    expect(printed()).toBe(text);
  });

  it("is printed while it runs", async () => {
    writeFileSync(join(dir, "gate"), "");
    const seen = Promise.withResolvers<void>();
    const running = shellIn()(
      "echo first; while [ -e gate ]; do sleep 0.01; done; echo second",
      (text) => (text.includes("first") ? seen.resolve() : undefined),
      never,
    );
    await seen.promise;
    rmSync(join(dir, "gate"));
    expect(await running).toEqual({ code: 0, text: "first\nsecond\n" });
  });

  it("has the person's environment as it is, also what no tool of the agent may see", async () => {
    const env = { OPENAI_API_KEY: "sk-own", HERMES_YOLO_MODE: "no", MY_OWN: "yes", TERM: "xterm-256color" };
    const { text } = await ran('echo "$OPENAI_API_KEY $HERMES_YOLO_MODE $MY_OWN $TERM"', env);
    expect(text).toBe("sk-own no yes xterm-256color\n");
  });

  it("gets no terminal and nothing to read, so that nothing waits for keys that go elsewhere", async () => {
    const { text } = await ran("cat; test -t 0 || test -t 1 || echo none; (: </dev/tty) 2>/dev/null || echo no tty");
    expect(text).toBe("none\nno tty\n");
  });

  it("is shown and told without control sequences", async () => {
    const { text, printed } = await ran(String.raw`printf '\033[31mred\033[0m \033]52;c;ZXZpbA==\007end\n'`);
    expect(text).toBe("red end\n");
    expect(printed()).toBe(text);
  });

  it("is told with its beginning and its end when it printed more than 16 kB, and printed whole", async () => {
    const { text, printed } = await ran("seq 1 100000");
    expect(text.length).toBeLessThan(17_000);
    expect(text.startsWith("1\n2\n3\n")).toBe(true);
    expect(text.endsWith("99999\n100000\n")).toBe(true);
    expect(text).toContain("bytes left out");
    expect(printed().split("\n")).toHaveLength(100_001);
  });

  it("says so when it ends what the command left running", async () => {
    const { code, text, printed } = await ran("printf started; sleep 300 &");
    expect(code).toBe(0);
    expect(text).toBe("started\n[1 process(es) it left running were ended]\n");
    expect(printed()).toBe(text);
  });

  it("says why it could not begin", async () => {
    let printed = "";
    const shell = shellIn({}, join(dir, "gone"));
    const { code, text } = await shell("true", (more) => (printed += more), never);
    expect(code).toBe(126);
    expect(text).toContain("There is no directory");
    expect(printed).toBe(text);
  });

  it.each(Object.entries(SHAPES))("ends with everything it started when it is aborted: %s", async (_, command) => {
    const mark = `OWN_MARK=${dir}`;
    const stop = new AbortController();
    const print = (text: string) => (text.includes("ready") ? stop.abort() : undefined);
    const { code } = await shellIn({ OWN_MARK: dir })(command, print, stop.signal);
    expect(code).toBe(130);
    await until(() => marked(mark).length === 0);
  });
});

describe("opened as a whole", () => {
  const place = () => {
    const made = makePlace();
    const env = { PATH: process.env["PATH"], HOME: made.dir, HERMES_HOME: made.home, API_SERVER_PORT: "0" };
    const cwd = { flag: "--cwd", key: "terminal.cwd", value: dir };
    const open = (attach: boolean) =>
      openOrAttach({ env: { ...env, OWN: "mine" }, flags: [cwd], logToStderr: false, mine: () => false, attach });
    return { ...made, open };
  };

  it("runs it here, over a runtime of this process or attached to a gateway", async () => {
    const here = place();
    const elsewhere = place();
    const gateway = elsewhere.start(["gateway"]);
    try {
      await gateway.prints(/hermes gateway ready/);
      const opened = [await here.open(false), await elsewhere.open(true)];
      const told = await Promise.all(opened.map(({ shell }) => shell('pwd; echo "$OWN $PPID"', () => {}, never)));
      await Promise.all(opened.map((one) => one.close(0)));
      expect(told).toEqual(told.map(() => ({ code: 0, text: `${dir}\nmine ${process.pid}\n` })));
      gateway.kill("SIGTERM");
      await gateway.exit;
    } finally {
      here.clear();
      elsewhere.clear();
    }
  });
});
