// A client of all three formats in plain words, for the tests of the fake itself: requests that are in order,
// transcripts that need not be, and what a client makes of a stream.
import type { Format } from "./wire.ts";

export const FORMATS: Format[] = ["chat", "responses", "anthropic"];
export type Json = Record<string, unknown>;

export const PATHS = { chat: "/chat/completions", responses: "/responses", anthropic: "/messages" };
export const HEADERS: Record<Format, Record<string, string>> = {
  chat: { authorization: "Bearer k" },
  responses: { authorization: "Bearer k" },
  anthropic: { "x-api-key": "k", "anthropic-version": "2023-06-01" },
};
export const SCHEMA = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };

/** A small request that is in order. */
export function plain(format: Format): Json {
  const tools = { name: "terminal", description: "Runs a command." };
  switch (format) {
    case "chat":
      return {
        model: "m",
        stream: true,
        stream_options: { include_usage: true },
        messages: [{ role: "user", content: "hi" }],
        tools: [{ type: "function", function: { ...tools, parameters: SCHEMA } }],
      };
    case "responses":
      return {
        model: "m",
        stream: true,
        input: [{ role: "user", content: "hi" }],
        tools: [{ type: "function", ...tools, parameters: SCHEMA }],
      };
    case "anthropic":
      return {
        model: "m",
        stream: true,
        max_tokens: 100,
        messages: [{ role: "user", content: "hi" }],
        tools: [{ ...tools, input_schema: SCHEMA }],
      };
  }
}

export type Turn =
  | { user: string }
  | { assistant: string }
  | { calls: string[] }
  | { result: string }
  | { system: string };
export const user = (text: string): Turn => ({ user: text });
export const assistant = (text: string): Turn => ({ assistant: text });
export const calls = (...ids: string[]): Turn => ({ calls: ids });
export const result = (id: string): Turn => ({ result: id });

/** A transcript in the words of a format, each turn by itself. */
export function transcript(format: Format, turns: Turn[]): Json {
  const args = { command: "ls" };
  const wordings: Record<Format, (turn: Turn) => Json[]> = {
    chat: (turn) => {
      if ("user" in turn) return [{ role: "user", content: turn.user }];
      if ("assistant" in turn) return [{ role: "assistant", content: turn.assistant }];
      if ("system" in turn) return [{ role: "system", content: turn.system }];
      if ("result" in turn) return [{ role: "tool", tool_call_id: turn.result, content: "done" }];
      const fn = { name: "terminal", arguments: JSON.stringify(args) };
      return [
        {
          role: "assistant",
          content: null,
          tool_calls: turn.calls.map((id) => ({ id, type: "function", function: fn })),
        },
      ];
    },
    responses: (turn) => {
      if ("user" in turn) return [{ role: "user", content: turn.user }];
      if ("assistant" in turn) return [{ role: "assistant", content: turn.assistant }];
      if ("system" in turn) return [{ role: "system", content: turn.system }];
      if ("result" in turn) return [{ type: "function_call_output", call_id: turn.result, output: "done" }];
      const fn = { name: "terminal", arguments: JSON.stringify(args) };
      return turn.calls.map((call_id) => ({ type: "function_call", call_id, ...fn }));
    },
    anthropic: (turn) => {
      if ("user" in turn) return [{ role: "user", content: turn.user }];
      if ("assistant" in turn) return [{ role: "assistant", content: [{ type: "text", text: turn.assistant }] }];
      if ("system" in turn) return [{ role: "system", content: turn.system }];
      if ("result" in turn)
        return [{ role: "user", content: [{ type: "tool_result", tool_use_id: turn.result, content: "done" }] }];
      return [
        {
          role: "assistant",
          content: turn.calls.map((id) => ({ type: "tool_use", id, name: "terminal", input: args })),
        },
      ];
    },
  };
  const messages = turns.flatMap(wordings[format]);
  return { ...plain(format), ...(format === "responses" ? { input: messages } : { messages }) };
}

export const tooled = (format: Format, name: string, schema: unknown, more: Json = {}): Json => {
  const tool = {
    chat: { type: "function", function: { name, parameters: schema, ...more } },
    responses: { type: "function", name, parameters: schema, ...more },
    anthropic: { name, input_schema: schema, ...more },
  };
  return { ...plain(format), tools: [tool[format]] };
};

export type Event = { event: string | undefined; data: string; json: Json };
export function events(text: string): Event[] {
  const blocks = text
    .replace(/^\uFEFF/, "")
    .replaceAll("\r\n", "\n")
    .split("\n\n");
  return blocks.flatMap((block) => {
    const lines = block.split("\n").filter((line) => line && !line.startsWith(":"));
    const value = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = value("data");
    if (data === undefined) return [];
    return [{ event: value("event"), data, json: data === "[DONE]" ? {} : (JSON.parse(data) as Json) }];
  });
}

/** Any value inside JSON, by its path; undefined where there is none. */
export function at(value: unknown, ...path: (string | number)[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Record<string | number, unknown> | undefined)?.[key], value);
}
const text = (value: unknown): string => (typeof value === "string" ? value : "");

type Heard = {
  text: string;
  reasoning: string;
  calls: Record<string, { name: string; args: string }>;
  finish: unknown;
};

/** What a client makes of a stream. */
export function heard(format: Format, list: Event[]): Heard {
  const sum: Heard = { text: "", reasoning: "", calls: {}, finish: undefined };
  const call = (key: unknown, name: unknown, args: unknown) => {
    const known = sum.calls[String(key)] ?? { name: "", args: "" };
    sum.calls[String(key)] = { name: known.name + text(name), args: known.args + text(args) };
  };
  for (const { json } of list) {
    if (format === "chat") {
      const delta = at(json, "choices", 0, "delta");
      sum.text += text(at(delta, "content"));
      sum.reasoning += text(at(delta, "reasoning_content"));
      const one = at(delta, "tool_calls", 0);
      if (one) call(at(one, "index"), at(one, "function", "name"), at(one, "function", "arguments"));
      sum.finish ??= at(json, "choices", 0, "finish_reason") ?? undefined;
    } else if (format === "responses") {
      if (json.type === "response.output_text.delta") sum.text += text(json.delta);
      if (json.type === "response.reasoning_summary_text.delta") sum.reasoning += text(json.delta);
      if (json.type === "response.function_call_arguments.delta") call(json.output_index, "", json.delta);
      if (json.type === "response.output_item.added" && at(json, "item", "type") === "function_call")
        call(json.output_index, at(json, "item", "name"), "");
      if (/^response\.(completed|incomplete|failed)$/.test(text(json.type)))
        sum.finish = at(json, "response", "status");
    } else {
      sum.text += text(at(json, "delta", "text"));
      sum.reasoning += text(at(json, "delta", "thinking"));
      if (at(json, "content_block", "type") === "tool_use") call(json.index, at(json, "content_block", "name"), "");
      if (at(json, "delta", "type") === "input_json_delta") call(json.index, "", at(json, "delta", "partial_json"));
      sum.finish ??= at(json, "delta", "stop_reason") ?? undefined;
    }
  }
  return sum;
}
