// Pictures of the program for the documentation: the real one, on a real terminal, in fixed scenes with the demo model.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { IBufferCell, Terminal } from "@xterm/headless";
import { makePlace, program } from "../test/fakes/hermes.ts";
import { onTerminal, type Screen } from "../test/fakes/pty.ts";
import { drawConsole } from "./console-pictures.ts";
import { type Cell, drawScreen } from "./svg.ts";

type Scene = { name: string; cols: number; rows: number; steps(screen: Screen): Promise<void> };

const images = fileURLToPath(new URL("../docs/images/", import.meta.url));

/** Each begins with a fresh home; its picture is the screen as the last step leaves it. */
const SCENES: Scene[] = [
  {
    name: "first-start",
    cols: 88,
    rows: 24,
    async steps(screen) {
      await started(screen);
      await screen.shows("Things to try");
    },
  },
  {
    name: "streaming",
    cols: 88,
    rows: 20,
    async steps(screen) {
      await started(screen);
      await say(screen, "tell me a story");
      await screen.shows("The other messengers");
    },
  },
  {
    name: "tools",
    cols: 88,
    rows: 24,
    async steps(screen) {
      await started(screen);
      await say(screen, "run ls -la");
      await screen.shows("came back");
      await screen.until(idle, "the end of the turn");
    },
  },
  {
    name: "approval",
    cols: 88,
    rows: 24,
    async steps(screen) {
      await started(screen);
      await say(screen, "something dangerous");
      await screen.shows("4. No, and tell it why");
    },
  },
  {
    name: "queue",
    cols: 88,
    rows: 24,
    async steps(screen) {
      await started(screen);
      await say(screen, "something long");
      await screen.shows("seq 1 60");
      screen.type("and then tell me a story");
      await screen.shows("and then tell me a story");
      screen.key("alt+enter");
      await screen.shows("1 waiting");
    },
  },
  {
    name: "narrow",
    cols: 40,
    rows: 24,
    async steps(screen) {
      await started(screen);
      await say(screen, "hello");
      await screen.shows("runs a command");
      await screen.until(idle, "the end of the turn");
    },
  },
];

/** Ready for the first message. */
const started = (screen: Screen) => screen.shows("Ctrl+D leaves");

const idle = (screen: Screen) => !screen.text().includes("working ");

async function say(screen: Screen, text: string): Promise<void> {
  screen.type(text);
  await screen.shows(text);
  screen.key("enter");
}

function cellsOf(emulator: Terminal): Cell[][] {
  const buffer = emulator.buffer.active;
  return Array.from({ length: emulator.rows }, (_, row) => {
    const line = buffer.getLine(buffer.baseY + row);
    const cells = Array.from({ length: emulator.cols }, (_, col) => line?.getCell(col));
    return cells.flatMap((cell) => (cell && cell.getWidth() > 0 ? [cellOf(cell)] : []));
  });
}

function cellOf(cell: IBufferCell): Cell {
  const colour = (rgb: boolean, palette: boolean, value: number) => {
    if (rgb) return `#${value.toString(16).padStart(6, "0")}`;
    return palette ? value : undefined;
  };
  return {
    text: cell.isInvisible() ? "" : cell.getChars(),
    width: cell.getWidth(),
    fg: colour(cell.isFgRGB(), cell.isFgPalette(), cell.getFgColor()),
    bg: colour(cell.isBgRGB(), cell.isBgPalette(), cell.getBgColor()),
    bold: cell.isBold() !== 0,
    dim: cell.isDim() !== 0,
    italic: cell.isItalic() !== 0,
    underline: cell.isUnderline() !== 0,
    strike: cell.isStrikethrough() !== 0,
    inverse: cell.isInverse() !== 0,
  };
}

mkdirSync(images, { recursive: true });
for (const { name, cols, rows, steps } of SCENES) {
  const place = makePlace();
  try {
    // In a directory beside the home: one that contains it is warned about.
    const command = ["sh", "-c", 'mkdir demo && cd demo && exec "$0" chat', program];
    const screen = onTerminal(place, [], { command, cols, rows, env: { COLORTERM: "truecolor" } });
    await steps(screen);
    const picture = drawScreen("hermes", cols, cellsOf(screen.emulator));
    // The shorter path would be stretched to the length of the one that was drawn.
    const stretched = new RegExp(` textLength="[^"]*"([^<]*${place.dir})`, "g");
    const shown = picture.replaceAll(stretched, "$1").replaceAll(place.dir, "/home/me");
    writeFileSync(join(images, `${name}.svg`), shown);
    screen.kill("SIGKILL");
    await screen.exit;
    console.log(`docs/images/${name}.svg`);
  } finally {
    place.clear();
  }
}
for (const name of await drawConsole(images)) console.log(`docs/images/${name}`);
