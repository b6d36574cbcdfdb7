import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { afterAll } from "vitest";
import * as z from "zod";
import { createFilesMemory } from "../../src/memory/files.ts";
import { createHttpMemory } from "../../src/memory/http.ts";
import { createMcpMemory } from "../../src/memory/mcp.ts";
import { openNotebook } from "../../src/memory/notebook.ts";
import type { MemoryProvider, Whose } from "../../src/memory/provider.ts";
import { createSessionsMemory } from "../../src/memory/sessions.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { createMcp, namesFor } from "../../src/tools/mcp/tools.ts";
import { ownerHere } from "../../src/tools/shell/exec.ts";
import { memoryContract } from "./memory.ts";
import { commitOf, entryOf, joined } from "./store.ts";

const dir = mkdtempSync(join(tmpdir(), "hermes-memory-"));
const newDir = () => mkdtempSync(join(dir, "place-"));
afterAll(() => rmSync(dir, { recursive: true }));
const never = () => new AbortController().signal;

const syncTurn = (provider: MemoryProvider, fact: string, whose: Whose, key: string) =>
  Promise.resolve(
    provider.syncTurn?.({ key, turn: key, outcome: "completed", user: fact, assistant: "Noted." }, whose, never()),
  );
const prefetch = (provider: MemoryProvider, question: string, whose: Whose) =>
  Promise.resolve(provider.prefetch?.(question, whose, never()));

memoryContract("files", async () => {
  const place = newDir();
  const redact = (text: string) => text;
  return {
    open: () => Promise.resolve(createFilesMemory({ notebook: openNotebook(join(place, "memories")), redact })),
    tell: (provider, text, whose) =>
      Promise.resolve(provider.handleToolCall?.("memory", { action: "add", target: "memory", text }, whose, never())),
    ask: (provider, _, whose) => Promise.resolve(provider.systemPromptBlock?.(whose, never())),
    close: () => Promise.resolve(),
  };
});

memoryContract("sessions", async () => {
  const store = await openSqlite({ file: join(newDir(), "store.db") });
  await joined(store);
  const told = new Set<string>();
  return {
    open: () => Promise.resolve(createSessionsMemory({ ...store, clock: Date })),
    // It is in the store when it is said: nobody has to be told.
    async tell(_, fact, { session }, key) {
      if (told.has(key)) return;
      told.add(key);
      const { state, version } = (await store.journal.load(session)) ?? { state: { seq: 0 }, version: 0 };
      await store.journal.commit(commitOf(session, version, { entries: [entryOf(state.seq + 1, key, fact)] }));
    },
    ask: prefetch,
    close: () => store.close(),
  };
});

memoryContract("http, the example server", async () => {
  const file = join(newDir(), "turns.jsonl");
  const token = "a-token-of-the-test";
  const running: ChildProcess[] = [];
  const stop = async () => {
    for (const child of running.splice(0)) {
      child.kill("SIGKILL"); // what it said it has stored is on the disk
      await once(child, "exit");
    }
  };
  return {
    async open() {
      await stop();
      const example = join(import.meta.dirname, "../../examples/memory-server.ts");
      const args = ["--no-warnings", example, file, "0"];
      const child = spawn(process.execPath, args, {
        env: { MEMORY_TOKEN: token },
        stdio: ["ignore", "pipe", "inherit"],
      });
      running.push(child);
      const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
      return createHttpMemory({ url: line.replace("memory server on ", ""), token });
    },
    tell: syncTurn,
    ask: prefetch,
    close: stop,
  };
});

memoryContract("mcp", async () => {
  const server = await serveMcpMemory();
  const place = newDir();
  const links: ReturnType<typeof createMcp>[] = [];
  const stop = async () => {
    for (const mcp of links.splice(0)) await mcp.close();
  };
  return {
    async open() {
      await stop();
      const servers = { notes: { url: server.url } };
      const mcp = createMcp({
        servers,
        home: place,
        roots: [],
        owner: ownerHere(place),
        log: () => {},
        startMs: 20_000,
      });
      links.push(mcp);
      await mcp.ready;
      const names = { text_argument: "content", scope_argument: "user_id", key_argument: "id" };
      return createMcpMemory(
        async (tool, args, signal) => {
          const found = mcp.tools().find(({ name }) => name === namesFor("notes", [tool])[0]);
          const call = { session: "", turn: "", call: "", signal };
          return (await found?.run(args, call)) ?? { ok: false, text: `there is no tool ${tool}` };
        },
        { add_tool: "add_note", search_tool: "find_notes", ...names },
      );
    },
    tell: syncTurn,
    ask: prefetch,
    async close() {
      await stop();
      await server.close();
    },
  };
});

/** A memory that speaks MCP over HTTP, as others have made many. */
async function serveMcpMemory() {
  const notes = new Map<string, { user: string; content: string }>();
  const says = (text: string) => ({ content: [{ type: "text" as const, text }] });
  function memory() {
    const server = new McpServer({ name: "notes", version: "1.0.0" });
    const added = z.object({ id: z.string(), user_id: z.string(), content: z.string() });
    server.registerTool("add_note", { inputSchema: added }, ({ id, user_id, content }) => {
      notes.set(id, { user: user_id, content });
      return says("added");
    });
    const asked = z.object({ query: z.string(), user_id: z.string() });
    server.registerTool("find_notes", { inputSchema: asked }, ({ query, user_id }) => {
      const words = query
        .toLowerCase()
        .split(/\W+/)
        .filter((word) => word.length > 3);
      const found = [...notes.values()].filter(
        ({ user, content }) => user === user_id && words.some((word) => content.toLowerCase().includes(word)),
      );
      return says(found.map(({ content }) => content).join("\n"));
    });
    return server;
  }
  async function answer(request: IncomingMessage, response: ServerResponse) {
    const transport = new WebStandardStreamableHTTPServerTransport({});
    await memory().connect(transport);
    const body = await new Response(Readable.toWeb(request) as ReadableStream).text();
    const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    const { method = "GET" } = request;
    if (method === "GET") return response.writeHead(405).end();
    const reply = await transport.handleRequest(
      new Request(`http://127.0.0.1${request.url}`, { method, headers, ...(body && { body }) }),
    );
    return response.writeHead(reply.status, Object.fromEntries(reply.headers)).end(await reply.text());
  }
  const http = createServer((request, response) => void answer(request, response));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    close: () =>
      new Promise((resolve) => {
        http.close(resolve);
        http.closeAllConnections();
      }),
  };
}
