// A runtime over several nodes. A session that has work lives on one of them, and everybody else is a door to it: a call is tried
// here first, and goes to the node that the engine names. Nothing else knows that there are nodes.
import { Elsewhere, messageOf, Refusal } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import type { Peer, Runtime } from "../core/runtime.ts";
import type { Journal, Nodes } from "../core/store.ts";
import { backoff, linked, unlessAborted } from "../core/wait.ts";

type Options = Ambient & {
  /** This node's own. */
  engine: Runtime;
  nodes: Pick<Nodes, "list" | "onHint">;
  journal: Pick<Journal, "children">;
  /** The engine of another node. It answers for itself only: what it does not own it refuses with Elsewhere. */
  peerOf(address: string): Peer;
};

/** How long a call waits for the session's next owner. A node that is killed is replaced within 1 s, one that hangs within 5 s. */
const HOLD_MS = 8_000;
const AGAIN_MS = { first: 50, most: 500 };
/** How often we look whether the nodes that we are waiting for still exist: one that hangs keeps its connections. */
const LOOK_MS = 1_000;

export function createRouter({ engine, nodes, journal, peerOf, clock, log }: Options): Runtime {
  /** The nodes that something here waits for. */
  const awaited = new Map<string, { gone: AbortController; by: number }>();
  let looking = false;

  /** `call` where the session lives. */
  async function at<T>(call: (node: Peer) => Promise<T>): Promise<T> {
    const until = clock.monotonic() + HOLD_MS;
    for (let tries = 0; ; tries++) {
      const owner = await here(call);
      if ("done" in owner) return owner.done;
      const left = until - clock.monotonic();
      const why = await there(owner.elsewhere, left, call);
      if ("done" in why) return why.done;
      log("debug", "cluster.again", { node: owner.elsewhere.node, tries, why: why.passing });
      await pause(tries, until, owner.elsewhere, why.passing);
    }
  }

  async function here<T>(call: (node: Peer) => Promise<T>): Promise<{ done: T } | { elsewhere: Elsewhere }> {
    try {
      return { done: await call(engine) };
    } catch (error) {
      if (error instanceof Elsewhere) return { elsewhere: error };
      throw error;
    }
  }

  /** `passing`: why it may be answered by somebody else in a moment. */
  async function there<T>(
    { node, address }: Elsewhere,
    ms: number,
    call: (node: Peer) => Promise<T>,
  ): Promise<{ done: T } | { passing: string }> {
    const gone = goneOf(node);
    const late = linked([gone.signal], { clock, ms: Math.max(0, ms), reason: silent(node) });
    try {
      return { done: await unlessAborted(call(peerOf(address)), late.signal) };
    } catch (error) {
      if (!mayPass(error)) throw error;
      return { passing: messageOf(error) };
    } finally {
      late.release();
      gone.release();
    }
  }

  async function pause(tries: number, until: number, { node }: Elsewhere, why: string): Promise<void> {
    if (clock.monotonic() >= until)
      throw new Refusal(
        "store_unavailable",
        `The session is at work on the node ${node}, which cannot be asked now (${why.replace(/\.$/, "")}). Try again.`,
      );
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
      let owner: Elsewhere;
      try {
        for await (const update of engine.follow(session, place, signal)) {
          place = update.cursor;
          yield update;
        }
        return;
      } catch (error) {
        if (!(error instanceof Elsewhere)) throw error;
        owner = error;
      }
      const gone = goneOf(owner.node);
      const over = linked([signal, gone.signal]);
      let why = "It ended the stream";
      try {
        for await (const update of peerOf(owner.address).follow(session, place, over.signal)) {
          place = update.cursor;
          tries = 0;
          until = Number.POSITIVE_INFINITY;
          yield update;
        }
      } catch (error) {
        if (!mayPass(error)) throw error;
        why = messageOf(error);
      } finally {
        over.release();
        over.abort("over");
        gone.release();
      }
      if (signal.aborted) return;
      until = Math.min(until, clock.monotonic() + HOLD_MS);
      await pause(tries, until, owner, why);
    }
  };

  const stop: Runtime["stop"] = async (asked) => {
    const stopped = await at((node) => node.stop(asked));
    if (asked.scope === "tree") for (const child of await journal.children(asked.session)) await stopAll(child);
    return stopped;
  };

  /** What a node cannot reach by itself: children of a session that live on other nodes. */
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

/** The node is gone, or leaves, or does not own the session any more: somebody else will. */
const mayPass = (error: unknown): boolean =>
  error instanceof Refusal &&
  (error.code === "not_owner" ||
    error.code === "store_unavailable" ||
    error.code === "draining" ||
    error.code === "closed");
