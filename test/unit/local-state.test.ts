// What a session has on one machine: known to the next process, and said to the model once.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import type { Entry } from "../../src/core/session.ts";
import { createLocalState } from "../../src/tools/local-state.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const THOUGHT: Entry = {
  seq: 1,
  turn: "t",
  at: 0,
  kind: "thought",
  text: "",
  calls: [],
  usage: { input: 0, output: 0 },
  model: "m",
};
const SILENT = { writers: [], remember: async () => {}, recall: async () => "what memory knows" };

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hermes-local-"));
});
afterEach(() => rmSync(home, { recursive: true }));

it("after a restart the model is told once of background processes that are gone, and the process tool knows them until then", async () => {
  const { notes } = asStore(createMemoryStore());
  const start = (life: string) => createLocalState({ notes, log: () => {}, home, life, cluster: null });
  const signal = new AbortController().signal;
  const toldIn = (state: ReturnType<typeof start>, session: string, turn: string) =>
    state.withNotices(SILENT).recall({ session, turn, text: "hello" }, signal);

  const first = start("1");
  await first.starts("s", { id: "bg_1", command: "npm run dev" });
  await first.starts("s", { id: "bg_2", command: "make" });
  await first.ended("s", "bg_2");
  await first.starts("other", { id: "bg_3", command: "true" });
  await first.ended("other", "bg_3");
  expect(await toldIn(first, "s", "t1")).toBe("what memory knows");
  expect((await notes.list("")).map(({ key }) => key)).toEqual(["local/s"]);

  const next = start("2");
  expect(await toldIn(next, "other", "t2")).toBe("what memory knows");
  const told = await toldIn(next, "s", "t3");
  expect(told).toMatch(/are gone, without a result.*\n- bg_1: npm run dev\n\nwhat memory knows$/);
  expect(await toldIn(next, "s", "t3")).toBe(told);
  expect(await next.missing("s")).toMatchObject([{ id: "bg_1", gone: true }]);
  next.observe("s", [THOUGHT]);
  await expect.poll(() => notes.list("")).toEqual([]);
  expect(await toldIn(next, "s", "t4")).toBe("what memory knows");
});

it("a session at rest belongs to the node that has its processes or files, while that lives and answers", async () => {
  const { notes } = asStore(createMemoryStore());
  let nodes: { id: string; address: string; leaving: boolean }[] = [];
  let silent: string[] = [];
  const list = async () => nodes.map((node) => ({ ...node, version: "", leaseUntil: 0, sessions: 0 }));
  const node = (name: string, ownFiles: boolean) => {
    nodes.push({ id: name, address: `http://${name}`, leaving: false });
    const cluster = { address: () => `http://${name}`, ownFiles, nodes: { list }, unreachable: () => silent };
    return createLocalState({ notes, log: () => {}, home: join(home, name), life: name, cluster });
  };
  const [a, b] = [node("a", true), node("b", true)];
  await a.starts("s", { id: "bg_1", command: "npm run dev" });
  expect([await a.nodeOf("s"), await b.nodeOf("s")]).toEqual([null, { node: "a", address: "http://a" }]);
  expect(await b.missing("s")).toMatchObject([{ id: "bg_1", gone: false }]);
  silent = ["http://a"];
  expect(await b.nodeOf("s")).toBeNull();
  silent = [];
  nodes = nodes.map((one) => ({ ...one, leaving: one.id === "a" }));
  expect(await b.nodeOf("s")).toBeNull();
  expect(await b.missing("s")).toMatchObject([{ id: "bg_1", gone: true }]);

  // Its directory goes with it where all see the same files.
  const [here, there] = [node("c", false), node("d", false)];
  await Promise.all([here.setCwd("t", "/srv/shop"), a.setCwd("u", "/srv/shop")]);
  expect([await there.cwd("t"), await there.nodeOf("t"), await b.cwd("u")]).toEqual(["/srv/shop", null, undefined]);

  // It only hung: what it has is still there, whatever the others have said meanwhile.
  const recall = { session: "s", turn: "t", text: "hello" };
  expect(await b.withNotices(SILENT).recall(recall, new AbortController().signal)).toContain("are gone");
  b.observe("s", [THOUGHT]);
  nodes = nodes.map((one) => ({ ...one, leaving: false }));
  await expect.poll(() => notes.get("local/s")).toMatchObject({ processes: [{ told: true }] });
  expect([await a.missing("s"), await b.nodeOf("s")]).toEqual([[], { node: "a", address: "http://a" }]);
});

it("a session whose files were changed on another node is told so, also where they were changed before", async () => {
  const { notes } = asStore(createMemoryStore());
  const list = async () => [];
  const node = (name: string) => {
    const cluster = { address: () => `http://${name}`, ownFiles: true, nodes: { list }, unreachable: () => [] };
    return createLocalState({ notes, log: () => {}, home: join(home, name), life: name, cluster });
  };
  const signal = new AbortController().signal;
  const [a, b] = [node("a"), node("b")];
  const tool: Tool = { ...scriptedTool("write_file"), run: async () => ({ ok: true, text: "" }) };
  const toldIn = (state: typeof a, turn: string) =>
    state.withNotices(SILENT).recall({ session: "s", turn, text: "hello" }, signal);
  for (const [here, there, turn] of [
    [a, b, "t1"],
    [b, a, "t2"],
    [a, b, "t3"],
  ] as const) {
    await here.around(tool).run({}, { session: "s", turn, call: "c", signal });
    expect(await toldIn(here, `${turn} here`)).toBe("what memory knows");
    expect(await toldIn(there, `${turn} there`)).toMatch(/^.+what memory knows$/s);
  }
});
