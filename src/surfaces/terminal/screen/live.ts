// What moves: the answer as it comes, tools at work, and the word that something is going on. It never grows beyond the
// screen: a change above the screen's top would make the terminal be drawn anew.
import { truncateToWidth } from "@earendil-works/pi-tui";
import { type CallHead, headOf } from "../../../conversation/calls.ts";
import { type Acted, lasting } from "../../../conversation/updates.ts";
import { clean, oneLine } from "../clean.ts";
import type { Theme } from "./theme.ts";
import { drawn, type TranscriptLook, toolLine } from "./transcript.ts";

type AtWork = { head: CallHead; since: number; printed: string };

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 200;
const TOOLS = 8;
const OUTPUT_LINES = 5;
const THOUGHT_LINES = 3;
const PRINTED_LINES = 10;

export function createLive(look: TranscriptLook, now: () => number) {
  const tools = new Map<string, AtWork>();
  let kept: { text: string; width: number; theme: Theme; lines: string[] } | null = null;
  const live = {
    /** The part of the answer that is not settled. */
    tail: "",
    thought: "",
    notice: "",
    /** What became of a message that waits. */
    acknowledged: "",
    /** What the person's own command has printed. */
    printed: "",
    /** Since when a turn runs; 0: none does. */
    since: 0,
    /** The turn waits for an answer of the person. */
    asking: false,
    started(call: Pick<Acted, "id" | "tool" | "args">) {
      tools.set(call.id, { head: headOf(call), since: now(), printed: "" });
    },
    output(id: string, text: string) {
      const tool = tools.get(id);
      if (tool) tool.printed = text;
    },
    acted: (id: string) => void tools.delete(id),
    /** A turn is over: nothing of it moves any more. */
    still() {
      tools.clear();
      Object.assign(live, { tail: "", thought: "", notice: "", acknowledged: "", since: 0 });
    },
    moves: () => live.since > 0 || live.printed !== "",
    render(width: number, rows: number): string[] {
      const { theme } = look;
      const frame = theme.accent(FRAMES[Math.floor(now() / FRAME_MS) % FRAMES.length] ?? "");
      const shown = [...tools.values()].slice(-TOOLS);
      const lines = shown.flatMap(({ head, since, printed }) => [
        toolLine(theme, frame, head, lasting(now() - since), width),
        ...(printed ? lastLines(printed, OUTPUT_LINES, width) : []),
      ]);
      if (tools.size > TOOLS)
        lines.unshift(theme.faint(truncateToWidth(`  … and ${tools.size - TOOLS} more at work`, width, "…")));
      if (live.notice) lines.push(theme.warn(truncateToWidth(oneLine(live.notice), width, "…")));
      if (live.acknowledged) lines.push(theme.dim(truncateToWidth(live.acknowledged, width, "…")));
      if (live.printed) lines.push(...lastLines(live.printed, PRINTED_LINES, width));
      if (!tools.size && !live.tail && !live.notice && live.since && !live.asking) {
        const since = `Thinking… ${lasting(now() - live.since)}`;
        lines.push(truncateToWidth(`${frame} ${theme.dim(since)}`, width, "…"), ...thoughts(width));
      }
      const said = live.tail ? ["", ...answer(width)] : [];
      return rows > 0 ? [...said, ...lines].slice(-rows) : [];
    },
  };
  return live;

  function answer(width: number): string[] {
    if (kept?.text !== live.tail || kept.width !== width || kept.theme !== look.theme)
      kept = { text: live.tail, width, theme: look.theme, lines: drawn(look, live.tail, width) };
    return kept.lines;
  }

  function thoughts(width: number): string[] {
    return live.thought && (look.unfolded || look.thoughts) ? lastLines(live.thought, THOUGHT_LINES, width) : [];
  }

  function lastLines(text: string, most: number, width: number): string[] {
    const lines = clean(text.slice(-4_000)).trimEnd().split("\n").slice(-most);
    return lines.map((line) => look.theme.dim(truncateToWidth(`  ${line}`, width, "…")));
  }
}
