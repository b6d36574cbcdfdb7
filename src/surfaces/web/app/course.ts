// The course of a turn, from its journal: what lasted from when to when, and what happened at one moment.
import { headOf } from "../../../conversation/calls.ts";
import { lasting } from "../../../conversation/updates.ts";
import type { Entry, FailedTry } from "../../../core/session.ts";
import { counted, dotted, short } from "./format.ts";

type CourseStepKind = "wait" | "memory" | "model" | "tool" | "question" | "summary" | "stop" | "delivery";
export type CourseStep = {
  kind: CourseStepKind;
  name: string;
  /** Beside the name: tokens, an outcome, who answered. */
  detail: string;
  from: number;
  to: number;
  /** It had not ended when the journal was read. */
  open: boolean;
  ok: boolean;
  /** When the first word of a model call was there. */
  firstWord: number | null;
  /** Tries of a model call that came to nothing. */
  failed: { at: number; name: string }[];
  entries: Entry[];
};
type Moment = { at: number; name: string; entry: Entry };
export type Course = { from: number; to: number; spans: CourseStep[]; moments: Moment[] };

/** `now`: where what has not ended is drawn to. */
export function courseOf(entries: readonly Entry[], now: number): Course {
  const spans: CourseStep[] = [];
  const moments: Moment[] = [];
  const open = new Map<string, CourseStep>();
  let models = 0;

  const begin = (key: string, kind: CourseStepKind, name: string, entry: Entry) => {
    if (open.has(key)) return;
    const span: CourseStep = {
      kind,
      name,
      detail: "",
      from: entry.at,
      to: now,
      open: true,
      ok: true,
      firstWord: null,
      failed: [],
      entries: [entry],
    };
    open.set(key, span);
    spans.push(span);
  };
  const end = (key: string, entry: Entry, more: Partial<CourseStep> = {}): CourseStep | undefined => {
    const span = open.get(key);
    if (!span) return undefined;
    open.delete(key);
    span.entries.push(entry);
    return Object.assign(span, { to: entry.at, open: false, ...more });
  };
  const moment = (name: string, entry: Entry) => void moments.push({ at: entry.at, name, entry });
  const think = (entry: Entry) => begin("model", "model", `Model call ${++models}`, entry);
  const tools = new Map<string, { tool: string; about: string }>();
  const pending = new Set<string>();
  let isPushed = false;

  for (const entry of entries)
    switch (entry.kind) {
      case "accepted":
        begin("wait", "wait", "Waits for its turn", entry);
        isPushed = entry.input.reply === "push";
        break;
      case "began":
        end("wait", entry);
        think(entry);
        break;
      case "thought": {
        const { calls, recalled, timing = {} } = entry;
        const { from = 0 } = open.get("model") ?? {};
        const firstWord = timing.firstWord === undefined ? null : from + timing.firstWord;
        if (recalled) {
          begin("memory", "memory", "Memory", entry);
          const detail = `${short(recalled.length)} characters recalled`;
          end("memory", entry, { from, to: from + (timing.recalled ?? 0), detail, entries: [entry] });
        }
        end("model", entry, { detail: thoughtText(entry), firstWord, failed: triesOf(from, timing.tries) });
        if (isPushed && !calls.length) begin("delivery", "delivery", "Delivery", entry);
        for (const { id, tool, args } of calls) {
          tools.set(id, { tool, about: headOf({ tool, args }).about });
          pending.add(id);
        }
        break;
      }
      case "asked":
        begin(`ask ${entry.call}`, "question", entry.ask.kind === "approval" ? "Approval" : "Question", entry);
        break;
      case "decided":
        end(`ask ${entry.call}`, entry, {
          detail: `${entry.allow ? "yes" : "no"}, by ${entry.by}`,
          ok: entry.allow,
        });
        break;
      case "started":
        begin(`call ${entry.call}`, "tool", tools.get(entry.call)?.tool ?? "tool", entry);
        break;
      case "acted":
        begin(`call ${entry.call}`, "tool", tools.get(entry.call)?.tool ?? "tool", entry);
        end(`call ${entry.call}`, entry, {
          detail: dotted(entry.outcome, tools.get(entry.call)?.about),
          ok: entry.outcome === "ok",
        });
        end(`ask ${entry.call}`, entry, { detail: "not answered", ok: false });
        pending.delete(entry.call);
        if (pending.size === 0 && !open.has("stop")) think(entry);
        break;
      case "compacted":
        end("model", entry, { kind: "summary", name: "Summary" });
        think(entry);
        break;
      case "joined":
        moment("A message joined", entry);
        break;
      case "cut":
        end("model", entry, { detail: "cut off", ok: false });
        break;
      case "failed":
        end("model", entry, {
          detail: entry.reason,
          ok: false,
          failed: triesOf(open.get("model")?.from ?? 0, entry.tries),
        });
        moment(`Failed: ${entry.reason}`, entry);
        break;
      case "retracted":
        end("model", entry, { detail: `${entry.reason}: begun again`, ok: false });
        think(entry);
        break;
      case "stopping":
        moment(entry.outcome === "cancelled" ? `Stopped by ${entry.by}` : "Interrupted by a newer message", entry);
        end("model", entry, { detail: "stopped", ok: false });
        begin("stop", "stop", "Stops", entry);
        break;
      case "restarted":
        moment(`The process had died; the turn was taken up again (attempt ${entry.attempt})`, entry);
        if (end("model", entry, { detail: "the process died", ok: false })) think(entry);
        break;
      case "parked":
        moment("Held after too many crashes", entry);
        break;
      case "abandoned":
        moment(`Gave up waiting for ${entry.key}`, entry);
        break;
      case "delivered":
        end("delivery", entry, { detail: DELIVERIES[entry.how], ok: entry.how === "sent" });
        break;
      case "withdrawn":
        end("wait", entry, { detail: "withdrawn", ok: false });
        break;
      case "ended":
        for (const key of open.keys()) end(key, entry);
        break;
      case "moved":
      case "revoked":
      case "forked":
        break;
      default:
        entry satisfies never;
    }
  // Memory is asked before the model.
  spans.sort((a, b) => a.from - b.from || Number(b.kind === "memory") - Number(a.kind === "memory"));
  const from = entries[0]?.at ?? now;
  const last = entries.at(-1);
  const to = last?.kind === "ended" || last?.kind === "withdrawn" ? last.at : now;
  return { from, to: Math.max(to, from + 1), spans, moments };
}

/** Shorter than a second, in milliseconds. */
export const took = (ms: number): string => (ms < 1_000 ? `${Math.round(ms)} ms` : lasting(ms));

const DELIVERIES = { sent: "sent", maybe: "perhaps sent twice", undelivered: "could not be sent" };

const triesOf = (from: number, tries: readonly FailedTry[] = []): CourseStep["failed"] =>
  tries.map(({ model, reason, ms }) => ({ at: from + ms, name: `${model}: ${reason}` }));

function thoughtText({ model, usage, timing = {} }: Extract<Entry, { kind: "thought" }>): string {
  const { firstWord, tries = [] } = timing;
  const [first] = tries;
  return dotted(
    model,
    first && first.model !== model && `instead of ${first.model}`,
    tries.length > 0 && `after ${counted(tries.length, "try that failed", "tries that failed")}`,
    firstWord !== undefined && `first word after ${took(firstWord)}`,
    `${short(usage.input)} in, ${short(usage.output)} out`,
  );
}
