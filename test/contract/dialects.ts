// A conversation over one of the dialects: the real engine and the real model port against a server that refuses what the real
// one refuses.
import { expect, onTestFinished } from "vitest";
import type { Model, Tool } from "../../src/core/ports.ts";
import type { Entry } from "../../src/core/session.ts";
import { createModel } from "../../src/llm/provider.ts";
import { clock } from "../../src/platform/clock.ts";
import { DIALECTS } from "../fakes/llm/dialects.ts";
import type { Reply } from "../fakes/llm/reply.ts";
import { type FakeLlm, type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";
import { type Booted, type BootOptions, bootEngine } from "../fakes/scripted.ts";

type Row = {
  name: string;
  provider: "openai-compatible" | "openai" | "anthropic";
  model: string;
  dialect?: keyof typeof DIALECTS;
  /** It gets its reasoning back. */
  replays: boolean;
  /** It takes pictures. */
  sees: boolean;
  /** What it refuses until that has been left out: asked again without it, it answers. */
  refuses?: string;
};
export const chatRow = (dialect: keyof typeof DIALECTS, more: Partial<Row> = {}): Row => ({
  name: dialect,
  provider: "openai-compatible",
  model: DIALECTS[dialect].model,
  dialect,
  replays: true,
  sees: true,
  ...more,
});
export const ANTHROPIC: Row = {
  name: "anthropic",
  provider: "anthropic",
  model: "claude-sonnet-4-5",
  replays: true,
  sees: true,
};
export const ROWS: Row[] = [
  ANTHROPIC,
  { name: "openai responses", provider: "openai", model: "gpt-5.1", replays: true, sees: true },
  chatRow("openai"),
  chatRow("gemini", { replays: false }), // it shows no reasoning; its signatures are judged by the server
  chatRow("deepseek"),
  chatRow("kimi"),
  chatRow("mistral"),
  chatRow("groq", { replays: false, refuses: "property 'reasoning' is unsupported" }),
  chatRow("openrouter"),
  chatRow("litellm"),
  chatRow("llama.cpp", { sees: false }),
  chatRow("vllm", { sees: false }),
  chatRow("ollama"),
];

export const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const call = (name: string) => ({ name: "look", args: { name } });
export const uses = (reasoning: string, name: string): Reply => ({
  reasoning,
  text: `I look at ${name}`,
  calls: [call(name)],
});
export const thoughts = (entries: Entry[]) => entries.flatMap((entry) => (entry.kind === "thought" ? [entry] : []));

/** The reasoning in a request, answer by answer. */
export const said = (request: LlmRequest | undefined): string[] =>
  (request?.messages ?? []).flatMap((m) => (m.role === "assistant" && m.reasoning ? [m.reasoning] : []));

export const modelAt = ({ provider, model }: Row, llm: FakeLlm, context = 100_000): Model =>
  createModel({ provider, model, baseUrl: llm.url, apiKey: "key", context, because: "" });

/** Looks at things: `hold` is looked at until somebody lets go, `long` says a lot. */
function lookTool() {
  const begun = Promise.withResolvers<void>();
  const free = Promise.withResolvers<void>();
  const tool: Tool = {
    name: "look",
    description: "Looks at something.",
    schema: {
      type: "object",
      properties: { name: { type: "string" } },
      required: ["name"],
      additionalProperties: false,
    },
    repeatable: true,
    judge: () => ({ gate: "run" }),
    async run(args, { signal }) {
      const { name } = args as { name: string };
      if (name !== "hold") return { ok: true, text: name === "long" ? "seen ".repeat(300) : "" };
      begun.resolve();
      const gone = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await Promise.race([free.promise, gone]);
      return { ok: true, text: "held" };
    },
  };
  return { tool, held: () => begun.promise, release: () => free.resolve() };
}

type Begun = Booted & ReturnType<typeof lookTool>;
export async function boot(
  row: Row,
  llm: FakeLlm,
  { context, ...more }: BootOptions & { context?: number } = {},
): Promise<Begun> {
  const look = lookTool();
  look.release();
  const held = lookTool();
  const { tool } = more.disk ? look : held;
  const booted = await bootEngine({
    clock,
    model: modelAt(row, llm, context),
    tools: [tool],
    limits: { text: 10_000 },
    rules: { iterations: 12 },
    ...more,
  });
  onTestFinished(() => booted.kill());
  return { ...booted, ...held, tool };
}

export async function begin(row: Row, more: BootOptions & { context?: number } = {}) {
  const llm = await startFakeLlm({ ...(row.dialect && { dialect: row.dialect }), models: [row.model] });
  onTestFinished(async () => {
    await llm.close();
    expect(violations(row, llm)).toEqual([]);
  });
  const booted = await boot(row, llm, more);
  const send = async (text: string, given: Parameters<Booted["send"]>[2] = {}) =>
    (await booted.send(given.session ?? "s", text, { options: { effort: "low" }, ...given })).id;
  return {
    ...booted,
    llm,
    send,
    say: async (text: string, given: Parameters<Booted["send"]>[2] = {}) =>
      (await booted.entry(given.session ?? "s", "ended", await send(text, given))).outcome,
    script: (...replies: [(request: LlmRequest) => Reply] | Reply[]) => {
      for (const reply of replies) llm.script(reply);
    },
    requests: () => llm.requests.filter((request) => !wasRefused(row, request)),
    nextRequest: async (): Promise<LlmRequest> => {
      for (;;) {
        const request = await llm.nextRequest();
        if (!wasRefused(row, request)) return request;
      }
    },
  };
}

/** Those that the row does not say of itself. */
export const violations = ({ refuses }: Row, llm: FakeLlm): string[] =>
  llm.violations.filter((text) => !refuses || !text.includes(refuses));

const wasRefused = ({ refuses }: Row, request: LlmRequest): boolean =>
  refuses !== undefined && request.violations.some((text) => text.includes(refuses));
