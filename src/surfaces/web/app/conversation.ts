// One conversation as the page shows it: a fold of the same updates that the terminal shows, grouped by turn so that only what can be
// seen is drawn.
import { type Signal, signal } from "@preact/signals";
import { after, type Facts, factsOf, nothingIn } from "../../../conversation/facts.ts";
import { type Acted, createTeller, type Pen } from "../../../conversation/updates.ts";
import { messageOf } from "../../../core/errors.ts";
import { entriesOf } from "../../../core/pages.ts";
import type { Update } from "../../../core/runtime.ts";
import type { Ask, Entry, Image, Input, Mode, Outcome } from "../../../core/session.ts";
import type { Message } from "../../../core/transcript.ts";
import { linked, onAbort } from "../../../core/wait.ts";
import { runtime } from "./server.ts";

export type CallState = "proposed" | "asking" | "running" | Acted["outcome"];
/** `printed`: the end of what it prints while it runs. */
export type CallItem = Omit<Acted, "outcome" | "ms"> & {
  kind: "call";
  state: CallState;
  ms: number | null;
  printed?: string;
};
export type Item =
  | { kind: "message"; text: string; images: readonly Image[]; by: string }
  | { kind: "answer"; text: string; live: boolean }
  | { kind: "reasoning"; text: string; live: boolean }
  | CallItem
  | { kind: "decided"; text: string; allow: boolean }
  | { kind: "aside"; text: string };
/** Everything from the beginning of a turn to the next one. `seq`: its first entry. */
export type TurnGroup = {
  id: string;
  seq: number;
  at: number;
  items: Item[];
  end: { outcome: Outcome; ms: number; model: string } | null;
  /** Rises with each change. */
  version: Signal<number>;
};

export type ConversationView = ReturnType<typeof openConversation>;

/** Entries that are read at once: few, because all of them are drawn once, in one frame, while a person scrolls. */
const PAGE = 150;
const LONGEST_ANNOUNCED = 600;

export function openConversation(session: string, mode: Mode) {
  const leaving = new AbortController();
  const groups = signal<TurnGroup[]>([]);
  const facts = signal<Facts | null>(null);
  const notice = signal(""); // what goes on just now; empty when it is over
  const error = signal("");
  const hasEarlier = signal(false); // there is more before what is shown
  const announced = signal(""); // said to people who cannot see the screen
  const model = signal<string | undefined>(undefined); // that was chosen for this conversation
  let first = 0; // the entry before which nothing is loaded
  let loading: Promise<void> | null = null;
  let older: TurnGroup[] = [];

  async function open(): Promise<void> {
    const [status, summary] = await Promise.all([runtime.status(session), runtime.summary(session)]);
    const { entries, inputs } = await readBefore(session, summary?.entries ?? 0);
    if (leaving.signal.aborted) return;
    const empty = nothingIn(session, summary?.title ?? "", mode, "");
    const known = factsOf(empty, status, entries, Date.now());
    model.value = entries.findLast((entry) => entry.kind === "accepted")?.input.model;
    facts.value = known;
    first = (entries[0]?.seq ?? 1) - 1;
    hasEarlier.value = first > 0;
    const fold = createFold(inputs);
    for (const entry of entries) fold.tell(entry);
    groups.value = [...fold.groups];
    let cursor = String(entries.at(-1)?.seq ?? 0);
    while (!leaving.signal.aborted) {
      cursor = await follow(fold, cursor);
      await shownAgain(leaving.signal);
    }
  }

  /** While the page is seen: browsers allow six connections to a server, over all their tabs. Returns where to go on. */
  async function follow(fold: Fold, from: string): Promise<string> {
    let cursor = from;
    const dirty = new Set<TurnGroup>();
    const draw = () => {
      if (older.length + fold.groups.length !== groups.value.length) groups.value = [...older, ...fold.groups];
      for (const group of dirty) group.version.value += 1;
      dirty.clear();
    };
    const seen = linked([leaving.signal]);
    const hide = () => document.hidden && seen.abort("hidden");
    document.addEventListener("visibilitychange", hide);
    try {
      for await (const update of runtime.follow(session, cursor, seen.signal)) {
        ({ cursor } = update);
        if ("notice" in update) {
          notice.value = update.notice;
          continue;
        }
        const changed = fold.take(update);
        if (changed && dirty.size === 0) requestAnimationFrame(draw); // at most once a frame, however fast the words come
        if (changed) dirty.add(changed);
        if ("entry" in update) told(update.entry);
      }
    } finally {
      document.removeEventListener("visibilitychange", hide);
      seen.release();
    }
    return cursor;
  }

  function told(entry: Entry): void {
    if (facts.value) facts.value = after(facts.value, entry);
    if (entry.kind === "accepted" && entry.input.model) model.value = entry.input.model;
    if (entry.kind === "thought" && entry.text && !entry.calls.length)
      announced.value = entry.text.slice(0, LONGEST_ANNOUNCED);
    if (entry.kind === "asked") announced.value = `${questionName(entry.ask)}: ${entry.ask.text}`;
    if (entry.kind === "began" || entry.kind === "ended") void retitle();
  }

  async function retitle(): Promise<void> {
    const { title = "" } = (await runtime.summary(session).catch(() => null)) ?? {};
    if (facts.value && title && title !== facts.value.title) facts.value = { ...facts.value, title };
  }

  async function readEarlier(): Promise<void> {
    const { entries, inputs } = await readBefore(session, first);
    const fold = createFold(inputs);
    for (const entry of entries) fold.tell(entry);
    first = (entries[0]?.seq ?? 1) - 1;
    hasEarlier.value = first > 0 && entries.length > 0;
    older = [...fold.groups, ...older];
    groups.value = [...fold.groups, ...groups.value];
  }

  void open().catch((cause: unknown) => {
    if (!leaving.signal.aborted) error.value = messageOf(cause);
  });
  return {
    session,
    groups,
    facts,
    notice,
    error,
    hasEarlier,
    announced,
    model,
    loadEarlier(): Promise<void> {
      loading ??= readEarlier().finally(() => {
        loading = null;
      });
      return loading;
    },
    close: () => leaving.abort("left"),
  };
}

/** Resolves when the page is seen, or the conversation left. */
async function shownAgain(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return;
  const seen = Promise.withResolvers<void>();
  const release = onAbort(signal, () => seen.resolve());
  document.addEventListener("visibilitychange", () => seen.resolve(), { once: true });
  await seen.promise;
  release();
}

export const questionName = ({ kind }: Pick<Ask, "kind">): string =>
  kind === "approval" ? "Approval needed" : "Question";

/** Whole turns before an entry, with the inputs that they name. */
async function readBefore(session: string, upTo: number): Promise<{ entries: Entry[]; inputs: Map<string, Input> }> {
  const pages: Entry[][] = [];
  let from = upTo;
  // A turn that is longer than a page is read to its beginning.
  do {
    const before = Math.max(0, from - PAGE);
    pages.unshift(await entriesOf(runtime, session, before, from));
    from = before;
  } while (from > 0 && !pages[0]?.some(({ kind }) => kind === "began"));
  const entries = pages.flat();
  const begins = from > 0 ? entries.findIndex(({ kind }) => kind === "began") : 0;
  const whole = entries.slice(begins);
  const inputs = new Map(entries.flatMap((e) => (e.kind === "accepted" ? [[e.input.id, e.input]] : [])));
  const named = whole.flatMap((e) => (e.kind === "began" || e.kind === "joined" ? [e.input] : []));
  await Promise.all(
    named
      .filter((id) => !inputs.has(id))
      .map(async (id) => {
        const [accepted] = await runtime.turn(id);
        if (accepted?.kind === "accepted") inputs.set(id, accepted.input);
      }),
  );
  return { entries: whole, inputs };
}

type Fold = ReturnType<typeof createFold>;

function createFold(inputs: Map<string, Input>) {
  const groups: TurnGroup[] = [];
  let entry: Entry | null = null;
  let model = "";

  const open = (id: string, at: number): TurnGroup => {
    const group: TurnGroup = { id, seq: entry?.seq ?? 0, at, items: [], end: null, version: signal(0) };
    groups.push(group);
    return group;
  };
  const current = () => groups.at(-1) ?? open("", entry?.at ?? 0);
  const add = (item: Item) => void current().items.push(item);
  /** More words of what streams in. */
  const grow = (kind: "answer" | "reasoning", text: string) => {
    const item = current().items.at(-1);
    if (item?.kind === kind && item.live) item.text += text;
    else add({ kind, text, live: true });
  };
  const settle = () => {
    for (const item of current().items) if (item.kind === "answer" || item.kind === "reasoning") item.live = false;
  };
  const change = (id: string, fields: Partial<CallItem>) => {
    const call = current().items.find((item) => item.kind === "call" && item.id === id);
    if (call) Object.assign(call, fields);
  };

  const pen: Pen = {
    message: ({ text, images = [], by = "" }) => add({ kind: "message", text, images, by }),
    answer: (text) => grow("answer", text),
    settled: settle,
    reset() {
      const { items } = current();
      while (items.at(-1)?.kind === "answer" || items.at(-1)?.kind === "reasoning") items.pop();
    },
    thinks: (text) => grow("reasoning", text),
    started: ({ id, at }) => change(id, { state: "running", at }),
    printed: (id, printed) => change(id, { printed }),
    acted: ({ outcome, text, ms, id }) => change(id, { state: outcome, text, ms }),
    asked: () => entry?.kind === "asked" && change(entry.call, { state: "asking" }),
    decided: (allow, text) => add({ kind: "decided", allow, text }),
    aside: (text) => add({ kind: "aside", text }),
    notice() {},
    ended(outcome, ms) {
      current().end = { outcome, ms, model };
    },
  };
  const tell = createTeller(pen, inputs);

  function takeEntry(next: Entry): void {
    entry = next;
    if (next.kind === "began" && (groups.at(-1)?.end || groups.length === 0 || next.turn !== current().id))
      open(next.turn, next.at);
    if (next.kind === "thought") takeThought(next);
    if (next.kind === "forked") for (const message of next.messages) copied(message, next);
    tell({ cursor: String(next.seq), entry: next });
  }

  function takeThought(next: Extract<Entry, { kind: "thought" }>): void {
    ({ model } = next);
    const { items } = current();
    const at = items.findLastIndex((item) => item.kind === "reasoning" && item.live);
    if (at >= 0) items.splice(at, 1);
    if (next.reasoning) {
      const answers = items.at(-1)?.kind === "answer";
      items.splice(answers ? items.length - 1 : items.length, 0, {
        kind: "reasoning",
        text: next.reasoning,
        live: false,
      });
    }
    for (const { id, tool, args } of next.calls)
      items.push({ kind: "call", id, tool, args, at: next.at, state: "proposed", ms: null, text: "" });
  }

  /** What a conversation was begun with, from another one. */
  function copied(message: Message, { at }: Entry): void {
    if (message.role === "user" && current().items.length) open("", at);
    if (message.role === "user") add({ kind: "message", text: message.text, images: message.images ?? [], by: "" });
    if (message.role === "assistant") {
      if (message.text) add({ kind: "answer", text: message.text, live: false });
      for (const { id, tool, args } of message.calls)
        add({ kind: "call", id, tool, args, at, state: "unknown", ms: null, text: "" });
    }
    if (message.role === "tool") change(message.call, { state: message.outcome, text: message.text });
  }

  return {
    groups,
    /** An entry whose text was not streamed before it. */
    tell(next: Entry): void {
      if (next.kind === "thought" || next.kind === "cut") {
        entry = next;
        if (next.text) pen.answer(next.text);
      }
      takeEntry(next);
    },
    /** Returns what it has changed. */
    take(update: Exclude<Update, { notice: string }>): TurnGroup | undefined {
      if ("entry" in update) takeEntry(update.entry);
      else tell(update);
      return groups.at(-1);
    },
  };
}
