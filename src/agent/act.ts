// One tool call that was recorded as running.
import { messageOf } from "../core/errors.ts";
import type { EffectContext, ToolResult } from "../core/ports.ts";
import type { Event, Grant, Unattended } from "../core/session.ts";
import type { Transcript } from "../core/transcript.ts";
import type { Agent, EffectOf } from "./agent.ts";

/** Characters of one result that a model gets to see; tools keep the rest where it can be read. */
const LONGEST_RESULT = 200_000;
/** Characters of its last output that viewers get while it runs, and how often. */
const LONGEST_PRINTED = 4_000;
const PRINTED_MS = 200;

export async function act(agent: Agent, effect: EffectOf<"act">, cx: EffectContext): Promise<Event | null> {
  const { calls, grants, begun } = await cx.history();
  const use = calls.get(effect.call);
  if (!(await cx.owned()) || cx.signal.aborted) return null;
  // What it begins elsewhere has no client that could be asked.
  const unattended = begun.unattended === "client" ? "deny" : begun.unattended;
  const result = await run(agent, use, { grants, unattended }, effect, cx);
  if (cx.signal.aborted) return null; // it has its result already: cancelled
  const outcome = result.ok ? "ok" : "error";
  const text = bounded(agent.redact?.(result.text) ?? result.text); // the cut may go through a secret, so it comes after
  const { images = [] } = result;
  return { type: "acted", step: effect.step, call: effect.call, outcome, text, ...(images.length && { images }) };
}

type UsedTool = NonNullable<ReturnType<Transcript["calls"]["get"]>>;

/** From here on it may have had effects: whatever happens is a result, never a reason to run it again (I14). */
async function run(
  agent: Agent,
  use: UsedTool | undefined,
  { grants, unattended }: { grants: readonly Grant[]; unattended: Unattended | undefined },
  { turn, call }: EffectOf<"act">,
  cx: EffectContext,
): Promise<ToolResult> {
  const { session, signal } = cx;
  const tool = agent.tools.find((t) => t.name === use?.tool);
  if (!tool || !use) return { ok: false, text: `Not run: the tool "${use?.tool}" is not there any more.` };
  const printing = new AbortController();
  try {
    const { about, approved } = use;
    const allowed = {
      ...(about && { about }),
      ...(approved && { approved }),
      ...(unattended && { unattended }),
      grants,
    };
    const print = createPrinter(agent, cx, printing.signal);
    return await tool.run(use.args, { session, turn, call, signal, print, ...allowed });
  } catch (error) {
    return { ok: false, text: `The tool failed: ${messageOf(error)}` };
  } finally {
    printing.abort("over");
  }
}

/** Shows the end of what was printed, a few times a second, until `over`. */
function createPrinter({ clock, redact }: Agent, cx: EffectContext, over: AbortSignal): (text: string) => void {
  let tail = "";
  let waits = false;
  return (text) => {
    tail = (tail + text).slice(-2 * LONGEST_PRINTED); // the cut may go through a secret, so that part is not shown
    if (waits || over.aborted) return;
    waits = true;
    void clock.sleep(PRINTED_MS, over).then(() => {
      waits = false;
      if (!over.aborted) cx.showPrinted((redact?.(tail) ?? tail).slice(-LONGEST_PRINTED));
    });
  };
}

function bounded(text: string): string {
  if (text.length <= LONGEST_RESULT) return text;
  const half = LONGEST_RESULT / 2;
  return `${text.slice(0, half)}\n[… ${text.length - LONGEST_RESULT} characters left out …]\n${text.slice(-half)}`;
}
