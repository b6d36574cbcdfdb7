// The process runner, with real processes. What is alive is looked up by other means than the runner's own.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { chooseSandbox, type Sandbox } from "../../src/tools/sandbox/sandbox.ts";
import { createCleaner } from "../../src/tools/shell/clean.ts";
import { childEnv, isOfCall } from "../../src/tools/shell/env.ts";
import {
  type ExecOptions,
  ownerHere,
  probeSandbox,
  psTable,
  run,
  start,
  sweepOrphans,
} from "../../src/tools/shell/exec.ts";
import { endTree } from "../../src/tools/shell/tree.ts";
import { marked, SHAPES, until } from "../fakes/shapes.ts";
import { needs } from "../needs.ts";

const probe = await probeSandbox();
const childScript = fileURLToPath(new URL("../fakes/exec-child.ts", import.meta.url));
const MiB = 1024 * 1024;

let dir: string;
let workspace: string;
/** Every call of a test carries it, so that one look at its end sees them all. */
let test: string;
let children: ChildProcess[];
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-exec-")));
  workspace = join(dir, "work");
  mkdirSync(workspace);
  test = `test-${randomUUID()}`;
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  const left = marked(test);
  for (const pid of left) process.kill(pid, "SIGKILL");
  rmSync(dir, { recursive: true, force: true });
  expect(left).toEqual([]);
});

const sandbox = (more: Partial<Sandbox> = {}): Sandbox => ({
  writable: [workspace],
  hidden: [],
  ...more,
});
const options = (more: Partial<ExecOptions> = {}): ExecOptions => ({
  cwd: workspace,
  marker: `${test}-${randomUUID()}`,
  ...more,
});
/** Runs it and aborts when it says "ready". */
async function abortWhenReady(command: string, more: Partial<ExecOptions> = {}) {
  const stop = new AbortController();
  const onOutput = (text: string) => void (text.includes("ready") && stop.abort());
  return run(command, options({ ...more, onOutput, signal: stop.signal }));
}

const inSandbox = await needs("sandbox");
const boxes = [
  { box: "without a sandbox", boxed: false, describe },
  { box: "in a sandbox", boxed: true, describe: inSandbox.describe },
];

for (const { box, boxed, describe } of boxes)
  describe(box, () => {
    const inside = () => ({ sandbox: boxed ? sandbox() : null });

    it.each(Object.entries(SHAPES))("abort ends what %s", async (_, command) => {
      const result = await abortWhenReady(command, inside());
      expect(marked(test)).toEqual([]);
      expect(result).toMatchObject({ code: 130, aborted: true, timedOut: false, survivors: 0 });
      expect(result.output).toContain("ready");
    });

    it("the time limit ends all of them", async () => {
      const shapes = Object.entries(SHAPES);
      const results = await Promise.all(
        shapes.map(([, command]) => run(command, options({ ...inside(), timeoutMs: 3000 }))),
      );
      expect(marked(test)).toEqual([]);
      for (const result of results) {
        expect(result).toMatchObject({ code: 124, aborted: false, timedOut: true, survivors: 0 });
        expect(result.output).toContain("ready");
      }
    });

    it("settles on exit, and ends what was left behind, also when it holds the pipe", async () => {
      const command = "sleep 300 & setsid sleep 300 & (setsid sleep 300 >/dev/null 2>&1 &); echo done; exit 7";
      const result = await run(command, options({ ...inside(), timeoutMs: 20_000 }));
      expect(marked(test)).toEqual([]);
      expect(result).toMatchObject({ code: 7, output: "done\n", timedOut: false, stragglers: boxed ? 0 : 3 });
    });

    it("decides once, when the time limit and the exit come together", async () => {
      const limits = Array.from({ length: 16 }, (_, index) => 92 + index * 2);
      const results = await Promise.all(
        limits.map((timeoutMs) => run("sleep 0.1; echo over", options({ ...inside(), timeoutMs }))),
      );
      for (const { code, timedOut, output } of results)
        expect([code, timedOut, output]).toEqual(timedOut ? [124, true, expect.any(String)] : [0, false, "over\n"]);
    });

    it("gives it nothing to read, or what is given", async () => {
      expect(await run("cat; read x; echo $?", options(inside()))).toMatchObject({ code: 0, output: "1\n" });
      const given = await run("cat", options({ ...inside(), stdin: { text: "a word\n" } }));
      expect(given).toMatchObject({ code: 0, output: "a word\n" });
    });

    it("keeps the order of both outputs, which can be opened by name", async () => {
      const command = 'for i in 1 2 3; do echo "out $i"; echo "err $i" >&2; done; echo named > /dev/stderr';
      const { output } = await run(command, options(inside()));
      expect(output).toBe("out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nnamed\n");
    });

    it("tells where the shell ended, through exit, failure and subshells; and survives the loss of its directory", async () => {
      const ended = async (command: string) => (await run(command, options({ ...inside(), reportCwd: true }))).cwd;
      expect(await ended("cd /usr")).toBe("/usr");
      expect(await ended("cd /usr; (cd /etc); exit 3")).toBe("/usr");
      expect(await ended("cd /usr; set -e; false; cd /etc")).toBe("/usr");
      expect(await ended('mkdir "a\nb"; cd "a\nb"')).toBe(join(workspace, "a\nb"));
      expect(await ended("echo /forged >&3; exec true")).toBeUndefined();
      expect(await ended("mkdir gone; cd gone; rmdir ../gone")).toBeUndefined();
    });

    it("shows arguments that are not understood by any shell", async () => {
      const odd = ["printf", "%s|", "$HOME `id`", "a b", "", "'\"", "\n"];
      expect((await run(odd, options(inside()))).output).toBe("$HOME `id`|a b||'\"|\n|");
      expect((await run("echo \"$#[$1]\" '; }' # )", options(inside()))).output).toBe("0[] ; }\n");
    });

    it("tells why it could not start: no program, no directory, too long", async () => {
      // 126: a directory of PATH could not be read, so nobody can say that it is not there.
      expect([126, 127]).toContain((await run(["no-such-program"], options(inside()))).code);
      const nowhere = await run("true", options({ ...inside(), cwd: join(dir, "nowhere") }));
      expect(nowhere).toMatchObject({ code: 126, output: expect.stringContaining("There is no directory") });
      const long = await run(`true ${"x".repeat(200_000)}`, options(inside()));
      expect(long).toMatchObject({ code: 126, output: expect.stringContaining("bytes") });
      expect(await run("true\0", options(inside()))).toMatchObject({ code: 126 });
      expect(await run("true", options({ ...inside(), signal: AbortSignal.abort() }))).toMatchObject({
        code: 130,
        aborted: true,
      });
    });

    it("tells its exit code, and the signal that killed it", async () => {
      expect(await run("exit 42", options(inside()))).toMatchObject({ code: 42, signal: null });
      expect(await run("kill -9 $$", options(inside()))).toMatchObject({ code: 137, signal: boxed ? null : "SIGKILL" });
    });

    it("shows it nothing of our environment but the allow list", async () => {
      const secrets = {
        OPENAI_API_KEY: "canary-a",
        MY_ODD_CREDENTIAL: "canary-b",
        HERMES_TOKEN: "canary-c",
      };
      const { output } = await lending(secrets, () =>
        run(
          `env; cat /proc/self/environ; ${boxed ? "cat /proc/$PPID/environ /proc/1/environ" : ""}`,
          options(inside()),
        ),
      );
      expect(output).toContain("TERM=dumb");
      expect(output).not.toContain("canary");
    });

    it("takes 1 GB of output with flat memory, the first 100 MB of it in a file", async () => {
      const file = join(dir, "long.txt");
      const args = ["--no-warnings", childScript, "gigabyte", file, `${test}-gb`, ...(boxed ? ["sandbox"] : [])];
      const said = JSON.parse(spawnSync(process.execPath, args, { encoding: "utf8" }).stdout);
      expect(said).toMatchObject({
        code: 0,
        bytes: 1024 * MiB + 8,
        truncated: true,
        file,
        tail: expect.stringContaining("the end\n"),
      });
      expect(said.note).toContain("dropped");
      expect(said.kept).toBeLessThan(52 * 1024);
      expect(statSync(file).size).toBe(100 * MiB);
      expect(said.grown).toBeLessThan(64 * MiB);
    });
  });

describe("what is ended", () => {
  it("is the one that was aborted, and not its nine neighbours", async () => {
    const stops = Array.from({ length: 10 }, () => new AbortController());
    const markers = stops.map((_, index) => `${test}-nr-${index}.`);
    const runs = stops.map(({ signal }, index) => {
      const ready = Promise.withResolvers<void>();
      const done = run(
        "echo ready; sleep 20",
        options({ signal, marker: markers[index] ?? "", onOutput: () => ready.resolve() }),
      );
      return { ready: ready.promise, done };
    });
    await Promise.all(runs.map(({ ready }) => ready));
    stops[3]?.abort();
    expect(await runs[3]?.done).toMatchObject({ aborted: true });
    expect(markers.map((marker) => marked(marker).length > 0)).toEqual(markers.map((_, index) => index !== 3));
    for (const stop of stops) stop.abort();
    await Promise.all(runs.map(({ done }) => done));
  });

  it("are also children without our marker in their environment, by their parents", async () => {
    const seen = `SEEN=${randomUUID()}`;
    const bare = `env -i ${seen} setsid bash -c 'trap "" TERM; echo ready; sleep 300; :'`;
    const result = await abortWhenReady(`trap "" TERM; ${bare}; sleep 300`);
    expect(result.survivors).toBe(0);
    expect(marked(seen)).toEqual([]);
  });

  it("is a crowd that grows, without waiting", async () => {
    const grow =
      'f() { [ "$1" -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; [ "$1" = 7 ] && echo ready; sleep 300; }; f 7';
    expect(await abortWhenReady(grow)).toMatchObject({ survivors: 0 });
  });

  it("is what starts itself again", async () => {
    const again = `setsid bash -c 'trap "" TERM; echo ready; while :; do sleep 300 & wait $!; done' & wait`;
    expect(await abortWhenReady(again)).toMatchObject({ survivors: 0 });
  });

  inSandbox.it("is, in a sandbox, also what never stays the same process", async () => {
    const hop = `use POSIX; $| = 1; print "ready\\n"; while (1) { exit if fork; setsid }`;
    expect(await abortWhenReady(`perl -e '${hop}' & sleep 300`, { sandbox: sandbox() })).toMatchObject({
      survivors: 0,
    });
  });

  it("can be found by ps too, where there is no /proc", async () => {
    const ready = Promise.withResolvers<void>();
    const marker = `${test}-ps`;
    const running = await start(
      "setsid sleep 300 & echo ready; wait",
      options({ marker, onOutput: () => ready.resolve() }),
    );
    await ready.promise;
    const { found, left } = await endTree(psTable, { mine: isOfCall(marker) });
    expect([found >= 2, left]).toEqual([true, 0]);
    await running.done;
  });
});

describe("after a kill -9 of ours", () => {
  const hold = async (home: string, marker: string, boxed: boolean) => {
    const args = ["--no-warnings", childScript, "hold", home, marker, ...(boxed ? ["sandbox"] : [])];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    await new Promise((resolve) => child.stdout.once("data", resolve));
    return child;
  };
  const killed = async (child: ChildProcess) => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  };

  it("its tool processes are found by the next one, and nobody else's", async () => {
    const [home, other] = ["home", "other"].map((name) => join(dir, name)) as [string, string];
    for (const place of [home, other]) mkdirSync(place);
    await killed(await hold(home, `${test}-dead`, false));
    const alive = await hold(home, `${test}-alive`, false);
    const stranger = await hold(other, `${test}-other`, false);
    await killed(stranger);
    expect(marked(`${test}-dead`).length).toBeGreaterThanOrEqual(3);

    expect(await sweepOrphans(home)).toMatchObject({ left: 0 });
    expect(marked(`${test}-dead`)).toEqual([]);
    expect(marked(`${test}-alive`).length).toBeGreaterThanOrEqual(3);
    expect(marked(`${test}-other`).length).toBeGreaterThanOrEqual(3);
    expect(await sweepOrphans(home)).toEqual({ found: 0, left: 0 });

    await killed(alive);
    for (const place of [home, other]) await sweepOrphans(place);
  });

  it("never ends itself or its parents, whatever stands in their environment", async () => {
    const home = join(dir, "home");
    mkdirSync(home);
    const owner = ownerHere(home).replace(/:\d+:\d+$/, ":999999999:1;");
    const script = `import { sweepOrphans } from ${JSON.stringify(fileURLToPath(new URL("../../src/tools/shell/exec.ts", import.meta.url)))};
      console.log(JSON.stringify(await sweepOrphans(${JSON.stringify(home)})));`;
    const child = spawnSync(
      "bash",
      ["-c", `"$0" --no-warnings --input-type=module-typescript -e "$1"; echo alive`, process.execPath, script],
      {
        encoding: "utf8",
        env: { ...process.env, HERMES_OWNER: owner, HERMES_CALL: `${test};` },
      },
    );
    expect(child.stdout).toBe('{"found":0,"left":0}\nalive\n');
  });

  inSandbox.it("a sandbox ends by itself", async () => {
    await killed(await hold(dir, `${test}-boxed`, true));
    await until(() => marked(`${test}-boxed`).length === 0);
  });
});

inSandbox.describe("the sandbox", () => {
  it("writes in the workspace and its own /tmp only, which a call can share with the next", async () => {
    const tmp = join(dir, "tmp");
    mkdirSync(tmp);
    const box = sandbox({ tmp });
    const command = `echo 1 > inside; echo 2 > /tmp/kept; for f in ${dir}/outside /usr/x /etc/x $HOME/x; do echo 3 > $f && echo "WROTE $f"; done; cat /tmp/kept`;
    const { output } = await run(command, options({ sandbox: box }));
    expect(output.match(/^WROTE.*$/gm)).toEqual([`WROTE ${dir}/outside`]); // in its own /tmp, that is
    expect(existsSync(join(dir, "outside"))).toBe(false);
    expect(output).toMatch(/2\n$/);
    expect(readFileSync(join(workspace, "inside"), "utf8")).toBe("1\n");
    expect((await run("cat /tmp/kept", options({ sandbox: box }))).output).toBe("2\n");
    expect((await run("cat /tmp/kept", options({ sandbox: sandbox() }))).code).toBe(1);
    expect(existsSync("/tmp/kept")).toBe(false);
  });

  it("makes the places that it mounts on in its /tmp for us only", async () => {
    const tmp = join(dir, "tmp");
    mkdirSync(tmp, { mode: 0o700 });
    expect((await run("true", options({ sandbox: sandbox({ tmp }) }))).code).toBe(0);
    const made = readdirSync(tmp, { recursive: true }).map((name) => join(tmp, String(name)));
    expect(made).toContain(join(tmp, workspace.replace(/^\/tmp\//, "")));
    expect(made.filter((path) => (statSync(path).mode & 0o077) !== 0)).toEqual([]);
  });

  it("hides credentials and our own home, but shows what is meant to be read in there", async () => {
    const user = join(dir, "user");
    const hermes = join(user, "agent-home");
    for (const place of [".ssh", ".aws", "agent-home/outputs", "project"])
      mkdirSync(join(user, place), { recursive: true });
    for (const file of [".ssh/id", ".aws/credentials", ".netrc", "agent-home/.env"])
      writeFileSync(join(user, file), "canary");
    writeFileSync(join(hermes, "outputs", "long.txt"), "readable");
    const homes = { user, hermes };
    const choice = chooseSandbox({ mode: "auto", probe, writable: [join(user, "project")], homes });
    const box = { ...(choice.sandbox ?? sandbox()), readable: [join(hermes, "outputs")] };
    const command = `find ${user} -type f | xargs cat; cat ${hermes}/outputs/long.txt; echo x > ${hermes}/config.yaml || echo refused; echo y > ${hermes}/outputs/z || echo refused; echo k > ${user}/.ssh/authorized_keys || echo refused`;
    const { output } = await run(command, options({ sandbox: box, cwd: join(user, "project") }));
    expect(output).not.toContain("canary");
    expect(output).toContain("readable");
    expect(output.match(/^refused$/gm)).toHaveLength(3);
    expect(existsSync(join(hermes, "config.yaml"))).toBe(false);
  });

  it("cannot reach us, other processes, the network when it is off, or more rights", async () => {
    const look = "ls /proc | grep -c '^[0-9]'; grep -c : /proc/net/dev; ls /run | wc -l; grep CapEff /proc/self/status";
    const { output } = await run(look, options({ sandbox: sandbox() }));
    expect(output).toMatch(/^[3-7]\n1\n[01]\nCapEff:\t0+\n$/);
    const take = await run("mount -o remount,rw / && touch /usr/x", options({ sandbox: sandbox() }));
    expect([take.code !== 0, existsSync("/usr/x")]).toEqual([true, false]);
    // Ends everything in there, and nothing else.
    const all = await run(`kill -9 ${process.pid} -1; echo not reached`, options({ sandbox: sandbox() }));
    expect(all.code).not.toBe(124);
  });

  it("is not taken for one when it would hold nothing", () => {
    const homes = { user: dir, hermes: join(dir, "h") };
    const choose = (mode: "auto" | "off" | "required", place: string) =>
      chooseSandbox({ mode, probe, writable: [place], homes });
    expect(choose("auto", dir)).toMatchObject({
      sandbox: null,
      refuse: false,
      why: expect.stringContaining("terminal.cwd"),
    });
    expect(choose("required", tmpdir())).toMatchObject({ sandbox: null, refuse: true });
    expect(choose("off", workspace)).toMatchObject({ sandbox: null, refuse: false });
    expect(choose("auto", workspace).sandbox).not.toBeNull();
    const none = { usable: false, why: "not installed" } as const;
    expect(chooseSandbox({ mode: "required", probe: none, writable: [workspace], homes })).toMatchObject({
      refuse: true,
      why: "not installed",
    });
  });
});

it("does without named pipes where they cannot be made", () => {
  const env = { ...process.env, PATH: join(dir, "empty") };
  const args = ["--no-warnings", childScript, "plain", "/", `${test}-plain`];
  const said = JSON.parse(spawnSync(process.execPath, args, { encoding: "utf8", env }).stdout);
  expect(said).toMatchObject({ code: 3, stragglers: 1, output: expect.stringMatching(/^(out\nerr|err\nout)\n$/) });
});

describe("output", () => {
  const cleaned = (text: string, step: number) => {
    const cleaner = createCleaner();
    const bytes = Buffer.from(text, "latin1");
    const out: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += step) out.push(...cleaner.push(bytes.subarray(at, at + step)));
    return Buffer.concat([...out, ...cleaner.end()]).toString();
  };
  it.each([
    ["colours", "a \x1b[1;31mred\x1b[0m b", "a red b"],
    ["the clipboard (OSC 52)", "x\x1b]52;c;ZXZpbA==\x07y\x1b]52;c;ZXZpbA==\x1b\\z", "xyz"],
    ["a title that does not end", "x\x1b]0;title\nnext", "x\nnext"],
    ["device strings", "a\x1bPq#0\x1b\\b\x1b_app\x1b\\c", "abc"],
    ["sequences by their 8-bit names", "a\xc2\x9b31mb\xc2\x9d52;c;eA==\xc2\x9cc", "abc"],
    ["cursor moves and charsets", "\x1b(Ba\x1b7b\x1b[2J\x1b[10;10Hc", "abc"],
    ["other control characters", "a\x00b\x07c\x7fd\x0be", "abcde"],
    ["a line drawn over", "rm -rf ~\rls      \r\n10%\r20%\r100%\ndone\r\n", "ls      \n100%\ndone\n"],
    ["overstrikes", "N\bNA\bAME\n", "NAME\n"],
    ["half a sequence at the end", "end\x1b[3", "end"],
    ["what is not UTF-8", "a\xffb\xe2\x82", "a\ufffdb\ufffd"],
    ["tabs and text, which stay", "a\tb \xe2\x82\xac \xf0\x9f\x91\x8d\n", "a\tb € 👍\n"],
    ["a long line drawn over", `${"x".repeat(5000)}\r${"y".repeat(10)}\n`, `${"x".repeat(5000)}\n${"y".repeat(10)}\n`],
  ])("is plain: %s", (_, raw, plain) => {
    for (const step of [1, 2, 3, 7, 1e6]) if (raw.length < 1000 || step === 7) expect(cleaned(raw, step)).toBe(plain);
  });

  it.each([
    ["carriage returns", "\r".repeat(64_000)],
    ["escapes", "\x1b[".repeat(32_000)],
    ["backspaces", "a\b".repeat(32_000)],
    ["one line", "a".repeat(64_000)],
  ])("is cleaned in linear time: %s", (_, hostile) => {
    const cleaner = createCleaner();
    const bytes = Buffer.from(hostile);
    const began = performance.now();
    for (let piece = 0; piece < 20; piece++) cleaner.push(bytes);
    expect(performance.now() - began).toBeLessThan(5000); // squared it would be minutes
  });

  it("keeps head and tail, never half a character, and all of it in a file that only we can read", async () => {
    const file = join(dir, "out", "all.txt");
    const command = 'for i in $(seq 1 2000); do echo "€uro $i"; done';
    const { output, truncated, bytes, ...rest } = await run(command, options({ capBytes: 1001, spool: { file } }));
    const whole = readFileSync(file, "utf8");
    expect(whole).toBe(Array.from({ length: 2000 }, (_, index) => `€uro ${index + 1}\n`).join(""));
    expect([truncated, bytes, rest.file, statSync(file).mode & 0o777]).toEqual([
      true,
      Buffer.byteLength(whole),
      file,
      0o600,
    ]);
    const [head = "", tail = ""] = output.split(/\n\[… \d+ bytes left out; all of it is in .* …\]\n/);
    expect([whole.startsWith(head), whole.endsWith(tail), output.includes("\ufffd")]).toEqual([true, true, false]);
    expect(Buffer.byteLength(head + tail)).toBeLessThanOrEqual(1001);
    expect((await run("echo short", options({ spool: { file: join(dir, "none.txt") } }))).file).toBeUndefined();
    expect(existsSync(join(dir, "none.txt"))).toBe(false);
  });

  it("goes on when the disk does not", async () => {
    const file = join(dir, "file");
    writeFileSync(file, "");
    const result = await run("yes | head -c 100000", options({ spool: { file: join(file, "below") } }));
    expect(result).toMatchObject({
      code: 0,
      bytes: 100_000,
      truncated: true,
      note: expect.stringContaining("not complete"),
    });
    const foreign = await run("yes | head -c 100000", options({ spool: { file } }));
    expect([foreign.note, readFileSync(file, "utf8")]).toEqual([expect.stringContaining("EEXIST"), ""]);
  });
});

it("passes no place where the agent could put a program of its own in front", () => {
  const env = childEnv({ PATH: ".:/usr/bin::bin:/bin", HOME: "/h", LD_PRELOAD: "/x", LC_ALL: "C" });
  const others = Object.entries(env).filter(([name]) => !name.startsWith("GIT_"));
  expect(Object.fromEntries(others)).toEqual({
    PATH: "/usr/bin:/bin",
    HOME: "/h",
    LC_ALL: "C",
    TERM: "dumb",
  });
});

/** With more in our own environment, for as long as it takes. */
async function lending<T>(more: Record<string, string>, work: () => Promise<T>): Promise<T> {
  Object.assign(process.env, more);
  try {
    return await work();
  } finally {
    for (const name of Object.keys(more)) delete process.env[name];
  }
}
