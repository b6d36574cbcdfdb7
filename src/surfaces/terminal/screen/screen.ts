// The screen of `hermes chat`: pi-tui behind one door. A transcript that only grows, below it what moves, then the
// choices of a question, the editor, what waits, and the status bar.
import {
  type Component,
  Container,
  isKeyRelease,
  Key,
  matchesKey,
  ProcessTerminal,
  TuiMainScreen,
} from "@earendil-works/pi-tui";
import { messageOf } from "../../../core/errors.ts";
import type { Usage } from "../../../core/session.ts";
import { COMMANDS } from "../commands.ts";
import type { Facts } from "../facts.ts";
import { openHistory } from "../history.ts";
import type { Settings, Surface } from "../open.ts";
import type { Talk } from "../talk.ts";
import { type Acted, lasting } from "../tell.ts";
import { createChooser } from "./choose.ts";
import { createCompletion } from "./complete.ts";
import { createLive } from "./live.ts";
import { createPieces } from "./pieces.ts";
import { Prompt } from "./prompt.ts";
import { createQuestion, type Reply } from "./question.ts";
import { queueLines, statusBar } from "./status.ts";
import { pickTheme, type Theme } from "./theme.ts";
import * as part from "./transcript.ts";

type ScreenOptions = {
  env: NodeJS.ProcessEnv;
  display: Settings["config"]["display"];
  /** Where what was typed is kept. */
  historyFile: string;
  cwd: string;
  window: number;
  costOf(model: string, usage: Usage): number | null;
  now(): number;
};

const TWICE_MS = 2_000;
/** So often, what moves is drawn again. */
const TICK_MS = 200;
/** Lines of the transcript that can be drawn anew, and how many stay when there are more: what the terminal has scrolled
 *  away is its own, and each frame compares all that is here (0.5 ms for 3,000 lines). */
const MOST_LINES = 3_000;
const KEPT_LINES = 2_000;
/** A key that was on its way when a question came is not an answer to it. */
const ARMED_MS = 400;
const BACKGROUND_MS = 300;
/** Still running so long after SIGTSTP: it did not stop us. */
const AWAKE_MS = 100;

export function openScreen(options: ScreenOptions): Surface {
  const { now, display } = options;
  const terminal = new ProcessTerminal();
  const tui = new TuiMainScreen(terminal);
  const look: part.Look = {
    theme: pickTheme(display.theme, options.env),
    unfolded: display.tool_progress === "verbose",
    thoughts: display.show_reasoning,
    compact: display.compact,
    changed: () => tui.invalidate(),
  };
  const draw = () => tui.requestRender();
  look.changed = () => {
    tui.invalidate();
    draw();
  };

  const transcript = new Container();
  const live = createLive(look, now);
  const question = createQuestion();
  const chooser = createChooser(look);
  const editor = new Prompt(tui, look.theme.editor);
  const history = openHistory(options.historyFile);
  let facts: Facts | null = null;
  let pieces = createPieces();
  let asked = 0; // since when the question is there
  let begunFor = ""; // the question that stood there when what is typed was begun: only that one can it answer
  let stopped = false;
  let suspended = false;
  let lastTool = "";

  // ── Drawing ─────────────────────────────────────────────────────────────────────────────────────────
  const lines = (render: (width: number) => string[]) => ({
    render: (width: number) => part.fitting(render(width), width),
    invalidate() {},
  });
  const parts = [
    transcript,
    lines((width) => live.render(width, roomForLive(width))),
    lines(() => (display.compact ? [] : [""])),
    lines((width) => question.render(look.theme, width)),
    lines((width) => chooser.render(width, terminal.rows)),
    editor,
    lines((width) => (facts ? queueLines(facts, look.theme, width) : [])),
    lines((width) => [facts ? statusBar({ ...options, facts, now: now(), theme: look.theme }, width) : ""]),
  ];
  const lastLine = lines(() => [""]);
  for (const one of parts) tui.addChild(one);
  tui.setFocus(editor);
  editor.setAutocompleteProvider(createCompletion(COMMANDS, options.cwd));
  for (const text of history.entries()) editor.addToHistory(text);

  function roomForLive(width: number): number {
    const below = parts.slice(2).reduce((sum, one) => sum + one.render(width).length, 0);
    return Math.max(3, terminal.rows - below - 1);
  }

  function add(block: Component): void {
    transcript.addChild(block);
    draw();
  }

  /** Blocks that the terminal has long scrolled away are let go, with what the renderer knows of their lines. */
  function letGo(): void {
    const width = terminal.columns;
    const heights = transcript.children.map((child) => child.render(width).length);
    let total = heights.reduce((sum, height) => sum + height, 0);
    if (total <= MOST_LINES) return;
    tui.renderNow();
    let gone = 0;
    let first = 0;
    while (total > KEPT_LINES && first < heights.length - 1) {
      const height = heights[first++] ?? 0;
      gone += height;
      total -= height;
    }
    const state = tui.captureRenderState();
    if (gone > state.previousViewportTop) return;
    transcript.children.splice(0, first);
    tui.restoreRenderState({
      ...state,
      previousLines: state.previousLines.slice(gone),
      cursorRow: state.cursorRow - gone,
      hardwareCursorRow: state.hardwareCursorRow - gone,
      maxLinesRendered: state.maxLinesRendered - gone,
      previousViewportTop: state.previousViewportTop - gone,
    });
  }

  const tick = setInterval(() => {
    letGo();
    if (live.moves()) draw();
  }, TICK_MS).unref();

  function paint(theme: Theme): void {
    look.theme = theme;
    look.changed();
  }

  async function adapt(): Promise<void> {
    const background = await tui.queryTerminalBackgroundColor({ timeoutMs: BACKGROUND_MS });
    if (background && !stopped) paint(pickTheme("auto", options.env, background));
  }

  function border(): void {
    const current = question.current();
    if (!editor.getText()) begunFor = current?.call ?? "";
    const mode = current ? "asking" : facts?.turn ? "busy" : "ready";
    editor.borderColor = look.theme.border(mode);
    editor.label = labelOf(current?.kind === "question" && current.call === begunFor, facts);
  }
  editor.onChange = border;

  // ── Leaving, stopping, suspending ───────────────────────────────────────────────────────────────────
  function stop(): void {
    if (stopped) return;
    stopped = true;
    clearInterval(tick);
    process.off("SIGCONT", resume).off("exit", restore);
    rest();
  }

  /** Whatever ends the process: the shell gets its terminal back. */
  const restore = () => {
    terminal.showCursor();
    terminal.stop();
  };

  /** Only the conversation stays on the terminal. */
  function rest(): void {
    for (const one of parts.slice(1)) tui.removeChild(one);
    tui.addChild(lastLine); // the renderer blanks where the cursor is
    tui.renderNow();
    tui.stop();
  }

  function suspend(): void {
    suspended = true;
    rest();
    process.once("SIGCONT", resume);
    // Where no shell could wake us again (`docker run`, `xterm -e`) the kernel does not stop us: then we just go on.
    setTimeout(resume, AWAKE_MS);
    process.kill(0, "SIGTSTP");
  }

  /** Below whatever the shell has written meanwhile. */
  function resume(): void {
    if (!suspended || stopped) return;
    suspended = false;
    process.off("SIGCONT", resume);
    transcript.clear();
    tui.restoreRenderState({ ...NOTHING_DRAWN, previousLines: [] });
    tui.removeChild(lastLine);
    for (const one of parts.slice(1)) tui.addChild(one);
    tui.start();
    tui.setFocus(editor);
    tui.renderNow(); // a frame that was asked for while nothing could be drawn would keep the next from being asked for
  }

  // ── Keys ────────────────────────────────────────────────────────────────────────────────────────────
  /** What is entered before there is a talk waits for it. */
  let talking: Promise<Talk> = new Promise(() => {});
  let leave: (code: number) => void = () => {};
  let interrupted = Number.NEGATIVE_INFINITY;
  /** Typed, or taken back into the editor, while a text was on its way to be durable: comes after it. */
  let held: ((sent: boolean) => void)[] | null = null;

  function key(data: string): boolean {
    if (isKeyRelease(data)) return true;
    if (matchesKey(data, Key.ctrl("c"))) return interrupt();
    if (matchesKey(data, Key.ctrl("z"))) return done(suspend);
    if (chooser.key(data)) return done(draw);
    if (held) return done(() => held?.push((sent) => (sent ? feed(data) : write(data))));
    if (matchesKey(data, Key.ctrl("o"))) return done(unfold);
    if (matchesKey(data, Key.ctrl("d")) && !editor.getText()) return done(() => leave(0));
    if (matchesKey(data, Key.escape) && !editor.isShowingAutocomplete() && facts?.turn) return cancel();
    if (matchesKey(data, Key.alt("up")))
      return done(() => void talking.then((talk) => talk.takeBack()).catch(complain));
    if (matchesKey(data, Key.alt("enter"))) return done(() => submit(true));
    if (!editor.getText() && now() - asked > ARMED_MS) {
      const used = question.key(data);
      if (typeof used === "object") return done(() => void reply(used));
      if (used) return done(draw);
    }
    return matchesKey(data, Key.enter) ? enter(data) : false;
  }
  const done = (act: () => void): true => {
    act();
    return true;
  };

  function enter(data: string): true {
    const { line, col } = editor.getCursor();
    if (editor.isShowingAutocomplete()) {
      const command = editor.getText().startsWith("/");
      editor.handleInput(data);
      if (command) submit(false);
      else draw();
    } else if (editor.getLines()[line]?.[col - 1] === "\\") {
      editor.handleInput("\x7f");
      editor.insertTextAtCursor("\n");
      draw();
    } else submit(false);
    return true;
  }

  /** Once: stop what runs, or clear the line. Twice: leave. */
  function interrupt(): true {
    if (chooser.cancel()) return done(draw);
    if (now() - interrupted < TWICE_MS) return done(() => leave(130));
    interrupted = now();
    return cancel();
  }

  function cancel(): true {
    const text = editor.getText();
    void talking
      .then((talk) => talk.stop())
      .then((stopping) => {
        if (stopping) return;
        if (text && text === editor.getText()) {
          remember(editor.getExpandedText());
          editor.setText("");
        }
        say(text ? "Cleared: Up brings it back. Ctrl+C again leaves." : "Nothing is running. Ctrl+C again leaves.");
      })
      .catch(complain);
    return true;
  }

  function draft(text: string): void {
    if (held) return void held.push(() => draft(text));
    const typed = editor.getText();
    editor.setText(typed && typed !== text ? `${text}\n${typed}` : text);
    draw();
  }

  function unfold(): void {
    look.unfolded = !look.unfolded;
    look.changed();
  }

  const complain = (error: unknown) =>
    add(part.aside(look, error instanceof Error ? messageOf(error) : String(error), ({ bad }) => bad));
  const say = (text: string) => add(part.markdown(look, text));

  function remember(text: string): void {
    editor.addToHistory(text);
    history.add(text);
  }

  /** The text stays in the editor until it is durable; keys pressed meanwhile come after it. */
  function submit(other: boolean): void {
    const text = editor.getExpandedText();
    if (!text.trim()) return;
    held = [];
    interrupted = Number.NEGATIVE_INFINITY; // what is stopped next is another thing
    void talking
      .then((talk) => sent(talk, text, other))
      .then(
        () => {
          remember(text);
          editor.setText("");
          return true;
        },
        (error: unknown) => {
          complain(error);
          return false;
        },
      )
      .then((sent) => {
        const later = held ?? [];
        held = null;
        if (!sent && later.length) editor.insertTextAtCursor("\n");
        for (const act of later) act(sent);
        border();
        draw();
      });
  }

  async function sent(to: Talk, text: string, other: boolean): Promise<void> {
    const asking = question.current();
    const meant = asking?.call === begunFor && !other && !/^[/!]/.test(text);
    const free = asking?.kind === "question" ? { allow: true, text } : null;
    const answer = meant ? (question.word(text) ?? free) : null;
    // Too late for an answer: then it is a message, and nothing is lost.
    if (!asking || !answer || !(await to.answer(asking, answer.allow, answer.text))) await to.enter(text, other);
  }

  async function reply(answer: Reply): Promise<void> {
    const asking = question.current();
    try {
      if (asking) await (await talking).answer(asking, answer.allow, answer.text);
    } catch (error) {
      complain(error);
    }
  }

  function feed(data: string): void {
    if (!key(data)) editor.handleInput(data);
  }
  /** It came behind a text that could not be sent: more text, that goes nowhere before the person has seen so. */
  function write(data: string): void {
    if (matchesKey(data, Key.enter)) editor.insertTextAtCursor("\n");
    else editor.handleInput(data);
  }
  tui.addInputListener((data) => (key(data) ? { consume: true } : undefined));

  /** What failed is shown in any case. */
  function toolIsShown({ tool, outcome }: Acted): boolean {
    if (outcome !== "ok" || display.tool_progress === "all" || display.tool_progress === "verbose") return true;
    return display.tool_progress === "new" && tool !== lastTool;
  }

  // ── What happens ────────────────────────────────────────────────────────────────────────────────────
  function settle(): void {
    for (const piece of pieces.end()) add(part.answer(look, piece));
    if (live.thought) add(part.thought(look, live.thought));
    pieces = createPieces();
    live.tail = "";
    live.thought = "";
  }

  /** Its beginning and its end: `yes` must not fill the memory. */
  function print(text: string): void {
    const all = live.printed + text;
    const [head, tail] = [all.slice(0, PRINTED), all.slice(-PRINTED)];
    live.printed = all.length > 3 * PRINTED ? `${head}\n…\n${tail}` : all;
    draw();
  }

  return {
    message({ text, images = [] }) {
      live.acknowledged = "";
      add(part.message(look, text, images.length));
    },
    answer(text) {
      for (const piece of pieces.push(text)) add(part.answer(look, piece));
      live.tail = pieces.rest();
      draw();
    },
    settled: settle,
    reset() {
      pieces = createPieces();
      live.tail = "";
      add(part.aside(look, "[the answer starts over]", ({ dim }) => dim));
    },
    thinks(text) {
      live.thought += text;
      draw();
    },
    started(call) {
      live.started(call);
      draw();
    },
    acted(call) {
      live.acted(call.id);
      if (toolIsShown(call)) add(part.tool(look, call));
      lastTool = call.tool;
    },
    asked: ({ text }) => add(part.aside(look, `\n? ${text}`, ({ warn }) => warn)),
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
      facts = next;
      live.since = next.turn?.at ?? 0;
      live.asking = next.asking.length > 0;
      if (question.show(next.asking[0] ?? null)) asked = now();
      border();
      draw();
    },
    say,
    acknowledge(line) {
      live.acknowledged = line;
      draw();
    },
    complain: (text) => complain(text),
    output: print,
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
    draft,
    start(made, leaving) {
      talking = made;
      leave = leaving;
      process.stdin.on("end", () => leave(129));
      process.once("exit", restore);
      tui.start();
      tui.renderNow(); // what comes next keeps the loop busy
      if (display.theme === "auto" && !options.env.NO_COLOR) void adapt();
    },
    stop,
  };
}

const PRINTED = 100_000;
/** Turns shorter than this need no word on how long they took. */
const LONG_MS = 10_000;

const NOTHING_DRAWN = {
  previousWidth: 0,
  previousHeight: 0,
  cursorRow: 0,
  hardwareCursorRow: 0,
  maxLinesRendered: 0,
  previousViewportTop: 0,
};

function labelOf(answering: boolean, facts: Facts | null): string {
  if (answering) return "your answer · Alt+Enter: a message instead";
  if (!facts?.turn) return "";
  if (facts.asking.length) return "choose above, or type a message · Esc stops";
  const does = { interrupt: "Enter interrupts", queue: "Enter queues", steer: "Enter steers" }[facts.mode];
  return `${does} · Alt+Enter ${facts.mode === "interrupt" ? "queues" : "interrupts"} · Esc stops`;
}
