// A runtime over several nodes. A session that has work lives on one of them, and everybody else is a door to it: a call is tried
// here first, and goes to the node that the engine names. Nothing else knows that there are nodes.
import { Elsewhere, messageOf, Refusal, type RefusalCode } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import type { Peer, Runtime } from "../core/runtime.ts";
import type { Journal, Nodes } from "../core/store.ts";
import { backoff, linked, unlessAborted } from "../core/wait.ts";

type Options = Ambient & {
  /** This node's own. */
  engine: Runtime;
  nodes: Pick<Nodes, "list" | "onHint">;
  journal: Pick<Journal, "children">;
  /** The engine of another node. It answers for itself only: what it does not own it refuses. */
  peerOf(address: string): Peer;
};

/** How long a call waits for the session's next owner. A node that is killed is replaced within 1 s, one that hangs within 5 s. */
const HOLD_MS = 8_000;
const AGAIN_MS = { first: 50, most: 500 };
/** How often we look whether the nodes that we are waiting for still exist: one that hangs keeps its connections. */
const LOOK_MS = 1_000;
/** The same where our own engine cannot say who has it: the session, or this node, is changing hands just now, or the store restarts. */
const CHANGING_MS = 2_000;
const CHANGING: ReadonlySet<RefusalCode> = new Set(["not_owner", "store_unavailable"]);
/** Another node is gone, or leaves, or does not own the session any more: somebody else will. */
const PASSING: ReadonlySet<RefusalCode> = new Set(["not_owner", "store_unavailable", "draining", "closed"]);

export function createRouter({ engine, nodes, journal, peerOf, clock, log }: Options): Runtime {
  /** The nodes that something here waits for. */
  const awaited = new Map<string, { gone: AbortController; by: number }>();
  let looking = false;

  /** `call` where the session lives. */
  async function at<T>(call: (node: Peer) => Promise<T>): Promise<T> {
    const began = clock.monotonic();
    for (let tries = 0; ; tries++) {
      try {
        return await call(engine);
      } catch (error) {
        const owner = error instanceof Elsewhere ? error : null;
        if (!owner && !isOf(error, CHANGING)) throw error;
        const until = began + (owner ? HOLD_MS : CHANGING_MS);
        const why = owner ? await there(owner, until, call) : { passing: messageOf(error) };
        if ("done" in why) return why.done;
        await pause(tries, until, why.passing);
      }
    }
  }

  async function there<T>({ node, address }: Elsewhere, until: number, call: (node: Peer) => Promise<T>) {
    const gone = goneOf(node);
    const late = linked([gone.signal], { clock, ms: until - clock.monotonic(), reason: silent(node) });
    try {
      return { done: await unlessAborted(call(peerOf(address)), late.signal) };
    } catch (error) {
      if (!isOf(error, PASSING)) throw error;
      return { passing: messageOf(error) };
    } finally {
      late.release();
      gone.release();
    }
  }

  async function pause(tries: number, until: number, why: string): Promise<void> {
    if (clock.monotonic() >= until)
      throw new Refusal("store_unavailable", `${why.replace(/\.?$/, ".")} Nobody else has taken over yet; try again.`);
    log("debug", "cluster.again", { tries, why });
    await clock.sleep(backoff(tries, AGAIN_MS));
  }

  /** Aborts when that node has left or was reaped. */
  function goneOf(node: string): { signal: AbortSignal; release(): void } {
    const one = awaited.get(node) ?? { gone: new AbortController(), by: 0 };
    one.by++;
    awaited.set(node, one);
    if (!looking) void look();
    return {
      signal: one.gone.signal,
      release() {
        if (--one.by === 0 && awaited.get(node) === one) awaited.delete(node);
      },
    };
  }

  async function look(): Promise<void> {
    looking = true;
    let alarm = new AbortController();
    const forget = nodes.onHint(() => alarm.abort("hint"));
    while (awaited.size > 0) {
      await clock.sleep(LOOK_MS, alarm.signal);
      alarm = new AbortController();
      try {
        const living = new Set((await nodes.list()).map(({ id }) => id));
        for (const [node, { gone }] of awaited)
          if (!living.has(node)) {
            awaited.delete(node);
            gone.abort(silent(node));
          }
      } catch (error) {
        log("warn", "cluster.unread", { error: messageOf(error) });
      }
    }
    forget();
    looking = false;
  }

  /** Goes on where the session is, from where it was: no gap, no double. */
  const follow: Runtime["follow"] = async function* (session, cursor, signal) {
    let place = cursor;
    let until = Number.POSITIVE_INFINITY;
    for (let tries = 0; !signal.aborted; tries++) {
      let why = "The session is changing its node.";
      try {
        for await (const update of engine.follow(session, place, signal)) {
          place = update.cursor;
          yield update;
        }
        return;
      } catch (error) {
        if (error instanceof Elsewhere)
          try {
            for await (const update of followThere(error, session, place, signal)) {
              place = update.cursor;
              tries = 0;
              until = Number.POSITIVE_INFINITY;
              yield update;
            }
          } catch (broken) {
            if (!signal.aborted && !isOf(broken, PASSING)) throw broken;
            why = messageOf(broken);
          }
        else if (!isOf(error, CHANGING)) throw error;
      }
      if (signal.aborted) return;
      until = Math.min(until, clock.monotonic() + HOLD_MS);
      await pause(tries, until, why);
    }
  };

  /** Until that node ends the stream or is gone. One that hangs is not waited for. */
  async function* followThere({ node, address }: Elsewhere, session: string, cursor: string, signal: AbortSignal) {
    const gone = goneOf(node);
    const over = linked([signal, gone.signal]);
    const updates = peerOf(address).follow(session, cursor, over.signal);
    try {
      for (;;) {
        const { done, value } = await unlessAborted(updates.next(), over.signal);
        if (done) return;
        yield value;
      }
    } finally {
      over.release();
      over.abort("over");
      gone.release();
      void updates.return(undefined).catch(() => {});
    }
  }

  const stop: Runtime["stop"] = async (asked) => {
    const stopped = await at((node) => node.stop(asked));
    if (asked.scope === "tree") for (const child of await journal.children(asked.session)) await stopAll(child);
    return stopped;
  };

  /** What the session's node cannot reach by itself: its children that live on other nodes. */
  async function stopAll(session: string): Promise<void> {
    const { turn, inbox } = await runtime.status(session);
    for (const { id } of inbox) await runtime.withdraw(session, id);
    if (turn) await runtime.stop({ session, turn: turn.id, scope: "tree" });
    else for (const child of await journal.children(session)) await stopAll(child);
  }

  const runtime: Runtime = {
    ...engine,
    // `admit` is about a node's own limits: an input for a session at work on another node is bounded by its inbox there.
    accept: ({ admit, ...request }) =>
      at((node) => node.accept(node === engine && admit ? { ...request, admit } : request)),
    stop,
    answer: (answer) => at((node) => node.answer(answer)),
    grants: (session) => at((node) => node.grants(session)),
    revoke: (session, call, by) => at((node) => node.revoke(session, call, by)),
    withdraw: (session, input) => at((node) => node.withdraw(session, input)),
    move: (session, input, to) => at((node) => node.move(session, input, to)),
    status: (session) => at((node) => node.status(session)),
    create: (begun) => at((node) => node.create(begun)),
    fork: (fork) => at((node) => node.fork(fork)),
    restoreFiles: (what) => at((node) => node.restoreFiles(what)),
    fileChanges: (what) => at((node) => node.fileChanges(what)),
    forget: (session) => at((node) => node.forget(session)),
    follow,
  };
  return runtime;
}

const silent = (node: string) => new Refusal("store_unavailable", `The node ${node} does not answer`);

const isOf = (error: unknown, codes: ReadonlySet<RefusalCode>): boolean =>
  error instanceof Refusal && codes.has(error.code);
