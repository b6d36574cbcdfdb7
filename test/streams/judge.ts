// What must hold of a stream that was put together from pieces (I20). Throws the first Violation.
import { must } from "../simulation/checker.ts";
import type { Frame } from "./viewer.ts";

/** What is told while it happens and is in no record: it may be missed, but not come twice. */
const PASSING = new Set(["run.notice", "reasoning.delta"]);
const ENDS = new Set(["run.completed", "run.failed", "run.cancelled", "run.interrupted"]);

export function judge(run: string, joined: readonly Frame[], full: readonly Frame[]): void {
  whole(run, joined);
  whole(run, full);
  const [one, other] = [linesOf(joined), linesOf(full)];
  const at = one.findIndex((line, index) => line !== other[index]);
  const differs = at >= 0 ? at : one.length < other.length ? one.length : -1;
  must(differs < 0, "I20", () => `${run} differs at ${differs}:\n  joined ${one[differs]}\n  full   ${other[differs]}`);
}

function whole(run: string, frames: readonly Frame[]): void {
  const ids = new Set<string>();
  for (const [index, { id, data }] of frames.entries()) {
    must(data.run_id === run, "I25", () => `${run} is told of ${data.run_id}`);
    must(!ids.has(id), "I20", () => `${run} has ${id} twice, the second time as ${JSON.stringify(data)}`);
    ids.add(id);
    const before = frames[index - 1];
    if (before) must(rises(before.id, id), "I20", () => `${run} goes from ${before.id} to ${id}`);
    const last = index === frames.length - 1;
    must(ENDS.has(data.event) === last, "I6", () => `${run} has ${data.event} as ${index + 1} of ${frames.length}`);
  }
  must(frames.length > 0, "I6", () => `${run} has no end`);
}

/** By `<entry>[.<characters>]`; what stands aside of a place may follow it in any order. */
function rises(before: string, after: string): boolean {
  const [[seq = 0, chars = 0] = [], [nextSeq = 0, nextChars = 0] = []] = [before, after].map((id) =>
    (/^[\d.]+/.exec(id)?.[0] ?? "").split(".").map(Number),
  );
  return seq === nextSeq ? chars <= nextChars : seq < nextSeq;
}

/** Text that came in other pieces is the same text; what a reset takes back was never said. */
function linesOf(frames: readonly Frame[]): string[] {
  const lines: string[] = [];
  let before = ""; // of earlier messages, where nothing else was told in between
  let message = "";
  for (const { id, data } of frames) {
    if (data.event === "message.delta") {
      const delta = String(data["delta"]);
      const begins = Number(/\.(\d+)/.exec(id)?.[1]) === delta.length;
      if (begins) before += message;
      message = begins ? delta : message + delta;
    } else if (data.event === "message.reset") message = "";
    else if (!PASSING.has(data.event)) {
      if (before + message) lines.push(JSON.stringify(before + message));
      before = "";
      message = "";
      lines.push(`${id} ${JSON.stringify(data)}`);
    }
  }
  return lines;
}

/** Each thought is marked with a sign of its own: no viewer hears one twice. */
export function heardOnce(run: string, frames: readonly Frame[]): void {
  const heard = frames.map(({ data }) => (data.event === "reasoning.delta" ? String(data["text"]) : "")).join("");
  const signs = [...heard.matchAll(/⟨\d+⟩/g)].map(([sign]) => sign);
  const twice = signs.find((sign, index) => signs.indexOf(sign) !== index);
  must(twice === undefined, "I20", () => `${run} is told the thought ${twice} twice`);
}

/** The status is what the events come to, and its output is what was said last. */
export function agrees(run: string, frames: readonly Frame[], status: Record<string, unknown>): void {
  const end: Partial<Frame["data"]> = frames.at(-1)?.data ?? {};
  const comesTo = ({ output, usage, error }: Record<string, unknown>) => JSON.stringify({ output, usage, error });
  const same = comesTo(end) === comesTo(status) && end.event === `run.${String(status["status"])}`;
  const shown = () => `${run} was told ${JSON.stringify(end)}, its status is ${JSON.stringify(status)}`;
  must(same && end.event === status["last_event"], "I20", shown);
  const { output = "" } = end;
  if (typeof output !== "string" || !output) return;
  const said: unknown = JSON.parse(linesOf(frames).findLast((line) => line.startsWith('"')) ?? '""');
  must(String(said).endsWith(output), "I20", () => `${run} said ${JSON.stringify(said)}; ${shown()}`);
}
