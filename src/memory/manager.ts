// The implementation of the port `Memory`: many providers as one. None can delay a turn, an exit or another provider.
// The engine passes every turn to each writer, in order, until it is stored, also across crashes (agent/remember.ts).
// Here each call waits in the queue of its provider, with a time limit.
import { createBounded } from "../core/bounded.ts";
import { messageOf } from "../core/errors.ts";
import type { Ambient, Remembered } from "../core/ports.ts";
import { isChild, rootOf } from "../core/session-key.ts";
import type { Message } from "../core/transcript.ts";
import { cleaned, cut, joined, type MemoryPart, withoutRecalled } from "./fence.ts";
import { createLane, createMember } from "./lane.ts";
import type { MemoryProvider, MemoryWrite, Whose } from "./provider.ts";
import { createRecall, type RecallScope } from "./recall.ts";
import { parentTurnOf, scopeOf, worksForAnother } from "./scope.ts";
import { createTools } from "./tools.ts";
import { isTrivial } from "./trivial.ts";

type Options = Ambient & {
  providers: readonly MemoryProvider[];
  redact(text: string): string;
  /** Who began this turn, if known: a tool call and a child do not say. */
  byOf?(turn: string): Promise<string | undefined>;
  /** The session on whose behalf a session works that has no person of its own, such as a scheduled job. */
  originOf?(session: string): Promise<string | null>;
  /** How long a turn waits for memory at its start. */
  recallMs?: number;
  /** Time limit of one call to a provider. */
  limitMs?: number;
};

export type LongTermMemory = ReturnType<typeof createMemory>;

const LIMIT_MS = 60_000;
const RECALL_MS = 300;
const COMPRESS_MS = 3_000;
const DRAIN_MS = 5_000;
const SHUTDOWN_MS = 300;
/** `side`: each side of a stored turn. `kept`: text that a summary should contain. */
const LONGEST = { side: 100_000, query: 2_000, kept: 2_000 };
const MOST_SESSIONS = 1_000;

export function createMemory(options: Options) {
  const { clock, log, redact, byOf, originOf, recallMs = RECALL_MS, limitMs = LIMIT_MS } = options;
  const watchers = new Set<() => void>();
  const changed = () => {
    for (const look of watchers) look();
  };
  const members = options.providers
    .filter((provider) => provider.isAvailable())
    .map((provider) =>
      createMember(provider, createLane({ name: provider.name, clock, log, redact, limitMs, changed })),
    );
  const writers = members.filter(({ provider }) => provider.syncTurn).map(({ provider }) => provider.name);
  const { recall, recallAhead, systemBlock, written, atMost } = createRecall({
    members,
    whoseOf,
    clock,
    log,
    redact,
    recallMs,
  });
  const tools = createTools({ members, whoseOf, byOf, redact, wrote });
  /** For each session, the last turn after which the providers prepared for the next. */
  const prefetched = createBounded<string>(MOST_SESSIONS);
  let closing: Promise<void> | null = null;

  /** A child does not say who began the turn that started it. */
  async function whoseOf({ session, by }: RecallScope): Promise<Whose> {
    const parent = parentTurnOf(session);
    const who = parent ? await byOf?.(parent) : by;
    const scope = scopeOf({ session, by: who });
    const origin = worksForAnother(session) ? await originOf?.(rootOf(session)) : null;
    return origin
      ? { scope: scopeOf({ session: origin }), session: rootOf(origin) }
      : { scope, session: rootOf(session) };
  }

  async function remember(writer: string, turn: Remembered, key: string, signal?: AbortSignal): Promise<void> {
    const member = members.find(({ provider }) => provider.name === writer);
    if (!member) throw new Error(`There is no memory "${writer}".`);
    const write = async (inner: AbortSignal) => {
      const whose = await whoseOf(turn);
      await tell(member.provider, turn, key, whose, inner);
      written(whose.scope);
    };
    const told = member.call(write, signal ? { signal } : {});
    getReady(turn);
    await told;
  }

  async function tell(provider: MemoryProvider, turn: Remembered, key: string, whose: Whose, signal: AbortSignal) {
    const { session, outcome } = turn;
    const [user, assistant] = [sideOf(turn.user), sideOf(turn.assistant)];
    if (isChild(session))
      await provider.onDelegation?.({ key, child: session, outcome, task: user, result: assistant }, whose, signal);
    else await provider.syncTurn?.({ key, turn: turn.turn, outcome, user, assistant }, whose, signal);
  }

  /** Text that leaves hermes contains neither recalled text nor secrets. */
  const sideOf = (text: string) => cut(redact(withoutRecalled(text.slice(0, 2 * LONGEST.side))), LONGEST.side);

  /** Once after each turn, however many writers there are and however often they are called. */
  function getReady({ session, turn, by, user }: Remembered): void {
    if (isChild(session) || prefetched.get(session) === turn) return;
    prefetched.set(session, turn);
    queuePrefetchAll(user, { session, by });
  }

  /** Lets all providers prepare for the next turn, and returns at once. */
  function queuePrefetchAll(query: string, about: RecallScope): void {
    if (isTrivial(query)) return;
    const short = query.slice(0, LONGEST.query);
    inform("queuePrefetch", about, (provider, whose, signal) => provider.queuePrefetch?.(short, whose, signal));
  }

  async function wrote(write: MemoryWrite, about: RecallScope): Promise<void> {
    written((await whoseOf(about)).scope);
    inform("onMemoryWrite", about, (provider, whose, signal) =>
      provider.name === write.by ? undefined : provider.onMemoryWrite?.(write, whose, signal),
    );
  }

  /** In the background, in the queue of each provider that has the hook. */
  function inform(hook: keyof MemoryProvider, about: RecallScope, hear: ProviderCall): void {
    for (const { provider, call } of members)
      if (provider[hook]) call(async (signal) => hear(provider, await whoseOf(about), signal)).catch(unheard);
  }

  /** These messages are about to be summarised: what should the summary contain? Never rejects. */
  async function compressing(messages: readonly Message[], about: RecallScope): Promise<string> {
    const parts: MemoryPart[] = [];
    const asked = members
      .filter(({ provider }) => provider.onPreCompress)
      .map(async ({ provider, call }) => {
        const work = async (signal: AbortSignal) => provider.onPreCompress?.(messages, await whoseOf(about), signal);
        const text = (await call(work, { first: true })) ?? "";
        parts.push({ name: provider.name, text: cleaned(text, LONGEST.kept, redact) });
      });
    if (asked.length > 0) await atMost(COMPRESS_MS, Promise.allSettled(asked));
    return joined(parts, LONGEST.kept);
  }

  const settled = () => members.every(({ lane }) => lane.settled());

  /** True if everything is done. */
  async function flushPending(ms: number): Promise<boolean> {
    const over = new AbortController();
    const look = () => {
      if (settled()) over.abort("settled");
    };
    watchers.add(look);
    look();
    if (!over.signal.aborted) await clock.sleep(ms, over.signal);
    watchers.delete(look);
    return settled();
  }

  async function shutdown(drainMs: number): Promise<void> {
    await flushPending(drainMs);
    for (const { lane } of members) lane.close();
    const over = new AbortController();
    const closed = members.map(async ({ provider }) => {
      try {
        await provider.shutdown?.(over.signal);
      } catch (error) {
        log("warn", "memory.shutdown_failed", { provider: provider.name, error: messageOf(error) });
      }
    });
    if (closed.length > 0) await atMost(SHUTDOWN_MS, Promise.all(closed));
    over.abort("over");
  }

  return {
    writers,
    remember,
    recall,
    recallAhead,
    systemBlock,
    tools,
    queuePrefetchAll,
    compressing,
    flushPending,
    /** Passes the turn to all writers and returns at once. */
    syncAll(turn: Remembered): void {
      for (const writer of writers) remember(writer, turn, turn.turn).catch(unheard);
    },
    sessionEnded: (about: RecallScope) =>
      inform("onSessionEnd", about, (provider, whose, signal) => provider.onSessionEnd?.(whose, signal)),
    /** The conversation of the session `from` continues in `about.session`. */
    sessionSwitched: (from: string, about: RecallScope) =>
      inform("onSessionSwitch", about, (provider, whose, signal) => provider.onSessionSwitch?.(from, whose, signal)),
    health: () => members.map(({ lane }) => lane.health()),
    /** Waits at most `drainMs` for running calls, then lets go. After a drain there is little to wait for. */
    shutdownAll(drainMs = DRAIN_MS) {
      closing ??= shutdown(drainMs);
      return closing;
    },
  };
}

type ProviderCall = (provider: MemoryProvider, whose: Whose, signal: AbortSignal) => Promise<void> | undefined;

/** The queue has counted the failure, and `health` reports it. */
const unheard = () => {};
