// A real process on a real terminal: the bytes of its PTY go into a terminal emulator, whose screen can be read and awaited.
import { spawnSync } from "node:child_process";
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { constants as system } from "node:os";
import { delimiter, dirname } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { type IPty, spawn } from "@lydell/node-pty";
import xterm, { type IMarker, type Terminal } from "@xterm/headless";
import { type Place, program } from "./hermes.ts";

export type Screen = {
  pid: number;
  /** The visible rows, right-trimmed. */
  rows(): string[];
  /** The visible rows as one text. */
  text(): string;
  /** Everything since the start: what was scrolled off as well, wrapped lines joined, right-trimmed. */
  lines(): string[];
  cursor(): { row: number; col: number; hidden: boolean };
  /** All that the process has written, escape sequences and all. */
  raw(): string;
  /** Resolves once this is on the screen or above it; rejects with a picture of the screen when it does not come. */
  shows(what: RegExp | string, patienceMs?: number): Promise<void>;
  /** The same for any condition. It is looked at after each piece of output, never in the middle of a frame. */
  until(condition: (screen: Screen) => boolean, what?: string, patienceMs?: number): Promise<void>;
  type(text: string): void;
  /** "enter", "ctrl+c", "alt+enter", "shift+tab", "pageup": what xterm would send for it. */
  key(name: string): void;
  /** As a terminal pastes: in brackets if the program asked for them. */
  paste(text: string): void;
  /** Both sides have the new size when it resolves; what was printed before is drawn in the old one. */
  resize(cols: number, rows: number): Promise<void>;
  /** The window is closed: the terminal goes away under the process. */
  close(): void;
  kill(signal: NodeJS.Signals): void;
  /** The exit code, or the signal that ended it. All it has printed is on the screen by then. */
  exit: Promise<number | NodeJS.Signals>;
  /** The words of `stty -a` now: "echo" or "-echo". Only while somebody has the terminal open: see `startShell`. */
  settings(): string[];
  /** The cells with their colours, for who needs them. */
  emulator: Terminal;
};

type Options = { cols?: number; rows?: number; env?: NodeJS.ProcessEnv };

const PATIENCE_MS = 20_000;

/** The program, or another command, with a terminal of its own. `place.clear()` kills it. */
export function onTerminal(place: Place, args: string[], options: Options & { command?: string[] } = {}): Screen {
  const [file = program, ...first] = options.command ?? [program];
  const { cols = 80, rows = 24 } = options;
  const env = place.env({ TERM: "xterm-256color", LANG: "C.UTF-8", ...options.env });
  const known = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
  const pty = unix(spawn(file, [...first, ...args], { cols, rows, cwd: place.dir, env: known, encoding: null }));
  const screen = connect(pty, new xterm.Terminal({ cols, rows, scrollback: 50_000, allowProposedApi: true }));
  place.adopt(screen);
  return screen;
}

/** A plain shell where commands can be typed, `hermes` too. It has no line editing, so it leaves the terminal's settings alone. */
export function startShell(place: Place, options: Options = {}): Screen {
  const PATH = `${dirname(program)}${delimiter}${place.env().PATH}`;
  return onTerminal(place, [], { ...options, command: ["sh", "-i"], env: { PATH, PS1: "$ ", ...options.env } });
}

function connect(pty: UnixPty, emulator: Terminal): Screen {
  const printed: Buffer[] = [];
  const waiting = new Set<() => void>();
  let hidden = false;
  let open = true;
  let over = false;
  const write = writer(pty.fd, () => open);

  const decoder = new StringDecoder("utf8"); // the emulator's own loses a character that comes in two reads now and then
  const hear = (bytes: Buffer) => {
    printed.push(bytes);
    emulator.write(decoder.write(bytes));
  };
  pty.onData((bytes) => hear(Buffer.from(bytes))); // without an encoding they are bytes, whatever its types say
  // node-pty closes its side 200 ms after the exit, read or not: a busy test lost the last kilobytes.
  const { _socket: socket } = pty;
  const destroy = socket.destroy.bind(socket);
  socket.destroy = (error) => {
    if (open) for (let rest = readSome(pty.fd); rest; rest = readSome(pty.fd)) hear(rest);
    open = false;
    return destroy(error);
  };
  pty.on("close", () => {
    open = false;
  });
  emulator.onData(write); // its answers to what the program asks the terminal
  emulator.onWriteParsed(() => {
    for (const look of waiting) look();
  });
  for (const final of ["h", "l"])
    emulator.parser.registerCsiHandler({ prefix: "?", final }, (params) => {
      if (params.includes(25)) hidden = final === "l";
      return false; // the emulator does the rest
    });
  widthsOfToday(emulator);

  const exit = new Promise<number | NodeJS.Signals>((resolve) => {
    pty.onExit(({ exitCode, signal }) => {
      emulator.write("", () => {
        over = true;
        for (const look of waiting) look();
        resolve(signal ? signalNamed(signal) : exitCode);
      });
    });
  });

  const linesFrom = (first: number): string[] => {
    const buffer = emulator.buffer.active;
    const lines: string[] = [];
    let at = Math.max(first, 0);
    while (at > 0 && buffer.getLine(at)?.isWrapped) at -= 1;
    // Up to its length: a full buffer is a ring, which would give lines for ever.
    for (; at < buffer.length; at++) {
      const line = buffer.getLine(at);
      const text = line?.translateToString(true) ?? "";
      lines.push(line?.isWrapped ? `${lines.pop() ?? ""}${text}` : text);
    }
    const trimmed = lines.map((line) => line.trimEnd());
    return trimmed.slice(0, trimmed.findLastIndex((line) => line !== "") + 1);
  };

  const screen: Screen = {
    pid: pty.pid,
    rows() {
      const buffer = emulator.buffer.active;
      const row = (at: number) =>
        buffer
          .getLine(buffer.baseY + at)
          ?.translateToString(true)
          .trimEnd() ?? "";
      return Array.from({ length: emulator.rows }, (_, at) => row(at));
    },
    text: () => screen.rows().join("\n"),
    lines: () => linesFrom(0),
    cursor: () => ({ row: emulator.buffer.active.cursorY, col: emulator.buffer.active.cursorX, hidden }),
    raw: () => Buffer.concat(printed).toString(),
    shows(what, patienceMs) {
      const found = (text: string) => (typeof what === "string" ? text.includes(what) : text.search(what) >= 0);
      // What has scrolled off does not change: after the first look only what is new since the last one is read,
      // or ten megabytes of output would be read a thousand times over.
      let read: IMarker | undefined;
      const condition = () => {
        const first = read?.line ?? 0;
        read?.dispose();
        read = emulator.registerMarker(-emulator.buffer.active.cursorY);
        return found(linesFrom(first).join("\n"));
      };
      return screen.until(condition, String(what), patienceMs).finally(() => read?.dispose());
    },
    until: (condition, what = "what it should show", patienceMs = PATIENCE_MS) =>
      new Promise((resolve, reject) => {
        const settle = (error?: unknown) => {
          clearTimeout(timer);
          waiting.delete(look);
          if (error) reject(error);
          else resolve();
        };
        const look = () => {
          if (emulator.modes.synchronizedOutputMode && !over) return;
          try {
            if (condition(screen)) settle();
            else if (over) settle(new Error(`it ended without ${what}:\n${picture(screen)}`));
          } catch (error) {
            settle(error);
          }
        };
        const timer = setTimeout(
          () => settle(new Error(`not within ${patienceMs} ms: ${what}\n${picture(screen)}`)),
          patienceMs,
        );
        waiting.add(look);
        look();
      }),
    type: write,
    key: (name) => write(bytesOf(name, emulator.modes.applicationCursorKeysMode)),
    paste(text) {
      const typed = text.replaceAll(/\r?\n/g, "\r");
      write(emulator.modes.bracketedPasteMode ? `\x1b[200~${typed}\x1b[201~` : typed);
    },
    resize: (cols, rows) =>
      new Promise((resolve) => {
        emulator.write("", () => {
          emulator.resize(cols, rows);
          if (open) pty.resize(cols, rows);
          resolve();
        });
      }),
    close() {
      open = false;
      pty.kill = () => {}; // the kernel sends the SIGHUP; node-pty would send a second one
      pty.destroy();
    },
    kill(signal) {
      try {
        if (!over) process.kill(pty.pid, signal);
      } catch {
        // it has just ended
      }
    },
    exit,
    settings() {
      if (!open) throw new Error("the terminal went with its program: type the command in a startShell() instead");
      return settingsOf(pty.ptsName);
    },
    emulator,
  };
  return screen;
}

/** What node-pty has on Unix, and its types leave out. */
type UnixPty = IPty & {
  fd: number;
  ptsName: string;
  destroy(): void;
  on(event: "close", listener: () => void): void;
  _socket: { destroy(error?: Error): unknown };
};

function unix(pty: IPty): UnixPty {
  const complete = (one: IPty): one is UnixPty =>
    ["fd", "ptsName", "destroy", "on", "_socket"].every((name) => name in one);
  if (!complete(pty)) throw new Error("these tests need a Unix terminal");
  return pty;
}

/**
 * Writes as the program reads. node-pty's own write spins until everything is taken; a program that is just printing
 * takes nothing before its output is read, which would then be never.
 */
function writer(fd: number, open: () => boolean): (text: string) => void {
  let rest = Buffer.alloc(0);
  const flush = () => {
    while (open() && rest.length > 0) {
      const taken = writeSome(fd, rest);
      if (taken === 0) return void setTimeout(flush, 2); // nothing tells when there is room again
      rest = rest.subarray(taken);
    }
  };
  return (text) => {
    const idle = rest.length === 0;
    rest = Buffer.concat([rest, Buffer.from(text)]);
    if (idle) flush();
  };
}

function writeSome(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "EAGAIN") return 0;
    if (code === "EIO") return bytes.length; // nobody is there to read it any more
    throw error;
  }
}

/** What is there now, or nothing: the descriptor does not block. */
function readSome(fd: number): Buffer | undefined {
  const bytes = Buffer.alloc(65_536);
  try {
    const count = readSync(fd, bytes);
    return count > 0 ? bytes.subarray(0, count) : undefined;
  } catch {
    return undefined; // EAGAIN: nothing more; EIO: the other side is closed
  }
}

function settingsOf(tty: string): string[] {
  const fd = openSync(tty, constants.O_RDWR | constants.O_NOCTTY);
  try {
    const { stdout, stderr, status } = spawnSync("stty", ["-a"], { stdio: [fd, "pipe", "pipe"], encoding: "utf8" });
    if (status !== 0) throw new Error(`stty: ${stderr}`);
    return stdout.trim().split(/[\s;]+/);
  } finally {
    closeSync(fd);
  }
}

function signalNamed(number: number): NodeJS.Signals {
  for (const [name, value] of Object.entries(system.signals)) if (value === number) return name as NodeJS.Signals;
  return "SIGKILL";
}

function picture(screen: Screen): string {
  const { row, col, hidden } = screen.cursor();
  const edge = "─".repeat(screen.emulator.cols);
  return [edge, ...screen.rows(), edge, `cursor: row ${row}, column ${col}${hidden ? ", hidden" : ""}`].join("\n");
}

const PLAIN: Record<string, string> = { enter: "\r", esc: "\x1b", tab: "\t", backspace: "\x7f", space: " " };
const ARROWS: Record<string, string> = { up: "A", down: "B", right: "C", left: "D", end: "F", home: "H" };
const NUMBERED: Record<string, number> = { insert: 2, delete: 3, pageup: 5, pagedown: 6 };
const SHIFT = 1;
const ALT = 2;
const CTRL = 4;
const MODIFIERS: Record<string, number> = { shift: SHIFT, alt: ALT, ctrl: CTRL };

/** What xterm sends. Some keys do not exist there: Shift+Enter, for one, is Enter. */
function bytesOf(name: string, application: boolean): string {
  const parts = name.split("+");
  const base = parts.pop() ?? "";
  const held = parts.reduce((sum, part) => sum + (MODIFIERS[part] ?? Number.NaN), 0);
  const none = new Error(`a terminal has no such key: ${name}`);
  if (Number.isNaN(held)) throw none;
  const arrow = ARROWS[base];
  if (arrow) return held > 0 ? `\x1b[1;${held + 1}${arrow}` : `\x1b${application ? "O" : "["}${arrow}`;
  const number = NUMBERED[base];
  if (number) return `\x1b[${number}${held > 0 ? `;${held + 1}` : ""}~`;
  if (name === "shift+tab") return "\x1b[Z";
  const plain = PLAIN[base] ?? base;
  const printable = /^[ -~]$/.test(plain);
  if (held & SHIFT || (held & CTRL && !printable) || (base === plain && !printable)) throw none;
  const typed = held & CTRL ? String.fromCharCode(plain.toUpperCase().charCodeAt(0) & 0x1f) : plain;
  return held & ALT ? `\x1b${typed}` : typed;
}

// ── Widths: the emulator's own are those of Unicode 6, where an emoji is one cell wide. Terminals of today give it two. ──

const WIDE = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff01, 0xff60],
  [0xffe0, 0xffe6],
  [0x20000, 0x3fffd],
] as const;
const EMOJI_STYLE = 0xfe0f;
const KEYCAP = 0x20e3;
const JOINER = 0x200d;
/** What the character before was, as far as it matters for the next one. */
const AFTER = { text: 0, emoji: 1, joiner: 2, flag: 3 };

/** One grapheme, one place: a flag, a family or a heart with its emoji style are two cells wide as a whole. */
function widthsOfToday(emulator: Terminal): void {
  const charProperties = (code: number, before: number): number => {
    const char = String.fromCodePoint(code);
    const was = before >> 3;
    const room = (before >> 1) & 3;
    const flag = /\p{Regional_Indicator}/u.test(char);
    const emoji = /\p{Extended_Pictographic}/u.test(char);
    const joins =
      room > 0 &&
      (widthOf(code) === 0 ||
        (was === AFTER.joiner && emoji) ||
        (was === AFTER.flag && flag) ||
        (was === AFTER.emoji && /\p{Emoji_Modifier}/u.test(char)));
    const styled = code === KEYCAP || (code === EMOJI_STYLE && was === AFTER.emoji);
    const width = joins ? Math.max(room, styled ? 2 : widthOf(code)) : widthOf(code);
    let is = joins ? was : AFTER.text;
    if (emoji) is = AFTER.emoji;
    if (flag) is = joins ? AFTER.text : AFTER.flag;
    if (code === JOINER && was === AFTER.emoji) is = AFTER.joiner;
    return (is << 3) | (width << 1) | Number(joins);
  };
  // Letters need none of this, and there are ten million of them.
  const quick = (code: number, before: number) => (code >= 0x20 && code < 0x7f ? 1 << 1 : charProperties(code, before));
  emulator.unicode.register({ version: "today", wcwidth: widthOf, charProperties: quick });
  emulator.unicode.activeVersion = "today";
}

function widthOf(code: number): 0 | 1 | 2 {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 0;
  if (code < 0x300) return 1;
  const char = String.fromCodePoint(code);
  if (/\p{Emoji_Presentation}/u.test(char) || WIDE.some(([first, last]) => code >= first && code <= last))
    return /\p{Mn}/u.test(char) ? 0 : 2;
  return /[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/u.test(char) ? 0 : 1;
}
