// One log record as one line for people: on stderr while we run, and in `hermes logs`.
import { jsonIn, toObject } from "./json.ts";

export const LEVELS = ["debug", "info", "warn", "error"] as const;
export type Level = (typeof LEVELS)[number];

export type LogRecord = { time: string; level: Level; pid: number; event: string } & Record<string, unknown>;

const COLOURS: Record<Level, string> = { debug: "\x1b[2m", info: "\x1b[36m", warn: "\x1b[33m", error: "\x1b[31m" };
const PLAIN = /^[\w.:/@+-]+$/;
// Control, bidirectional and invisible characters: text from a model or a tool must not control the terminal.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

export const atLeast = (level: Level, least: Level): boolean => LEVELS.indexOf(level) >= LEVELS.indexOf(least);

export const isTerminal = (stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean =>
  stream.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb";

export const parseRecord = (line: string): LogRecord | null => {
  const record = jsonIn(line);
  return isRecord(record) ? record : null;
};

export const pretty = (record: LogRecord, colour: boolean): string => {
  const { time, level, event, pid: _pid, ...fields } = record;
  const paint = (text: string, code: string) => (colour ? `${code}${text}\x1b[0m` : text);
  const head = `${localTime(time)} ${paint(level.toUpperCase().padEnd(5), COLOURS[level])} ${printable(event)}`;
  const tail = Object.entries(fields).map(([name, value]) => paint(` ${printable(name)}=`, "\x1b[2m") + shown(value));
  return head + tail.join("");
};

/** Text without characters that a terminal would interpret. */
export const printable = (text: string): string =>
  text.replace(UNSAFE, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`);

const shown = (value: unknown): string => {
  if (typeof value === "string") return PLAIN.test(value) ? value : printable(JSON.stringify(value));
  // The stack is in the file; on one line it only hides the message.
  const text = JSON.stringify(value, (name, inner: unknown) => (name === "stack" ? undefined : inner));
  return printable(text ?? String(value));
};

const localTime = (time: string): string => {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return printable(time);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, -1).replace("T", " ");
};

const isRecord = (value: unknown): value is LogRecord => {
  const { time, event, level: named } = toObject(value);
  return typeof time === "string" && typeof event === "string" && LEVELS.some((level) => level === named);
};
