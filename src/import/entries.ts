// The rows of a conversation of Hermes as entries of our journal. Pure. Each message of a person is a turn; a summary is a turn of
// its own that only made the conversation shorter.
import { createHash } from "node:crypto";
import {
  type CallOutcome,
  type Entry,
  type Fact,
  fresh,
  type Image,
  type Outcome,
  type Session,
} from "../core/session.ts";
import { RUN } from "../core/session-key.ts";
import type { Message } from "../core/transcript.ts";
import { isObject, jsonIn, toList, toObject } from "../platform/json.ts";
import { type OldRow, textOf } from "./database.ts";

export type Imported = ReturnType<typeof entriesOf>;
type Options = {
  /** The first of its sessions there: ids are made from it, so they are the same when the import is repeated. */
  id: string;
  model: string;
  by?: string | undefined;
  /** The conversation that this one was copied from, our key of it, and its rows that are copied here. */
  fork?: { from: string; upTo: number; rows: readonly OldRow[] };
};

const SUMMARY = "[CONTEXT COMPACTION";
const LOST = "Outcome unknown: Hermes ended before the result was stored.";
const NOTE = /^\s*\[(?:System note|Context from the interrupted|This response was interrupted|IMPORTANT: )[^\]]*\]\s*/;

export function entriesOf(rows: readonly OldRow[], { id, model, by, fork }: Options) {
  const entries: Entry[] = [];
  const inputs: string[] = [];
  /** By the ids of Hermes: our ids of the calls. */
  const calls = new Map<string, { turn: string; call: string; at: number; tool: string }>();
  /** The entry of each row. */
  const seqs = new Map<number, number>();
  /** What could not come as it was, and how often. */
  const left = new Map<string, number>();
  const seen = new Map<string, number>();
  const head: OldRow[] = [];
  let turn: { id: string; open: Map<string, string>; answered: boolean; thoughts: number } | null = null;
  let at = rows[0]?.at ?? 0;
  let ended = 0;
  let summary: { text: string; row: OldRow } | null = null;

  const note = (of: string, fact: Fact): number => {
    entries.push({ seq: entries.length + 1, turn: of, at, ...fact });
    return entries.length;
  };
  const missed = (what: string): void => void left.set(what, (left.get(what) ?? 0) + 1);

  if (fork) {
    note("", { kind: "forked", from: fork.from, upTo: fork.upTo, messages: messagesOf(fork.rows) });
    for (const row of fork.rows) seqs.set(row.id, entries.length);
  }
  const copied = new Set(fork?.rows.map((row) => row.id));

  for (const row of rows) {
    if (copied.has(row.id)) continue;
    if (isSummary(row)) {
      summary = { text: row.content, row };
      continue;
    }
    const same = JSON.stringify([row.role, row.at, row.content, row.call, row.calls]);
    const original = seen.get(same);
    if (original !== undefined) {
      if (summary) shorten(original - 1);
      else head.push(row);
      continue;
    }
    if (summary) shorten(entries.length);
    head.length = 0; // what was copied before this was behind a summary, not before one
    // Timestamps do not always rise; ours must not go back.
    at = Math.max(at, row.at);
    take(row);
    seen.set(same, seqs.get(row.id) ?? entries.length);
  }
  if (summary) shorten(entries.length);
  finish();
  const state: Session = { ...fresh, seq: entries.length, ended };
  return { entries, state, inputs, calls, left };

  function take(row: OldRow): void {
    switch (row.role) {
      case "user": {
        const words = wordsOf(row);
        if (words === "" || row.shown === "internal_notification") {
          missed("notes of the program to itself (not shown to people)");
          finish();
          return void begin(row, null);
        }
        finish();
        return void begin(row, words);
      }
      case "assistant": {
        const proposed = callsIn(row.calls);
        if (row.shown === "hidden" || !(row.content || proposed.length)) {
          missed("answers that were cut before their first word");
          return;
        }
        const { id: of, open, thoughts } = turn ?? begin(row, null);
        close(LOST);
        const made = proposed.map(({ id: theirs, ...call }, index) => {
          const ours = `call_${of.slice(RUN.length).slice(0, 16)}_${thoughts}_${index}`;
          open.set(theirs, ours);
          calls.set(theirs, { turn: of, call: ours, at: row.at, tool: call.tool });
          return { id: ours, ...call };
        });
        const usage = { input: 0, output: 0 };
        const { reasoning } = row;
        const text = plainText(row.content);
        seqs.set(
          row.id,
          note(of, { kind: "thought", text, ...(reasoning && { reasoning }), calls: made, usage, model }),
        );
        if (turn) Object.assign(turn, { answered: made.length === 0, thoughts: thoughts + 1 });
        return;
      }
      default: {
        const call = turn?.open.get(row.call);
        if (!turn || call === undefined) return missed("results of tools without their call");
        turn.open.delete(row.call);
        const text = plainText(row.content);
        note(turn.id, { kind: "started", call });
        seqs.set(row.id, note(turn.id, { kind: "acted", call, outcome: outcomeOf(text), text }));
      }
    }
  }

  /** `words` null: nobody said anything, so nothing of it is shown as a message. */
  function begin(row: OldRow, words: string | null) {
    const of = `${RUN}${digest("hermes", id, row.id).slice(0, 32)}`;
    const { images, text } = words === null ? { images: [], text: "" } : partsOf(words);
    const input = {
      id: of,
      text,
      mode: "queue" as const,
      reply: "pull" as const,
      source: "hermes",
      ...(by && { by }),
      ...(images.length && { images }),
      ...(words === null && { task: "compress" as const }),
    };
    inputs.push(of);
    note(of, { kind: "accepted", input, applied: "began" });
    seqs.set(row.id, note(of, { kind: "began", input: of }));
    turn = { id: of, open: new Map(), answered: words === null, thoughts: 0 };
    return turn;
  }

  function close(why: string): void {
    if (!turn) return;
    for (const call of turn.open.values()) {
      missed("tool calls without a result (Hermes was killed)");
      note(turn.id, { kind: "acted", call, outcome: "unknown", text: why });
    }
    turn.open.clear();
  }

  function finish(): void {
    if (!turn) return;
    close(LOST);
    const outcome: Outcome = turn.answered ? "completed" : "interrupted";
    ended = note(turn.id, { kind: "ended", outcome });
    turn = null;
  }

  /** Up to that entry the model is shown the summary, and what Hermes had kept of the beginning. */
  function shorten(upTo: number): void {
    if (!summary) return;
    finish();
    const { row, text } = summary;
    summary = null;
    const kept = head.splice(0).map(({ role, content }) => `${role}: ${plainText(content)}`);
    const { id: of } = begin(row, null);
    note(of, { kind: "compacted", summary: [...kept, text].join("\n\n"), upTo });
    finish();
  }
}

export const isSummary = ({ role, content }: OldRow): boolean => role === "assistant" && content.startsWith(SUMMARY);

export const digest = (...parts: unknown[]): string => createHash("sha256").update(JSON.stringify(parts)).digest("hex");

/** What the person said. After a correction in the middle of a turn it can be only in what was sent to the model. */
export function wordsOf({ content, sent }: OldRow): string {
  return withoutNotes(content) || withoutNotes(sent);
}

function withoutNotes(text: string): string {
  let rest = text;
  while (NOTE.test(rest)) rest = rest.replace(NOTE, "");
  return rest.trim();
}

const PARTS = "\0json:";

function partsOf(content: string): { text: string; images: Image[] } {
  if (!content.startsWith(PARTS)) return { text: content, images: [] };
  const images: Image[] = [];
  const lines: string[] = [];
  for (const part of objectsIn(content.slice(PARTS.length))) {
    const { type, text, image_url: image } = part;
    const url = textOf(toObject(image)["url"] ?? image);
    const [, mime, data] = /^data:([^;,]+);base64,(.+)$/s.exec(url) ?? [];
    if (mime && data) images.push({ mime, data });
    else lines.push(typeof text === "string" ? text : `[${textOf(type)}] ${url}`.trim());
  }
  return { text: lines.join("\n").trim() || "[picture]", images };
}

const objectsIn = (json: string) => toList(jsonIn(json)).filter(isObject);
const plainText = (content: string): string => partsOf(content).text;

function callsIn(json: string): { id: string; tool: string; args: unknown }[] {
  return objectsIn(json).map(({ id, call_id: other, function: called }) => {
    const { name, arguments: args } = toObject(called);
    return { id: textOf(id ?? other), tool: textOf(name), args: argumentsIn(args) };
  });
}

const argumentsIn = (args: unknown): unknown =>
  typeof args === "string" ? (jsonIn(args || "{}") ?? { text: args }) : (args ?? {});

function outcomeOf(result: string): CallOutcome {
  const { exit_code: code, error, success } = toObject(jsonIn(result));
  return (typeof code === "number" && code !== 0) || error || success === false ? "error" : "ok";
}

/** As a model is shown them: for the beginning of a fork. */
function messagesOf(rows: readonly OldRow[]): Message[] {
  const messages: Message[] = [];
  const open = new Map<string, string>();
  const close = () => {
    for (const [call, tool] of open) messages.push({ role: "tool", call, tool, outcome: "unknown", text: LOST });
    open.clear();
  };
  for (const row of rows) {
    if (row.role === "tool") {
      const tool = open.get(row.call);
      if (tool === undefined) continue;
      open.delete(row.call);
      const text = plainText(row.content);
      messages.push({ role: "tool", call: row.call, tool, outcome: outcomeOf(text), text });
      continue;
    }
    close();
    if (row.role === "user") {
      const { text, images } = partsOf(
        row.shown === "internal_notification" ? row.content : wordsOf(row) || row.content,
      );
      messages.push({ role: "user", text, ...(images.length && { images }) });
    } else if (row.content || row.calls) {
      const calls = callsIn(row.calls);
      for (const { id, tool } of calls) open.set(id, tool);
      messages.push({ role: "assistant", text: plainText(row.content), calls });
    }
  }
  close();
  return messages;
}
