// What the editor offers: on real directories, and typed into the real editor.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Editor, type TUI } from "@earendil-works/pi-tui";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createCompletion } from "../../src/surfaces/terminal/screen/complete.ts";
import { makeTheme } from "../../src/surfaces/terminal/screen/theme.ts";
import { pathsBelow } from "../../src/surfaces/terminal/screen/tree.ts";
import { makePipes } from "../fakes/pipe.ts";

const COMMANDS = [
  { name: "stop", argument: "[all]", description: "stop the turn", complete: ["all"] },
  { name: "status", description: "what is going on" },
  { name: "busy", argument: "MODE", description: "what a message does", complete: ["interrupt", "queue", "steer"] },
];
const TAB = "\t";
let dir = "";

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-complete-"));
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(dir, { recursive: true });
});

function put(...paths: string[]) {
  for (const path of paths) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    if (!path.endsWith("/")) writeFileSync(join(dir, path), "");
    else mkdirSync(join(dir, path), { recursive: true });
  }
}

const never = () => new AbortController().signal;

/** What is offered after this text, at the end of its last line; `force` is Tab. */
async function offered(text: string, { force = false, from = createCompletion(COMMANDS, dir) } = {}) {
  const lines = text.split("\n");
  const last = lines.length - 1;
  const found = await from.getSuggestions(lines, last, lines[last]?.length ?? 0, { signal: never(), force });
  return found?.items.map(({ value }) => value) ?? [];
}

describe("a slash command", () => {
  it("is offered at the beginning of a message, with what it takes", async () => {
    expect(await offered("/st")).toEqual(["stop", "status"]);
    const found = await createCompletion(COMMANDS, dir).getSuggestions(["/sto"], 0, 4, { signal: never() });
    expect(found?.items).toEqual([{ value: "stop", label: "stop", description: "[all] — stop the turn" }]);
  });

  it("is not offered later in a message", async () => {
    expect(await offered("text /st")).toEqual([]);
    expect(await offered("text\n/st")).toEqual([]);
  });

  it("offers what its argument can be, from its first letter on or on Tab", async () => {
    expect(await offered("/busy st")).toEqual(["steer"]);
    expect(await offered("/stop ")).toEqual([]);
    expect(await offered("/stop ", { force: true })).toEqual(["all"]);
    expect(await offered("/status x")).toEqual([]);
  });
});

describe("a mention", () => {
  it("offers files and directories below, the best first", async () => {
    put("src/screen/screen.ts", "src/screen/live.ts", "docs/screens.md", "other.txt", "src/s-c-r-e-e-n");
    expect(await offered("see @screen")).toEqual([
      "@src/screen/",
      "@docs/screens.md",
      "@src/screen/screen.ts",
      "@src/screen/live.ts",
      "@src/s-c-r-e-e-n",
    ]);
    expect(await offered("@src/scr/li")).toEqual(["@src/screen/live.ts"]);
    expect(await offered("@nothing")).toEqual([]);
  });

  it("without a name yet offers what is nearest", async () => {
    put("b/deep/file", "a.txt");
    expect(await offered("@")).toEqual(["@b/", "@a.txt", "@b/deep/", "@b/deep/file"]);
  });

  it.each(["a @fi", "first line\n@fi", '(quote: "@fi', "key=@fi", "看，@fi"])("is seen anywhere: %s", async (text) => {
    put("file");
    expect(await offered(text)).toEqual(["@file"]);
  });

  it.each(["me@fi", "@fi ", "fi"])("is not seen in what is none: %s", async (text) => {
    put("file");
    expect(await offered(text)).toEqual([]);
  });

  it("quotes names that end too early otherwise", async () => {
    put("my file.txt", "my dir/in it.txt", "plain.txt");
    expect(await offered("@my")).toEqual(['@"my dir/"', '@"my file.txt"', '@"my dir/in it.txt"']);
    expect(await offered('@"my fi')).toEqual(['@"my file.txt"']);
    expect(await offered('@"pla')).toEqual(['@"plain.txt"']);
  });

  it("leaves out what nobody means", async () => {
    put(".git/config", "node_modules/x/index.js", "lib/node_modules/y.js", "logs/a.log", "b.log", "keep.log");
    put(
      "dist/main.js",
      "src/b.log",
      "src/dist/main.js",
      "src/gen/a.ts",
      "src/gen/keep.ts",
      "src/x.pyc",
      ".env",
      "out",
      "src/out/f",
    );
    writeFileSync(join(dir, ".gitignore"), "# built\n*.log\n!keep.log\n/dist/\nout/\n*.py[co]\n");
    writeFileSync(join(dir, "src/.gitignore"), "gen/*\n!keep.ts\n!b.log\n");
    expect((await offered("@")).toSorted()).toEqual(
      [".env", ".gitignore", "keep.log", "lib/", "logs/", "out", "src/", "src/.gitignore", "src/b.log"]
        .concat(["src/dist/", "src/dist/main.js", "src/gen/", "src/gen/keep.ts"])
        .map((path) => `@${path}`),
    );
  });

  it("leaves out names that would not stay what they are in a message", async () => {
    put("a\x1b[31mb", "a\nb", 'a"b', "a\u202eb", "ab");
    expect(await offered("@")).toEqual(["@ab"]);
    expect((await offered("a", { force: true })).toSorted()).toEqual(['a"b', "ab"]);
  });

  it("does not follow links round and round", async () => {
    put("a/b/file");
    symlinkSync(dir, join(dir, "a/b/loop"));
    expect(await offered("@file")).toEqual(["@a/b/file"]);
  });

  it("goes name by name outside of here", async () => {
    put("inside/here", "beside/file one", "beside/two");
    const from = createCompletion(COMMANDS, join(dir, "inside"));
    expect(await offered("@../be", { from })).toEqual(["@../beside/"]);
    expect(await offered("@../beside/", { from })).toEqual(['@"../beside/file one"', "@../beside/two"]);
    expect(await offered(`@${dir}/ins`, { from })).toEqual([`@${dir}/inside/`]);
  });

  it("sees a new file after a moment, and looks no more often than that", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    const from = createCompletion(COMMANDS, dir);
    put("one");
    expect(await offered("@", { from })).toEqual(["@one"]);
    put("two");
    expect(await offered("@", { from })).toEqual(["@one"]);
    vi.advanceTimersByTime(3_000);
    expect(await offered("@", { from })).toEqual(["@one", "@two"]);
  });

  it("ends at once when a key is pressed, and the files are there for the next", async () => {
    put("one");
    const from = createCompletion(COMMANDS, dir);
    const controller = new AbortController();
    const first = from.getSuggestions(["@o"], 0, 2, { signal: controller.signal });
    controller.abort();
    expect(await first).toBeNull();
    expect(await offered("@on", { from })).toEqual(["@one"]);
  });

  it("is bounded in a directory without bounds, and keys come through meanwhile", async () => {
    for (let i = 0; i < 21_000; i++) writeFileSync(join(dir, `file-${i}`), "");
    // A pattern that takes a naive reader longer than a person lives.
    writeFileSync(join(dir, ".gitignore"), `${"*-".repeat(20)}x\n`);
    const from = createCompletion(COMMANDS, dir);
    const controller = new AbortController();
    const left = from.getSuggestions(["@f"], 0, 2, { signal: controller.signal });
    controller.abort();
    expect(await turnsDuring(() => left)).toBeLessThan(5);
    expect(await turnsDuring(() => offered("@file", { from }))).toBeGreaterThan(40);
    // The files are known now: what is left is to compare them.
    expect(await turnsDuring(() => offered("@file-1", { from }))).toBeGreaterThan(15);
    expect(await offered("@file-12", { from })).toHaveLength(30);
    const paths = await pathsBelow(dir);
    expect(paths.length).toBeGreaterThan(19_000);
    expect(paths.length).toBeLessThanOrEqual(20_000);
  });
});

/** How often other work had its turn. */
async function turnsDuring(act: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let going = true;
  const count = () => {
    turns += 1;
    if (going) setImmediate(count);
  };
  setImmediate(count);
  await act();
  going = false;
  return turns;
}

describe("in the editor", () => {
  function typing() {
    let drawn = Promise.withResolvers<void>();
    const tui = { terminal: { rows: 40, columns: 100 }, requestRender: () => drawn.resolve() };
    const editor = new Editor(tui as unknown as TUI, makeTheme("mono", 1).editor);
    editor.setAutocompleteProvider(createCompletion(COMMANDS, dir));
    return {
      editor,
      /** Keys; then what is offered, as soon as it is drawn. */
      async type(keys: string) {
        drawn = Promise.withResolvers();
        for (const key of keys) editor.handleInput(key);
        await drawn.promise;
      },
      press: (key: string) => editor.handleInput(key),
    };
  }

  it("a mention is put in with its quotes and a space after it", async () => {
    put("my file.txt");
    const { editor, type, press } = typing();
    await type("see @my");
    expect(editor.isShowingAutocomplete()).toBe(true);
    press(TAB);
    expect(editor.getText()).toBe('see @"my file.txt" ');
    expect(editor.getCursor().col).toBe(editor.getText().length);
  });

  it("a directory stays open for what is in it", async () => {
    put("my dir/the file");
    const { editor, type, press } = typing();
    await type("@my");
    press(TAB);
    expect(editor.getText()).toBe('@"my dir/"');
    await type("the");
    press(TAB);
    expect(editor.getText()).toBe('@"my dir/the file" ');
  });

  it("Tab completes a path anywhere", async () => {
    put("some/where/file.txt");
    const { editor, type } = typing();
    for (const key of "cat so") editor.handleInput(key);
    await type(TAB);
    expect(editor.getText()).toBe("cat some/");
    await type(TAB);
    expect(editor.getText()).toBe("cat some/where/");
  });

  it("a command and its argument are completed", async () => {
    const { editor, type, press } = typing();
    await type("/bu");
    press(TAB);
    expect(editor.getText()).toBe("/busy ");
    await type("q");
    press(TAB);
    expect(editor.getText()).toBe("/busy queue");
  });
});

it("an ignore file that is a pipe, or a link to something endless, does not hang who types", async () => {
  put("a.txt", "sub/b.txt");
  makePipes(join(dir, ".gitignore"));
  symlinkSync("/dev/zero", join(dir, "sub", ".gitignore"));
  expect(await pathsBelow(dir)).toContain("sub/b.txt");
});
