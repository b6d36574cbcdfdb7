// The branch in the status bar.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { branchOf } from "../../src/surfaces/terminal/branch.ts";

let dir = "";
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-branch-")));
  mkdirSync(join(dir, "repo", ".git"), { recursive: true });
  mkdirSync(join(dir, "repo", "deep", "er"), { recursive: true });
});
afterEach(() => rmSync(dir, { recursive: true }));
const head = (text: string) => writeFileSync(join(dir, "repo", ".git", "HEAD"), text);

it("is read from the repository around a directory, or is the commit where there is none", async () => {
  head("ref: refs/heads/feature/x\n");
  expect(await branchOf(join(dir, "repo", "deep", "er"))).toBe("feature/x");
  head(`${"0123456789".repeat(4)}\n`);
  expect(await branchOf(join(dir, "repo"))).toBe("0123456");
});

it("is that of a second work tree", async () => {
  mkdirSync(join(dir, "repo", ".git", "worktrees", "two"), { recursive: true });
  mkdirSync(join(dir, "two"));
  writeFileSync(join(dir, "repo", ".git", "worktrees", "two", "HEAD"), "ref: refs/heads/two\n");
  writeFileSync(join(dir, "two", ".git"), `gitdir: ${join(dir, "repo", ".git", "worktrees", "two")}\n`);
  expect(await branchOf(join(dir, "two"))).toBe("two");
});

it("is nothing where a link leads elsewhere, and where the file says something else", async () => {
  writeFileSync(join(dir, "elsewhere"), "ref: refs/heads/secret\n");
  symlinkSync(join(dir, "elsewhere"), join(dir, "repo", ".git", "HEAD"));
  expect(await branchOf(join(dir, "repo"))).toBe("");
  rmSync(join(dir, "repo", ".git", "HEAD"));
  head("the password is x\n");
  expect(await branchOf(join(dir, "repo"))).toBe("");
});
