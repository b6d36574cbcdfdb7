// Recall: all providers are asked at once, and a turn waits briefly. A late answer is used in the next turn of that
// conversation.
import { createBounded } from "../core/bounded.ts";
import { messageOf } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import { within } from "../core/wait.ts";
import { cleaned, joined, recalledBlock } from "./fence.ts";
import type { Member } from "./lane.ts";
import type { Whose } from "./provider.ts";
import { isTrivial } from "./trivial.ts";

/** `by`: who began the turn, if known. */
export type RecallScope = { session: string; by?: string | undefined };
export type WhoseOf = (about: RecallScope) => Promise<Whose>;

type Options = Ambient & {
  members: readonly Member[];
  whoseOf: WhoseOf;
  redact(text: string): string;
  recallMs: number;
};
type RecallRequest = RecallScope & { turn: string; text: string };
type Asking = { answer: Promise<string>; since: number };
/** `ahead`: asked before the turn began. */
type Recalled = { answer: Promise<string>; at: number; ahead: boolean };

const LONGEST = { recalled: 4_000, block: 8_000, query: 2_000 };
const MOST_KEPT = 1_000;
/** A person or another process may have changed the source of a block. */
const FRESH_MS = 10_000;
/** What was asked ahead is for a turn that begins at once, not for one that waits for a place or for the store. */
const AHEAD_MS = 1_000;

export function createRecall({ members, whoseOf, clock, log, redact, recallMs }: Options) {
  /** One question per conversation at a time: a hanging provider does not get further questions. */
  const asking = new Map<string, Asking>();
  const late = createBounded<string>(MOST_KEPT);
  const recalled = createBounded<Recalled>(MOST_KEPT);

  /** The same result for the whole turn, which makes many model calls. Never rejects. */
  async function recall(about: RecallRequest, signal: AbortSignal): Promise<string> {
    if (signal.aborted) return "";
    const key = keyOfTurn(about);
    const known = recalled.get(key);
    if (known && !(known.ahead && clock.monotonic() - known.at > AHEAD_MS)) {
      known.ahead = false;
      return (await within(clock, recallMs, known.answer, signal)) ?? "";
    }
    if (isTrivial(about.text)) return "";
    return look(about, signal, false).finally(() => {
      if (signal.aborted) recalled.delete(key);
    });
  }

  /** The turn is about to be committed: memory answers meanwhile. */
  function recallAhead(about: RecallRequest): void {
    if (!isTrivial(about.text) && !recalled.get(keyOfTurn(about))) void look(about, new AbortController().signal, true);
  }

  function look(about: RecallRequest, signal: AbortSignal, ahead: boolean): Promise<string> {
    const answer = gather(about, signal).catch((error: unknown) => {
      log("warn", "memory.recall_failed", { session: about.session, error: messageOf(error) });
      return "";
    });
    recalled.set(keyOfTurn(about), { answer, at: clock.monotonic(), ahead });
    return answer;
  }

  async function gather(about: RecallRequest, signal: AbortSignal): Promise<string> {
    const asked = members.filter(({ provider, lane }) => provider.prefetch && !lane.suspended());
    if (asked.length === 0) return "";
    const whose = await whoseOf(about);
    const found = new Map<string, string>();
    let over = false;
    const awaited: Promise<void>[] = [];
    for (const member of asked) {
      const key = keyOf(member, whose);
      const { answer, since } = ask(member, key, about.text.slice(0, LONGEST.query), whose);
      const heard = (text: string) => {
        if (over) return late.set(key, text);
        late.delete(key);
        found.set(key, text);
      };
      const told = answer.then(heard, () => {});
      // If an earlier turn has already waited for this answer, do not wait again.
      if (clock.monotonic() - since < recallMs) awaited.push(told);
    }
    await atMost(recallMs, Promise.all(awaited), signal);
    over = true;
    if (signal.aborted) return "";
    const parts = asked.map((member) => {
      const key = keyOf(member, whose);
      const text = found.get(key) ?? late.get(key) ?? "";
      late.delete(key);
      return { name: member.provider.name, text };
    });
    return recalledBlock(parts, LONGEST.recalled);
  }

  function ask({ provider, call }: Member, key: string, query: string, whose: Whose): Asking {
    const before = asking.get(key);
    if (before) return before;
    const answer = call((signal) => provider.prefetch?.(query, whose, signal) ?? Promise.resolve(""), READ)
      .then((text) => cleaned(text, LONGEST.recalled, redact))
      .finally(() => asking.delete(key));
    const one = { answer, since: clock.monotonic() };
    asking.set(key, one);
    return one;
  }

  // ── The system prompt ───────────────────────────────────────────────────────────────────────────────

  const blocks = createBounded<{ text: string; at: number }>(MOST_KEPT);
  const making = new Map<string, Asking>();

  /** The same until something is written, so that the prompt stays in the model provider's cache. Never rejects. */
  async function systemBlock(about: RecallScope): Promise<string> {
    if (!members.some(({ provider }) => provider.systemPromptBlock)) return "";
    const whose = await whoseOf(about).catch(() => null);
    if (!whose) return "";
    const known = blocks.get(whose.scope);
    if (known && clock.monotonic() - known.at < FRESH_MS) return known.text;
    const { answer, since } = making.get(whose.scope) ?? make(whose);
    let text = known?.text ?? "";
    const made = answer.then((block) => {
      text = block;
    });
    await atMost(since + recallMs - clock.monotonic(), made);
    return text;
  }

  function make(whose: Whose): Asking {
    const { scope } = whose;
    const parts = members.flatMap(({ provider, lane, call }) => {
      if (!provider.systemPromptBlock || lane.suspended()) return [];
      return call((signal) => provider.systemPromptBlock?.(whose, signal) ?? Promise.resolve(""), READ).then(
        (text) => ({ name: provider.name, text: cleaned(text, LONGEST.block, redact) }),
        () => ({ name: provider.name, text: "" }),
      );
    });
    const answer = Promise.all(parts).then((all) => {
      const text = joined(all, LONGEST.block);
      if (making.get(scope) !== one) return text; // something was written meanwhile
      making.delete(scope);
      blocks.set(scope, { text, at: clock.monotonic() });
      return text;
    });
    const one: Asking = { answer, since: clock.monotonic() };
    making.set(scope, one);
    return one;
  }

  /** Something of this scope was written: drop the cached block. */
  function written(scope: string): void {
    blocks.delete(scope);
    making.delete(scope);
  }

  /** Never rejects. If the time is over, the work continues in the background. */
  async function atMost(ms: number, work: Promise<unknown>, signal?: AbortSignal): Promise<void> {
    const settled = work.catch(() => {});
    if (ms > 0) await within(clock, ms, settled, signal);
  }

  return { recall, recallAhead, systemBlock, written, atMost };
}

/** Goes first, because a turn waits for it; an exit need not wait for it. */
const READ = { first: true, idly: true };

const keyOfTurn = ({ session, turn }: RecallRequest) => `${session}\0${turn}`;
const keyOf = ({ provider }: Member, { scope, session }: Whose) => [provider.name, scope, session].join("\0");
