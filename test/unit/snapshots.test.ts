// What a turn did to the files of a workspace, and /undo, which brings them back. Real git and a real sandbox.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import type { Notes, Store } from "../../src/core/store.ts";
import { createFileTools } from "../../src/tools/files/tools.ts";
import { chooseSandbox } from "../../src/tools/sandbox/sandbox.ts";
import { ownerHere } from "../../src/tools/shell/exec.ts";
import { createSnapshots, type Snapshots } from "../../src/tools/snapshots/snapshots.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { sandboxed } from "../fakes/sandboxed.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox", "git");
const box = sandboxed();
const at = (...parts: string[]) => join(box.workspace, ...parts);
const text = (path: string) => readFileSync(at(path), "utf8");
const write = (path: string, content: string) => writeFileSync(at(path), content);
/** As the user outside. */
const git = (...args: string[]) =>
  execFileSync("git", ["-c", "user.name=n", "-c", "user.email=e@e", ...args], {
    cwd: box.workspace,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, HOME: box.user },
  });

let store: Store;
let now = 1_000;
const open: Snapshots[] = [];
beforeEach(() => {
  store = asStore(createMemoryStore());
});
afterEach(async () => {
  for (const snapshots of open.splice(0)) await snapshots.close();
});

type Made = Partial<Parameters<typeof createSnapshots>[0]>;
/** As in a process that has just started. */
function start(more: Made = {}, workspace = box.workspace) {
  const { home, user } = box;
  const writable = [workspace];
  const homes = { hermes: home, user };
  const readable = [box.workspace]; // where the repository is, also for a directory in it
  const choice = chooseSandbox({ mode: "required", probe: { usable: true }, writable, readable, homes });
  const terminal = box.terminal({ writable, readable }, { workspace });
  const snapshots = createSnapshots({
    home,
    workspace,
    choice,
    notes: store.notes,
    enter: terminal.enter,
    display: (text) => text,
    owner: ownerHere(home),
    clock: { now: () => now++, monotonic: () => now, sleep: () => Promise.resolve() },
    log: (_, event, data) => void box.logged.push({ event, data }),
    ...more,
  });
  open.push(snapshots);
  const files = createFileTools({
    workspace,
    roots: [],
    home,
    outputsOf: () => join(home, "outputs"),
    ripgrep: null,
    log: () => {},
  });
  const call = (tool: Tool, args: unknown, turn: string) =>
    snapshots.around(tool).run(args, { session: "s", turn, call: "c", signal: new AbortController().signal });
  return {
    ...snapshots,
    sh: (command: string, turn = "t1") => call(terminal.tool, { command }, turn),
    use: (name: string, args: unknown, turn = "t1") =>
      call(files.find((tool) => tool.name === name) ?? expect.fail(name), args, turn),
    undo: async (...turns: string[]) =>
      (await snapshots.restore({ session: "s", turns: turns.length ? turns : ["t1"] })).summary,
    redo: async () => (await snapshots.restore({ session: "s" })).summary,
  };
}

/** Every file below, with what it holds and may. */
function everything(dir: string): Record<string, string> {
  const all = readdirSync(dir, { recursive: true, withFileTypes: true });
  const files = all.filter((entry) => !entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(
    files.map((path) => {
      const stat = statSync(path, { throwIfNoEntry: false });
      const held = stat ? readFileSync(path, "latin1") : readlinkSync(path);
      return [relative(dir, path), `${stat?.mode} ${stat?.mtimeMs} ${held}`];
    }),
  );
}

const isObject = (path: string | Buffer) => /objects\/..\/[0-9a-f]{38}$/.test(String(path));

function repository(): void {
  git("init", "-q", "-b", "main");
  write(".gitignore", "*.log\nbuild/\n");
  for (const name of ["edited", "deleted", "kept"]) write(name, `${name} as it was\n`);
  git("add", "-A");
  git("commit", "-qm", "first");
}

boxed.describe("/diff", () => {
  beforeEach(repository);

  it("shows what the last turn changed, or what is different since before the first one", async () => {
    const { sh, changes, close, undo } = start();
    expect(await changes({ session: "s", all: false })).toEqual({
      summary: "There is no snapshot: no tool changed files in this conversation.",
      patch: "",
    });
    await sh("echo more >> edited; printf 'a\\033[31mred' > made", "t1");
    await sh("rm deleted", "t2");
    await close();
    write("kept", "mine\n");
    const last = await changes({ session: "s", all: false });
    expect(last.summary).toMatch(/^ deleted \| 1 -\n 1 file changed, 1 deletion/);
    expect(last.patch).toContain("-deleted as it was");
    const all = await changes({ session: "s", all: true });
    expect(all.summary).toContain("4 files changed");
    expect(all.patch).toContain("+more");
    expect(all.patch).toContain("+ared"); // no control sequence reaches a screen
    expect(all.patch).toContain("+mine");
    await undo("t2");
    expect((await changes({ session: "s", all: false })).summary).toContain("deleted | 1 -"); // of the turn, not of the restore
    expect((await changes({ session: "another", all: true })).patch).toBe("");
  });

  it("shows the beginning of what is long, and says so", async () => {
    const { sh, changes } = start();
    await sh("seq 100000 > made");
    const { patch } = await changes({ session: "s", all: true });
    expect(patch).toMatch(/\[… it is longer …\]$/);
    expect(patch.length).toBeLessThan(40_000);
  });
});

boxed.describe("/undo", () => {
  beforeEach(repository);

  it("brings back what was edited and deleted, removes what was made, and says so", async () => {
    write("untracked", "untracked as it was\n");
    const { sh, undo } = start();
    await sh("echo more >> edited; rm deleted untracked; mkdir -p a/b; echo new > a/b/made");
    const said = await undo();
    expect(text("edited")).toBe("edited as it was\n");
    expect(text("deleted")).toBe("deleted as it was\n");
    expect(text("untracked")).toBe("untracked as it was\n");
    expect(existsSync(at("a"))).toBe(false);
    expect(said).toBe(
      "Files brought back: deleted, edited, untracked. Files removed: a/b/made. /undo files takes this back.",
    );
  });

  it("undoes what write_file and patch did, over all calls of the turn", async () => {
    const { use, undo } = start();
    await use("write_file", { path: "made", content: "new\n" });
    await use("patch", { edits: [{ path: "edited", old_text: "as it was", new_text: "changed" }] });
    await use("patch", { edits: [{ path: "kept", old_text: "as it was", new_text: "changed" }] });
    await undo();
    expect([existsSync(at("made")), text("edited"), text("kept")]).toEqual([
      false,
      "edited as it was\n",
      "kept as it was\n",
    ]);
  });

  it("leaves alone what was changed after the turn, and names it", async () => {
    const { sh, undo, close } = start();
    await sh("echo turn >> edited; echo turn >> kept; echo turn > made");
    await close();
    write("kept", "mine\n");
    write("made", "mine now\n");
    const said = await undo();
    expect([text("edited"), text("kept"), text("made")]).toEqual(["edited as it was\n", "mine\n", "mine now\n"]);
    expect(said).toContain("Left as they are, since somebody else may have changed them: kept, made.");
  });

  it("does not touch what is ignored", async () => {
    write("x.log", "before\n");
    const { sh, undo } = start();
    await sh("echo after > x.log; mkdir build; echo b > build/out; echo turn >> edited");
    await undo();
    expect([text("x.log"), text("build/out"), text("edited")]).toEqual(["after\n", "b\n", "edited as it was\n"]);
  });

  it("can be undone, and that too", async () => {
    const { sh, undo, redo } = start();
    await sh("echo turn >> edited; rm deleted; echo turn > made");
    await undo();
    expect(await redo()).toBe("Files brought back: edited, made. Files removed: deleted. /undo files takes this back.");
    expect([text("edited"), existsSync(at("deleted")), text("made")]).toEqual([
      "edited as it was\nturn\n",
      false,
      "turn\n",
    ]);
    await redo();
    expect([text("edited"), existsSync(at("deleted")), existsSync(at("made"))]).toEqual([
      "edited as it was\n",
      true,
      false,
    ]);
  });

  it("takes back one turn after another", async () => {
    const { sh, undo } = start();
    await sh("echo one >> edited", "t1");
    await sh("echo two >> edited", "t2");
    await undo("t2");
    expect(text("edited")).toBe("edited as it was\none\n");
    await undo("t1");
    expect(text("edited")).toBe("edited as it was\n");
  });

  it("takes back several turns together, but not what was changed by hand between them; a preview changes nothing", async () => {
    const { sh, undo, redo, restore, close } = start();
    await sh("echo one >> edited; echo one > both; echo one > made", "t1");
    await close();
    write("kept", "mine\n");
    write("edited", "by hand\n");
    await sh("echo two >> edited; rm deleted; echo two >> both", "t2");
    await close();
    const { summary, patch } = await restore({ session: "s", turns: ["t2", "t1"], preview: true });
    expect(summary).toBe(
      "Files to bring back: deleted, edited. Files to remove: both, made. To be left as they are, since somebody else may have changed them: edited.",
    );
    expect(patch).toContain("+deleted as it was");
    expect([text("edited"), existsSync(at("deleted"))]).toEqual(["by hand\ntwo\n", false]);
    const said = await undo("t2", "t1", "none");
    expect(said).toContain("There is no snapshot of 1 of these turns");
    const files = () => [text("edited"), text("kept"), existsSync(at("both")), existsSync(at("made"))];
    expect(files()).toEqual(["by hand\n", "mine\n", false, false]);
    expect(text("deleted")).toBe("deleted as it was\n");
    await redo();
    expect(files()).toEqual(["by hand\ntwo\n", "mine\n", true, true]);
  });

  it("works after a restart, also one in the middle of the turn", async () => {
    const first = start();
    await first.sh("echo one >> edited");
    await first.close();
    const second = start();
    await second.sh("echo two >> edited");
    await second.close();
    await start().undo();
    expect(text("edited")).toBe("edited as it was\n");
  });

  it("leaves files alone where hermes was killed before it saw what the turn had left", async () => {
    const dying: Notes = {
      ...store.notes,
      get: (key) => store.notes.get(key),
      list: (prefix) => store.notes.list(prefix),
      set: async (key, value) => {
        if (!(value instanceof Object && "after" in value)) await store.notes.set(key, value);
      },
    };
    const { sh, close } = start({ notes: dying });
    await sh("echo turn >> edited");
    await close();
    expect(await start().undo()).toBe("Left as they are, since somebody else may have changed them: edited.");
    expect(text("edited")).toBe("edited as it was\nturn\n");
  });

  it("finishes what a kill cut short: files not yet written, missing, half written; not what somebody changed since", async () => {
    const first = start();
    for (const name of ["late", "missing"]) write(name, `${name} as it was\n`);
    git("add", "-A");
    await first.sh("for f in *; do echo turn > $f; done; echo > made");
    await first.close();
    const [note] = await store.notes.list("snapshot/");
    const { before, after } = (note?.value ?? {}) as { before?: string; after?: string };
    const [dir = ""] = readdirSync(join(box.home, "snapshots"));
    const turning = JSON.stringify({ from: after, to: before, session: "s" });
    writeFileSync(join(box.home, "snapshots", dir, "turning"), turning);
    write("edited", "edited as");
    write("deleted", "");
    write("kept", "somebody\n");
    rmSync(at("missing"));
    await start().close();
    expect(["edited", "deleted", "missing", "late"].map(text)).toEqual(
      ["edited", "deleted", "missing", "late"].map((name) => `${name} as it was\n`),
    );
    expect([text("kept"), existsSync(at("made"))]).toEqual(["somebody\n", false]);
    write("late", "later\n");
    await start().close();
    expect(text("late")).toBe("later\n");
  });

  it("keeps bytes, modes, links and names exactly, whatever attributes say", async () => {
    write(".gitattributes", "* text=auto eol=lf\n*.id ident\n");
    write("crlf.txt", "a\r\nb\n");
    write("x.id", "$Id: mine $\n");
    write("run", "#!/bin/sh\n");
    chmodSync(at("run"), 0o755);
    symlinkSync("nowhere", at("link"));
    const odd = ["-rf", "ä ö.txt", 'quo"te\\', "new\nline", "tab\there"];
    for (const name of odd) write(name, `${name}\n`);
    git("add", "-A");
    const { sh, undo } = start();
    await sh("rm -- ./*; ln -s elsewhere link; echo > crlf.txt");
    const said = await undo();
    expect([text("crlf.txt"), text("x.id"), statSync(at("run")).mode & 0o111]).toEqual([
      "a\r\nb\n",
      "$Id: mine $\n",
      0o111,
    ]);
    expect(readlinkSync(at("link"))).toBe("nowhere");
    expect(odd.map((name) => text(name))).toEqual(odd.map((name) => `${name}\n`));
    expect(said).toContain("ä ö.txt");
  });

  it.each([
    ["text=auto", () => write(".gitattributes", "* text=auto\n")],
    ["core.autocrlf", () => git("config", "core.autocrlf", "input")],
    [
      "a filter",
      () => {
        write(".gitattributes", "* filter=x\n");
        git("config", "filter.x.clean", "tr -d '\\r'");
      },
    ],
  ])("keeps line ends that git keeps in another way: %s", async (_, convert) => {
    convert();
    write("crlf", "a\r\nb\r\n");
    utimesSync(at("crlf"), 1_000, 1_000); // older than the index, so that git believes it
    git("add", "-A");
    expect(git("cat-file", "-p", ":crlf")).toBe("a\nb\n");
    const { sh, undo } = start();
    await sh("rm crlf");
    await undo();
    expect(text("crlf")).toBe("a\r\nb\r\n");
  });

  it("works in a directory without a repository", async () => {
    rmSync(at(".git"), { recursive: true });
    mkdirSync(at("node_modules"));
    const { sh, undo } = start();
    await sh("echo turn >> edited; rm deleted; echo > made; echo > x.log; echo > node_modules/x");
    expect(await undo()).toBe("Files brought back: deleted, edited. Files removed: made. /undo files takes this back.");
    expect([text("edited"), text("deleted")]).toEqual(["edited as it was\n", "deleted as it was\n"]);
    expect([existsSync(at("made")), existsSync(at("x.log")), existsSync(at("node_modules/x"))]).toEqual([
      false,
      true,
      true,
    ]);
    expect(existsSync(at(".git"))).toBe(false);
  });

  it("gives a directory back its place, and a file", async () => {
    mkdirSync(at("dir"));
    write("dir/in", "in\n");
    const { sh, undo } = start();
    await sh("rm -r dir; echo > dir; rm kept; mkdir kept; echo > kept/in");
    await undo();
    expect([text("dir/in"), text("kept")]).toEqual(["in\n", "kept as it was\n"]);
  });

  it("in the middle of a merge brings back the file with its conflict", async () => {
    git("checkout", "-qb", "other");
    write("edited", "theirs\n");
    git("commit", "-qam", "theirs");
    git("checkout", "-q", "main");
    write("edited", "ours\n");
    git("commit", "-qam", "ours");
    expect(() => git("merge", "other")).toThrow("Command failed");
    const before = text("edited");
    const { sh, undo } = start();
    await sh("echo resolved > edited");
    await undo();
    expect(text("edited")).toBe(before);
    expect(git("status", "--short")).toContain("UU edited");
  });

  it("works in a directory of a repository, and touches only that", async () => {
    mkdirSync(at("sub"));
    write("sub/.gitignore", "ignored\n");
    write("sub/in", "in\n");
    const { sh, undo } = start({}, at("sub"));
    await sh("echo turn >> in; echo > x.log; echo > made");
    write("edited", "mine\n");
    expect(await undo()).toContain("sub/in");
    expect([text("sub/in"), text("edited"), existsSync(at("sub/made")), existsSync(at("sub/x.log"))]).toEqual([
      "in\n",
      "mine\n",
      false,
      true,
    ]);
  });

  it("says why not where there is no snapshot", async () => {
    expect(await start().undo("another")).toBe("Files were not brought back: there is no snapshot of that turn.");
    const choice = { sandbox: null, why: "bubblewrap is not installed", refuse: false } as const;
    expect(await start({ choice }).undo()).toBe(
      "Files were not brought back: snapshots need a sandbox, and bubblewrap is not installed.",
    );
  });
});

boxed.describe("a snapshot", () => {
  beforeEach(repository);

  it("writes nothing into the repository, neither does bringing files back", async () => {
    write("untracked", "u\n");
    const before = everything(at(".git"));
    const { sh, undo, redo } = start();
    await sh("echo turn >> edited; echo turn > made");
    await undo();
    await redo();
    expect(everything(at(".git"))).toEqual(before);
    expect(git("status", "--short")).toBe(" M edited\n?? made\n?? untracked\n");
  });

  it("runs nothing that the repository names, not even in the sandbox", async () => {
    mkdirSync(at("hooks"));
    const evil = at("hooks/post-index-change");
    // Where it could write: beside the snapshots, and in the workspace while files are brought back.
    writeFileSync(evil, `#!/bin/sh\ntouch ${at("ran")} "$GIT_DIR/ran"; cat\n`);
    chmodSync(evil, 0o755);
    write(".gitattributes", "* diff=x\nedited filter=x\nkept filter=y\n");
    git("add", "-A");
    for (const key of ["core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.y.process", "diff.x.textconv"])
      git("config", key, evil);
    git("config", "core.hooksPath", at("hooks"));
    const { use, undo } = start();
    for (const path of ["edited", "kept"]) await use("write_file", { path, content: "turn\n", overwrite: true });
    await undo();
    expect([text("edited"), text("kept")]).toEqual(["edited as it was\n", "kept as it was\n"]);
    const made = readdirSync(box.dir, { recursive: true }).map(String);
    expect(made.filter((path) => path.endsWith("/ran"))).toEqual([]);
  });

  it("leaves out files over 20 MB", async () => {
    const { sh, undo } = start();
    write("large", "");
    truncateSync(at("large"), 20 * 2 ** 20 + 1);
    await sh("rm large; echo turn >> edited");
    expect(await undo()).not.toContain("large");
    expect([text("edited"), existsSync(at("large"))]).toEqual(["edited as it was\n", false]);
  });

  it("of too much is not taken; the model is told once in a session, and the log", async () => {
    for (let i = 0; i < 11; i++) {
      write(`large${i}`, "");
      truncateSync(at(`large${i}`), 20 * 2 ** 20);
    }
    const { sh, undo } = start();
    const note = "[no snapshot of the workspace, so /undo will not bring files back: more than 200 MB";
    expect((await sh("echo turn >> edited")).text.startsWith(note)).toBe(true);
    expect((await sh("true")).text).not.toContain("snapshot");
    expect((await sh("true", "t2")).text).not.toContain("snapshot");
    expect(box.logged).toContainEqual({ event: "snapshot.none", data: expect.objectContaining({ session: "s" }) });
    expect(await undo()).toContain("more than 200 MB");
  });

  it("that takes too long is given up, and the next one is not disturbed", async () => {
    const { sh, close } = start({ takeMs: 1 });
    expect((await sh("echo turn >> edited")).text).toContain("it takes longer than 0.001 s");
    await close();
    const [dir = ""] = readdirSync(join(box.home, "snapshots"));
    writeFileSync(join(box.home, "snapshots", dir, "config.lock"), ""); // left by a git that was ended
    const next = start();
    await next.sh("echo two >> edited", "t2");
    await next.undo("t2");
    expect(text("edited")).toBe("edited as it was\nturn\n");
  });

  it("is one of the last 50, and what nobody needs any more goes from the disk", async () => {
    const { sh, sweep, undo, close } = start();
    await sh("echo only in the old ones > gone", "old");
    await sh("rm gone", "second");
    await close();
    const notes = await store.notes.list("snapshot/");
    const { key, value } = notes.find((note) => note.key.endsWith("/second")) ?? expect.fail("no note");
    const { after } = Object(value);
    for (let i = 0; i < 50; i++)
      await store.notes.set(key.replace("second", `n${i}`), { session: "s", before: after, after, at: 5_000 + i });
    now = 6_000;
    write("new", "only in the newest\n");
    await sh("rm new", "newest");
    await close();
    expect(await store.notes.list("snapshot/")).toHaveLength(50);
    expect(await undo("old")).toBe("Files were not brought back: there is no snapshot of that turn.");
    const objects = () => readdirSync(join(box.home, "snapshots"), { recursive: true }).filter(isObject).length;
    const before = objects();
    await sweep(now);
    expect(objects()).toBeLessThan(before);
    await undo("newest");
    expect(text("new")).toBe("only in the newest\n");
  });

  it("is forgotten with its session", async () => {
    const { sh, forget, close } = start();
    await sh("echo turn >> edited");
    await close();
    await forget("another");
    expect(await store.notes.list("snapshot/")).toHaveLength(1);
    await forget("s");
    expect(await store.notes.list("snapshot/")).toEqual([]);
  });

  it("is taken again from the beginning where the repository was made anew", async () => {
    const { sh, undo, close } = start();
    await sh("true");
    await close();
    rmSync(at(".git"), { recursive: true });
    git("init", "-q");
    await sh("echo turn >> edited", "t2");
    expect(await undo("t2")).toContain("brought back: edited");
    expect(text("edited")).toBe("edited as it was\n");
  });

  it("that is damaged on the disk spoils one turn at most", async () => {
    const { sh, undo, close } = start();
    await sh("true");
    await close();
    const [dir = ""] = readdirSync(join(box.home, "snapshots"));
    writeFileSync(join(box.home, "snapshots", dir, "index"), "damaged");
    await sh("true", "t2");
    await sh("echo turn >> edited", "t3");
    expect(await undo("t3")).toContain("brought back: edited");
  });

  it("goes past files that cannot be read, pipes and sockets", async () => {
    write("secret", "s\n");
    chmodSync(at("secret"), 0);
    const { sh, undo } = start();
    await sh("mkfifo pipe", "t0");
    await sh("echo turn >> edited");
    expect(await undo()).toContain("brought back: edited");
  });

  it("is not followed by the call when the turn was stopped meanwhile", async () => {
    const { tool } = box.terminal();
    const { around } = start();
    const stop = new AbortController();
    const result = around(tool).run(
      { command: "echo turn >> edited" },
      { session: "s", turn: "t1", call: "c", signal: stop.signal },
    );
    stop.abort();
    expect(await result).toEqual({ ok: false, text: "Not run: the turn was stopped." });
    expect(text("edited")).toBe("edited as it was\n");
  });

  it("goes past repositories in the workspace", async () => {
    git("init", "-q", "empty");
    git("init", "-q", "nested");
    git("-C", "nested", "commit", "-q", "--allow-empty", "-m", "x");
    write("nested/file", "nested\n");
    const { sh, undo } = start();
    await sh("echo turn >> nested/file; echo turn >> edited");
    await undo();
    expect([text("nested/file"), text("edited")]).toEqual(["nested\nturn\n", "edited as it was\n"]);
  });
});

boxed.it("in a linked worktree is one of that", async () => {
  repository();
  git("worktree", "add", "-q", join(box.dir, "linked"));
  const { sh, undo } = start({}, join(box.dir, "linked"));
  await sh("echo turn >> edited");
  expect(await undo()).toContain("brought back: edited");
  expect(readFileSync(join(box.dir, "linked", "edited"), "utf8")).toBe("edited as it was\n");
});
