// The one way into places that the agent may write.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { createFile, openDir, openFile, readHead, realInside } from "../../src/platform/confined.ts";
import { rulesIn } from "../../src/platform/ignore.ts";
import { makePipes } from "../fakes/pipe.ts";

let root = "";
let work = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "hermes-confined-")));
  work = join(root, "work");
  mkdirSync(work);
  writeFileSync(join(root, "secret"), "SECRET");
});

describe("opening", () => {
  it.each(["pipe", "link", "/dev/zero", "/proc/self/environ"])("refuses %s without waiting", async (name) => {
    makePipes(join(work, "pipe"));
    symlinkSync(join(root, "secret"), join(work, "link"));
    const path = name.startsWith("/") ? name : join(work, name);
    await expect(readHead(path, 100)).rejects.toThrow();
  });

  it("refuses a path with a link in its middle", async () => {
    symlinkSync(root, join(work, "up"));
    await expect(openFile(join(work, "up", "secret"))).rejects.toThrow(/leads elsewhere/);
    await expect(openDir(join(work, "up"))).rejects.toThrow();
  });

  it("reads no more than was asked for", async () => {
    writeFileSync(join(work, "long"), "x".repeat(1_000_000));
    expect((await readHead(join(work, "long"), 10)).bytes).toHaveLength(10);
  });

  it("works in the directory that was opened, whatever becomes of its path", async () => {
    mkdirSync(join(work, "sub"));
    writeFileSync(join(work, "sub", "a"), "");
    await using dir = await openDir(join(work, "sub"));
    renameSync(join(work, "sub"), join(work, "moved"));
    symlinkSync(root, join(work, "sub"));
    expect((await dir.entries(10)).map(({ name }) => name)).toEqual(["a"]);
  });
});

describe("a path that a person wrote", () => {
  it("may be a link of theirs, but not one out of a place that the agent may write", async () => {
    symlinkSync(join(root, "secret"), join(root, "own"));
    symlinkSync(join(root, "secret"), join(work, "planted"));
    expect(await realInside(join(root, "own"), [work])).toBe(join(root, "secret"));
    await expect(realInside(join(work, "planted"), [work])).rejects.toThrow(/leads out of its directory/);
  });

  it("is written to only if it is new, and in the directory that it names", async () => {
    await createFile(join(work, "a.md"), [work], "text");
    expect(statSync(join(work, "a.md")).mode & 0o777).toBe(0o600);
    await expect(createFile(join(work, "a.md"), [work], "other")).rejects.toThrow(/EEXIST/);
    symlinkSync(root, join(work, "out"));
    await expect(createFile(join(work, "out", "b.md"), [work], "text")).rejects.toThrow(/leads out of its directory/);
    symlinkSync(join(root, "made"), join(work, "c.md"));
    await expect(createFile(join(work, "c.md"), [work], "text")).rejects.toThrow(/EEXIST/);
    expect(existsSync(join(root, "made"))).toBe(false);
  });
});

it("ignore files that are pipes, links or endless count for nothing, and hang nobody", async () => {
  makePipes(join(work, ".gitignore"));
  symlinkSync("/dev/zero", join(work, ".ignore"));
  expect(await rulesIn(work)).toEqual([]);
  writeFileSync(join(root, ".gitignore"), "x\n".repeat(200_000));
  expect(await rulesIn(root)).toEqual([]);
});
