// The screen of `hermes chat`, the view on pi-tui: a transcript that only grows, below it what moves, then the choices of a
// question, the editor, what waits, and the status bar.
import { truncateToWidth } from "@earendil-works/pi-tui";
import { TERMINAL_COMMANDS } from "../../../conversation/commands/commands.ts";
import type { Facts } from "../../../conversation/facts.ts";
import { type Acted, lasting } from "../../../conversation/updates.ts";
import { messageOf } from "../../../core/errors.ts";
import type { Usage } from "../../../core/session.ts";
import { branchOf } from "../branch.ts";
import { openHistory } from "../history.ts";
import type { Surface, TerminalSettings } from "../open.ts";
import { createChooser } from "./choose.ts";
import { createCompletion } from "./complete.ts";
import { createFrame, drawnBy } from "./frame.ts";
import { createKeyboard } from "./keyboard.ts";
import { createLive } from "./live.ts";
import { createPieces } from "./pieces.ts";
import { Prompt } from "./prompt.ts";
import { createQuestion } from "./question.ts";
import { queueLines, statusBar, whereOf } from "./status.ts";
import type { Paint, Theme } from "./theme.ts";
import * as part from "./transcript.ts";

type ScreenOptions = {
  env: NodeJS.ProcessEnv;
  display: TerminalSettings["config"]["display"];
  /** Where what was typed is kept. */
  historyFile: string;
  cwd: string;
  /** Where the agent works. */
  workspace: string;
  /** Tokens that the model takes in. */
  window: number;
  costOf(model: string, usage: Usage): number | null;
  now(): number;
  editDraft(text: string, signal: AbortSignal): Promise<string>;
  pasteImage(): Promise<string>;
  /** What to try in a new conversation. */
  suggestions: Promise<string[]>;
};

/** Characters of the beginning, and of the end, of what the person's own command prints: `yes` must not fill the memory. */
const PRINTED = 100_000;
/** Rows that a question, the editor and the status bar can need together. */
const LOW = 12;
/** Turns shorter than this need no word on how long they took. */
const LONG_MS = 10_000;

export function openScreen(options: ScreenOptions): Surface {
  const { now, display } = options;
  let facts: Facts | null = null;
  let pieces = createPieces();
  let lastTool = "";
  let where = whereOf(options.workspace, options.env["HOME"], "");
  const closed = new AbortController();
  let suggestions: string[] = []; // until the first message
  const frame = createFrame({ ...options, moves: () => live.moves() });
  const { look, add, draw, drawSoon } = frame;
  const live = createLive(look, now);
  const question = createQuestion();
  const chooser = createChooser(look);
  const editor = new Prompt(frame.tui, look.theme.editor);
  editor.setAutocompleteProvider(createCompletion(TERMINAL_COMMANDS, options.cwd));
  const keyboard = createKeyboard({
    editor,
    question,
    chooser,
    history: openHistory(options.historyFile),
    facts: () => facts,
    now,
    draw,
    say,
    complain,
    unfold() {
      look.unfolded = !look.unfolded;
      look.changed();
    },
    suspend: frame.suspend,
    edit: (text) => frame.lend(() => options.editDraft(text, closed.signal)),
    pasteImage: options.pasteImage,
  });
  frame.tui.addInputListener((data) => (keyboard.key(data) ? { consume: true } : undefined));

  // All of this has to fit, or each new line of the transcript would make the terminal be drawn anew.
  const still = [
    drawnBy(() => (display.compact || frame.rows() < LOW ? [] : [""])),
    drawnBy((width) => (frame.rows() < 2 * LOW ? [] : suggestionLines(look.theme, suggestions, width))),
    drawnBy((width) => question.render(look.theme, width, frame.rows() < 2 * LOW)),
    drawnBy((width) => chooser.render(width, frame.rows())),
    editor,
    drawnBy((width) =>
      facts ? queueLines(facts, display.queued_after_stop, look.theme, width).slice(0, roomForQueue()) : [],
    ),
    drawnBy((width) => [facts ? statusBar({ ...options, facts, now: now(), where, theme: look.theme }, width) : ""]),
  ];
  /** One part, so that each is rendered once for a frame: what moves gets the room that the others leave. */
  const lower = drawnBy((width) => {
    const below = still.flatMap((one) => one.render(width));
    return [...live.render(width, Math.max(0, frame.rows() - below.length)), ...below];
  });
  const roomForQueue = () => (editor.isShowingAutocomplete() ? 0 : Math.max(0, frame.rows() - LOW));

  function say(text: string): void {
    add(part.markdown(look, text));
  }
  function complain(error: unknown): void {
    add(part.aside(look, error instanceof Error ? messageOf(error) : String(error), ({ bad }) => bad));
  }

  function settle(): void {
    for (const piece of pieces.end()) add(part.answer(look, piece));
    if (live.thought) add(part.thought(look, live.thought));
    pieces = createPieces();
    live.tail = "";
    live.thought = "";
  }

  /** At the start, and when a turn is over: it may have changed the branch. Never rejects. */
  async function locate(): Promise<void> {
    where = whereOf(options.workspace, options.env["HOME"], await branchOf(options.workspace));
    draw();
  }

  /** What failed is shown in any case. */
  function toolIsShown({ tool, outcome }: Acted): boolean {
    if (outcome !== "ok" || display.tool_progress === "all" || display.tool_progress === "verbose") return true;
    return display.tool_progress === "new" && tool !== lastTool;
  }

  return {
    message({ text, images = [] }) {
      suggestions = [];
      live.acknowledged = "";
      add(part.message(look, text, images.length));
    },
    answer(text) {
      for (const piece of pieces.push(text)) add(part.answer(look, piece));
      live.tail = pieces.rest();
      drawSoon();
    },
    settled: settle,
    reset() {
      pieces = createPieces();
      live.tail = "";
      add(part.aside(look, "[the answer starts over]", ({ dim }) => dim));
    },
    thinks(text) {
      live.thought += text;
      drawSoon();
    },
    started(call) {
      live.started(call);
      draw();
    },
    printed(call, text) {
      live.output(call, text);
      drawSoon();
    },
    acted(call) {
      live.acted(call.id);
      if (toolIsShown(call)) add(part.tool(look, call));
      lastTool = call.tool;
    },
    asked({ text }) {
      const [words = "", ...diff] = text.split(/\n(?=@@ )/);
      add(part.aside(look, `\n? ${words}`, ({ warn }) => warn));
      for (const line of diff.join("\n").split("\n"))
        if (line) add(part.aside(look, line, (theme) => diffPaint(theme, line)));
    },
    decided: (allow, text) => add(part.aside(look, `${allow ? "✓ allowed" : "✗ denied"}: ${text}`, ({ dim }) => dim)),
    aside: (line) => add(part.aside(look, line, ({ dim }) => dim)),
    notice(line) {
      live.notice = line;
      draw();
    },
    ended(outcome, ms) {
      settle();
      live.still();
      const how = outcome === "cancelled" ? "■ stopped" : "";
      const took = ms >= LONG_MS ? lasting(ms) : "";
      const line = [how, took].filter(Boolean).join(" · ");
      if (line) add(part.aside(look, line, ({ faint }) => faint));
    },
    facts(next) {
      if (!next.turn && (!facts || facts.turn)) void locate();
      if (facts?.waiting.length && !next.waiting.length) live.acknowledged = "";
      facts = next;
      live.since = next.turn?.at ?? 0;
      live.asking = next.asking.length > 0;
      keyboard.changed(question.show(next.asking[0] ?? null));
      editor.borderColor = look.theme.border(live.asking ? "asking" : next.turn ? "busy" : "ready");
      draw();
    },
    say,
    acknowledge(line) {
      live.acknowledged = line;
      draw();
    },
    complain,
    output(text) {
      const all = live.printed + text;
      live.printed = all.length > 3 * PRINTED ? `${all.slice(0, PRINTED)}\n…\n${all.slice(-PRINTED)}` : all;
      draw();
    },
    outputEnded() {
      if (live.printed) add(part.printed(look, live.printed));
      live.printed = "";
    },
    enter(heading) {
      settle();
      live.still();
      if (heading) add(part.aside(look, `\n${heading}`, ({ title }) => title));
    },
    async choose(title, choices) {
      const chosen = chooser.open(title, choices);
      draw();
      return chosen;
    },
    showThoughts(on) {
      look.thoughts = on;
    },
    draft: keyboard.draft,
    start(talking, leave) {
      keyboard.start(talking, leave);
      void talking.then(
        async () => {
          const found = await options.suggestions;
          if (!facts?.turn && !facts?.title) suggestions = found;
          draw();
        },
        () => {},
      ); // there is no talk: whoever makes it says why
      frame.start(lower, editor);
    },
    stop() {
      closed.abort();
      keyboard.stop();
      frame.stop();
    },
  };
}

const diffPaint = ({ added, removed, dim }: Theme, line: string): Paint =>
  line.startsWith("+") ? added : line.startsWith("-") ? removed : dim;

const suggestionLines = ({ dim }: Theme, suggestions: readonly string[], width: number): string[] =>
  (suggestions.length ? ["Things to try in this folder:", ...suggestions.map((text) => `  · ${text}`), ""] : []).map(
    (line) => dim(truncateToWidth(line, width, "…")),
  );
