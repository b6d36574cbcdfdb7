// What a chat sees of a turn while it runs: that we are at work, one message that is edited as tools run and words come, and
// the questions it asks. Only a view: the answer itself goes through the outbox.
import type { Chat, Place } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Clock, Log, Notes } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";
import { asRecord } from "./access.ts";
import { routeFor } from "./outbox.ts";
import type { Questions } from "./questions.ts";

type Options = {
  runtime: Runtime;
  chats: ReadonlyMap<string, Chat>;
  notes: Notes;
  questions: Questions;
  clock: Clock;
  log: Log;
  /** Which tool calls are shown. */
  progress: "off" | "new" | "all" | "verbose";
};
export type Show = {
  observe(session: string, entries: readonly Entry[]): void;
  /** No more edits of this turn's message: its answer takes the place. */
  freeze(turn: string): Promise<void>;
  close(): void;
};

const TYPING_MS = 4_000;
/** An answer that is there sooner needs no message of its own before it. */
const SHOW_TEXT_MS = 2_000;
const MOST_LINES = 12;

export function createShow(options: Options): Show {
  const { runtime, chats, notes, questions, clock, log, progress } = options;
  const views = new Map<string, { over: AbortController; settled: Promise<void> }>();

  function observe(session: string, entries: readonly Entry[]) {
    for (const { kind, turn, seq } of entries)
      if ((kind === "began" || kind === "restarted") && !views.has(turn)) open(session, turn, seq - 1);
  }

  function open(session: string, turn: string, after: number) {
    const over = new AbortController();
    const settled = watch(session, turn, after, over.signal)
      .catch((error: unknown) => log("warn", "view.failed", { session, turn, error: messageOf(error) }))
      .finally(() => views.delete(turn));
    views.set(turn, { over, settled });
  }

  async function watch(session: string, turn: string, after: number, signal: AbortSignal) {
    const route = await routeFor(session, notes);
    const chat = route && chats.get(route.platform);
    if (!route || !chat) return;
    const { place } = route;
    const { asking } = await runtime.status(session);
    for (const question of asking) await questions.ask(chat, place, session, turn, question);
    const view = createView({ chat, place, turn, notes, clock, log, signal });
    const typing = keepTyping(chat, place, signal);
    const calls = new Map<string, { tool: string; preview: string; at: number }>();
    try {
      for await (const update of runtime.follow(session, String(after), signal)) {
        if ("delta" in update) view.say(update.delta);
        else if ("reset" in update) view.unsay();
        else if ("notice" in update) view.notice(update.notice);
        if (!("entry" in update)) continue;
        const { entry } = update;
        if (entry.turn !== turn) continue;
        if (entry.kind === "asked") await questions.ask(chat, place, session, turn, { call: entry.call, ...entry.ask });
        if (entry.kind === "decided" || entry.kind === "acted") await questions.settle(chat, place, session, entry);
        if (entry.kind === "thought") {
          for (const { id, tool, args } of entry.calls) calls.set(id, { tool, preview: previewOf(args), at: entry.at });
          if (entry.calls.length) view.unsay();
        }
        if (entry.kind === "started" && progress !== "off") view.line(entry.call, `⚙️ ${lineOf(calls.get(entry.call))}`);
        if (entry.kind === "acted" && progress !== "off")
          view.line(entry.call, `${entry.outcome === "ok" ? "✓" : "✗"} ${lineOf(calls.get(entry.call))}`);
        if (entry.kind !== "ended") continue;
        if (entry.outcome === "cancelled") await view.end("⏹ Stopped.");
        if (entry.outcome === "interrupted") await view.end("⚡ Interrupted.");
        return;
      }
    } finally {
      typing.abort();
      await view.close();
    }
  }

  function keepTyping(chat: Chat, place: Place, signal: AbortSignal): AbortController {
    const over = new AbortController();
    const stop = () => over.abort("over");
    signal.addEventListener("abort", stop);
    void (async () => {
      while (!over.signal.aborted) {
        await chat.typing(place);
        await clock.sleep(TYPING_MS, over.signal);
      }
      signal.removeEventListener("abort", stop);
    })();
    return over;
  }

  return {
    observe,
    async freeze(turn) {
      const view = views.get(turn);
      view?.over.abort("frozen");
      await view?.settled;
    },
    close() {
      for (const { over } of views.values()) over.abort("closed");
    },
  };
}

type View = {
  chat: Chat;
  place: Place;
  turn: string;
  notes: Notes;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
};

/** One message, edited no more often than the platform allows. */
function createView({ chat, place, turn, notes, clock, log, signal }: View) {
  const name = `live/${turn}`;
  const lines = new Map<string, string>();
  let text = "";
  let notice = "";
  let saidAt = 0;
  let over = false;
  let shown = "";
  let message: string | null = null;
  let dirty = Promise.withResolvers<void>();

  const body = () => {
    const tools = [...lines.values()].slice(-MOST_LINES).join("\n");
    const whole = [tools, text, notice && `_${notice}_`].filter(Boolean).join("\n\n");
    return whole.length > chat.longest ? `…${whole.slice(1 - chat.longest)}` : whole;
  };
  const worth = () => message !== null || lines.size > 0 || (text !== "" && clock.now() - saidAt > SHOW_TEXT_MS);

  async function put(content: string) {
    if (!content || content === shown) return;
    try {
      if (message === null) {
        message = await chat.send(place, { text: content }, `live.${turn}`, signal);
        await notes.set(name, { message });
      } else await chat.edit(place, message, { text: content }, signal);
      shown = content;
    } catch (error) {
      if (!signal.aborted) log("debug", "view.unshown", { turn, error: messageOf(error) });
    }
  }

  async function pump() {
    const before = asRecord(await notes.get(name)); // by a process before us
    if (typeof before?.["message"] === "string") message = before["message"];
    for (;;) {
      await dirty.promise;
      dirty = Promise.withResolvers<void>();
      if (text && !worth() && !over) await clock.sleep(SHOW_TEXT_MS, signal);
      if (over || signal.aborted) return;
      if (worth()) await put(body());
      await clock.sleep(chat.editEveryMs, signal);
    }
  }
  const wake = () => dirty.resolve();
  signal.addEventListener("abort", wake);
  const pumping = pump();

  return {
    say(more: string) {
      if (!text) saidAt = clock.now();
      text += more;
      wake();
    },
    unsay() {
      text = "";
    },
    notice(said: string) {
      notice = said;
      wake();
    },
    line(key: string, said: string) {
      lines.set(key, said);
      wake();
    },
    /** There will be no answer: what was shown stays, marked. */
    async end(mark: string) {
      over = true;
      wake();
      await pumping;
      notice = "";
      if (message !== null) await put(`${body()}\n\n${mark}`.trim().slice(-chat.longest));
      await notes.set(name, undefined);
    },
    async close() {
      over = true;
      wake();
      signal.removeEventListener("abort", wake);
      await pumping;
    },
  };
}

const lineOf = (call: { tool: string; preview: string } | undefined) =>
  call ? `${call.tool}${call.preview ? `: \`${call.preview}\`` : ""}` : "tool";

const PREVIEW = 80;
function previewOf(args: unknown): string {
  const values: unknown[] = typeof args === "object" && args !== null ? Object.values(args) : [];
  const first = values.find((value) => typeof value === "string") ?? "";
  const line = first.replaceAll(/[\s`]+/g, " ").trim();
  return line.length > PREVIEW ? `${line.slice(0, PREVIEW - 1)}…` : line;
}
