// The file tools, on real directories. What must stay out of reach lies beside the workspace and holds SECRET.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { array, assert, boolean, constantFrom, pre, property, tuple } from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Gate, Tool, ToolResult } from "../../src/core/ports.ts";
import { globOf } from "../../src/platform/glob.ts";
import type { RunProgram } from "../../src/tools/files/common.ts";
import { parseDiff } from "../../src/tools/files/diff.ts";
import { applyEdit } from "../../src/tools/files/edits.ts";
import { bundledRipgrep, toRust } from "../../src/tools/files/ripgrep.ts";
import { createMarks } from "../../src/tools/files/seen.ts";
import { createFileTools, type FileToolsOptions } from "../../src/tools/files/tools.ts";
import { needs } from "../needs.ts";

const SECRET = "SECRET outside";
const isRoot = process.getuid?.() === 0;
const sh = (command: string, ...args: string[]) =>
  spawnSync("sh", ["-c", command, "sh", ...args], { encoding: "utf8" });
const asRoot = await needs("root");
const withTmpfs = await needs("root", "tmpfs");
const withDiff = await needs("diff");
const withGit = await needs("git");
const withRipgrep = await needs("ripgrep");

let dir: string;
let work: string;
let home: string;
let user: string;
let outside: string;
let userHome: string | undefined;
let children: ChildProcess[];
let tools: Map<string, Tool>;

beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-files-")));
  [work, home, user, outside] = ["work", "hermes", "user", "outside"].map((name) => join(dir, name)) as [
    string,
    string,
    string,
    string,
  ];
  put("work/a.txt", "one\ntwo\nthree\n");
  put("outside/secret.txt", SECRET);
  put("work2/secret.txt", SECRET);
  put("user/secret.txt", SECRET);
  put("user/.ssh/id_test", SECRET);
  put("hermes/config.yaml", SECRET);
  put("hermes/outputs/s1/1.txt", "long output\n");
  put("hermes/outputs/s2/1.txt", SECRET);
  userHome = process.env.HOME;
  process.env.HOME = user;
  children = [];
  tools = make();
});
afterEach(async () => {
  // Dead before its directory is removed, or it makes it again.
  for (const child of children) {
    const dead = new Promise((resolve) => child.once("exit", resolve));
    if (child.kill("SIGKILL")) await dead;
  }
  process.env.HOME = userHome;
  rmSync(dir, { recursive: true, force: true });
});

const put = (path: string, text: string | Buffer) => {
  mkdirSync(dirname(join(dir, path)), { recursive: true });
  writeFileSync(join(dir, path), text);
  return join(dir, path);
};
const get = (path: string) => readFileSync(join(dir, path), "utf8");
const make = (more: Partial<FileToolsOptions> = {}) =>
  new Map(
    createFileTools({
      workspace: work,
      roots: [],
      home,
      outputsOf: (session) => join(home, "outputs", session),
      log: () => {},
      ripgrep: null,
      ...more,
    }).map((tool) => [tool.name, tool]),
  );
const toolNamed = (name: string): Tool => {
  const tool = tools.get(name);
  if (!tool) throw new Error(`no tool ${name}`);
  return tool;
};
const judge = async (name: string, args: unknown, session = "s1"): Promise<Gate> =>
  await toolNamed(name).judge(args, session);
/** Past the gate, as if somebody had said yes. */
const run = (name: string, args: unknown, session = "s1", signal = new AbortController().signal): Promise<ToolResult> =>
  toolNamed(name).run(args, { session, turn: "t", call: "c", signal });
/** As the engine does it: what is not simply to be run is not run. */
async function call(name: string, args: unknown, session = "s1"): Promise<ToolResult & { gate: string }> {
  const gate = await judge(name, args, session);
  if (gate.gate === "run") return { ...(await run(name, args, session)), gate: "run" };
  return { ok: false, text: gate.gate === "ask" ? gate.text : gate.result, gate: gate.gate };
}
const read = (path: string, more = {}) => call("read_file", { path, ...more });
const write = (path: string, content: string, more = {}) => call("write_file", { path, content, ...more });
const edit = (path: string, old_text: string, new_text: string, more = {}) =>
  call("patch", { edits: [{ path, old_text, new_text, ...more }] });
const search = (pattern: string, more = {}) => call("search_files", { pattern, ...more });
const leftovers = () => readdirSync(dir, { recursive: true }).filter((name) => String(name).endsWith(".hermes-tmp"));

describe("a path out of the workspace", () => {
  it.each([
    ["with ..", () => "../outside/secret.txt", "outside"],
    ["with .. in its middle", () => "a/b/../../../outside/secret.txt", "outside"],
    ["that is absolute", () => join(outside, "secret.txt"), "outside"],
    ["from the home directory", () => "~/secret.txt", "user"],
    ["into a directory whose name begins alike", () => join(dir, "work2/secret.txt"), "work2"],
    ["into that, relative", () => "../work2/secret.txt", "work2"],
  ])("%s is read only when somebody agrees, who sees where it leads", async (_, path, place) => {
    const { gate, text } = await read(path());
    expect(gate).toBe("ask");
    expect(text).toContain(`\n${join(dir, place, "secret.txt")}\n`);
    expect(text).not.toContain(SECRET);
    expect(await run("read_file", { path: path() })).toMatchObject({ ok: true, text: expect.stringContaining(SECRET) });
  });

  it.each(["read_file", "search_files"])(
    "%s never goes through a link to the outside, not even past the gate",
    async (tool) => {
      symlinkSync(join(outside, "secret.txt"), join(work, "file-link"));
      symlinkSync(outside, join(work, "dir-link"));
      symlinkSync("../outside", join(work, "relative-link"));
      symlinkSync("/", join(work, "root-link"));
      const paths = [
        "file-link",
        "dir-link/secret.txt",
        "relative-link/secret.txt",
        `root-link${outside}/secret.txt`,
        `/proc/self/root${outside}/secret.txt`,
      ];
      for (const path of paths) {
        const args = tool === "read_file" ? { path } : { path, pattern: "." };
        expect([path, (await judge(tool, args)).gate]).toEqual([path, "refuse"]);
        const { ok, text } = await run(tool, args);
        expect([path, ok, text.includes(SECRET)]).toEqual([path, false, false]);
      }
      expect((await search("SECRET", { all: true })).text).toBe("[no match]");
    },
  );

  it("is written only when somebody agrees, and never through a link", async () => {
    symlinkSync(outside, join(work, "dir-link"));
    symlinkSync(join(outside, "secret.txt"), join(work, "file-link"));
    symlinkSync(join(outside, "not-yet.txt"), join(work, "dangling"));
    expect(await write(join(outside, "new.txt"), "x")).toMatchObject({ gate: "ask" });
    expect((await write("../outside/new.txt", "evil\u202e")).text).toContain("evil⟨U+202E⟩");
    for (const path of ["dir-link/new.txt", "file-link", "dangling", `/proc/self/root${outside}/new.txt`]) {
      expect([path, (await write(path, "x")).gate]).toEqual([path, "refuse"]);
      expect(await run("write_file", { path, content: "x", overwrite: true })).toMatchObject({ ok: false });
    }
    expect(readdirSync(outside)).toEqual(["secret.txt"]);
    expect(get("outside/secret.txt")).toBe(SECRET);
  });

  it("is shown to the person who is asked without anything hidden in it", async () => {
    put("outside/x\n\u202egpj.txt", "x");
    const { gate, text } = await read(join(outside, "x\n\u202egpj.txt"));
    expect(gate).toBe("ask");
    expect(text).toContain("x⟨line⟩\n⟨U+202E⟩gpj.txt");
  });

  it("that is not written as what it really is has to be: a yes is for one file, whatever links become", async () => {
    symlinkSync(outside, join(dir, "elsewhere"));
    const { gate, text } = await read(join(dir, "elsewhere/secret.txt"));
    expect(gate).toBe("refuse");
    expect(text).toContain(join(outside, "secret.txt"));
    // Inside when it was judged, outside when it runs.
    symlinkSync(join(work, "a.txt"), join(work, "link"));
    expect((await judge("read_file", { path: "link" })).gate).toBe("run");
    rmSync(join(work, "link"));
    symlinkSync(join(outside, "secret.txt"), join(work, "link"));
    expect(await run("read_file", { path: "link" })).toMatchObject({ ok: false });
  });

  it("may lie in another root, and a workspace may be reached through a link", async () => {
    symlinkSync(work, join(dir, "way"));
    tools = make({ workspace: join(dir, "way"), roots: [outside] });
    expect((await read(join(dir, "way/a.txt"))).text).toContain("1\tone");
    expect((await read(join(outside, "secret.txt"))).text).toContain(SECRET);
    expect(await write(join(outside, "new.txt"), "x")).toMatchObject({ ok: true, gate: "run" });
  });

  it("inside the workspace may be a link to something inside", async () => {
    symlinkSync("a.txt", join(work, "link"));
    expect((await read("link")).text).toContain("two");
    expect(await edit("link", "two", "2")).toMatchObject({ ok: true });
    expect(get("work/a.txt")).toBe("one\n2\nthree\n");
  });

  it.each(["/proc/self/environ", "/proc/1/environ", "/dev/zero", "/sys/kernel/profiling"])(
    "%s is refused",
    async (path) => {
      expect(await read(path)).toMatchObject({ gate: "refuse" });
    },
  );
});

describe("hermes' own directory and credentials", () => {
  it("cannot be read or written, also where nothing exists, also inside the workspace or with a yes", async () => {
    symlinkSync(home, join(work, "way-in"));
    tools = make({ workspace: dir, roots: [dir] });
    const paths = [
      "hermes",
      "hermes/config.yaml",
      "hermes/new/.env",
      "work/way-in/config.yaml",
      "work/../hermes/x",
      "hermes/outputs/s2/1.txt",
    ];
    for (const path of paths)
      for (const [tool, args] of [
        ["read_file", { path }],
        ["write_file", { path, content: "x", overwrite: true }],
        ["patch", { edits: [{ path, old_text: "SECRET", new_text: "x" }] }],
        ["patch", { diff: `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x\n` }],
        ["search_files", { path, pattern: "." }],
      ] as const) {
        expect([path, tool, (await judge(tool, args)).gate]).toEqual([path, tool, "refuse"]);
        const { ok, text } = await run(tool, args);
        expect([path, tool, ok, text.includes(SECRET)]).toEqual([path, tool, false, false]);
      }
    expect(get("hermes/config.yaml")).toBe(SECRET);
    expect(existsSync(join(home, "new"))).toBe(false);
    expect((await search("SECRET", { path: ".", all: true })).text).not.toMatch(/hermes|\.ssh/);
  });

  it("are off limits when hermes' directory itself is not there yet", async () => {
    tools = make({ home: join(work, ".later") });
    expect(await write(".later/config.yaml", "x")).toMatchObject({ gate: "refuse" });
    expect(existsSync(join(work, ".later"))).toBe(false);
  });

  it("are refused by every name: ~/.ssh, a link to it, a second name of a file in it", async () => {
    symlinkSync(join(user, ".ssh"), join(work, "keys"));
    linkSync(join(user, ".ssh/id_test"), join(work, "twin"));
    linkSync(join(home, "config.yaml"), join(work, "twin.yaml"));
    for (const path of ["~/.ssh/id_test", "keys/id_test", join(user, ".ssh/new")])
      expect(await read(path)).toMatchObject({ gate: "refuse" });
    for (const path of ["twin", "twin.yaml"]) {
      expect(await read(path)).toMatchObject({ ok: false, text: expect.not.stringContaining(SECRET) });
      expect(await edit(path, "x", "y")).toMatchObject({ ok: false, text: expect.not.stringContaining(SECRET) });
    }
    expect((await search("SECRET")).text).toBe("[no match]");
  });

  it("leave the session's own outputs readable, and only those, and only for reading", async () => {
    const own = join(home, "outputs/s1/1.txt");
    symlinkSync(join(home, "config.yaml"), join(home, "outputs/s1/link"));
    expect((await read(own)).text).toContain("1\tlong output");
    expect((await search("long", { path: dirname(own) })).text).toContain("1.txt:1:long output");
    for (const path of [
      join(home, "outputs/s2/1.txt"),
      join(home, "outputs/s1/link"),
      join(home, "outputs/s1/../s2/1.txt"),
    ])
      expect(await read(path)).toMatchObject({ gate: "refuse" });
    expect(await write(own, "x", { overwrite: true })).toMatchObject({ gate: "refuse" });
  });
});

describe("what is run later", () => {
  it.each([
    ".git/hooks/pre-commit",
    ".git/config",
    "sub/.git/hooks/x",
    ".GIT/hooks/x",
    "bare.git/hooks/x",
    ".bashrc",
    "sub/.zshenv",
    ".envrc",
    ".husky/pre-push",
    ".git",
  ])("%s in the workspace is written only when somebody agrees, who sees the content", async (path) => {
    const { gate, text } = await write(path, "#!/bin/sh\nevil");
    expect(gate).toBe("ask");
    expect(text).toContain(join(work, path));
    expect(text).toContain("evil");
    expect(await call("patch", { diff: `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x\n` })).toMatchObject({
      gate: "ask",
    });
  });

  it("what would be written is shown as a diff, also behind a long text that it replaces", async () => {
    put("work/.bashrc", Array.from({ length: 300 }, (_, i) => `alias a${i}=b\n`).join(""));
    const { text } = await write(".bashrc", "if x\n\tthen y\n", { overwrite: true });
    expect(text).toContain("\n-alias a0=b\n");
    expect(text).toContain("\n[… 280 more lines removed]\n+if x\n+    then y");
    const edits = [{ path: ".bashrc", old_text: "alias a1=b\nalias a2=b\n", new_text: "alias a1=c\nalias a2=b\n" }];
    const gate = await judge("patch", { edits });
    expect(gate).toMatchObject({
      text: expect.stringContaining("@@ .bashrc @@\n-alias a1=b\n+alias a1=c\n alias a2=b"),
    });
  });

  it("asks for nothing beside them", async () => {
    for (const path of [".gitignore", ".github/x.yml", "git/hooks/x", "bashrc", "x.gitx/y", "bare.git/main/hooks/x"])
      expect(await write(path, "x")).toMatchObject({ gate: "run", ok: true });
  });

  it("cannot be written unasked through a link, however it is turned", async () => {
    mkdirSync(join(work, ".git/hooks"), { recursive: true });
    symlinkSync(".git/hooks", join(work, "innocent"));
    expect(await write("innocent/pre-commit", "x")).toMatchObject({ gate: "refuse" });
    rmSync(join(work, ".git/hooks"), { recursive: true });
    mkdirSync(join(work, "plain"));
    symlinkSync("../plain", join(work, ".git/hooks"));
    expect(await write(".git/hooks/pre-commit", "x")).toMatchObject({ gate: "refuse" });
    expect(readdirSync(join(work, "plain"))).toEqual([]);
  });
});

describe("a directory that is swapped for a link all the time", () => {
  const swapping = async (then: () => Promise<void>) => {
    put("work/d/file.txt", "inside\n");
    put("outside/file.txt", SECRET);
    // Each state lasts a random moment. A directory that a tool makes while there is none is cleared away.
    const script = `const fs = require("fs"); process.chdir(process.argv[1]);
      const quietly = (work) => { try { work(); } catch {} };
      const moment = () => { const end = performance.now() + Math.random() * 2; while (performance.now() < end); };
      for (let i = 0; ; i++) {
        quietly(() => fs.renameSync("d", "d.real")); quietly(() => fs.symlinkSync("../outside", "d")); moment();
        quietly(() => fs.unlinkSync("d")); quietly(() => fs.rmSync("d", { recursive: true }));
        quietly(() => fs.renameSync("d.real", "d")); moment();
        if (i === 10) console.log("swapping");
      }`;
    const child = spawn(process.execPath, ["-e", script, work], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    await new Promise((resolve) => child.stdout.once("data", resolve));
    await then();
    expect(child.exitCode).toBe(null);
  };
  /** Until the swapper was met and not met, often. */
  const often = async (times: number, attempt: (i: number) => Promise<boolean>) => {
    const seen = { good: 0, bad: 0 };
    for (let i = 0; i < times * 40 && (seen.good < times || seen.bad < times); i++)
      seen[(await attempt(i)) ? "good" : "bad"] += 1;
    expect(seen.good).toBeGreaterThan(0);
    expect(seen.bad).toBeGreaterThan(0);
  };

  it("never gives a file of the outside", async () => {
    await swapping(() =>
      often(300, async () => {
        const { ok, text } = await run("read_file", { path: "d/file.txt" });
        expect(text).not.toContain(SECRET);
        return ok;
      }),
    );
  });

  it("never lets a file be made, replaced or removed outside", async () => {
    await swapping(() =>
      often(25, async (i) => {
        const made = await run("write_file", { path: `d/new-${i}.txt`, content: "x" });
        await run("write_file", { path: "d/file.txt", content: `inside ${i}\n`, overwrite: true });
        const patched = await run("patch", {
          diff: `--- a/d/new-${i}.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n`,
        });
        return made.ok && patched.ok;
      }),
    );
    expect(readdirSync(outside).toSorted()).toEqual(["file.txt", "secret.txt"]);
    expect(get("outside/file.txt")).toBe(SECRET);
  });

  it("never lets a search see the outside", async () => {
    await swapping(() =>
      often(50, async () => {
        const { text } = await run("search_files", { pattern: "SECRET", literal: true, all: true });
        expect(text).not.toContain("SECRET");
        const names = await run("search_files", { pattern: "*.txt", mode: "names" });
        expect(names.text).not.toContain("d/secret.txt");
        return names.text.includes("d/file.txt");
      }),
    );
  });
});

describe("read_file", () => {
  it("gives a window of lines with their numbers, and says what is left", async () => {
    put("work/n.txt", Array.from({ length: 5000 }, (_, i) => `line ${i + 1}\n`).join(""));
    expect((await read("n.txt", { offset: 10, limit: 2 })).text).toBe(
      "[n.txt · lines 10-11 of 5000 · go on with offset 12]\n10\tline 10\n11\tline 11",
    );
    expect((await read("n.txt")).text).toContain("lines 1-2000 of 5000");
    expect((await read("n.txt", { offset: 6000 })).text).toBe("[n.txt · no line 6000, it has 5000]");
    expect((await read("n.txt", { offset: 5000 })).text).toBe("[n.txt · lines 5000-5000 of 5000]\n5000\tline 5000");
  });

  it("reads a window of a file of 100 MB without holding it", async () => {
    const fd = openSync(join(work, "huge.log"), "w");
    const piece = Buffer.from(`${"x".repeat(63)}\n`.repeat(16_384));
    for (let i = 0; i < 100; i++) writeSync(fd, piece);
    closeSync(fd);
    await read("a.txt");
    global.gc?.();
    const before = process.memoryUsage.rss();
    const { text } = await read("huge.log", { offset: 1_600_000, limit: 3 });
    const grown = process.memoryUsage.rss() - before;
    expect(text).toContain("lines 1600000-1600002 of 1638400");
    expect(grown).toBeLessThan(40 * 1024 * 1024);
  });

  it("cuts a line that never ends", async () => {
    put("work/min.js", "x".repeat(3_000_000));
    const { text } = await read("min.js");
    expect(text.length).toBeLessThan(3000);
    expect(text).toContain("[… line of 3000000 bytes, cut here]");
  });

  it("stops at its own size however many lines are asked for", async () => {
    put("work/wide.txt", `${"y".repeat(1999)}\n`.repeat(1000));
    const { text } = await read("wide.txt");
    expect(text.length).toBeLessThan(110_000);
    expect(text).toMatch(/lines 1-\d+ of 1000 · go on with offset \d+/);
  });

  it("hides CRLF and a byte order mark, and says so; an empty file is empty", async () => {
    put("work/crlf.txt", "\uFEFFone\r\ntwo\r\n");
    expect((await read("crlf.txt")).text).toBe(
      "[crlf.txt · lines 1-2 of 2 · begins with a byte order mark · CRLF line ends]\n1\tone\n2\ttwo",
    );
    put("work/empty", "");
    expect((await read("empty")).text).toBe("[empty · empty]");
  });

  it("says what a file is that is no text", async () => {
    put("work/x.png", Buffer.from("89504e470d0a1a0a0000", "hex"));
    put("work/x.bin", Buffer.from([1, 2, 0, 3]));
    put("work/x.utf16", Buffer.from("\uFEFFhello", "utf16le"));
    expect((await read("x.png")).text).toBe("x.png is a PNG image of 10 bytes, which cannot be shown as text.");
    expect((await read("x.bin")).text).toContain("a binary file of 4 bytes");
    expect((await read("x.utf16")).text).toContain("UTF-16 text");
    put("work/latin1.txt", Buffer.from("caf\xe9\n", "latin1"));
    expect(await read("latin1.txt")).toMatchObject({
      ok: true,
      text: expect.stringContaining("not everything is UTF-8"),
    });
  });

  it("makes control sequences harmless", async () => {
    put("work/evil.txt", "\x1b]52;c;ZXZpbA==\x07 \x9b2J a\rb \u202e\tend\n");
    const { text } = await read("evil.txt");
    expect(text).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
    expect(text).toContain("⟨U+001B⟩]52");
    expect(text).toContain("\tend");
  });

  it("lists a directory", async () => {
    put("work/sub/x.txt", "12345");
    symlinkSync("x.txt", join(work, "sub/link"));
    mkdirSync(join(work, "sub/deep"));
    expect((await read("sub")).text).toBe("[sub is a directory with 3 entries]\ndeep/\nlink (link)\nx.txt (5 bytes)");
  });

  it("helps with a name that is not there", async () => {
    put("work/src/Settings.ts", "");
    expect((await read("src/setings.ts")).text).toBe("There is no src/setings.ts. Did you mean src/Settings.ts?");
    expect((await read("lib/settings.ts")).text).toBe("There is no lib/settings.ts. Did you mean src/Settings.ts?");
    expect((await read("nothing-like-it")).text).toBe("There is no nothing-like-it.");
    expect((await read("a.txt/b")).text).toContain("ENOTDIR");
  });

  it("does not wait for a pipe", async () => {
    sh('mkfifo "$1"', join(work, "pipe"));
    expect(await read("pipe")).toMatchObject({ ok: false, text: expect.stringContaining("not a regular file") });
  });

  it("refuses arguments that do not fit", async () => {
    for (const args of [
      {},
      { path: "" },
      { path: "a\0b" },
      { path: "a.txt", offset: 0 },
      { path: "a.txt", lines: 5 },
      { path: "x".repeat(5000) },
    ])
      expect((await judge("read_file", args)).gate).toBe("refuse");
    expect(await read("y".repeat(300))).toMatchObject({ ok: false, text: expect.stringContaining("too long") });
  });
});

describe("write_file", () => {
  it("makes a file with its directories, any name", async () => {
    const path = "neu/日本語/naïve 😀.txt";
    expect(await write(path, "ünï\n")).toMatchObject({ ok: true, text: `Made ${path} (1 line, 6 bytes).` });
    expect(get(`work/${path}`)).toBe("ünï\n");
    expect((await read(path)).text).toContain("1\tünï");
    expect((await search("ünï")).text).toContain(`${path}:1:ünï`);
    expect(await edit(path, "ünï", "uni")).toMatchObject({ ok: true });
  });

  it("replaces only what the session knows as it is", async () => {
    expect(await write("a.txt", "new")).toMatchObject({
      ok: false,
      text: expect.stringContaining("was not read in this session"),
    });
    await read("a.txt");
    expect((await call("write_file", { path: "a.txt", content: "new" }, "s2")).ok).toBe(false);
    put("work/a.txt", "changed meanwhile\n");
    expect(await write("a.txt", "new")).toMatchObject({
      ok: false,
      text: expect.stringContaining("has changed since it was read"),
    });
    expect(get("work/a.txt")).toBe("changed meanwhile\n");
    await read("a.txt");
    utimesSync(join(work, "a.txt"), 1, 1);
    expect(await write("a.txt", "new")).toMatchObject({
      ok: true,
      text: "Replaced a.txt (1 line, 3 bytes, +1 −2).\n@@ line 1 @@\n-changed meanwhile\n-\n+new",
    });
    expect(await write("a.txt", "newer")).toMatchObject({ ok: true });
    put("work/a.txt", "changed again");
    expect(await write("a.txt", "mine", { overwrite: true })).toMatchObject({
      text: "Replaced a.txt (1 line, 4 bytes).", // what it held is not told: the session has not read it
    });
  });

  it("run again after a crash does no harm: its own content is fine, another is not touched", async () => {
    await write("new.txt", "mine");
    tools = make();
    expect(await write("new.txt", "mine")).toMatchObject({
      ok: true,
      text: "new.txt has exactly this content already (1 line, 4 bytes).",
    });
    put("work/new.txt", "of the user");
    tools = make();
    expect(await write("new.txt", "mine")).toMatchObject({ ok: false });
    expect(get("work/new.txt")).toBe("of the user");
  });

  it("keeps the mode, and the other name of a file keeps its content", async () => {
    chmodSync(join(work, "a.txt"), 0o754);
    linkSync(join(outside, "secret.txt"), join(work, "hard"));
    await write("a.txt", "x", { overwrite: true });
    await write("hard", "y", { overwrite: true });
    expect(statSync(join(work, "a.txt")).mode & 0o777).toBe(0o754);
    expect([get("work/hard"), get("outside/secret.txt")]).toEqual(["y", SECRET]);
  });

  it("leaves one whole file when many write it, and a reader never sees half of one", async () => {
    const texts = Array.from({ length: 20 }, (_, i) => `${i}`.repeat(50_000));
    await write("busy.txt", texts[0] ?? "");
    const writers = texts.map((content, i) =>
      run("write_file", { path: "busy.txt", content, overwrite: true }, `w${i}`),
    );
    const readers = Array.from({ length: 40 }, async () => {
      const { ok, text } = await run("read_file", { path: "busy.txt" });
      expect([ok, text]).toEqual([true, expect.stringMatching(/line of (50000|100000) bytes/)]);
    });
    expect((await Promise.all(writers)).filter(({ ok }) => !ok)).toEqual([]);
    await Promise.all(readers);
    expect(texts).toContain(get("work/busy.txt"));
    expect(leftovers()).toEqual([]);
  });

  it("lets one of two sessions win that both know the old content", async () => {
    await run("read_file", { path: "a.txt" }, "s1");
    await run("read_file", { path: "a.txt" }, "s2");
    const results = await Promise.all(["s1", "s2"].map((s) => run("write_file", { path: "a.txt", content: s }, s)));
    expect(results.filter(({ ok }) => ok)).toHaveLength(1);
    expect(get("work/a.txt")).toBe(results[0]?.ok ? "s1" : "s2");
  });

  it("refuses what is no file, and half a character", async () => {
    mkdirSync(join(work, "sub"));
    expect(await write("sub", "x")).toMatchObject({ ok: false, text: expect.stringContaining("directory") });
    expect(await write("a.txt/x", "x")).toMatchObject({ ok: false });
    expect(await write("x", "\ud800")).toMatchObject({ gate: "refuse" });
  });
});

describe("trouble with the disk", () => {
  /** Root may do everything, so the tests that need a "no" are somebody else for a moment. */
  const asNobody = async <T>(work: () => Promise<T>): Promise<T> => {
    if (!isRoot) return await work();
    chmodSync(dir, 0o755);
    process.seteuid?.(65534);
    try {
      return await work();
    } finally {
      process.seteuid?.(0);
    }
  };

  it("is a result: no permission", async () => {
    chmodSync(join(work, "a.txt"), 0);
    chmodSync(work, 0o555);
    const [reading, writing] = await asNobody(async () => [await read("a.txt"), await write("new.txt", "x")]);
    chmodSync(work, 0o755);
    expect(reading).toMatchObject({ ok: false, text: expect.stringContaining("permission denied (EACCES)") });
    expect(writing).toMatchObject({ ok: false, text: expect.stringContaining("EACCES") });
    expect(readdirSync(work)).toEqual(["a.txt"]);
  });

  asRoot.it("in the middle of a patch takes back what was done", async () => {
    // Others' files in a sticky directory cannot be replaced, which shows only at the rename.
    for (const name of ["free", "sticky"]) mkdirSync(join(work, name));
    put("work/free/1.txt", "old one\n");
    put("work/sticky/2.txt", "old two\n");
    chownSync(join(work, "free/1.txt"), 65534, 65534);
    chmodSync(join(work, "free"), 0o777);
    chmodSync(join(work, "sticky"), 0o1777);
    const diff = [
      "--- /dev/null\n+++ b/free/0.txt\n@@ -0,0 +1 @@\n+made\n",
      "--- a/free/1.txt\n+++ b/free/1.txt\n@@ -1 +1 @@\n-old one\n+new one\n",
      "--- a/sticky/2.txt\n+++ b/sticky/2.txt\n@@ -1 +1 @@\n-old two\n+new two\n",
    ].join("");
    const before = statSync(join(work, "free/1.txt"));
    const result = await asNobody(() => call("patch", { diff }));
    expect(result).toMatchObject({
      ok: false,
      text: expect.stringMatching(/^Nothing was changed\. .*sticky\/2\.txt.*EPERM/),
    });
    expect([get("work/free/1.txt"), get("work/sticky/2.txt")]).toEqual(["old one\n", "old two\n"]);
    expect(readdirSync(join(work, "free"))).toEqual(["1.txt"]);
    expect(statSync(join(work, "free/1.txt"))).toMatchObject({
      mode: before.mode,
      uid: before.uid,
      mtimeMs: before.mtimeMs,
    });
    expect(leftovers()).toEqual([]);
  });

  withTmpfs.it("is a result: a full disk loses nothing", async () => {
    const small = join(work, "small");
    mkdirSync(small);
    expect(sh('mount -t tmpfs -o size=64k none "$1"', small)).toMatchObject({ status: 0 });
    try {
      await write("small/x.txt", "old");
      expect(await write("small/x.txt", "x".repeat(1_000_000))).toMatchObject({
        ok: false,
        text: expect.stringContaining("the disk is full"),
      });
      expect(get("work/small/x.txt")).toBe("old");
      expect(readdirSync(small)).toEqual(["x.txt"]);
    } finally {
      sh('umount "$1"', small);
    }
  });
});

describe("patch", () => {
  it("replaces text, and shows what it did", async () => {
    expect(await edit("a.txt", "two", "2\n2b")).toMatchObject({
      ok: true,
      text: "Changed 1 file.\na.txt\n@@ line 1 @@\n one\n-two\n+2\n+2b\n three\n ",
    });
    expect(get("work/a.txt")).toBe("one\n2\n2b\nthree\n");
  });

  it("wants text that is there once, or all of it", async () => {
    put("work/x.txt", "a\nb\na\n");
    expect((await edit("x.txt", "a", "c")).text).toContain("there 2 times, in lines 1, 3");
    expect(await edit("x.txt", "a", "c", { all: true })).toMatchObject({ ok: true });
    expect(get("work/x.txt")).toBe("c\nb\nc\n");
  });

  it("guesses nothing, and shows lines that differ in white space only", async () => {
    put("work/x.ts", "function f() {\n\treturn  1;\n}\n");
    const { ok, text } = await edit("x.ts", "  return 1;\n}", "  return 2;\n}");
    expect(ok).toBe(false);
    expect(text).toContain(
      "Nothing was changed.\nx.ts: this text is not there, but lines 2-3 differ from it only in white space",
    );
    expect(text).toContain("\treturn  1;\n}");
    expect((await edit("x.ts", "function f() {\nother", "")).text).toContain("Its first line is at line 1");
  });

  it("refuses a file that has changed since it was read, and not one that was never read", async () => {
    await read("a.txt");
    appendFileSync(join(work, "a.txt"), "four\n");
    expect(await edit("a.txt", "two", "2")).toMatchObject({
      ok: false,
      text: expect.stringContaining("has changed since it was read in this session. Read it again"),
    });
    await read("a.txt");
    expect(await edit("a.txt", "two", "2")).toMatchObject({ ok: true });
    expect(await edit("a.txt", "2", "zwei")).toMatchObject({ ok: true });
    put("work/b.txt", "x\n");
    expect(await edit("b.txt", "x", "y")).toMatchObject({ ok: true });
    // A patch shows only a part of a file: it is not read by that.
    expect(await write("b.txt", "z")).toMatchObject({ ok: false });
  });

  it("changes all files or none", async () => {
    put("work/b.txt", "b\n");
    const edits = [
      { path: "a.txt", old_text: "one", new_text: "1" },
      { path: "b.txt", old_text: "not there", new_text: "x" },
      { path: "c.txt", old_text: "x", new_text: "y" },
    ];
    const { ok, text } = await call("patch", { edits });
    expect(ok).toBe(false);
    expect(text).toMatch(/^Nothing was changed\.\nb\.txt: this text is not there[^]*There is no c\.txt/);
    expect([get("work/a.txt"), get("work/b.txt")]).toEqual(["one\ntwo\nthree\n", "b\n"]);
    expect(
      (
        await call("patch", {
          edits: [...edits.slice(0, 1), { path: "../outside/secret.txt", old_text: "S", new_text: "" }],
        })
      ).gate,
    ).toBe("ask");
  });

  it("makes, changes and removes files by one diff", async () => {
    put("work/gone.txt", "bye\n");
    const diff = [
      "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
      "--- /dev/null\n+++ b/sub/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n",
      "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n",
    ].join("");
    expect(await call("patch", { diff })).toMatchObject({
      ok: true,
      text: expect.stringContaining("Changed 3 files."),
    });
    expect([get("work/a.txt"), get("work/sub/new.txt")]).toEqual(["one\n2\nthree\n", "x\ny"]);
    expect(existsSync(join(work, "gone.txt"))).toBe(false);
    expect(leftovers()).toEqual([]);
    expect((await call("patch", { diff })).text).toContain("sub/new.txt exists already");
  });

  it("removes nothing that it was not shown whole", async () => {
    expect(await call("patch", { diff: "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n" })).toMatchObject({
      ok: false,
    });
    expect(await call("patch", { diff: "--- a/a.txt\n+++ /dev/null\n" })).toMatchObject({ ok: false });
    expect(get("work/a.txt")).toBe("one\ntwo\nthree\n");
  });

  it("takes the numbers of a diff as hints: wrong ones do no harm, and they choose between equal places", async () => {
    put("work/x.txt", "a\nb\na\nb\na\nb\n");
    expect(await call("patch", { diff: "--- x.txt\n+++ x.txt\n@@ -3,2 +3,2 @@\n a\n-b\n+B\n" })).toMatchObject({
      ok: true,
    });
    expect(get("work/x.txt")).toBe("a\nb\na\nB\na\nb\n");
    expect(await call("patch", { diff: "--- x.txt\n+++ x.txt\n@@ -40,9 +1,7 @@\n-B\n+beta\n" })).toMatchObject({
      ok: true,
    });
    expect((await call("patch", { diff: "--- x.txt\n+++ x.txt\n@@ -2,1 +2,1 @@\n-a\n+c\n" })).text).toContain(
      "not at line 2",
    );
  });

  it("keeps CRLF, mixed line ends, a byte order mark and a missing last line end", async () => {
    put("work/crlf.txt", "\uFEFFone\r\ntwo\r\nthree");
    expect(
      await call("patch", {
        diff: "--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,3 +1,4 @@\n-one\n+1\n+1b\n two\n-three\n+3\n",
      }),
    ).toMatchObject({ ok: true });
    expect(get("work/crlf.txt")).toBe("\uFEFF1\r\n1b\r\ntwo\r\n3");
    expect(await edit("crlf.txt", "1b\ntwo", "x\ny\nz")).toMatchObject({ ok: true });
    expect(get("work/crlf.txt")).toBe("\uFEFF1\r\nx\r\ny\r\nz\r\n3");
    put("work/mixed.txt", "a\r\nb\nc\r\nd\r\n");
    await edit("mixed.txt", "c", "c1\nc2");
    expect(get("work/mixed.txt")).toBe("a\r\nb\nc1\r\nc2\r\nd\r\n");
  });

  it("says what is wrong with a diff before anybody is asked", async () => {
    for (const [diff, why] of [
      ["hello", "not a unified diff"],
      ["@@ -1 +1 @@\n-a\n+b\n", 'without "---" and "+++" lines'],
      ["--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "cannot rename"],
      ["--- a/x\n+++ b/x\n", 'no "@@" lines'],
      ["--- a/x\n+++ b/x\n@@ -1 +1 @@\n*a\n", "begins with neither"],
      ["rename from a\nrename to b\n", "cannot be done with a patch"],
    ])
      expect(await call("patch", { diff })).toMatchObject({ gate: "refuse", text: expect.stringContaining(why ?? "") });
    expect(await call("patch", {})).toMatchObject({ gate: "refuse" });
    expect(await call("patch", { diff: "x", edits: [{ path: "a.txt", old_text: "a", new_text: "" }] })).toMatchObject({
      gate: "refuse",
    });
  });

  it("takes no longer for text that is made to be hard to find", async () => {
    put("work/hard.txt", "a\n".repeat(200_000));
    const started = performance.now();
    for (const old of [`b${"a\n".repeat(80_000)}`, `${"a\n".repeat(80_000)}b`, `${"a \n".repeat(40_000)}b`])
      expect(await edit("hard.txt", old, "")).toMatchObject({ ok: false });
    const lines = "-a\n".repeat(60_000);
    expect(await call("patch", { diff: `--- hard.txt\n+++ hard.txt\n@@ -1 +1 @@\n-b\n${lines}` })).toMatchObject({
      ok: false,
    });
    expect(performance.now() - started).toBeLessThan(15_000);
  });

  it("does not touch what is not UTF-8", async () => {
    put("work/latin1.txt", Buffer.from("caf\xe9\n", "latin1"));
    expect(await edit("latin1.txt", "caf", "tea")).toMatchObject({
      ok: false,
      text: expect.stringContaining("not UTF-8"),
    });
  });

  withDiff.it("makes of a file what diff says it becomes", () => {
    const text = tuple(
      array(constantFrom("a", "b", "", "-- c", "++ d", "@@ x", "\\ e", " f"), { maxLength: 14 }),
      boolean(),
    ).map(([lines, bare]) =>
      lines
        .map((line) => `${line}\n`)
        .join("")
        .slice(0, bare ? -1 : undefined),
    );
    assert(
      property(text, text, constantFrom("-U0", "-U1", "-U3"), (from, to, context) => {
        pre(from !== to && from !== "" && to !== "");
        const [a, b] = [put("work/from", from), put("work/to", to)];
        const diff = sh('diff "$1" --label a/x --label b/x "$2" "$3"', context, a, b).stdout;
        const result = (parseDiff(diff)[0]?.edits ?? []).reduce((before, one) => {
          const edited = applyEdit(before, one);
          if ("problem" in edited) throw new Error(`${edited.problem}\n${diff}`);
          return edited.text;
        }, from);
        expect(result).toBe(to);
      }),
      { numRuns: 60 },
    );
  });
});

describe("search_files", () => {
  const files = () => {
    put("work/src/one.ts", "import x;\nconst needle = 1;\nend\n");
    put("work/src/two.js", "Needle\r\nneedle again\r\n");
    put("work/src/deep/three.md", "# needle\n");
    put("work/.hidden/four.ts", "needle\n");
    put("work/node_modules/five.ts", "needle\n");
    put("work/.gitignore", "node_modules/\n*.log\n!keep.log\n");
    put("work/x.log", "needle\n");
    put("work/keep.log", "needle\n");
    put("work/bin.dat", Buffer.from("needle\0"));
  };
  const found = async (pattern: string, more = {}) => (await search(pattern, more)).text.split("\n").slice(1);

  it("gives lines in order of the paths, without what is hidden or ignored", async () => {
    files();
    expect((await search("needle")).text).toBe(
      "[4 matches in 4 files]\nkeep.log:1:needle\nsrc/deep/three.md:1:# needle\nsrc/one.ts:2:const needle = 1;\nsrc/two.js:2:needle again",
    );
    expect(await found("needle", { all: true, glob: "*.ts" })).toEqual([
      ".hidden/four.ts:1:needle",
      "node_modules/five.ts:1:needle",
      "src/one.ts:2:const needle = 1;",
    ]);
    expect(await found("^needle", { ignore_case: true, path: "src" })).toEqual([
      "src/two.js:1:Needle",
      "src/two.js:2:needle again",
    ]);
    expect(await found("needle", { path: "src/one.ts" })).toEqual(["src/one.ts:2:const needle = 1;"]);
    expect(await found("needle = 1;$", { glob: "src/**/*.{ts,md}" })).toHaveLength(1);
    expect(await found("(", { literal: true })).toEqual([]);
    expect((await search("(")).text).toContain("not a regular expression");
  });

  it("is not fooled by a name with a line end in it", async () => {
    put("work/x\nfake.ts:1:evil", "needle\n");
    expect(await found("needle")).toEqual(["x⟨U+000A⟩fake.ts:1:evil:1:needle"]);
  });

  it("shows lines around, and where a gap is", async () => {
    put("work/x.txt", "1\nhit\n3\n4\n5\nhit\n7\n");
    expect(await found("hit", { context: 1 })).toEqual([
      "x.txt-1-1",
      "x.txt:2:hit",
      "x.txt-3-3",
      "--",
      "x.txt-5-5",
      "x.txt:6:hit",
      "x.txt-7-7",
    ]);
  });

  it("finds files by name", async () => {
    files();
    expect(await found("*.ts", { mode: "names" })).toEqual(["src/one.ts"]);
    expect(await found("src/**/*.{md,js}", { mode: "names" })).toEqual(["src/deep/three.md", "src/two.js"]);
    expect(await found("**/thr?e.[a-m]d", { mode: "names" })).toEqual(["src/deep/three.md"]);
  });

  it("stops at its limits and says so", async () => {
    put("work/many.txt", "hit\n".repeat(500));
    put("work/wide.txt", `hit${"x".repeat(5000)}\n`);
    const { text } = await search("hit", { limit: 7 });
    expect(text).toMatch(/^\[7 matches in 1 file · there may be more/);
    expect((await search("hit", { path: "wide.txt" })).text).toMatch(/ \[… 4603 more\]$/);
    put("work/huge.txt", Buffer.alloc(11 * 1024 * 1024, "hit\n"));
    expect((await search("hit", { path: "huge.txt" })).text).toBe(
      "[no match · 1 file over 10 MB or not readable left out]",
    );
  });

  it("is ended by a stop in the middle of a pattern that would take for ever", async () => {
    put("work/x.txt", `${"a".repeat(60)}!\n`);
    const stop = new AbortController();
    const running = run("search_files", { pattern: "^(a+)+$" }, "s1", stop.signal);
    await Promise.race([running, new Promise((resolve) => setImmediate(resolve))]);
    stop.abort();
    expect(await running).toMatchObject({ ok: false });
  });

  it("matches globs in no time, whatever they are", () => {
    const glob = globOf(`${"*a".repeat(50)}*b`);
    expect(glob(["a".repeat(4000)])).toBe(false);
    expect(globOf(`${"**/a/".repeat(40)}b`)(Array.from({ length: 400 }, () => "a"))).toBe(false);
    expect(globOf("{a,b}{c,d}{e,f}.[!x]s")(["bde.ts"])).toBe(true);
  });

  withGit.it("leaves out what git leaves out", async () => {
    const rules = [
      "*.o",
      "!keep.o",
      "/top.txt",
      "build/",
      "docs/*.html",
      "**/tmp",
      "a/**/z.txt",
      "q?.c",
      "[ab]1",
      "\\#x",
      "trail  ",
      "d/e/",
      "# no",
    ];
    put("work/.gitignore", `${rules.join("\n")}\n`);
    put("work/sub/.gitignore", "*.md\n!x.o\n/only-here\n");
    const names =
      "x.o keep.o sub/x.o sub/y.o top.txt sub/top.txt build/x sub/build/x b/build docs/x.html docs/s/x.html t/tmp/x tmp/y a/z.txt a/b/c/z.txt q1.c q12.c a1 c1 #x trail sub/r.md r.md sub/only-here only-here d/e/f sub/d/e/f".split(
        " ",
      );
    for (const name of names) put(`work/${name}`, "x\n");
    spawnSync("git", ["init", "-q"], { cwd: work });
    const listed = spawnSync("git", ["-c", "core.excludesFile=", "ls-files", "--others", "--exclude-standard"], {
      cwd: work,
      encoding: "utf8",
    });
    const visible = listed.stdout.split("\n").filter((name) => name && !name.includes(".gitignore"));
    expect((await found("**", { mode: "names", limit: 1000 })).toSorted()).toEqual(visible.toSorted());
  });

  describe("with ripgrep", () => {
    const real =
      (program: string): RunProgram =>
      async (args, { cwd }) => {
        const { status, stdout } = spawnSync(program, args, { cwd, encoding: "utf8" });
        return { code: status ?? 127, output: stdout ?? "", truncated: false };
      };
    const PATTERNS: [string, object][] = [
      ["needle", {}],
      ["NEEDLE", { ignore_case: true }],
      ["\\bneedle\\b.*\\d", {}],
      ["^needle again$", {}],
      ["^[A-Z]\\w+$", {}],
      ["(?<=# )needle", {}],
      ["needle|end", { context: 1, limit: 3 }],
      ["= 1;", { literal: true }],
      ["needle", { all: true }],
      ["needle", { glob: "*.{ts,js}", path: "src" }],
      ["é\\s", {}],
      ["x{2,3}|[^a-z ]1", {}],
    ];

    async function sameAsWithout(program: string) {
      files();
      put("work/u.txt", "é x1\nxx\n");
      put("work/-x.txt", "needle\n");
      put("work/dos.txt", "a needle\r\nand the end\r\n");
      put("work/new\nline.txt", "needle\n");
      let asked = 0;
      const counted: RunProgram = async (args, how) => {
        asked++;
        const answer = await real(program)(args, how);
        expect([args, answer.code]).toEqual([args, expect.toBeOneOf([0, 1])]);
        return answer;
      };
      for (const [pattern, more] of PATTERNS) {
        tools = make();
        const without = await search(pattern, more);
        tools = make({ ripgrep: counted });
        expect([pattern, await search(pattern, more)]).toEqual([pattern, without]);
      }
      expect(asked).toBeGreaterThan(PATTERNS.length / 2);
    }

    it("that came with the install the same is found as without", async () => {
      const program = await bundledRipgrep();
      expect(program).toContain(join("node_modules", "@vscode"));
      await sameAsWithout(program ?? "");
    });

    withRipgrep.it("of the system the same is found as without", () => sameAsWithout("rg"));

    const VISIBLE = "./a.txt ./bin.dat ./keep.log ./src/deep/three.md ./src/one.ts ./src/two.js".split(" ");

    it("the same is found when it fails, is missing, or says more than is true", async () => {
      files();
      put("outside/one.ts", "needle\n");
      const without = await search("needle");
      const asked: (readonly string[])[] = [];
      const answers: Awaited<ReturnType<RunProgram>>[] = [
        { code: 127, output: "", truncated: false },
        { code: 2, output: "", truncated: false },
        { code: 0, output: "./src/one.ts\n", truncated: true },
        { code: 0, output: "src/one.ts\n", truncated: false },
      ];
      for (const answer of answers) {
        tools = make({ ripgrep: async (args) => (asked.push(args), answer) });
        expect(await search("needle")).toEqual(without);
      }
      const lying: RunProgram = async (args) => {
        const given = args.filter((word) => word.startsWith("./"));
        return {
          code: 0,
          output: [...given, "./../outside/one.ts", "/etc/passwd", "./.hidden/four.ts"].join("\n"),
          truncated: false,
        };
      };
      tools = make({ ripgrep: lying });
      expect(await search("needle")).toEqual(without);
      expect(asked[0]?.[0]).toBe("--files-with-matches");
      expect(asked[0]?.slice(-7)).toEqual(["--", ...VISIBLE]);
    });

    it("is asked only what it understands as we do", () => {
      const rust = (source: string, flags = "u") => toRust(new RegExp(source, flags));
      expect(rust("foo(?:bar|baz)\\.x{1,2}[a-z_]+$")).toBe("foo(?:bar|baz)\\.x{1,2}[a-z_]+$");
      expect(rust("\\bé\\w\\d\\s")).toBe("(?-u:\\b)é[0-9A-Za-z_][0-9][\\s\\x{FEFF}]");
      for (const source of [
        "(?=a)",
        "(?<!a)b",
        "(a)\\1",
        "\\p{L}",
        "\\W",
        "[\\w]",
        "[a&&b]",
        "[^\\s]",
        "(?<n>a)",
        "\\u{61}",
      ])
        expect([source, rust(source)]).toEqual([source, null]);
      expect(rust("a", "")).toBe(null);
    });
  });
});

describe("what a session has read", () => {
  it("is kept for some megabytes of files, over all sessions, the latest", () => {
    const marks = createMarks();
    const mark = { size: 1, mtimeNs: 1n, hash: "x" };
    const deep = "/d".repeat(2_000);
    for (let i = 0; i < 1_000; i++) marks.set("a", `${deep}/${i}`, mark);
    expect([marks.get("a", `${deep}/0`), marks.get("b", `${deep}/0`)]).toEqual([mark, undefined]);
    for (let i = 0; i < 2_000; i++) marks.set(`s${i}`, deep, mark);
    expect([marks.get("a", `${deep}/999`), marks.get("s1999", deep)]).toEqual([undefined, mark]);
    marks.delete("s1999", deep);
    expect(marks.get("s1999", deep)).toBe(undefined);
  });
});
