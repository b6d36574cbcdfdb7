// The program as a person starts it: bin/hermes, a real process, a fresh HERMES_HOME.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import pkg from "../../package.json" with { type: "json" };
import { ALONE } from "../../src/core/store.ts";
import { openLog } from "../../src/platform/log.ts";
import { createRedactor } from "../../src/platform/redact.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { probeSandbox } from "../../src/tools/shell/exec.ts";
import { bootEngine, handClock } from "../fakes/scripted.ts";
import { needs } from "../needs.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const hermes = join(root, "bin", "hermes");
const probe = await probeSandbox();
const systemd = await needs("systemd");
const boxed = await needs("sandbox", "git");

let dir: string;
let home: string;
let children: ChildProcess[];
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-cli-")));
  home = join(dir, "home");
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

type Options = { env?: NodeJS.ProcessEnv; cwd?: string; program?: string; input?: string };
const start = (args: string[], { env = {}, cwd = dir, program = hermes }: Options = {}) => {
  const child = spawn(program, args, { cwd, env: { PATH: process.env.PATH, HERMES_HOME: home, ...env } });
  children.push(child);
  return child;
};
const run = async (args: string[], options?: Options) => {
  const child = start(args, options);
  if (options?.input !== undefined) child.stdin.end(options.input);
  const out = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (out.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => void (out.stderr += text));
  const [code] = await once(child, "close");
  return { code, ...out };
};
const makeHome = (files: Record<string, string> = {}) => {
  mkdirSync(home, { mode: 0o700 });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(home, name), text, { mode: 0o600 });
};
const makeLog = (maxBytes?: number) => {
  mkdirSync(join(home, "logs"), { recursive: true, mode: 0o700 });
  const file = join(home, "logs", "hermes.log");
  return openLog({ file, level: "debug", stderr: false, redactor: createRedactor(), ...(maxBytes && { maxBytes }) })
    .log;
};

describe("hermes", () => {
  it("shows its commands for --help", async () => {
    const help = await run(["--help"]);
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toMatch(/Usage: hermes/);
    for (const command of ["chat", "run", "logs", "doctor", "hermes -c", "hermes --resume"])
      expect(help.stdout).toContain(command);
  });

  it("shows its version", async () => {
    expect(await run(["--version"])).toEqual({ code: 0, stdout: `${pkg.version}\n`, stderr: "" });
  });

  it("loads nothing for --help that only a command needs", async () => {
    const spy = join(dir, "spy.mjs");
    writeFileSync(
      spy,
      `import { registerHooks } from "node:module";
       registerHooks({ resolve: (name, context, next) => { console.error("loaded", name); return next(name, context); } });`,
    );
    const { code, stderr } = await run(["--help"], { env: { NODE_OPTIONS: `--import=${spy}` } });
    expect(code).toBe(0);
    expect(stderr).toMatch(/loaded (commander|file:.*dist\/main\.cjs)/); // from the sources, or bundled
    expect(stderr).not.toMatch(/loaded .*(zod|yaml|pino|sqlite|surfaces|config[/-]|schemas)/);
  });

  it.each([
    [["logz"], "unknown command 'logz'", "Did you mean logs?"],
    [["--versoin"], "unknown option '--versoin'", "Did you mean --version?"],
    [["logs", "--jsno"], "unknown option '--jsno'", "Did you mean --json?"],
    [["logs", "-n", "many"], "argument 'many' is invalid", "whole number"],
    [["logs", "--level", "loud"], "argument 'loud' is invalid", "debug, info, warn, error"],
    [["doctor", "now"], "too many arguments", "hermes --help"],
    [["--model"], "option '-m, --model <name>' argument missing", "hermes --help"],
    [["--model", "x", "run"], '"run" is a command', "before the options"],
    [["-c", "--session", "tea"], "cannot be used with option '--session <name>'", "'-c, --continue [name]'"],
    [["-c", "--resume"], "cannot be used with option '--resume [id]'", "'-c, --continue [name]'"],
    [["chat", "--resume", "a", "--session", "b"], "cannot be used with option '--session <name>'", "'--resume [id]'"],
  ])("refuses %j with a hint and exit 2", async (args, problem, hint) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(problem);
    expect(stderr).toContain(hint);
  });
});

describe("hermes -c and --resume", () => {
  const terminal = "agent:main:terminal:dm:";
  /** There are these conversations of the terminal, by name and title, the last one newest. */
  const talked = async (about: Record<string, string>) => {
    makeHome();
    const store = await openSqlite({ file: join(home, "hermes.db") });
    const clock = handClock();
    const { engine } = await bootEngine({ clock, between: () => store });
    for (const [name, title] of Object.entries(about)) {
      await clock.pass(1_000);
      await engine.create({ session: terminal + name, title });
    }
    await store.close();
  };
  const chat = (args: string[], input: string) => run(args, { input, env: { API_SERVER_ENABLED: "false" } });
  /** How many entries each conversation has. */
  const lengths = async (): Promise<Map<string, number>> => {
    const { stdout } = await run(["sessions", "--json"]);
    const rows = stdout.split("\n").filter(Boolean);
    return new Map(rows.map((row) => JSON.parse(row)).map(({ session, entries }) => [session, entries]));
  };

  it.each([
    [["-c"], "coffee"],
    [["chat", "--continue", "green TEA", "--model", "some-model"], "tea"],
    [["--resume", "tea", "--plain"], "tea"],
  ])("%j goes on with the conversation that is meant", async (args, meant) => {
    await talked({ tea: "make green tea", coffee: "make coffee" });
    const before = await lengths();
    expect(await chat(args, "and another\n")).toMatchObject({ code: 0 });
    const grown = [...(await lengths())].filter(([session, entries]) => entries !== before.get(session));
    expect(grown.map(([session]) => session)).toEqual([terminal + meant]);
  });

  it.each([["-c"], ["--resume"]])("%s with what is not there is an error, and begins nothing", async (option) => {
    await talked({ tea: "make tea" });
    const { code, stderr } = await chat([option, "coffee"], "hello?\n");
    expect(code).toBe(1);
    expect(stderr).toContain('hermes: There is no conversation "coffee". List them with: hermes sessions');
    expect([...(await lengths()).keys()]).toEqual([`${terminal}tea`]);
  });

  it("several that fit are listed, and none is taken", async () => {
    await talked({ one: "make green tea", two: "make black tea" });
    const before = await lengths();
    const { code, stderr } = await chat(["-c", "tea"], "hello?\n");
    expect(code).toBe(1);
    expect(stderr).toContain('Several conversations fit "tea"');
    expect(stderr).toMatch(/one +make green tea/);
    expect(stderr).toMatch(/two +make black tea/);
    expect(await lengths()).toEqual(before);
  });

  it("--session still begins what is not there", async () => {
    expect(await chat(["--session", "tea"], "make tea\n")).toMatchObject({ code: 0 });
    expect([...(await lengths()).keys()]).toEqual([`${terminal}tea`]);
  });

  it("run -c takes no name: what follows is what to do", async () => {
    await talked({ tea: "make tea", coffee: "make coffee" });
    const { code, stdout } = await run(["run", "-c", "tea", "again"], { input: "" });
    expect(code).toBe(0);
    expect(stdout).toContain("You said: tea again");
    expect([...(await lengths()).keys()]).toEqual([`${terminal}coffee`, `${terminal}tea`]);
  });
});

describe("bin/hermes", () => {
  const version = { code: 0, stdout: `${pkg.version}\n`, stderr: "" };

  it("is found through symbolic links, absolute and relative, one behind the other", async () => {
    mkdirSync(join(dir, "my links"));
    symlinkSync(hermes, join(dir, "my links", "one"));
    symlinkSync("one", join(dir, "my links", "two"));
    symlinkSync("my links/two", join(dir, "three"));
    for (const program of [join(dir, "my links", "one"), join(dir, "my links", "two"), join(dir, "three"), "./three"])
      expect(await run(["--version"], { program })).toEqual(version);
  });

  it("is found on the PATH, and by a relative name, and by sh in its own directory", async () => {
    symlinkSync(hermes, join(dir, "hermes"));
    expect(await run(["--version"], { program: "hermes", env: { PATH: `${dir}:${process.env.PATH}` } })).toEqual(
      version,
    );
    expect(await run(["--version"], { program: "bin/hermes", cwd: root })).toEqual(version);
    expect(await run(["hermes", "--version"], { program: "sh", cwd: join(root, "bin") })).toEqual(version);
  });

  it("works from a directory with spaces and quotes in its name", async () => {
    const odd = join(dir, 'it\'s a "root"');
    mkdirSync(odd);
    for (const name of ["src", "node_modules", "package.json"]) symlinkSync(join(root, name), join(odd, name));
    mkdirSync(join(odd, "bin"));
    copyFileSync(hermes, join(odd, "bin", "hermes"));
    expect(await run(["--version"], { program: join(odd, "bin", "hermes") })).toEqual(version);
  });

  it("is what `npm start` runs", async () => {
    const { code, stdout } = await run(["start", "--silent", "--", "--version"], { program: "npm", cwd: root });
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${pkg.version}\n` });
  });

  it("becomes the program: same process, and a signal sent to it arrives", async () => {
    makeLog()("info", "hello");
    const child = start(["logs", "-f"]);
    await once(child.stdout, "data");
    expect(readFileSync(`/proc/${child.pid}/cmdline`, "utf8")).toMatch(/node\0.*main\.(ts|cjs)\0logs\0-f/);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
  });

  describe("where Node was not installed with it", () => {
    let program: string;
    beforeEach(() => {
      const bare = join(dir, "bare");
      mkdirSync(join(bare, "bin"), { recursive: true });
      mkdirSync(join(bare, "src"));
      program = join(bare, "bin", "hermes");
      copyFileSync(hermes, program);
      writeFileSync(join(bare, "src", "main.ts"), "console.log('ran', process.argv[2] satisfies string | undefined);");
    });
    const withNode = (script: string) => {
      mkdirSync(join(dir, "path"));
      writeFileSync(join(dir, "path", "node"), `#!/bin/sh\n${script}\n`);
      chmodSync(join(dir, "path", "node"), 0o755);
      return { program, env: { PATH: `${join(dir, "path")}:/usr/bin:/bin` } };
    };

    it("takes the one on the PATH if it is new enough", async () => {
      const options = withNode(`exec '${process.execPath}' "$@"`);
      expect(await run(["--x"], options)).toEqual({ code: 0, stdout: "ran --x\n", stderr: "" });
    });

    it.each(["echo v20.20.2", "echo v9.0.0", "exit 1", "echo nonsense"])(
      "says what to do, with exit 78, where `node --version` says: %s",
      async (script) => {
        const { code, stdout, stderr } = await run(["--x"], withNode(script));
        expect({ code, stdout }).toEqual({ code: 78, stdout: "" });
        expect(stderr).toContain("needs Node 24 or newer");
        expect(stderr).toContain(`cd '${join(dir, "bare")}' && npm install`);
      },
    );
  });
});

describe("hermes gateway install", () => {
  it("writes a unit that starts this very program", async () => {
    expect(await run(["gateway", "install"], { env: { XDG_CONFIG_HOME: dir } })).toMatchObject({ code: 0, stderr: "" });
    const unit = readFileSync(join(dir, "systemd", "user", "hermes-gateway.service"), "utf8");
    expect(unit).toContain(`ExecStart="${hermes}" gateway run\n`);
  });

  systemd.it("writes what systemd accepts and reads back, whatever is in the names of directories", async () => {
    const cwd = join(dir, 'a "b" %h $c');
    mkdirSync(cwd);
    const env = { HERMES_HOME: join(cwd, "ho\\me %n"), XDG_CONFIG_HOME: dir, XDG_RUNTIME_DIR: dir };
    expect(await run(["gateway", "install"], { cwd, env })).toMatchObject({ code: 0, stderr: "" });
    const unit = join(dir, "systemd", "user", "hermes-gateway.service");
    const verify = () => run(["verify", "--user", "--man=no", unit], { program: "systemd-analyze", env });
    expect(await verify()).toEqual({ code: 0, stdout: "", stderr: "" });
    writeFileSync(unit, readFileSync(unit, "utf8").replaceAll("%%", "%Q"));
    expect((await verify()).stderr).toContain("specifiers");
  });

  it("refuses a directory that would reach into the next line of the unit", async () => {
    const cwd = join(dir, "a\nExecStart=b");
    mkdirSync(cwd);
    const { code, stderr } = await run(["gateway", "install"], { cwd, env: { XDG_CONFIG_HOME: dir } });
    expect({ code, stderr }).toEqual({
      code: 78,
      stderr: expect.stringContaining("systemd cannot start a program in"),
    });
  });
});

describe("hermes logs", () => {
  it("says so when there is no log yet", async () => {
    const { code, stdout, stderr } = await run(["logs"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(stderr).toContain(`There is no log yet: ${join(home, "logs", "hermes.log")}`);
  });

  it("shows the last lines, readable, oldest first, from as many files as that takes", async () => {
    const log = makeLog(1700);
    for (let n = 0; n < 60; n += 1) log(n % 2 ? "warn" : "info", "counted", { n });
    expect(existsSync(join(home, "logs", "hermes.log.3"))).toBe(true);
    const numbers = async (...args: string[]) => {
      const { stdout } = await run(["logs", ...args]);
      expect(stdout).toMatch(/^(\S+ \S+ (INFO |WARN ) counted n=\d+\n)*$/);
      return [...stdout.matchAll(/n=(\d+)/g)].map(([, n]) => Number(n));
    };
    const last = (count: number) => Array.from({ length: count }, (_, n) => 60 - count + n);
    expect(await numbers()).toEqual(last(50));
    expect(await numbers("-n", "3")).toEqual(last(3));
    expect(await numbers("-n", "0")).toEqual([]);
    expect(await numbers("--lines", "4", "--level", "warn")).toEqual([53, 55, 57, 59]);
  });

  it("gives programs the lines as they are in the file, and only whole ones", async () => {
    const log = makeLog();
    log("info", "first", { a: [1] });
    writeFileSync(join(home, "logs", "hermes.log"), 'not json\n{"half":', { flag: "a" });
    const { stdout } = await run(["logs", "--json"]);
    expect(stdout.split("\n")).toHaveLength(2);
    expect(JSON.parse(stdout)).toMatchObject({ event: "first", a: [1] });
    expect((await run(["logs"])).stdout).toContain("not json");
  });

  it("shows what is in the file without letting it drive the terminal", async () => {
    makeLog()("info", "said", { text: "\u001b[2J\u009b1mboo\u202e" });
    const { stdout } = await run(["logs"]);
    expect(stdout).toMatch(/^[ -~]+\n$/);
  });

  it("follows through rotations, line by line and none twice, and ends well on Ctrl+C", async () => {
    const log = makeLog(1500);
    log("info", "counted", { n: 0 });
    const child = start(["logs", "-f"]);
    const shown: number[] = [];
    const reader = createInterface({ input: child.stdout });
    const seen = (n: number) =>
      new Promise<void>((resolve) => {
        reader.on("line", () => {
          if (shown.includes(n)) resolve();
        });
      });
    reader.on("line", (line) => shown.push(Number(/n=(\d+)/.exec(line)?.[1])));
    await seen(0);
    // A burst that is rotated several times between two looks, then single lines.
    for (let n = 1; n <= 40; n += 1) log("info", "counted", { n });
    await seen(40);
    for (let n = 41; n <= 44; n += 1) {
      log("info", "counted", { n });
      await seen(n);
    }
    expect(shown).toEqual(Array.from({ length: 45 }, (_, n) => n));
    expect(existsSync(join(home, "logs", "hermes.log.2"))).toBe(true);
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it("follows a log that does not exist yet", async () => {
    const child = start(["logs", "-f", "--level", "warn"]);
    const line = once(child.stdout, "data");
    const log = makeLog();
    log("info", "quiet");
    log("warn", "loud");
    expect(String((await line)[0])).toMatch(/WARN {2}loud\n$/);
  });

  it("ends well when its reader has had enough", async () => {
    const log = makeLog();
    for (let n = 0; n < 5000; n += 1) log("info", "counted", { n, text: "x".repeat(100) });
    const child = start(["logs", "-n", "5000"]);
    child.stdout.once("data", () => child.stdout.destroy());
    let stderr = "";
    child.stderr.on("data", (text: Buffer) => void (stderr += text.toString()));
    const [code] = await once(child, "exit");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });
});

describe("hermes doctor", () => {
  it("finds a fresh machine in order and leaves it untouched", async () => {
    const { code, stdout, stderr } = await run(["doctor"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const names = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/\s+/).slice(0, 2).join(" "));
    const held = probe.usable ? ["✓ sandbox", "✓ network", "✓ limits", "✓ git"] : ["! sandbox", "✓ limits"];
    const rest = ["✓ undo", "✓ disk", "✓ logs"];
    expect(names).toEqual(["✓ node", "✓ home", "✓ config", "! model", "✓ database", ...held, ...rest]);
    expect(existsSync(home)).toBe(false);
  });

  it("says what holds commands, and what mends what does not", async () => {
    const held = async (config: string) => {
      for (const place of [home, join(dir, "work")]) mkdirSync(place, { recursive: true, mode: 0o700 });
      writeFileSync(join(home, "config.yaml"), `terminal: { cwd: ${dir}/work, ${config} }`, { mode: 0o600 });
      return (await run(["doctor"])).stdout;
    };
    expect(await held("sandbox: off")).toMatch(/! sandbox .*terminal.sandbox is off → set terminal.sandbox to auto/);
    if (!probe.usable) return;
    expect(await held("network_allow: [git], memory: 512")).toMatch(
      /network .*each host asks first, except for git[^]*limits .*512 MB/,
    );
    expect(await held("network: false")).toMatch(/network .*no host can be reached/);
  });

  boxed.it("says which files /undo brings back", async () => {
    const work = join(dir, "work");
    mkdirSync(work);
    makeHome({ "config.yaml": `terminal: { cwd: ${work} }` });
    expect((await run(["doctor"])).stdout).toMatch(/✓ undo .*restore the files .*that no \.gitignore names/);
    execFileSync("git", ["init", "-q"], { cwd: work });
    expect((await run(["doctor"])).stdout).toMatch(/✓ undo .*restore the files .*that git does not ignore/);
  });

  it("shows where each value came from, and no secret", async () => {
    makeHome({
      "config.yaml": "model:\n  default: some/model\n  api_key: canary-in-yaml\n",
      ".env": "TELEGRAM_BOT_TOKEN=canary-in-dotenv\n",
    });
    const { code, stdout } = await run(["doctor"], {
      env: { ANTHROPIC_API_KEY: "canary-in-env", LLM_MODEL: "env/model" },
    });
    expect(code).toBe(0);
    expect(stdout).toContain('model.default = "env/model"  (environment variable LLM_MODEL)');
    expect(stdout).toContain(`model.api_key = [redacted]  (${home}/config.yaml:3)`);
    expect(stdout).toContain(`gateway.telegram.token = [redacted]  (${home}/.env: TELEGRAM_BOT_TOKEN)`);
    expect(stdout).toContain("providers.anthropic.api_key = [redacted]");
    expect(stdout).not.toContain("canary");
  });

  it("ends with 78 and one line for each mistake in the configuration", async () => {
    makeHome({ "config.yaml": "agent: {max_iterations: lots}\nmodle: {default: x}\nmodel: {api_key: [canary]}\n" });
    const { code, stdout } = await run(["doctor"]);
    expect(code).toBe(78);
    expect(stdout.match(/^✗ config .*$/gm)).toHaveLength(3);
    expect(stdout).toContain("did you mean model?");
    expect(stdout).not.toContain("canary");
  });

  it("tells of a value that was not used, without failing", async () => {
    const { code, stdout } = await run(["doctor"], { env: { HERMES_RESTART_DRAIN_TIMEOUT: "invalid" } });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^! config {3}Invalid restart_drain_timeout "invalid"/m);
  });

  it("takes nothing from the working directory", async () => {
    writeFileSync(join(dir, ".env"), "LLM_MODEL=evil/model\nHERMES_YOLO_MODE=1\n");
    writeFileSync(join(dir, "config.yaml"), "model: {default: evil/model}\n");
    const { stdout } = await run(["doctor", "--json"], { cwd: dir });
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, settings: [] });
  });

  it("tells what other users can read: a problem where they can get at it, worth knowing where not", async () => {
    makeHome({ ".env": "A=b" });
    chmodSync(join(home, ".env"), 0o644);
    const closed = await run(["doctor"]);
    expect(closed.code).toBe(0);
    expect(closed.stdout).toContain(`! home     other users can read ${home}/.env → chmod go= ${home}/.env`);
    chmodSync(home, 0o755);
    const open = await run(["doctor"]);
    expect(open.code).toBe(1);
    expect(open.stdout.match(/^✗ home /gm)).toHaveLength(2);
  });

  it("reads the database through, also while it is in use, and tells when it is not one", async () => {
    makeHome();
    const store = await openSqlite({ file: join(home, "hermes.db") });
    try {
      await store.nodes.join(ALONE);
      expect((await run(["doctor"])).stdout).toMatch(/^✓ database .*hermes\.db has no errors$/m);
    } finally {
      await store.close();
    }
    writeFileSync(join(home, "hermes.db"), "this is not a database, but long enough to look like one".repeat(100));
    const { code, stdout } = await run(["doctor"]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ database .* → /m);
  });

  it("gives programs the same as JSON", async () => {
    makeHome({ "config.yaml": "model: {default: m}\nlogging: {level: nothing}\n" });
    const { code, stdout } = await run(["doctor", "--json"]);
    expect(code).toBe(78);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ ok: false, settings: [] });
    expect(report.checks.map(({ check, status }: { check: string; status: string }) => [check, status])).toEqual([
      ["node", "ok"],
      ["home", "ok"],
      ["config", "fail"],
      ["database", "ok"],
      ["disk", "ok"],
      ["logs", "ok"],
    ]);
  });

  it("tells when the home cannot be used at all", async () => {
    writeFileSync(home, "a file");
    const { code, stdout } = await run(["doctor"]);
    expect(code).not.toBe(0);
    expect(stdout).toContain(`✗ home     ${home} is not a directory`);
  });
});
