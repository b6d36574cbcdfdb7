// What was typed before: kept over starts, by several processes, for its owner only, and never a key.
import { execFile } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openHistory } from "../../src/surfaces/terminal/history.ts";

const MODULE = new URL("../../src/surfaces/terminal/history.ts", import.meta.url).href;
let dir = "";
let file = "";

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-history-"));
  file = join(dir, "history");
});
afterEach(() => rmSync(dir, { recursive: true }));

const typed = (...texts: string[]) => {
  const history = openHistory(file);
  for (const text of texts) history.add(text);
};

describe("the history", () => {
  it("has what was typed before, newest last, with its line ends", () => {
    typed("one", "two\nlines", "ünï 🙂");
    typed("last");
    expect(openHistory(file).entries()).toEqual(["one", "two\nlines", "ünï 🙂", "last"]);
  });

  it("has what is added at once", () => {
    const history = openHistory(file);
    history.add("now");
    expect(history.entries()).toEqual(["now"]);
  });

  it("is for its owner only, also when it was not", () => {
    typed("one");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o644);
    openHistory(file);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("skips a torn line, and loses nothing after it", () => {
    typed("one");
    appendFileSync(file, '\n"half of a te');
    typed("two");
    appendFileSync(file, '\n{"not": "ours"}\nnor this');
    typed("three");
    expect(openHistory(file).entries()).toEqual(["one", "two", "three"]);
  });

  it("keeps the last 500, also in the file", () => {
    const texts = Array.from({ length: 1_200 }, (_, i) => `text ${i}`);
    const history = openHistory(file);
    for (const text of texts) history.add(text);
    expect(history.entries()).toEqual(texts.slice(-500));
    expect(openHistory(file).entries()).toEqual(texts.slice(-500));
    expect(readFileSync(file, "utf8").trim().split("\n")).toHaveLength(500);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(dir)).toEqual(["history"]);
  });

  it("makes a file small again that grew without bound", () => {
    const line = `\n${JSON.stringify("x".repeat(9_000))}`;
    writeFileSync(file, `${line.repeat(2_000)}\n"last"`);
    expect(openHistory(file).entries().at(-1)).toBe("last");
    expect(statSync(file).size).toBeLessThan(5_000_000);
  });

  it.each([
    ["a key", "use sk-abcdefghijklmnop1234 for it"],
    ["a password", "the login is https://me:hunter2@example.org"],
    ["a token by its name", "export API_TOKEN=abcdefgh"],
    ["a text over 10 kB", "x".repeat(10_001)],
    ["nothing", " \n "],
  ])("does not keep %s", async (_name, text) => {
    typed("before", text, "after");
    expect(openHistory(file).entries()).toEqual(["before", "after"]);
    expect(readFileSync(file, "utf8")).not.toContain(text);
  });

  it("has what was typed twice in a row once", () => {
    typed("a", "a", "b", "a");
    expect(openHistory(file).entries()).toEqual(["a", "b", "a"]);
  });

  it("works where it cannot be written", () => {
    const history = openHistory(join(dir, "no", "such", "place"));
    history.add("one");
    expect(history.entries()).toEqual(["one"]);
  });

  it("takes what several processes type at the same time", async () => {
    const program = `import { openHistory } from ${JSON.stringify(MODULE)};
      const history = openHistory(process.argv[1]);
      for (let i = 0; i < 100; i++) history.add(process.argv[2] + " " + i + " " + "x".repeat(2000));`;
    const run = promisify(execFile);
    const start = (name: string) =>
      run(process.execPath, ["--input-type=module-typescript", "-e", program, file, name]);
    await Promise.all(["a", "b", "c"].map(start));
    const seen = openHistory(file)
      .entries()
      .map((text) => text.slice(0, -2001));
    for (const name of ["a", "b", "c"])
      expect(seen.filter((text) => text.startsWith(name))).toEqual(
        Array.from({ length: 100 }, (_, i) => `${name} ${i}`),
      );
  });
});
