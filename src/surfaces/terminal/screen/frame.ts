// The frame of the screen: the terminal while it is ours. A transcript that only grows, and the parts below it.
import { type Component, ProcessTerminal, TuiMainScreen } from "@earendil-works/pi-tui";
import type { TerminalSettings } from "../open.ts";
import { pickTheme } from "./theme.ts";
import { fitting, type TranscriptLook } from "./transcript.ts";

/** Lines of the transcript that can be drawn anew, for another width or theme, and how many stay when there are more: what the terminal has
 *  scrolled away is its own. */
const MOST_LINES = 3_000;
const KEPT_LINES = 2_000;
/** Heights of the terminal that the renderer is given, and how many when there are more: it reads all lines four times for each frame. With
 *  2,000 lines, that was more than half of the work while an answer streamed in; with 200 to 400, a third. */
const MOST_SHOWN = 4;
const KEPT_SHOWN = 2;
/** So often, what moves is drawn again. */
const TICK_MS = 200;
/** So often, an answer that streams in: at the renderer's own pace (16 ms) it took half as much CPU again. Keys do not wait
 *  for it, they are drawn at once. */
const STREAM_MS = 33;
/** How long a terminal may take to say what its background is. */
const BACKGROUND_MS = 300;
/** Still running so long after SIGTSTP: it did not stop us. */
const AWAKE_MS = 100;
const NOTHING_DRAWN = {
  previousLines: [],
  previousWidth: 0,
  previousHeight: 0,
  cursorRow: 0,
  hardwareCursorRow: 0,
  maxLinesRendered: 0,
  previousViewportTop: 0,
};

type FrameOptions = { env: NodeJS.ProcessEnv; display: TerminalSettings["config"]["display"]; moves(): boolean };

/** A part that is drawn anew for each frame. */
export const drawnBy = (render: (width: number) => string[]): Component => ({
  render: (width) => fitting(render(width), width),
  invalidate() {},
});

export function createFrame({ env, display, moves }: FrameOptions) {
  const terminal = new ProcessTerminal();
  const tui = new TuiMainScreen(terminal);
  let parts: Component[] = [];
  let hidden = 0; // parts at the beginning that the renderer is not given
  let size = "";
  const transcript: Component = {
    render(width) {
      // The renderer draws everything anew, except where a keyboard on the screen changes the height.
      const now = env["TERMUX_VERSION"] ? String(width) : `${width} ${terminal.rows}`;
      if (size !== now) hidden = 0;
      size = now;
      return parts.slice(hidden).flatMap((part) => part.render(width));
    },
    invalidate() {
      hidden = 0;
      for (const part of parts) part.invalidate();
    },
  };
  const lastLine = drawnBy(() => [""]);
  let lower: Component = lastLine;
  let focus: Component | null = null;
  let rested = 0; // parts of the transcript that were there when the terminal was last let go
  let state: "ours" | "suspended" | "stopped" = "ours";
  const draw = () => tui.requestRender();
  let soon: NodeJS.Timeout | null = null;
  const look: TranscriptLook = {
    theme: pickTheme(display.theme, env),
    unfolded: display.tool_progress === "verbose",
    thoughts: display.show_reasoning,
    compact: display.compact,
    changed() {
      tui.invalidate();
      draw();
    },
    /** Only what is on the screen: to draw what has scrolled away again would clear the terminal's memory. */
    coloured() {
      const { previousViewportTop: top } = tui.captureRenderState();
      let line = 0;
      for (const part of parts.slice(hidden)) {
        if (line >= top) part.invalidate();
        line += part.render(terminal.columns).length;
      }
      draw();
    },
  };
  const tick = setInterval(() => {
    letGo();
    if (moves()) draw();
  }, TICK_MS).unref();

  function drawSoon(): void {
    soon ??= setTimeout(() => {
      soon = null;
      draw();
    }, STREAM_MS).unref();
  }

  function show(): void {
    tui.clear();
    for (const part of [transcript, lower]) tui.addChild(part);
    tui.setFocus(focus);
  }

  /** How many parts at the beginning can go so that at most `kept` lines stay, and how many lines these have. */
  function beyond(from: readonly Component[], most: number, kept: number): { count: number; lines: number } {
    const heights = from.map((part) => part.render(terminal.columns).length);
    let total = heights.reduce((sum, height) => sum + height, 0);
    const gone = { count: 0, lines: 0 };
    if (total <= most) return gone;
    while (total > kept && gone.count < heights.length - 1) {
      const height = heights[gone.count++] ?? 0;
      gone.lines += height;
      total -= height;
    }
    return gone;
  }

  /** What the terminal has scrolled away is hidden from the renderer, with what it knows of its lines, and later let go. */
  function letGo(): void {
    const scrolled = () => beyond(parts.slice(hidden), MOST_SHOWN * terminal.rows, KEPT_SHOWN * terminal.rows);
    if (state !== "ours" || !scrolled().count) return;
    tui.renderNow();
    const { count, lines: gone } = scrolled();
    const drawn = tui.captureRenderState();
    if (gone > drawn.previousViewportTop) return;
    hidden += count;
    const old = Math.min(hidden, beyond(parts, MOST_LINES, KEPT_LINES).count);
    parts.splice(0, old);
    hidden -= old;
    tui.restoreRenderState({
      ...drawn,
      previousLines: drawn.previousLines.slice(gone),
      cursorRow: drawn.cursorRow - gone,
      hardwareCursorRow: drawn.hardwareCursorRow - gone,
      maxLinesRendered: drawn.maxLinesRendered - gone,
      previousViewportTop: drawn.previousViewportTop - gone,
    });
  }

  async function adapt(): Promise<void> {
    const background = await tui.queryTerminalBackgroundColor({ timeoutMs: BACKGROUND_MS });
    if (!background || state === "stopped") return;
    look.theme = pickTheme("auto", env, background);
    look.changed();
  }

  /** Only the conversation stays on the terminal. */
  function rest(): void {
    tui.clear();
    rested = parts.length;
    for (const part of [transcript, lastLine]) tui.addChild(part); // the renderer blanks the line where the cursor is
    tui.renderNow();
    tui.stop();
  }

  /** Whatever ends the process: the shell gets its terminal back. */
  const restore = () => {
    terminal.showCursor();
    terminal.stop();
  };

  /** Below whatever others have written meanwhile. */
  function resume(): void {
    if (state !== "suspended") return;
    state = "ours";
    process.off("SIGCONT", resume);
    parts = parts.slice(rested);
    hidden = 0;
    tui.restoreRenderState(NOTHING_DRAWN);
    show();
    tui.start();
    tui.renderNow(); // a frame that was asked for while nothing could be drawn would keep the next from being asked for
  }

  return {
    tui,
    look,
    draw,
    drawSoon,
    rows: () => terminal.rows,
    add(part: Component): void {
      parts.push(part);
      draw();
    },
    start(below: Component, focused: Component): void {
      [lower, focus] = [below, focused];
      show();
      process.once("exit", restore);
      tui.start();
      tui.renderNow(); // what comes next keeps the loop busy
      if (display.theme === "auto" && !env.NO_COLOR) void adapt();
    },
    /** Another program has the terminal until it ends. What comes meanwhile is shown then. */
    async lend<T>(use: () => Promise<T>): Promise<T> {
      state = "suspended";
      rest();
      return use().finally(resume);
    },
    suspend(): void {
      state = "suspended";
      rest();
      process.once("SIGCONT", resume);
      // Where no shell could wake us again (`docker run`, `xterm -e`) the kernel does not stop us: then we just go on.
      setTimeout(resume, AWAKE_MS);
      process.kill(0, "SIGTSTP");
    },
    stop(): void {
      if (state === "stopped") return;
      const shown = state === "ours";
      state = "stopped";
      clearInterval(tick);
      process.off("SIGCONT", resume).off("exit", restore);
      if (shown) rest();
    },
  };
}
