// What git would run later, outside the sandbox, cannot be planted inside of it; and git goes on working there.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { sandboxed } from "../fakes/sandboxed.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox", "git");

const box = sandboxed();
/** As the user outside. */
const git = (...args: string[]) =>
  execFileSync("git", ["-c", "user.name=n", "-c", "user.email=e@e", ...args], {
    cwd: box.workspace,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, HOME: box.user },
  });
const at = (...parts: string[]) => join(box.workspace, ...parts);
const who = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e;";

boxed.describe("in a repository", () => {
  beforeEach(() => {
    git("init", "-q", "-b", "main");
    writeFileSync(at("file"), "1\n");
    git("add", "-A");
    git("commit", "-qm", "first");
  });

  it("git goes on working: add, commit, branch, checkout, merge, stash, tag, reset, fetch, worktree", async () => {
    const { sh } = box.terminal();
    const steps = `set -e; ${who} git checkout -q -b topic; echo 2 >> file; git add -A; git commit -qm second; git tag t
      git checkout -q main; git merge -q topic; echo 3 >> file; git stash -q; git stash pop -q; git reset -q --hard
      git branch -d topic; git clone -q . /tmp/copy; git fetch -q /tmp/copy main; git worktree add -q sub; git gc -q; git status --short; git log --oneline`;
    const { ok, text } = await sh(steps);
    expect(text).toContain("second");
    expect(ok).toBe(true);
    expect(git("log", "--format=%s")).toBe("second\nfirst\n");
  });

  it("checks out a branch of a remote without writing the configuration", async () => {
    git("clone", "-q", "--bare", ".", join(box.dir, "remote"));
    git("-C", join(box.dir, "remote"), "branch", "theirs");
    git("remote", "add", "origin", join(box.dir, "remote"));
    git("fetch", "-q", "origin");
    const { ok, text } = await box.terminal().sh("git checkout theirs && git branch");
    expect(text).toContain("* theirs");
    expect(ok).toBe(true);
  });

  it.each([
    ["writes a hook", "echo evil > .git/hooks/pre-commit"],
    ["replaces the hooks", "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit"],
    ["moves the hooks away", "mv .git/hooks .git/old; mkdir .git/hooks; echo evil > .git/hooks/pre-commit"],
    ["writes the configuration", "echo '[core]fsmonitor=evil' >> .git/config"],
    ["replaces the configuration", "echo '[core]fsmonitor=evil' > c; mv c .git/config"],
    ["uses git config", "git config core.fsmonitor evil"],
    ["moves the repository", "mv .git x; cp -r x .git; echo '[core]fsmonitor=evil' >> .git/config"],
    ["removes the repository", "rm -rf .git; git init -q; git config core.fsmonitor evil"],
    ["gives a worktree another configuration", "git worktree add -q wt; git config --worktree core.fsmonitor evil"],
    [
      "takes that of a worktree from elsewhere",
      "git worktree add -q wt; cp -r .git e; echo '[core]fsmonitor=evil' >> e/config; echo ../../../e > .git/worktrees/wt/commondir",
    ],
    [
      "takes the configuration from elsewhere",
      "cp -r .git e; echo '[core]fsmonitor=evil' >> e/config; echo ../e > .git/commondir",
    ],
  ])("nobody who %s plants anything", async (_, command) => {
    await box.terminal().sh(command);
    const places = [".", ...(existsSync(at("wt")) ? ["wt"] : [])];
    const config = places.map((place) => git("-C", place, "config", "--list")).join("\n");
    expect([config.includes("evil"), existsSync(at(".git/hooks/pre-commit"))]).toEqual([false, false]);
  });

  it("also where there are no hooks yet", async () => {
    execFileSync("rm", ["-rf", at(".git/hooks")]);
    await box.terminal().sh("mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit");
    expect(existsSync(at(".git/hooks/pre-commit"))).toBe(false);
  });

  it("says why the configuration cannot be written", async () => {
    const { text } = await box.terminal().sh("git remote add x https://example.org/x.git");
    expect(text).toContain("the configuration and hooks of repositories are read-only in the sandbox");
  });

  it("nor in a submodule, a nested repository, or in what editors run", async () => {
    git("init", "-q", "sub/project");
    git("init", "-q", "../lib");
    git("-C", "../lib", "commit", "-q", "--allow-empty", "-m", "x");
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "mod");
    for (const dir of [".vscode", ".husky"]) mkdirSync(at(dir));
    writeFileSync(at(".vscode/tasks.json"), "{}");
    const places = [".git/modules/mod/config", "sub/project/.git/config", "mod/.git", ".vscode/tasks.json", ".husky/x"];
    const { text } = await box
      .terminal()
      .sh(`for f in ${places.join(" ")}; do echo evil >> $f && echo "WROTE $f"; done`);
    expect(text).not.toContain("WROTE");
  });

  it("works in a linked worktree of a repository elsewhere, whose configuration stays as it is", async () => {
    const repo = join(box.user, "repo");
    git("clone", "-q", ".", repo);
    execFileSync("rm", ["-rf", box.workspace]);
    execFileSync("git", ["-C", repo, "worktree", "add", "-q", "-b", "wt", box.workspace]);
    const { sh } = box.terminal();
    const { text, ok } = await sh(`${who} echo 2 >> file; git commit -qam second && git log --format=%s`);
    expect([ok, text]).toEqual([true, expect.stringContaining("second\nfirst")]);
    await sh(`git config core.fsmonitor evil; echo x > ${repo}/.git/hooks/pre-commit; echo x > ${repo}/file`);
    expect(existsSync(join(repo, ".git/hooks/pre-commit"))).toBe(false);
    expect(readFileSync(join(repo, ".git/config"), "utf8")).not.toContain("evil");
    expect(readFileSync(join(repo, "file"), "utf8")).toBe("1\n");
  });
});

boxed.describe("a repository that a command makes", () => {
  const plant =
    "printf '#!/bin/sh\\n' > $g/hooks/post-checkout; chmod +x $g/hooks/post-checkout; git config -f $g/config core.fsmonitor evil; git config -f $g/config filter.x.smudge evil; git config -f $g/config user.name kept";
  it.each([
    ["by git init", "git init -q new; g=new/.git", "new/.git"],
    ["by hand, bare, in the place of a directory", "git init -q --bare docs; g=docs", "docs"],
    ["as a copy in the place of another", "git init -q a; mv a b; cp -r b a; g=a/.git", "a/.git"],
    ["at the top", "git init -q; g=.git", ".git"],
  ])("%s has nothing that runs, and the result says so", async (_, make, dir) => {
    const { text } = await box.terminal().sh(`${make}; ${plant}`);
    expect(text).toContain("hook post-checkout, core.fsmonitor, filter.x.smudge");
    expect(statSync(at(dir, "hooks/post-checkout")).mode & 0o111).toBe(0);
    const config = readFileSync(at(dir, "config"), "utf8");
    expect([config.includes("evil"), config.includes("kept")]).toEqual([false, true]);
    expect(box.logged).toContainEqual({
      event: "repository.disarmed",
      data: expect.objectContaining({ session: "s" }),
    });
  });

  it("is left as it is when there is nothing in it that runs, and guarded from the next command on", async () => {
    const { sh } = box.terminal();
    expect((await sh("git init -q new")).text).not.toContain("taken out");
    expect((await sh("cd new; git config core.fsmonitor evil")).ok).toBe(false);
  });

  it("while another command runs in the background is looked at too", async () => {
    const { sh } = box.terminal();
    await sh({ command: `git init -q new; g=new/.git; ${plant}; echo up; sleep 30`, background: true });
    expect((await sh("true")).text).toContain("core.fsmonitor");
    expect(readFileSync(at("new/.git/config"), "utf8")).not.toContain("evil");
  });

  it("among hundreds does not hold up the session, nor take the protection from an older one", async () => {
    const { sh } = box.terminal();
    git("init", "-q", "old/mine");
    await sh(
      `for i in $(seq 300); do mkdir -p n$i/objects n$i/refs n$i/hooks; echo ref: refs/heads/x > n$i/HEAD; done; g=n1; ${plant}`,
    );
    const began = performance.now();
    expect((await sh("git -C old/mine config core.fsmonitor evil")).ok).toBe(false);
    expect(performance.now() - began).toBeLessThan(15_000);
    expect(readFileSync(at("n1/config"), "utf8")).not.toContain("evil");
  });

  it("of the user's own is not touched", async () => {
    const { sh } = box.terminal();
    git("init", "-q");
    git("config", "core.fsmonitor", "mine");
    expect((await sh("true")).text).not.toContain("taken out");
    expect(git("config", "core.fsmonitor")).toBe("mine\n");
  });
});
