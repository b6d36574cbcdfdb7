// What a chat sees of a turn while it runs: that we are at work, one message that is edited as tools run and words come, and
// the questions it asks. Only a view: the answer itself goes through the outbox.
import { followTurn } from "../../conversation/follow-turn.ts";
import type { Chat, Place } from "../../core/chat.ts";
import { Elsewhere, messageOf } from "../../core/errors.ts";
import { type Entry, HEARTBEAT_SOURCE, type InputKind, type RecoveryKind } from "../../core/session.ts";
import type { Notes } from "../../core/store.ts";
import { asRecord } from "./access.ts";
import type { GatewayOptions } from "./gateway.ts";
import type { Tell } from "./notices.ts";
import { routeFor, type ShownTurn } from "./outbox.ts";
import { createView, liveName, type ProgressView } from "./progress-message.ts";
import type { Questions } from "./questions.ts";

type Options = Pick<GatewayOptions, "runtime" | "clock" | "log" | "progress" | "node"> & {
  chats: ReadonlyMap<string, Chat>;
  notes: Notes;
  questions: Questions;
  tell: Tell;
};

type WatchedTurn = {
  session: string;
  turn: string;
  /** The last entry that was shown, and whether a stop was among them. */
  seen: { seq: number; stopping: boolean };
  signal: AbortSignal;
  view: ProgressView;
  /** What each tool call is shown as. */
  calls: Map<string, string>;
  chat: Chat;
  place: Place;
  /** Whoever talks there is asked. */
  attended: boolean;
  /** Nothing of it is shown before its answer. */
  isQuiet: boolean;
};

const TYPING_MS = 4_000;
const LONGEST_WAIT_MS = 30_000;
const MARKS = { cancelled: "⏹ Stopped.", interrupted: "⚡ Interrupted." };
const CUT_OFF =
  "⚠️ I was restarted in the middle of this, and it does not continue by itself. Send a message to continue.";

export function createShow(options: Options) {
  const { runtime, chats, notes, questions, tell, clock, log, progress } = options;
  const views = new Map<string, { over: AbortController; settled: Promise<void> }>();
  /** Turns that began here, and the view of each: no other process has shown anything of them. */
  const own = new Map<string, ProgressView | null>();
  /** Turns that are over, of those that are watched. */
  const ended = new Set<string>();
  const frozen = new Set<string>();

  function observe(session: string, entries: readonly Entry[]) {
    for (const { kind, turn, seq } of entries) {
      if (kind === "began") own.set(turn, null);
      if (kind === "restarted") own.delete(turn);
      if (kind === "began" || kind === "restarted") open(session, turn, seq - 1);
      if (kind !== "ended") continue;
      own.delete(turn);
      frozen.delete(turn);
      if (views.has(turn)) ended.add(turn);
    }
  }

  function open(session: string, turn: string, after: number) {
    if (views.has(turn) || frozen.has(turn)) return;
    const over = new AbortController();
    const settled = insist(session, turn, after, over.signal).finally(() => {
      views.delete(turn);
      ended.delete(turn);
      if (!frozen.has(turn)) own.delete(turn); // it has no answer for a chat, or another node goes on with it
    });
    views.set(turn, { over, settled });
  }

  /** A turn that nobody sees asks for approvals in vain: it is watched again as long as it goes on. Never rejects. */
  async function insist(session: string, turn: string, after: number, signal: AbortSignal): Promise<void> {
    const seen = { seq: after, stopping: false };
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        return await watch(session, turn, seen, signal);
      } catch (error) {
        if (error instanceof Elsewhere) return; // it is shown from there
        log("warn", "view.failed", { session, turn, tries, error: messageOf(error) });
        if (ended.has(turn)) return;
        await clock.sleep(Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** tries), signal);
      }
    }
  }

  async function watch(session: string, turn: string, seen: WatchedTurn["seen"], signal: AbortSignal) {
    const route = await routeFor(session, notes);
    const chat = route && chats.get(route.platform);
    const before = route ? await runtime.turn(turn) : [];
    const [first] = before;
    // A turn of an API client in the same conversation is shown to that client.
    if (!chat || first?.kind !== "accepted" || first.input.reply !== "push") return;
    const { place } = route;
    const { asking } = await runtime.status(session);
    const isFirst = own.get(turn) === null;
    await questions.settleOld({ chat, place, session }, asking, isFirst);
    for (const question of asking) questions.ask({ chat, place, session, turn }, question);
    const view = createView({ ...options, chat, place, turn, isFirst });
    if (isFirst) own.set(turn, view);
    else own.delete(turn);
    const isQuiet = first.input.source === HEARTBEAT_SOURCE; // it may have nothing to say
    const typing = isQuiet ? new AbortController() : keepTyping(chat, place);
    try {
      const attended = first.input.unattended === undefined;
      const calls = new Map(before.flatMap((entry) => linesOf(entry)));
      const outcome = await follow({ session, turn, seen, signal, view, calls, chat, place, attended, isQuiet });
      typing.abort("over");
      if (outcome === "cancelled" || outcome === "interrupted") await view.end(MARKS[outcome]);
      if (outcome === "cut off" && !(await view.end(CUT_OFF)))
        void tell.say(chat, place, { text: CUT_OFF }, `cut.${turn}`);
      // Where the answer is sent from here, the view is over before that.
      if (outcome === "completed" || outcome === "failed") view.leave();
    } catch (error) {
      if (error instanceof Elsewhere) view.leave();
      throw error;
    } finally {
      typing.abort("over");
      await view.close();
    }
  }

  async function follow(watched: WatchedTurn) {
    const { session, turn, seen, signal, view, calls, chat, attended, isQuiet } = watched;
    const line = (call: string, mark: string) => {
      if (progress(chat.platform) !== "off" && !isQuiet) view.line(call, `${mark} ${calls.get(call) ?? "tool"}`);
    };
    for await (const update of followTurn(runtime, { session, id: turn, cursor: String(seen.seq) }, signal)) {
      if (isQuiet && !("entry" in update)) continue;
      if ("delta" in update) view.say(update.delta);
      else if ("reset" in update) view.unsay();
      else if ("notice" in update) view.notice(update.notice);
      if (!("entry" in update)) continue;
      const { entry } = update;
      switch (entry.kind) {
        case "thought":
          for (const [call, words] of linesOf(entry)) calls.set(call, words);
          if (entry.calls.length) view.unsay();
          break;
        case "asked":
          if (attended) questions.ask(watched, { call: entry.call, ...entry.ask });
          break;
        case "decided":
          await questions.settle(watched, entry.call, `${entry.allow ? "✅" : "❌"} ${entry.text}`);
          break;
        case "started":
          line(entry.call, "⚙️");
          break;
        case "acted":
          await questions.settle(watched, entry.call, "It is over.");
          line(entry.call, entry.outcome === "ok" ? "✓" : "✗");
          break;
        case "stopping":
          seen.stopping = true;
          break;
        case "ended":
          return entry.outcome === "interrupted" && !seen.stopping ? "cut off" : entry.outcome;
        default:
          entry.kind satisfies InputKind | RecoveryKind | "forked" | "compacted" | "revoked" | "cut" | "failed";
      }
      seen.seq = entry.seq;
    }
    return null;
  }

  function keepTyping(chat: Chat, place: Place): AbortController {
    const over = new AbortController();
    const type = async () => {
      while (!over.signal.aborted) {
        await chat.typing(place);
        await clock.sleep(TYPING_MS, over.signal);
      }
    };
    type().catch((error: unknown) => log("debug", "view.untyped", { error: messageOf(error) }));
    return over;
  }

  /** Messages of turns that ended while nobody was there to say so. */
  async function tidy() {
    for (const { key, value } of await notes.list(liveName(""))) {
      const run = await runtime.run(key.slice(liveName("").length));
      const route = run && (await routeFor(run.session, notes));
      const chat = route && chats.get(route.platform);
      const message = asRecord(value)?.["message"];
      if (!chat || typeof message !== "string" || !(run.status === "cancelled" || run.status === "interrupted"))
        continue;
      void tell.edit(chat, route.place, message, { text: MARKS[run.status] });
      await notes.set(key, undefined);
    }
  }

  /** No more edits of this turn's message: its answer takes the place. Null: only the store knows whether there is one. */
  async function freeze(turn: string): Promise<ShownTurn | null> {
    frozen.add(turn);
    const view = views.get(turn);
    view?.over.abort("frozen");
    await view?.settled;
    const shown = own.get(turn);
    own.delete(turn); // a second time the store is asked what came of the first
    return shown === undefined ? null : { message: shown?.message() ?? null };
  }

  return {
    observe,
    tidy,
    freeze,
    async close() {
      for (const { over } of views.values()) over.abort("closed");
      await Promise.all(Array.from(views.values(), ({ settled }) => settled));
    },
  };
}

const PREVIEW = 80;

const linesOf = (entry: Entry): [string, string][] =>
  entry.kind === "thought" ? entry.calls.map(({ id, tool, args }) => [id, lineOf(tool, args)]) : [];

function lineOf(tool: string, args: unknown): string {
  const values: unknown[] = typeof args === "object" && args !== null ? Object.values(args) : [];
  const first = values.find((value) => typeof value === "string") ?? "";
  const line = first.replaceAll(/[\s`]+/g, " ").trim();
  const preview = line.length > PREVIEW ? `${line.slice(0, PREVIEW - 1)}…` : line;
  return preview ? `${tool}: \`${preview}\`` : tool;
}
