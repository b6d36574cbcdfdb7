// Pictures in a typed message, with real files.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { attachmentsIn, readImage } from "../../src/surfaces/terminal/attachments.ts";
import { makePipes } from "../fakes/pipe.ts";

const BYTES = {
  png: Buffer.from("\x89PNG\r\n\x1a\npicture", "latin1"),
  jpeg: Buffer.from("\xff\xd8\xff\xe0picture", "latin1"),
  gif: Buffer.from("GIF89apicture", "latin1"),
  webp: Buffer.from("RIFF\x01\n\x03\x04WEBPVP8 ", "latin1"),
};
const PNG = { mime: "image/png", data: BYTES.png.toString("base64") };

let dir: string;
let homeBefore: string | undefined;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-pictures-")));
  homeBefore = process.env["HOME"];
  process.env["HOME"] = dir;
});
afterEach(() => {
  process.env["HOME"] = homeBefore;
  rmSync(dir, { recursive: true, force: true });
});

const put = (name: string, bytes: Buffer = BYTES.png) => {
  writeFileSync(join(dir, name), bytes);
  return join(dir, name);
};
const found = async (text: string) => (await attachmentsIn(text, dir)).names;
const problem = (text: string) =>
  attachmentsIn(text, dir).then(
    () => null,
    ({ message }: Error) => message,
  );

describe("a picture is found", () => {
  beforeEach(() => {
    mkdirSync(join(dir, "sub"));
    for (const name of ["a.png", "b.JPG", "my pic.png", "it's.png", "sub/c.webp", "(1).gif", "50%.png"]) put(name);
    put("10.00\u202fAM.png");
  });

  it.each<[string, (dir: string) => string, string[]]>([
    ["@ and a relative path", () => "look at @a.png please", ["a.png"]],
    ["@ and a path in a folder", () => "@sub/c.webp", ["sub/c.webp"]],
    ["@ and quotes", () => "@\"my pic.png\" and @'my pic.png'", ["my pic.png"]],
    ["@ and a path from home", () => "@~/a.png", ["~/a.png"]],
    ["an absolute path", (at) => `what is ${at}/a.png`, ["/a.png"]],
    ["a path from home", () => "~/a.png?", ["~/a.png"]],
    ["a path from here", () => "./a.png and ./sub/../b.JPG", ["./a.png", "./sub/../b.JPG"]],
    ["a double quoted path", (at) => `"${at}/my pic.png" is odd`, ["/my pic.png"]],
    ["a single quoted path", (at) => `'${at}/my pic.png'`, ["/my pic.png"]],
    ["an apostrophe as a shell quotes it", (at) => `'${at}/it'\\''s.png'`, ["/it's.png"]],
    ["escaped blanks and brackets", (at) => `${at}/my\\ pic.png ${at}/\\(1\\).gif`, ["/my pic.png", "/(1).gif"]],
    ["an address of a file", (at) => `${pathToFileURL(`${at}/50%.png`).href} there`, ["file:///50%25.png"]],
    ["another kind of blank in its name", (at) => `see ${at}/10.00\u202fAM.png`, ["/10.00\u202fAM.png"]],
    ["brackets, marks and backticks around it", (at) => `(${at}/a.png), \`~/b.JPG\`.`, ["/a.png", "~/b.JPG"]],
    ["Markdown's way", (at) => `![x](${at}/a.png)!`, ["/a.png"]],
    ["an apostrophe behind it", (at) => `${at}/a.png's colours aren't right`, ["/a.png"]],
    ["quotes that are never closed", (at) => `"${at}/a.png`, ["/a.png"]],
  ])("by %s", async (_, text, names) => {
    expect((await found(text(dir))).map((name) => name.replace(dir, ""))).toEqual(names);
  });

  it.each<[string, (dir: string) => string]>([
    ["a web address", () => "https://example.com/a.png"],
    ["a mail address", () => "ann@a.png"],
    ["a part of a word", () => "either/a.png"],
    ["a bare name, which may be any word", () => "a.png"],
    ["a file of another kind", () => "@sub @notes.txt ./notes.txt"],
    ["one that is not there", (at) => `${at}/gone.png @gone.png ~/gone.png`],
    ["a folder with such a name", () => "@folder.png"],
    ["another machine's file", () => "file://elsewhere/a.png"],
    ["a path with more behind it", (at) => `${at}/a.png/ ${at}/a.pngx`],
  ])("but not by %s", async (_, text) => {
    writeFileSync(join(dir, "notes.txt"), "");
    mkdirSync(join(dir, "folder.png"));
    expect(await found(text(dir))).toEqual([]);
  });

  it("once, however often and however it is named", async () => {
    const { images } = await attachmentsIn(`@a.png ./a.png ~/a.png "${dir}/a.png"`, dir);
    expect(images).toEqual([PNG]);
  });

  it("and is told as what it is, not as what it is called", async () => {
    for (const [kind, bytes] of Object.entries(BYTES))
      expect(await readImage(put("x.png", bytes), [dir])).toEqual({
        mime: `image/${kind}`,
        data: bytes.toString("base64"),
      });
  });

  it("in no time in a long text that is made to be hard", async () => {
    const hard = ["\\".repeat(200_000), `"/${"\\".repeat(99_999)}`, "'/".repeat(100_000), "@".repeat(200_000)];
    const began = performance.now();
    for (const text of hard) expect(await found(text)).toEqual([]);
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

describe("what cannot be sent is refused, by its name and with the reason", () => {
  it("a picture of more than 5 MB, without reading it", async () => {
    const path = put("large.png");
    truncateSync(path, 5_000_001);
    expect(await problem("see @large.png")).toBe(`${path}: has 5.0 MB, more than 5; make it smaller.`);
    truncateSync(path, 5_000_000);
    expect(await problem("see @large.png")).toBe(null);
  });

  it("one that may not be read", async () => {
    const path = put("closed.png");
    chmodSync(path, 0);
    chmodSync(dir, 0o755);
    const isRoot = process.getuid?.() === 0; // who may read everything
    if (isRoot) process.seteuid?.(65_534);
    try {
      expect(await problem("see @closed.png")).toContain(`${path}: cannot be read: EACCES`);
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  it("one that is no picture inside", async () => {
    expect(await problem(`see ${put("text.png", Buffer.from("hello"))}`)).toContain("text.png: its content is not");
    expect(await problem(`see ${put("empty.gif", Buffer.from(""))}`)).toContain("empty.gif: its content is not");
  });

  it("one in the working directory that is a link out of it; a person's own links elsewhere are followed", async () => {
    const work = join(dir, "work");
    mkdirSync(work);
    put("private.png");
    symlinkSync(join(dir, "private.png"), join(work, "shot.png"));
    await expect(attachmentsIn("see @shot.png", work)).rejects.toThrow(/shot.png is a link that leads out/);
    symlinkSync(join(dir, "private.png"), join(dir, "mine.png"));
    expect((await attachmentsIn("see @../mine.png", work)).images).toEqual([PNG]);
  });

  it("a pipe, without waiting for somebody to write to it", async () => {
    makePipes(join(dir, "pipe.png"));
    expect(await found("see @pipe.png")).toEqual([]);
    await expect(readImage(join(dir, "pipe.png"), [dir])).rejects.toThrow(/not a regular file/);
  });

  it("more of them than fit into one message", async () => {
    const names = Array.from({ length: 21 }, (_, i) => `p${i}.png`);
    for (const name of names) put(name);
    const text = (count: number) =>
      names
        .slice(0, count)
        .map((name) => `@${name}`)
        .join(" ");
    expect(await found(`${text(20)} ${text(20)}`)).toHaveLength(20);
    expect(await problem(text(21))).toContain("More than 20 pictures");
  });

  it("a file that is not there, or of another kind, where it is asked for by itself", async () => {
    await expect(readImage(join(dir, "gone.png"), [])).rejects.toThrow(/gone.png: cannot be read: ENOENT/);
    await expect(readImage(put("notes.txt"), [])).rejects.toThrow(/notes.txt: only .png, .jpg/);
  });
});
