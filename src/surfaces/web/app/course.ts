// The course of a turn, from its journal: what lasted from when to when, and what happened at one moment.
import type { Entry } from "../../../core/session.ts";

type CourseStepKind = "wait" | "model" | "tool" | "question" | "summary" | "stop" | "delivery";
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
      entries: [entry],
    };
    open.set(key, span);
    spans.push(span);
  };
  const end = (key: string, entry: Entry, more: Partial<CourseStep> = {}) => {
    const span = open.get(key);
    if (!span) return;
    open.delete(key);
    span.entries.push(entry);
    Object.assign(span, { to: entry.at, open: false, ...more });
  };
  const moment = (name: string, entry: Entry) => void moments.push({ at: entry.at, name, entry });
  const think = (entry: Entry) => begin("model", "model", `Model call ${++models}`, entry);
  const tools = new Map<string, { tool: string; entry: Entry }>();
  const pending = new Set<string>();

  for (const entry of entries)
    switch (entry.kind) {
      case "accepted":
        begin("wait", "wait", "Waits for its turn", entry);
        break;
      case "began":
        end("wait", entry);
        think(entry);
        break;
      case "thought": {
        const { model, usage, calls } = entry;
        end("model", entry, { detail: `${model} · ${usage.input} in, ${usage.output} out` });
        for (const { id, tool } of calls) {
          tools.set(id, { tool, entry });
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
        end(`call ${entry.call}`, entry, { detail: entry.outcome, ok: entry.outcome === "ok" });
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
        end("model", entry, { detail: entry.reason, ok: false });
        moment(`Failed: ${entry.reason}`, entry);
        break;
      case "retracted":
        end("model", entry, { detail: `${entry.reason}: begun again`, ok: false });
        think(entry);
        break;
      case "stopping":
        moment(entry.outcome === "cancelled" ? "Stopped by a person" : "Interrupted by a newer message", entry);
        end("model", entry, { detail: "stopped", ok: false });
        begin("stop", "stop", "Stops", entry);
        break;
      case "restarted":
        moment(`The process died; taken up again (attempt ${entry.attempt})`, entry);
        break;
      case "parked":
        moment("Held after too many crashes", entry);
        break;
      case "abandoned":
        moment(`Gave up waiting for ${entry.key}`, entry);
        break;
      case "delivered":
        end("model", entry);
        moment(`Delivered: ${entry.how}`, entry);
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
  const from = entries[0]?.at ?? now;
  const last = entries.at(-1);
  const to = last?.kind === "ended" || last?.kind === "withdrawn" ? last.at : now;
  return { from, to: Math.max(to, from + 1), spans, moments };
}
