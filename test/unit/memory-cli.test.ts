// hermes memory: over real files and a real store.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { type Notebook, openNotebook } from "../../src/memory/notebook.ts";
import { exportMemory, forgetMemory, listMemory, searchMemory } from "../../src/surfaces/cli/memory.ts";
import { commitOf, entryOf, joined } from "../contract/store.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

let dir: string;
let notes: Notebook;
let printed = "";
const print = async (text: string) => {
  printed += text;
};
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-memory-cli-"));
  notes = openNotebook(dir);
  printed = "";
});
afterEach(() => rmSync(dir, { recursive: true }));
const heard = () => {
  const text = printed;
  printed = "";
  return text;
};

async function someNotes() {
  const add = (scope: string, target: "memory" | "user", text: string) =>
    notes.change(scope, target, { action: "add", text });
  await add("local", "memory", "The teapot is blue.");
  await add("local", "memory", "The teapot");
  await add("local", "user", "Likes\nshort answers.");
  await add("telegram:7", "user", "Drinks from another teapot.");
}

describe("list and export", () => {
  it("say so when there is nothing", async () => {
    await listMemory({ notes, json: false, print });
    expect(heard()).toBe("There are no notes yet.\n");
    await listMemory({ notes, json: true, print });
    await exportMemory({ notes, print });
    expect(heard()).toBe("");
  });

  it("show all notes, or those of one scope, for people and for programs", async () => {
    await someNotes();
    await listMemory({ notes, json: false, print });
    expect(heard()).toBe(
      "local\n  memory  The teapot is blue.\n  memory  The teapot\n  user    Likes short answers.\n" +
        "telegram:7\n  user    Drinks from another teapot.\n",
    );
    await listMemory({ notes, scope: "telegram:7", json: true, print });
    expect(JSON.parse(heard())).toEqual({ scope: "telegram:7", target: "user", text: "Drinks from another teapot." });
    await exportMemory({ notes, print });
    const lines = heard().trim().split("\n");
    expect(lines).toHaveLength(4);
    expect(JSON.parse(lines[2] ?? "")).toEqual({ scope: "local", target: "user", text: "Likes\nshort answers." });
  });

  it("show nothing that a terminal would obey", async () => {
    await someNotes();
    writeFileSync(join(dir, "MEMORY.md"), "tea \x1b[2J\x07 time");
    await listMemory({ notes, json: false, print });
    expect(heard()).toContain("tea \\u001b[2J\\u0007 time");
  });
});

describe("search", () => {
  let store: Store;
  beforeEach(async () => {
    store = asStore(createMemoryStore());
    await joined(store);
    await store.journal.commit(
      commitOf("agent:main:terminal:dm:a", 0, { entries: [entryOf(1, "t", "where is the teapot?")] }),
    );
  });

  it("finds notes with all of the words, and what was said", async () => {
    await someNotes();
    await searchMemory({ notes, search: store.search, words: "TEAPOT blue", limit: 10, json: false, print });
    expect(heard()).toBe(
      "local\n  memory  The teapot is blue.\n1970-01-01 agent:main:terminal:dm:a\n  where is the teapot?\n",
    );
    await searchMemory({
      notes,
      search: store.search,
      words: "teapot",
      scope: "telegram:7",
      limit: 10,
      json: true,
      print,
    });
    expect(JSON.parse(heard())).toMatchObject({ scope: "telegram:7" });
  });

  it("says so when there is nothing, also before the first conversation", async () => {
    for (const words of ["elephant", ""]) {
      await searchMemory({ notes, search: null, words, limit: 10, json: false, print });
      expect(heard()).toBe("Nothing found. Try other words.\n");
    }
  });
});

describe("forget", () => {
  const forget = (text: string | undefined, more: { scope?: string; all?: boolean } = {}) =>
    forgetMemory({ notes, text, all: false, print, ...more });

  it("takes out the one note that has this in it, or is exactly this", async () => {
    await someNotes();
    expect(await forget("short")).toBe(0);
    expect(heard()).toBe("Deleted: Likes short answers.\n");
    expect(await forget("The teapot")).toBe(0);
    expect(await notes.entries("local")).toEqual([{ target: "memory", text: "The teapot is blue." }]);
  });

  it("takes out none where several or none fit, and shows them", async () => {
    await someNotes();
    expect(await forget("teapot")).toBe(1);
    expect(heard()).toMatch(/^Several notes contain this text.*\nlocal\n {2}memory {2}The teapot is blue/);
    for (const text of ["elephant", "", undefined]) {
      expect(await forget(text)).toBe(1);
      expect(heard()).toContain("No note contains this text");
    }
    expect(await notes.entries("local")).toHaveLength(3);
  });

  it("takes out all of one scope, if that is wanted", async () => {
    await someNotes();
    expect(await forget(undefined, { scope: "telegram:7", all: true })).toBe(0);
    expect(await forget(undefined, { scope: "telegram:7", all: true })).toBe(1);
    expect(heard()).toBe("Deleted all notes of telegram:7.\nThere are no notes of telegram:7.\n");
    expect(await notes.scopes()).toEqual(["local"]);
  });
});
