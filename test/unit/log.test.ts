import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openLog } from "../../src/platform/log.ts";
import { type LogRecord, parseRecord, pretty } from "../../src/platform/logline.ts";
import { createRedactor } from "../../src/platform/redact.ts";

let dir: string;
let file: string;
let closing: (() => void)[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-log-"));
  file = join(dir, "hermes.log");
  closing = [];
});
afterEach(() => {
  for (const close of closing) close();
  rmSync(dir, { recursive: true, force: true });
});

const open = (options: Partial<Parameters<typeof openLog>[0]> = {}) => {
  const opened = openLog({ file, level: "info", stderr: false, redactor: createRedactor(), ...options });
  closing.push(opened.close);
  return opened;
};
const lines = (path = file) => readFileSync(path, "utf8").split("\n").slice(0, -1);
const records = (path = file) => lines(path).map((line) => parseRecord(line));

/** A process that logs as ours do. `body` has `log` and `close`. */
const program = (body: string) => {
  const platform = new URL("../../src/platform/", import.meta.url).href;
  return `
    import { openLog } from "${platform}log.ts";
    import { createRedactor } from "${platform}redact.ts";
    const redactor = createRedactor();
    for (const name of ["FIRST", "SECOND"]) redactor.add(process.env[name] ?? "");
    const { log, close } = openLog({ file: ${JSON.stringify(file)}, level: "info", redactor, ...JSON.parse(process.env.OPTIONS) });
    ${body}`;
};
const run = (body: string, options: object, env: NodeJS.ProcessEnv = {}) => {
  const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", program(body)], {
    env: { ...process.env, ...env, OPTIONS: JSON.stringify(options) },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return { child, ended: once(child, "close").then(([code, signal]) => ({ code, signal, stderr })) };
};

describe("an event", () => {
  it("is one JSON line with time, level, process, fields and its name", () => {
    const { log } = open();
    log("info", "turn.ended", { session: "agent:main:cli", usage: { input_tokens: 3 }, text: "two\nlines" });
    expect(lines()).toHaveLength(1);
    expect(records()[0]).toEqual({
      level: "info",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      pid: process.pid,
      session: "agent:main:cli",
      usage: { input_tokens: 3 },
      text: "two\nlines",
      event: "turn.ended",
    });
  });

  it("below the level is not written", () => {
    const { log } = open({ level: "warn" });
    log("debug", "a");
    log("info", "b");
    log("warn", "c");
    log("error", "d");
    expect(records().map((record) => record?.event)).toEqual(["c", "d"]);
  });

  it("keeps its own name, level and time, whatever its fields are called", () => {
    const { log } = open();
    log("warn", "real", { event: "forged", level: "info", time: 0, pid: 1 });
    expect(lines()[0]?.match(/"event":/g)).toHaveLength(1);
    expect(records()[0]).toMatchObject({
      event: "real",
      level: "warn",
      event_: "forged",
      level_: "info",
      pid: process.pid,
    });
  });

  it("never throws into the caller, whatever it is given", () => {
    const { log } = open();
    const circle: Record<string, unknown> = {};
    circle.circle = circle;
    const trap = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("no");
        },
      },
    );
    log("info", "circle", circle);
    log("info", "trap", { trap });
    log("info", "trap", trap);
    log("info", "odd", { big: 1n, run: () => {}, nothing: undefined, error: new Error("x", { cause: circle }) });
    expect(records().every((record) => record !== null)).toBe(true);
    expect(records()).toHaveLength(4);
  });

  it("after close is dropped quietly", () => {
    const { log, close } = open();
    log("info", "before");
    close();
    log("info", "after");
    close();
    expect(records().map((record) => record?.event)).toEqual(["before"]);
  });
});

describe("the file", () => {
  it("is for its owner only, also when it existed and was open to others", () => {
    writeFileSync(file, "", { mode: 0o644 });
    chmodSync(file, 0o644);
    const { log } = open({ maxBytes: 300 });
    for (let n = 0; n < 20; n += 1) log("info", "event", { n });
    const modes = readdirSync(dir).map((name) => statSync(join(dir, name)).mode & 0o777);
    expect(modes.length).toBeGreaterThan(2);
    expect(new Set(modes)).toEqual(new Set([0o600]));
  });

  it("is rotated by size, keeps five files, and loses only the oldest lines", () => {
    const { log } = open({ maxBytes: 1000 });
    for (let n = 0; n < 200; n += 1) log("info", "event", { n });
    const names = readdirSync(dir).toSorted();
    expect(names).toEqual(["hermes.log", "hermes.log.1", "hermes.log.2", "hermes.log.3", "hermes.log.4"]);
    expect(names.every((name) => statSync(join(dir, name)).size <= 1000)).toBe(true);
    const kept = names.toReversed().flatMap((name) => records(join(dir, name)).map((record) => record?.n));
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, n) => 200 - kept.length + n));
  });

  it("takes a line that is larger than the limit", () => {
    const { log } = open({ maxBytes: 100 });
    log("info", "large", { text: "x".repeat(500) });
    log("info", "next");
    expect(records()[0]?.event).toBe("next");
    expect(records(`${file}.1`)[0]?.event).toBe("large");
  });

  it("is begun again when somebody deletes it or moves it away", () => {
    const { log } = open();
    log("info", "first");
    renameSync(file, join(dir, "taken"));
    log("info", "second");
    rmSync(file);
    log("info", "third");
    expect(records().map((record) => record?.event)).toEqual(["third"]);
  });

  it("is never written through a symbolic link", () => {
    const target = join(dir, "precious");
    writeFileSync(target, "untouched");
    symlinkSync(target, file);
    open().log("info", "event");
    expect(readFileSync(target, "utf8")).toBe("untouched");
  });

  it("that cannot be written does not stop the program, and tells later how much is missing", () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const { log } = open({ file: join(dir, "logs", "hermes.log") });
      log("info", "lost");
      log("info", "lost too");
      mkdirSync(join(dir, "logs"));
      log("info", "not yet tried again");
      vi.setSystemTime(Date.now() + 1001);
      log("info", "written");
      expect(records(join(dir, "logs", "hermes.log"))).toMatchObject([
        { event: "log.lines_lost", level: "warn", lost: 3 },
        { event: "written" },
      ]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("is still rotated after a process died in the middle of a rotation", () => {
    writeFileSync(`${file}.lock`, "");
    utimesSync(`${file}.lock`, 0, 0);
    const { log } = open({ maxBytes: 300 });
    for (let n = 0; n < 10; n += 1) log("info", "event", { n });
    expect(existsSync(`${file}.1`)).toBe(true);
    expect(existsSync(`${file}.lock`)).toBe(false);
  });

  it("is shared by processes that rotate it at the same time, without a torn or a lost line", async () => {
    const body = `for (let n = 0; n < 400; n += 1) log("info", "event", { who: process.env.WHO, n }); close();`;
    const options = { maxBytes: 20_000, files: 50, stderr: false };
    const all = await Promise.all(["a", "b", "c", "d"].map((WHO) => run(body, options, { WHO }).ended));
    expect(all.map(({ code, stderr }) => [code, stderr])).toEqual([0, 0, 0, 0].map((code) => [code, ""]));
    const seen = readdirSync(dir).flatMap((name) => records(join(dir, name)));
    expect(readdirSync(dir).length).toBeGreaterThan(3);
    expect(seen).not.toContain(null);
    expect(new Set(seen.map((record) => `${String(record?.who)}${String(record?.n)}`)).size).toBe(1600);
  });

  it("has every line of a process that was killed, or left by process.exit", async () => {
    const say = `for (let n = 0; n < 100; n += 1) log("info", "event", { n });`;
    await run(`${say} process.exit(3);`, { stderr: false }).ended;
    expect(lines()).toHaveLength(100);
    const killed = await run(`${say} process.kill(process.pid, "SIGKILL");`, { stderr: false }).ended;
    expect(killed.signal).toBe("SIGKILL");
    expect(lines()).toHaveLength(200);
  });
});

describe("stderr", () => {
  it("gets a readable line per event, plain where it is not a terminal", async () => {
    const { stderr } = await run(`log("warn", "turn.slow", { ms: 1200, why: "two words" });`, { stderr: true }).ended;
    expect(stderr).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARN {2}turn\.slow ms=1200 why="two words"\n$/);
  });

  it("gets nothing where a screen owns the terminal", async () => {
    const { stderr } = await run(`log("error", "turn.failed");`, { stderr: false }).ended;
    expect(stderr).toBe("");
    expect(lines()).toHaveLength(1);
  });

  it("does not end or stall the program when its reader goes away or stops reading", async () => {
    const body = `
      for (let n = 0; n < 3000; n += 1) log("info", "event", { n, text: "x".repeat(1000) });
      setTimeout(() => { log("info", "last"); process.exit(process.stderr.writableLength < 3_000_000 ? 5 : 6); }, 50);`;
    const gone = run(body, { stderr: true });
    gone.child.stderr.destroy();
    expect((await gone.ended).code).toBe(5);
    const stopped = run(body, { stderr: true });
    stopped.child.stderr.removeAllListeners("data").pause();
    const [code] = await once(stopped.child, "exit");
    expect(code).toBe(5);
    expect(records().filter((record) => record?.event === "last")).toHaveLength(2);
  });

  it("obeys nothing that a model or a tool wrote", () => {
    const record = {
      time: "2026-11-15T04:51:57.413Z",
      level: "info",
      pid: 1,
      event: "said\x1b]52;c;x\x07",
    } as LogRecord;
    const line = pretty({ ...record, text: "\x1b[2J\r\nfake\u202E\u009b", "na\x1bme": { a: "\x1b" } }, false);
    expect(line).toMatch(/^[ -~]+$/);
  });

  it("is coloured on request only, and leaves stacks to the file", () => {
    const record = {
      time: "x",
      level: "error",
      pid: 1,
      event: "e",
      error: { message: "m", stack: "at here" },
    } as LogRecord;
    expect(pretty(record, true)).toContain("\x1b[31mERROR\x1b[0m");
    expect(pretty(record, false)).toBe('x ERROR e error={"message":"m"}');
  });
});

describe("secrets", () => {
  it("planted in events of any form reach neither the file nor stderr", async () => {
    const FIRST = "zebra-moon-5510";
    const SECOND = 'quo"ted\\and\nbroken';
    const body = `
      const { FIRST, SECOND } = process.env;
      for (const secret of [FIRST, SECOND, "sk-canary-abcdefgh", "ghp_canaryabcdefghijklmnopqrst"]) {
        log("info", "text " + secret, { text: "in " + secret + " the middle", [secret]: 1, list: [[{ secret }], secret] });
        log("warn", "nested", { body: JSON.stringify({ deep: JSON.stringify({ secret }) }), map: new Map([["x", secret]]) });
        const error = new Error("no " + secret, { cause: Object.assign(new Error(secret), { request: { url: "http://u:" + "canary-pw@h/" } }) });
        log("error", "failed", { error });
      }
      log("info", "named", { headers: { Authorization: "canary-1", cookie: "canary-2" }, apiKey: "canary-3", password: 4444 });`;
    const { code, stderr } = await run(body, { stderr: true }, { FIRST, SECOND }).ended;
    expect(code).toBe(0);
    expect(lines()).toHaveLength(13);
    for (const sink of [stderr, readFileSync(file, "utf8")]) {
      expect(sink.split("\n").filter((line) => line !== "")).toHaveLength(13);
      expect(sink).not.toMatch(/zebra|moon|quo.{0,8}ted|broken|canary|4444/s);
      expect(sink.match(/\[redacted\]/g)?.length).toBeGreaterThan(30);
    }
  });
});
