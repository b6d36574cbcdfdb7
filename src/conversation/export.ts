// A conversation as a file: Markdown for people, JSON for programs. Both hold what was taken into turns; what still
// waits is only counted. The Markdown leaves thoughts out and cuts long results; the JSON cuts nothing.
import type { CallKind, CallOutcome, Entry, Input, RecoveryKind, Usage } from "../core/session.ts";
import { shortName } from "../core/session-key.ts";
import type { Message } from "../core/transcript.ts";
import { usagePlus } from "../core/usage.ts";

type Named = { key: string; title: string };
type ExportedCall = { id: string; tool: string; args: unknown; outcome?: CallOutcome; result?: string };
type ExportedMessage = { at: number; text: string } & (
  | { role: "user"; by?: string; images: number }
  | { role: "assistant"; calls: ExportedCall[]; model?: string; usage?: Usage }
  /** How a turn went, where it did not go well. */
  | { role: "notice" }
);

const LONGEST_RESULT = 4_000;
const LONGEST_NAME = 200;

export function exportMarkdown({ key, title }: Named, entries: readonly Entry[]): string {
  const { said, waiting } = conversation(entries);
  const [first, last] = [said[0], said.at(-1)];
  const about = [
    first && last ? `${timeOf(first.at)} to ${timeOf(last.at)} (UTC)` : "Nothing was said yet.",
    `Session ${code(oneLine(key))}`,
    ...(waiting ? [`${waiting} more waiting, not in here`] : []),
  ];
  const parts = [`# ${oneLine(title) || "Conversation"}`, about.join("  \n"), ...said.flatMap(sectionOf)];
  return `${parts.join("\n\n")}\n`;
}

export function exportJson({ key, title }: Named, entries: readonly Entry[], at: Date): string {
  const { said, waiting, usage } = conversation(entries);
  const head = { session: key, title, exported_at: at.toISOString(), waiting, usage };
  const text = JSON.stringify({ ...head, messages: said.map(wireOf) }, null, 2);
  // JSON escapes some of them itself: such a file may be shown on a terminal too.
  return `${text.replaceAll(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
}

/** As text, and the name that its file usually has. */
export function exportFile(named: Named, entries: readonly Entry[], json: boolean, at: Date) {
  const text = json ? exportJson(named, entries, at) : exportMarkdown(named, entries);
  const usualFile = `hermes-${shortName(named.key).replaceAll(/[^\w-]+/g, "-")}.${json ? "json" : "md"}`;
  return { text, usualFile };
}

// ── What was said ─────────────────────────────────────────────────────────────────────────────────────

function conversation(entries: readonly Entry[]): { said: ExportedMessage[]; waiting: number; usage: Usage } {
  const said: ExportedMessage[] = [];
  const waiting = new Map<string, { input: Input; at: number }>();
  const uses = new Map<string, ExportedCall>();
  let usage: Usage = { input: 0, output: 0, cached: 0 };

  const answered = (
    at: number,
    text: string,
    calls: readonly ExportedCall[],
    more: { model?: string; usage?: Usage } = {},
  ) => {
    if (!text && !calls.length) return;
    const own = calls.map((call) => ({ ...call }));
    for (const call of own) uses.set(call.id, call);
    said.push({ role: "assistant", at, text, calls: own, ...more });
  };
  const acted = (call: string, outcome: CallOutcome, result: string) => {
    const use = uses.get(call);
    if (use) Object.assign(use, { outcome, result });
  };
  /** What the conversation was begun with, copied from another one. */
  const copied = (message: Message, at: number) => {
    const { role, text } = message;
    if (role === "user") said.push({ role, at, text, images: message.images?.length ?? 0 });
    else if (role === "tool") acted(message.call, message.outcome, text);
    else answered(at, text, message.calls);
  };

  for (const entry of entries) {
    const { at } = entry;
    switch (entry.kind) {
      case "accepted":
        waiting.set(entry.input.id, { input: entry.input, at });
        break;
      case "withdrawn":
        waiting.delete(entry.input);
        break;
      case "began":
      case "joined": {
        const taken = waiting.get(entry.input);
        waiting.delete(entry.input);
        if (!taken || taken.input.task) break;
        const { text, by, images = [] } = taken.input;
        said.push({ role: "user", at: taken.at, text, ...(by && { by }), images: images.length });
        break;
      }
      case "thought":
        answered(at, entry.text, entry.calls, { model: entry.model, usage: entry.usage });
        usage = usagePlus(usage, entry.usage);
        break;
      case "acted":
        acted(entry.call, entry.outcome, entry.text);
        break;
      case "cut":
        answered(at, entry.text, []);
        break;
      case "forked":
        for (const message of entry.messages) copied(message, at);
        break;
      case "failed":
        said.push({ role: "notice", at, text: `The turn failed: ${entry.reason}` });
        break;
      case "stopping":
        said.push({ role: "notice", at, text: `The turn was ${entry.outcome}.` });
        break;
      default:
        // the rest says nothing to a reader
        entry.kind satisfies CallKind | RecoveryKind | "moved" | "compacted" | "ended";
    }
  }
  return { said, waiting: waiting.size, usage };
}

// ── As JSON ───────────────────────────────────────────────────────────────────────────────────────────

function wireOf(said: ExportedMessage): Record<string, unknown> {
  const { at, ...rest } = said;
  const time = new Date(at).toISOString();
  if (rest.role !== "assistant") return { ...rest, at: time };
  const { calls, ...answer } = rest;
  const wired = calls.map(({ tool, args, ...call }) => ({ ...call, name: tool, arguments: args }));
  return { ...answer, at: time, tool_calls: wired };
}

// ── As Markdown ───────────────────────────────────────────────────────────────────────────────────────

function sectionOf(said: ExportedMessage): string[] {
  const text = contained(plain(said.text));
  switch (said.role) {
    case "user": {
      const who = said.by ? `User (${oneLine(said.by)})` : "User";
      const pictures = said.images ? [`(${said.images} picture${said.images > 1 ? "s" : ""})`] : [];
      return [`## ${who} · ${timeOf(said.at)}`, ...[text].filter(Boolean), ...pictures];
    }
    case "assistant":
      return [`## Assistant · ${timeOf(said.at)}`, ...[text].filter(Boolean), ...said.calls.flatMap(blocksOf)];
    case "notice":
      return [`> ${oneLine(said.text)}`];
  }
}

function blocksOf({ tool, args, outcome, result }: ExportedCall): string[] {
  const asked = fenced("json", JSON.stringify(args, null, 2) ?? "");
  const head = `Tool ${code(oneLine(tool))}${outcome && outcome !== "ok" ? ` (${outcome})` : ""}`;
  return [head, asked, ...(result === undefined ? ["(no result)"] : [fenced("", middleOut(plain(result)))])];
}

/** A message is Markdown itself: it stays below its own heading, and nothing in it reaches into the next one. */
function contained(text: string): string {
  let open = { indent: "", mark: "" };
  const lines = text.split("\n").map((line) => {
    const [, indent = "", mark = "", info = ""] = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
    if (open.mark) {
      if (mark.startsWith(open.mark) && !info.trim()) open = { indent: "", mark: "" };
      return line;
    }
    // Backticks with another one behind them are code within the line.
    if (mark && !(mark.startsWith("`") && info.includes("`"))) {
      open = { indent, mark };
      return line;
    }
    return line.replace(/^( {0,3})(#{1,6})(?=\s|$)/, deeper).replace(/^( {0,3})(?=<[a-z!?/])/i, "$1\\");
  });
  const closed = open.mark ? [...lines, open.indent + open.mark] : lines;
  return closed
    .join("\n")
    .replace(/^\s*\n/, "")
    .trimEnd();
}

const deeper = (_: string, indent: string, marks: string) => indent + "#".repeat(Math.min(6, marks.length + 2));

/** In a fence longer than any inside. */
export const fenced = (kind: string, given: string): string => {
  const text = plain(given).trimEnd();
  const fence = "`".repeat(Math.max(3, longestTicks(text) + 1));
  return `${fence}${kind}\n${text}\n${fence}`;
};
const code = (text: string): string => {
  const ticks = "`".repeat(longestTicks(text) + 1);
  const room = /^`|`$/.test(text) ? " " : "";
  return `${ticks}${room}${text}${room}${ticks}`;
};
const longestTicks = (text: string): number =>
  (text.match(/`+/g) ?? []).reduce((longest, { length }) => Math.max(longest, length), 0);

function middleOut(text: string): string {
  if (text.length <= LONGEST_RESULT) return text;
  const half = LONGEST_RESULT / 2;
  const left = text.length - LONGEST_RESULT;
  return `${text.slice(0, half)}\n[… ${left} characters left out …]\n${text.slice(-half)}`.toWellFormed();
}

const timeOf = (at: number): string => new Date(at).toISOString().slice(0, 16).replace("T", " ");
const oneLine = (text: string): string =>
  plain(text).replaceAll(/\s+/g, " ").trim().slice(0, LONGEST_NAME).toWellFormed();

const SEQUENCE = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?/g;
/** Controls, and what makes text look like other text. */
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

const plain = (text: string): string =>
  text.replaceAll(/\r\n?/g, "\n").replaceAll(SEQUENCE, "").replaceAll(UNSEEN, "").toWellFormed();
