// Spans of one turn, made from its entries after it has ended.
import type { Entry, InputKind, RecoveryKind } from "../core/session.ts";
import { parseKey, rootOf } from "../core/session-key.ts";

export type Span = {
  name: string;
  /** Wall clock, in milliseconds. */
  start: number;
  end: number;
  attributes: Record<string, string | number>;
  /** The turn or part failed. The text is empty unless content is wanted. */
  error?: string;
};
export type Telling = {
  /** Whether spans include texts, or only times and kinds. */
  content: boolean;
  redact(text: string): string;
};

/** Characters of one text. */
const MOST = 1_000;

/** The turn first, then its parts in the order in which they ended. Empty if the turn is not over. */
export function spansOf(session: string, entries: readonly Entry[], telling: Telling): Span[] {
  const [first] = entries;
  const last = entries.at(-1);
  if (!first || !last || (last.kind !== "ended" && last.kind !== "withdrawn")) return [];
  const parts = partsOf(entries, telling);
  const outcome = last.kind === "ended" ? last.outcome : "cancelled";
  const thoughts = entries.filter((entry) => entry.kind === "thought");
  const sum = (of: (thought: (typeof thoughts)[number]) => number) =>
    thoughts.reduce((total, thought) => total + of(thought), 0);
  const model = thoughts.at(-1)?.model ?? (first.kind === "accepted" ? first.input.model : undefined);
  const root: Span = {
    name: "hermes.run",
    ...between(first, last),
    attributes: {
      "hermes.run.id": first.turn,
      "hermes.session.kind": kindOf(session),
      "hermes.outcome": outcome,
      ...(model && { "gen_ai.response.model": model }),
      "gen_ai.usage.input_tokens": sum(({ usage }) => usage.input),
      "gen_ai.usage.output_tokens": sum(({ usage }) => usage.output),
      "gen_ai.usage.cached_tokens": sum(({ usage }) => usage.cached ?? 0),
      "hermes.tool.count": sum(({ calls }) => calls.length),
      ...(first.kind === "accepted" && said(telling, "hermes.input", first.input.text)),
    },
  };
  return [outcome === "failed" ? { ...root, error: "" } : root, ...parts];
}

function partsOf(entries: readonly Entry[], telling: Telling): Span[] {
  const parts: Span[] = [];
  /** Parts that have begun and not ended, by call. */
  const asked = new Map<string, Extract<Entry, { kind: "asked" }>>();
  const started = new Map<string, Entry>();
  const calls = new Map<string, { tool: string; args: unknown }>();
  let stopping: Entry | null = null;
  let [before] = entries;
  const compresses = before?.kind === "accepted" && before.input.task === "compress";

  for (const [index, entry] of entries.entries()) {
    const add = (name: string, from: Entry | undefined, attributes: Span["attributes"], error?: string) => {
      if (from) parts.push({ name, ...between(from, entry), attributes, ...(error !== undefined && { error }) });
    };
    switch (entry.kind) {
      case "began":
      case "withdrawn":
        add("queue", entries[0], {});
        break;
      case "thought": {
        for (const { id, tool, args } of entry.calls) calls.set(id, { tool, args });
        add("model", before, {
          "gen_ai.response.model": entry.model,
          "gen_ai.usage.input_tokens": entry.usage.input,
          "gen_ai.usage.output_tokens": entry.usage.output,
          ...said(telling, "hermes.output", entry.text),
        });
        break;
      }
      case "cut":
        if (entries[index + 1]?.kind === "failed") continue; // it belongs to the same call, whose end is reported there
        add("model", before, { "hermes.outcome": "stopped", ...said(telling, "hermes.output", entry.text) });
        break;
      case "failed":
        if (before?.kind !== "parked") add(compresses ? "compact" : "model", before, {}, told(telling, entry.reason));
        break;
      case "compacted":
        add("compact", before, said(telling, "hermes.output", entry.summary));
        break;
      case "asked":
        if (entry.ask.kind !== "client") asked.set(entry.call, entry);
        break;
      case "decided":
        add("approval", asked.get(entry.call), {
          ...approvalOf(asked.get(entry.call), telling),
          "hermes.decision": entry.allow ? "allow" : "deny",
        });
        asked.delete(entry.call);
        break;
      case "started":
        started.set(entry.call, entry);
        break;
      case "acted": {
        const { tool = "", args } = calls.get(entry.call) ?? {};
        add("approval", asked.get(entry.call), {
          ...approvalOf(asked.get(entry.call), telling),
          "hermes.decision": "none",
        });
        const attributes = {
          "hermes.outcome": entry.outcome,
          ...(telling.content && args !== undefined && said(telling, "hermes.arguments", JSON.stringify(args))),
          ...said(telling, "hermes.result", entry.text),
        };
        const error = entry.outcome === "error" || entry.outcome === "unknown" ? "" : undefined;
        add(`tool ${nameOf(tool)}`, started.get(entry.call), attributes, error);
        asked.delete(entry.call);
        started.delete(entry.call);
        break;
      }
      case "stopping":
        stopping = entry;
        break;
      case "delivered":
        add("deliver", before, { "hermes.outcome": entry.how }, entry.how === "undelivered" ? "" : undefined);
        break;
      case "ended":
        if (stopping) add("stop", stopping, {});
        break;
      default:
        entry.kind satisfies InputKind | RecoveryKind | "forked" | "revoked";
    }
    before = entry;
  }
  return parts;
}

/** The wall clock may have been set back meanwhile. */
const between = ({ at: start }: Entry, { at: end }: Entry) => ({ start, end: Math.max(start, end) });

const approvalOf = (asked: Extract<Entry, { kind: "asked" }> | undefined, telling: Telling) => ({
  "hermes.ask.kind": asked?.ask.kind ?? "approval",
  ...said(telling, "hermes.question", asked?.ask.text ?? ""),
});

const said = (telling: Telling, name: string, text: string): Record<string, string> =>
  telling.content && text ? { [name]: told(telling, text) } : {};

/** Redacts more than fits, so that a secret at the edge is seen in full. */
const told = ({ content, redact }: Telling, text: string): string =>
  content ? redact(text.slice(0, 4 * MOST)).slice(0, MOST) : "";

/** The platform and kind only: the rest of a key is somebody's id, or was chosen by an API client. */
function kindOf(session: string): string {
  const key = parseKey(rootOf(session));
  if (key.of === "chat") return `${key.platform}:${key.place.kind}`;
  if (key.of === "terminal" || key.of === "api") return `${key.of}:dm`;
  return key.of === "run" ? "run" : "other";
}

/** A model can call a tool by any text. */
const nameOf = (tool: string) => (/^[\w.:-]{1,64}$/.test(tool) ? tool : "other");
