// Records the parts of an answer while it streams in, so that they can be sent back to their maker.
import type { JSONObject, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Meta, Replay, ReplayPart } from "../core/session.ts";
import { isObject, toList, toObject } from "../platform/json.ts";

/** Of one answer, in characters. What is longer is not kept: half of it would be refused. */
const LONGEST = 512 * 1024;

type AnswerPart = Extract<ReplayPart, { length: number }>;

export function noteAnswer(maker: string) {
  const noted: ReplayPart[] = [];
  const known = new Map<string, AnswerPart>();
  const last: { [type in AnswerPart["type"]]?: AnswerPart } = {};
  let whole = true;

  function spoken(
    type: AnswerPart["type"],
    part: { id: string; delta?: string; providerMetadata?: Meta },
    begins = false,
  ) {
    const key = `${type} ${part.id}`;
    const before = begins ? undefined : known.get(key);
    const at: AnswerPart = before ?? { type, length: 0 };
    if (!before) {
      noted.push(at);
      known.set(key, at);
      last[type] = at;
    }
    // Parts are cut out of one text by their lengths, so one must be over before the next begins.
    if (part.delta && at !== last[type]) whole = false;
    at.length += part.delta?.length ?? 0;
    if (part.providerMetadata) at.meta = merged(at.meta, part.providerMetadata);
  }

  return {
    hear(part: LanguageModelV4StreamPart): void {
      switch (part.type) {
        case "reasoning-start":
          return spoken("reasoning", part, true);
        case "reasoning-delta":
        case "reasoning-end":
          return spoken("reasoning", part);
        case "text-start":
          return spoken("text", part, true);
        case "text-delta":
        case "text-end":
          return spoken("text", part);
        case "tool-call":
          noted.push({
            type: "call",
            id: part.toolCallId,
            ...(part.providerMetadata && { meta: part.providerMetadata }),
          });
          return;
        default:
          return;
      }
    },
    /** Null: there is nothing that anybody would want back. */
    replay(finish: Extract<LanguageModelV4StreamPart, { type: "finish" }>): Replay | null {
      const parts = noted.filter((part) => part.type === "call" || part.length || part.meta);
      const meta = finish.providerMetadata?.[EXTRA];
      const replay = { maker, parts, ...(meta && { meta }) };
      const thought = parts.reduce((sum, part) => sum + (part.type === "reasoning" ? part.length : 0), 0);
      const fits = thought + JSON.stringify(replay).length <= LONGEST;
      return whole && fits && parts.some(({ type }) => type !== "text") ? replay : null;
    },
  };
}

/** Of one part it comes in pieces: an id at its start, a signature at its end. */
function merged(before: Meta = {}, after: Meta): Meta {
  const all: Record<string, unknown> = { ...before };
  for (const [key, value] of Object.entries(after))
    all[key] = isObject(value) ? { ...toObject(all[key]), ...value } : value;
  return all;
}

const EXTRA = "replay";

/** Lists of blocks that are wanted back as they came: of OpenRouter, and of LiteLLM before Anthropic. */
const BLOCKS = ["reasoning_details", "thinking_blocks"];
/** What grows with each piece of a block. */
const GROWING = new Set(["text", "summary", "thinking"]);

/** Of an OpenAI-compatible server's answer: in which field reasoning came, and such blocks. */
export function noteExtras() {
  const blocks: Record<string, JSONObject[]> = {};
  let field: string | null = null;
  let signature: string | null = null;
  return {
    hear(delta: Record<string, unknown>): void {
      if (typeof delta["reasoning_content"] === "string") field ??= "reasoning_content";
      else if (typeof delta["reasoning"] === "string") field ??= "reasoning";
      else if (Array.isArray(delta["content"])) field ??= "content";
      for (const { signature: signed } of toList(delta["content"]).map(toObject))
        if (typeof signed === "string") signature = signed;
      for (const name of BLOCKS)
        for (const piece of toList(delta[name]).filter(isJsonObject)) addPiece((blocks[name] ??= []), piece);
    },
    metadata(): Record<string, JSONObject> | undefined {
      const some = Object.keys(blocks).length > 0;
      if (!field && !some) return undefined;
      return { [EXTRA]: { ...(field && { field }), ...(signature && { signature }), ...(some && { blocks }) } };
    },
  };
}

/** A block comes in pieces of its type and index; its signature comes last. */
function addPiece(blocks: JSONObject[], piece: JSONObject): void {
  const last = blocks.at(-1);
  const same = last && last["type"] === piece["type"] && last["index"] === piece["index"];
  const over = piece["type"] === "reasoning.encrypted" || (last?.["signature"] && !piece["signature"]);
  if (!same || over) return void blocks.push({ ...piece });
  for (const [key, value] of Object.entries(piece)) {
    const before = last[key];
    const grows = GROWING.has(key) && typeof before === "string" && typeof value === "string";
    if (grows) last[key] = before + value;
    else if (value !== null && value !== undefined) last[key] = value;
  }
}

/** All of this was JSON. */
export const isJsonObject = (value: unknown): value is JSONObject => isObject(value);
