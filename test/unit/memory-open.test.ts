// Which memories there are, from the configuration.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Search, Store } from "../../src/core/store.ts";
import { type MemorySettings, openMemory } from "../../src/memory/open.ts";
import { createSessionsMemory } from "../../src/memory/sessions.ts";
import { commitOf, joined } from "../contract/store.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { handClock } from "../fakes/scripted.ts";

let home: string;
let store: Store;
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "hermes-open-"));
  store = asStore(createMemoryStore());
  await joined(store);
});
afterEach(() => rmSync(home, { recursive: true }));

const never = () => new AbortController().signal;
const accepted = (session: string, turn: string, text: string, by?: string) => {
  const input = { id: turn, text, mode: "queue", reply: "pull", ...(by && { by }) } as const;
  const entry: Entry = { seq: 1, turn, at: 1_000, kind: "accepted", input, applied: "began" };
  return store.journal.commit(commitOf(session, 0, { entries: [entry] }));
};

type Called = { server: string; tool: string; args: unknown };

function open(settings: Partial<MemorySettings>, originOf?: (session: string) => Promise<string | null>) {
  const called: Called[] = [];
  let ok = true;
  const memory = openMemory({
    settings: { provider: ["files", "sessions"], recall_timeout: 300, http: {}, mcp: {}, ...settings },
    home,
    ...store,
    callMcp: async (server, tool, args) => {
      called.push({ server, tool, args });
      return { ok, text: ok ? "the teapot is blue" : "no" };
    },
    ...(originOf && { originOf }),
    clock: handClock(),
    log: () => {},
    redact: (text) => text,
  });
  return { memory, called, fail: () => (ok = false) };
}
const names = (settings: Partial<MemorySettings>) =>
  open(settings)
    .memory.health()
    .map(({ name }) => name);

it("notes and earlier conversations are there without any configuration; neither is told of turns", async () => {
  const { memory } = open({});
  expect(memory.health().map(({ name }) => name)).toEqual(["files", "sessions"]);
  expect(memory.writers).toEqual([]);
  expect(memory.tools().map(({ name }) => name)).toEqual(["memory"]);
  await accepted("agent:main:terminal:dm:a", "t1", "the teapot is on the top shelf");
  const about = { session: "agent:main:terminal:dm:b", turn: "t2", text: "where is that teapot" };
  expect(await memory.recall(about, never())).toContain("[sessions]\n- 1970-01-01: the teapot is on the top shelf");
});

it("a conversation that is alone in its scope is searched from its second day on, also in the same process", async () => {
  let now = 2_000;
  const asked: string[] = [];
  const search: Search = (query, where) => {
    asked.push(query);
    return store.search(query, where);
  };
  const { prefetch } = createSessionsMemory({ journal: store.journal, search, clock: { now: () => now } });
  const whose = { scope: "session:run_1", session: "run_1" };
  const recall = () => prefetch?.("where is that teapot", whose, never());
  expect(await recall()).toBe(""); // asked while its first message is on its way into the store
  await accepted("run_1", "run_1", "the teapot is on the top shelf");
  expect([await recall(), asked]).toEqual(["", []]);
  now += 86_400_000;
  expect(await recall()).toContain("top shelf");
  expect(asked).toEqual(["teapot"]);
});

it("notes go to whoever began the turn, also from its children", async () => {
  const { memory } = open({});
  await accepted("run_1", "run_9", "note that I like tea", "ann");
  const [tool] = memory.tools();
  const add = (text: string, session: string, turn: string) =>
    tool?.run({ action: "add", target: "user", text }, { session, turn, call: "c", signal: never() });
  expect(await add("likes tea", "run_1", "run_9")).toMatchObject({ ok: true });
  expect(await add("likes cake", "run_1/child/run_9.call_1_0.0", "run_10")).toMatchObject({ ok: true });
  expect(await add("likes nothing", "run_1", "run_11")).toMatchObject({ ok: true });
  expect(readFileSync(join(home, "memories", "key.ann", "USER.md"), "utf8")).toBe("likes tea\n§\nlikes cake\n");
  expect(readFileSync(join(home, "memories", "session.run_1", "USER.md"), "utf8")).toBe("likes nothing\n");
  expect(await memory.systemBlock({ session: "run_7", by: "ann" })).toContain("likes tea");
  expect(await memory.systemBlock({ session: "run_7" })).toBe("");
});

it("a job that works for somebody uses their memory, and nobody else's", async () => {
  const origins: Record<string, string> = {
    "agent:main:schedule:1": "agent:main:telegram:group:c:u#2",
    "agent:main:schedule:2": "agent:main:terminal:dm:a",
  };
  const { memory } = open({}, async (session) => origins[session] ?? null);
  const [tool] = memory.tools();
  const add = (text: string, session: string) =>
    tool?.run({ action: "add", target: "user", text }, { session, turn: "t", call: "c", signal: never() });
  await add("of the user", "agent:main:schedule:1");
  await add("of the terminal", "agent:main:schedule:2/child/t.c.0");
  await add("of nobody", "agent:main:schedule:3");
  const block = (session: string) => memory.systemBlock({ session });
  expect(await block("agent:main:telegram:group:c:u")).toMatch(/of the user$/);
  expect(await block("agent:main:terminal:dm:b")).toMatch(/of the terminal$/);
  expect(await block("agent:main:schedule:3")).toMatch(/of nobody$/);
  expect(await block("agent:main:telegram:dm:u")).toBe("");
});

it("each is there once, in the order of the configuration; none is fine too", () => {
  expect(names({ provider: ["sessions", "files", "sessions"] })).toEqual(["sessions", "files"]);
  expect(names({ provider: [] })).toEqual([]);
});

it("what is not configured well enough is said at the start", () => {
  expect(() => open({ provider: ["http"] })).toThrow(ConfigError);
  expect(() => open({ provider: ["http"] })).toThrow("set memory.http.url");
  expect(() => open({ provider: ["mcp"], mcp: { server: "notes" } })).toThrow("set memory.mcp.server, and add_tool");
  expect(() => open({ provider: ["mcp"], mcp: { add_tool: "add" } })).toThrow("set memory.mcp.server");
});

describe("a memory that speaks MCP", () => {
  const turn = (session: string, user = "my teapot is blue") =>
    ({ session, turn: "t1", outcome: "completed", user, assistant: "I see." }) as const;
  const TERMINAL = "agent:main:terminal:dm:a";

  it("is told and asked by the configured tools, with the configured arguments", async () => {
    const mcp = {
      server: "notes",
      add_tool: "add",
      search_tool: "find",
      text_argument: "content",
      scope_argument: "user_id",
      key_argument: "id",
    };
    const { memory, called } = open({ provider: ["mcp"], mcp });
    await memory.remember("mcp", turn("agent:main:telegram:dm:7"), "k1", never());
    const about = { session: "agent:main:telegram:dm:7", turn: "t2", text: "what colour is my teapot" };
    expect(await memory.recall(about, never())).toContain("[mcp]\nthe teapot is blue");
    const content = "User: my teapot is blue\nAssistant: I see.";
    expect(called).toEqual([
      { server: "notes", tool: "add", args: { content, user_id: "telegram:7", id: "k1" } },
      { server: "notes", tool: "find", args: { query: "what colour is my teapot", user_id: "telegram:7" } },
    ]);
  });

  it("is told the question of a turn that was cut, and not its half of an answer as if it were true", async () => {
    const { memory, called } = open({ provider: ["mcp"], mcp: { server: "notes", add_tool: "add" } });
    await memory.remember("mcp", { ...turn(TERMINAL), outcome: "interrupted" }, "k1", never());
    expect(called[0]?.args).toEqual({
      text: "User: my teapot is blue\n[The turn was interrupted before it was answered.]",
    });
  });

  it("that is not told whose it is knows of the terminal only", async () => {
    const { memory, called } = open({
      provider: ["mcp"],
      mcp: { server: "notes", add_tool: "add", search_tool: "find" },
    });
    await memory.remember("mcp", turn("agent:main:telegram:dm:7"), "k1", never());
    const text = "what colour is my teapot";
    expect(await memory.recall({ session: "agent:main:telegram:dm:7", turn: "t2", text }, never())).toBe("");
    expect(called).toEqual([]);
    await memory.remember("mcp", turn(TERMINAL), "k2", never());
    expect(await memory.recall({ session: TERMINAL, turn: "t3", text }, never())).toContain("blue");
    expect(called.map(({ tool }) => tool)).toEqual(["add", "find"]);
  });

  it("that says no has failed; one that only searches is never told", async () => {
    const { memory, fail } = open({ provider: ["mcp"], mcp: { server: "notes", add_tool: "add" } });
    fail();
    await expect(memory.remember("mcp", turn(TERMINAL), "k", never())).rejects.toThrow("add: no");
    expect(open({ provider: ["mcp"], mcp: { server: "notes", search_tool: "find" } }).memory.writers).toEqual([]);
  });
});
