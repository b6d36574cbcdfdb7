// Children in the background: the call that made them has returned, and the end of each is a message to its parent. A note for each child
// says that its end is still to be told. The note is written before the child begins and removed after the parent has the message, whose
// key is the child's turn: a kill loses no end and doubles none.
import * as z from "zod";
import type { Ambient, ToolCall } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Entry, Unattended } from "../core/session.ts";
import { isChild, parseKey } from "../core/session-key.ts";
import type { Notes } from "../core/store.ts";
import { after } from "../core/wait.ts";
import { asData, atMost } from "../platform/fence.ts";
import { logFailure } from "../platform/log-failure.ts";

const noteShape = z.object({
  turn: z.string(),
  goal: z.string(),
  /** When it is stopped, if it has not ended by then. */
  until: z.number(),
  unattended: z.enum(["deny", "allow", "client"]).optional(),
});
type Child = z.output<typeof noteShape> & { session: string };

type Options = Ambient & {
  notes: Notes;
  runtime(): Runtime;
  /** Said to the session, sooner or later, once per key. */
  tell(about: Pick<ToolCall, "session" | "unattended">, text: string, key: string): Promise<boolean>;
};

/** At work at the same time, for one parent. */
export const MOST_IN_BACKGROUND = 10;
const FORGET_MS = 86_400_000;
const LONGEST_REPORT = 20_000;
const LONGEST_GOAL = 120;

export type BackgroundChildren = ReturnType<typeof createBackgroundChildren>;

export function createBackgroundChildren({ notes, runtime, tell, clock, log }: Options) {
  /** Those whose end is still to be told, by session. */
  const children = new Map<string, Child & { cancelTimeout(): void }>();

  const childrenOf = (parent: string) => [...children.values()].filter(({ session }) => parentOf(session) === parent);

  function watch(child: Child): void {
    children.get(child.session)?.cancelTimeout();
    const cancelTimeout = after(clock, Math.max(0, child.until - clock.now()), () => void halt(child));
    children.set(child.session, { ...child, cancelTimeout });
  }

  const halt = ({ session, turn }: Child) =>
    runtime()
      .stop({ session, turn, scope: "tree" })
      .catch(logFailure(log, "warn", "delegate.unstopped", { session }));

  async function forget(child: Child): Promise<void> {
    children.get(child.session)?.cancelTimeout();
    children.delete(child.session);
    await notes.set(noteOf(child.session), undefined);
  }

  /** Tells the parent, if the child has ended. */
  async function report(child: Child): Promise<void> {
    const run = await runtime().run(child.turn);
    const where = await runtime().whereabouts(child.turn);
    // Forgotten with its parent, or never begun: a call that is run again after a crash has begun it long since.
    if (!run && clock.now() > child.until + FORGET_MS) return forget(child);
    if (!children.has(child.session) || !run || !where || where.at === "queued" || where.at === "taken") return;
    const outcome = where.at === "withdrawn" ? "cancelled" : where.outcome;
    const late = outcome === "cancelled" && clock.now() >= child.until;
    const words = atMost(run.error ?? run.output, LONGEST_REPORT);
    const head = `The background task ${child.session} has ended: ${late ? "timed out" : outcome}`;
    const text = `${asData(head, words)}\nIts task was: ${child.goal}`;
    const about = { session: parentOf(child.session), ...(child.unattended && { unattended: child.unattended }) };
    if (await tell(about, text, child.turn)) await forget(child);
  }

  /** What fails is done by the next start. Never rejects. */
  const told = (child: Child) =>
    report(child).catch(logFailure(log, "warn", "delegate.untold", { session: child.session }));

  return {
    /** Noted before it begins. */
    async add(session: string, child: { turn: string; goal: string; timeoutMs: number; unattended?: Unattended }) {
      const { turn, goal, timeoutMs, unattended } = child;
      const until = clock.now() + timeoutMs;
      const note = { turn, goal: goal.slice(0, LONGEST_GOAL), until, ...(unattended && { unattended }) };
      await notes.set(noteOf(session), note);
      watch({ session, ...note });
    },
    list: (parent: string) => childrenOf(parent).map(({ session, goal }) => ({ id: session, command: goal })),
    observe(session: string, entries: readonly Entry[]): void {
      if (!isChild(session)) return;
      const child = children.get(session);
      if (!child || !entries.some((entry) => entry.kind === "ended" || entry.kind === "withdrawn")) return;
      void told(child);
    },
    /** What a process before this one left. `mine`: the sessions that this one works in. */
    async takeUp(mine: (session: string) => boolean): Promise<void> {
      for (const { key, value } of await notes.list(noteOf(""))) {
        const session = key.slice(noteOf("").length);
        const { data } = noteShape.safeParse(value);
        if (!data || !mine(parentOf(session))) continue;
        watch({ session, ...data });
        void told({ session, ...data });
      }
    },
    /** Stops them. Nobody is told of their ends: who stopped them knows. */
    async end(parent: string): Promise<void> {
      const ending = childrenOf(parent);
      for (const { session, cancelTimeout } of ending) {
        cancelTimeout();
        children.delete(session);
      }
      await Promise.all(ending.flatMap((child) => [forget(child), halt(child)]));
    },
    close(): void {
      for (const { cancelTimeout } of children.values()) cancelTimeout();
    },
  };
}

const noteOf = (session: string) => `delegated/${session}`;
function parentOf(session: string): string {
  const key = parseKey(session);
  return key.of === "child" ? key.parent : session;
}
