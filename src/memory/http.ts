// A memory server of the user, over HTTP: a few small JSON requests (docs/memory.md). Of an answer, only its text is
// used.
import * as z from "zod";
import { ConfigError, messageOf } from "../core/errors.ts";
import { textWithin } from "../platform/capped.ts";
import { asData, plain } from "../platform/fence.ts";
import { cut } from "./fence.ts";
import type { Handled, MemoryProvider, MemoryTool, Whose } from "./provider.ts";

type Options = { url: string; token?: string | undefined };

const MOST_BYTES = 1_000_000;
const MOST_TOOLS = 10;
const PREFIX = "memory_";

const recalled = z.object({ text: z.string() });
const handled = z.object({ ok: z.boolean().default(true), text: z.string() });
const tool = z.object({
  name: z.string().regex(/^[a-z][a-z0-9_]{0,39}$/),
  description: z.string().max(1_000),
  schema: z.record(z.string(), z.unknown()).refine((schema) => JSON.stringify(schema).length <= 10_000),
  repeatable: z.boolean().default(false),
});
const health = z.object({ tools: z.array(z.unknown()).default([]) });

export function createHttpMemory({ url, token }: Options): MemoryProvider {
  const base = addressOf(url);
  let tools: readonly MemoryTool[] = [];
  /** Loaded when first needed: undici takes 75 ms. */
  let opening: ReturnType<typeof connections> | null = null;

  async function ask(path: string, signal: AbortSignal, body?: object, key?: string): Promise<unknown> {
    opening ??= connections();
    const { agent, request } = await opening;
    const headers = {
      accept: "application/json",
      ...(body && { "content-type": "application/json" }),
      ...(token && { authorization: `Bearer ${token}` }),
      ...(key && { "idempotency-key": key }),
    };
    const sent = body ? ({ method: "POST", body: JSON.stringify(body) } as const) : {};
    const answer = await request(`${base}${path}`, { ...sent, headers, signal, dispatcher: agent });
    const text = await textWithin(answer.body, MOST_BYTES).catch((error: unknown) => {
      throw new Error(`${path}: ${messageOf(error)}`, { cause: error });
    });
    if (answer.statusCode >= 200 && answer.statusCode < 300) return parsed(text, path);
    const elsewhere = answer.statusCode < 400 ? "; it points to another address, and that is not followed" : "";
    throw new Error(`${path}: HTTP ${answer.statusCode}${elsewhere} ${cut(plain(text).trim(), 200)}`.trim());
  }

  const post = (path: string, { scope, session }: Whose, more: object, signal: AbortSignal, key?: string) =>
    ask(path, signal, { scope, session, ...more }, key);

  return {
    name: "http",
    isAvailable: () => true,
    async initialize(signal) {
      const offered = shaped(health, await ask("/health", signal), "/health").tools.slice(0, MOST_TOOLS);
      tools = offered.flatMap((one) => {
        const { success, data } = tool.safeParse(one);
        return success ? [{ ...data, name: PREFIX + data.name, description: plain(data.description) }] : [];
      });
    },
    async prefetch(query, whose, signal) {
      return shaped(recalled, await post("/recall", whose, { query }, signal), "/recall").text;
    },
    async syncTurn({ key, ...turn }, whose, signal) {
      await post("/turns", whose, turn, signal, key);
    },
    async onSessionEnd(whose, signal) {
      await post("/session-end", whose, {}, signal);
    },
    toolSchemas: () => tools,
    async handleToolCall(name, args, whose, signal): Promise<Handled> {
      const path = `/tools/${name.slice(PREFIX.length)}`;
      const { ok, text } = shaped(handled, await post(path, whose, { arguments: args }, signal), path);
      return { ok, text: asData("from the memory server", cut(plain(text), MOST_TOOL_TEXT)) };
    },
    async shutdown() {
      await (await opening)?.agent.destroy();
    },
  };
}

const MOST_TOOL_TEXT = 20_000;

function addressOf(url: string): string {
  const address = URL.parse(url);
  const fits = address && (address.protocol === "http:" || address.protocol === "https:");
  if (!fits || address.username || address.password || address.search || address.hash)
    throw new ConfigError(
      "memory.http.url must be an address such as http://127.0.0.1:8700, without a password or a query",
    );
  return address.href.replace(/\/+$/, "");
}

async function connections() {
  const { Agent, request } = await import("undici");
  return { agent: new Agent({ connections: 2, pipelining: 0, maxHeaderSize: 32_768 }), request };
}

function parsed(text: string, path: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${path}: the answer is not JSON`, { cause: error });
  }
}

function shaped<S extends z.ZodType>(schema: S, answer: unknown, path: string): z.output<S> {
  const { success, data } = schema.safeParse(answer);
  if (!success) throw new Error(`${path}: the answer does not have the fields that docs/memory.md asks for`);
  return data;
}
