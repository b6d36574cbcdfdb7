// Everything behind the port `Memory`: many providers as one, none of which can hold up a turn, an exit or another.
//
// The engine tells each writer of every turn, in order, until it is written, across crashes (agent/remember.ts). Here each
// call waits in its provider's own line, within a limit; one that keeps failing is left alone for a while.
import { messageOf } from "../core/errors.ts";
import type { Clock, Log, Memory, Remembered, Tool } from "../core/ports.ts";
import type { Message } from "../core/transcript.ts";
import { keepIn } from "./bounded.ts";
import { cleaned, cut, joined, withoutRecalled } from "./fence.ts";
import { createLane, type Health } from "./lane.ts";
import { createMember, type Member } from "./member.ts";
import type { MemoryProvider, MemoryTool, MemoryWrite, Whose } from "./provider.ts";
import { type About, createRecall } from "./recall.ts";
import { isChild, parentTurnOf, scopeOf, talkOf } from "./scope.ts";
import { isTrivial } from "./trivial.ts";

type Options = {
  providers: readonly MemoryProvider[];
  clock: Clock;
  log: Log;
  redact(text: string): string;
  /** Who began this turn, where that is known: a tool call and a child do not say. */
  byOf?(turn: string): Promise<string | undefined>;
  /** What a turn waits for at its start. */
  recallMs?: number;
  /** What one call to a provider may take. */
  limitMs?: number;
};

export type LongTermMemory = Memory & {
  /** Tells all writers, and returns at once. */
  syncAll(turn: Remembered): void;
  /** Lets all get ready for the next turn, and returns at once. */
  queuePrefetchAll(query: string, about: About): void;
  /** What the system prompt should hold; empty: nothing. Never rejects. */
  systemBlock(about: About): Promise<string>;
  /** Another array only when the tools are others. */
  tools(): readonly Tool[];
  sessionEnded(about: About): void;
  /** The conversation that was in `from` goes on in `about.session`. */
  sessionSwitched(from: string, about: About): void;
  /** These messages are about to become a summary: what should be kept in it. Never rejects. */
  compressing(messages: readonly Message[], about: About): Promise<string>;
  health(): Health[];
  /** True: all is done that was to be done, or there never was anything. */
  flushPending(ms: number): Promise<boolean>;
  /** Waits at most so long for what is under way, then lets go. */
  shutdownAll(drainMs?: number): Promise<void>;
};

const LIMIT_MS = 60_000;
const RECALL_MS = 300;
const COMPRESS_MS = 3_000;
const DRAIN_MS = 5_000;
const SHUTDOWN_MS = 2_000;
/** Of each side of a turn that is written. */
const LONGEST_SIDE = 100_000;
const LONGEST_KEPT = 2_000;
const MOST_SESSIONS = 1_000;

export function createMemory(options: Options): LongTermMemory {
  const { clock, log, redact, byOf, recallMs = RECALL_MS, limitMs = LIMIT_MS } = options;
  const watchers = new Set<() => void>();
  const changed = () => {
    for (const look of watchers) look();
  };
  const members = options.providers
    .filter((provider) => provider.isAvailable())
    .map((provider) =>
      createMember(provider, createLane({ name: provider.name, clock, log, redact, limitMs, changed })),
    );
  const { recall, systemBlock, written, atMost } = createRecall({ members, whoseOf, clock, log, redact, recallMs });
  /** The last turn of each session after which providers got ready for the next. */
  const prefetched = new Map<string, string>();

  /** A child says nothing of who began the turn that made it. */
  async function whoseOf({ session, by }: About): Promise<Whose> {
    const parent = parentTurnOf(session);
    const who = parent ? await byOf?.(parent) : by;
    return { scope: scopeOf({ session, by: who }), session: talkOf(session) };
  }

  // ── Writing ─────────────────────────────────────────────────────────────────────────────────────────

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

  async function tell({ ...provider }: MemoryProvider, turn: Remembered, key: string, whose: Whose, signal: AbortSignal) {
    const { session, outcome } = turn;
    const [user, assistant] = [sideOf(turn.user), sideOf(turn.assistant)];
    if (isChild(session))
      await provider.onDelegation?.({ key, child: session, outcome, task: user, result: assistant }, whose, signal);
    else await provider.syncTurn?.({ key, turn: turn.turn, outcome, user, assistant }, whose, signal);
  }

  /** What leaves us holds neither what was recalled nor a secret of ours. */
  const sideOf = (text: string) => cut(redact(withoutRecalled(text.slice(0, 2 * LONGEST_SIDE))), LONGEST_SIDE);

  /** Once after each turn, however many writers are told of it and however often. */
  function getReady({ session, turn, by, user }: Remembered): void {
    if (isChild(session) || prefetched.get(session) === turn) return;
    keepIn(prefetched, session, turn, MOST_SESSIONS);
    queuePrefetchAll(user, { session, by });
  }

  function queuePrefetchAll(query: string, about: About): void {
    if (!isTrivial(query)) inform(about, ({ queuePrefetch }) => queuePrefetch?.bind(null, query.slice(0, LONGEST_KEPT)));
  }

  function syncAll(turn: Remembered): void {
    for (const writer of writers) remember(writer, turn, turn.turn).catch(unheard);
  }

  /** In the background, in the line of each provider that wants to know. */
  function inform(about: About, hearing: (provider: MemoryProvider) => Hearing | undefined): void {
    for (const { provider, lane, call } of members) {
      const hear = hearing(provider);
      if (hear && !lane.suspended()) call(async (signal) => hear(await whoseOf(about), signal)).catch(unheard);
    }
  }

  // ── Tools ───────────────────────────────────────────────────────────────────────────────────────────

  let offered: { lists: (readonly MemoryTool[])[]; tools: readonly Tool[] } = { lists: [], tools: [] };

  function tools(): readonly Tool[] {
    const lists = members.map(({ provider }) => provider.toolSchemas?.() ?? NO_TOOLS);
    if (lists.every((list, at) => list === offered.lists[at])) return offered.tools;
    const named = new Map<string, Tool>();
    for (const [at, member] of members.entries())
      for (const spec of lists[at] ?? []) if (!named.has(spec.name)) named.set(spec.name, toolOf(member, spec));
    offered = { lists, tools: [...named.values()] };
    return offered.tools;
  }

  function toolOf({ provider, call }: Member, { name, description, schema, repeatable = false }: MemoryTool): Tool {
    return {
      name,
      description,
      schema,
      repeatable,
      judge: () => ({ gate: "run" }),
      async run(args, { session, turn, signal }) {
        try {
          const about = { session, by: await byOf?.(turn) };
          const whose = await whoseOf(about);
          const work = (inner: AbortSignal) => provider.handleToolCall?.(name, args, whose, inner) ?? NOT_HANDLED;
          const { wrote, ok, text } = await call(work, { signal, first: true, patient: true });
          if (wrote) tellOthers({ ...wrote, by: provider.name }, about, whose);
          return { ok, text };
        } catch (error) {
          return { ok: false, text: `Not done: ${redact(messageOf(error))}` };
        }
      },
    };
  }

  function tellOthers(write: MemoryWrite, about: About, { scope }: Whose): void {
    written(scope);
    inform(about, ({ name, onMemoryWrite }) => (name === write.by ? undefined : onMemoryWrite?.bind(null, write)));
  }
  
  async function compressing(messages: readonly Message[], about: About): Promise<string> {
  }
  return {};
}
