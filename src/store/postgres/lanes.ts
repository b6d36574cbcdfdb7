// Writes, one after the other in each lane. A session is always in the same lane. While one group of commits is under way, others
// pile up; they are the next group, at most one of each session.
import { DatabaseError } from "pg";
import { StoreFault } from "../../core/errors.ts";
import type { CommitVerdict } from "../../core/store.ts";
import { clock } from "../../platform/clock.ts";
import { commitQuery, groupQuery, type PgCommit, SHAPES } from "./commit-query.ts";
import { type Connection, faultOf, isLost, type Link, type PgRow, type Query } from "./link.ts";

/** Measured without the engine: two to four lanes with groups of 50 to 100 did 11,000 to 13,700 turns a second, one lane 7,000. */
const LANES = 4;
const GROUP = 64;

/** Plans are made once, and always use an index: one that was made while a table was small reads all of it when the table is large. */
const PLANS = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off";

type Waits<T> = { resolve(value: T): void; reject(error: unknown): void };
type CommitTask = Waits<CommitVerdict> & { commit: PgCommit };
type QueryTask = Waits<PgRow[]> & { query: Query };
type LaneTask = CommitTask | QueryTask;

export type WriteLanes = ReturnType<typeof createLanes>;

export function createLanes(link: Link) {
  const first = createLane(link);
  const others = Array.from({ length: LANES - 1 }, () => createLane(link));
  const laneOf = (key: string) => others[placeOf(key)] ?? first;
  let last = { node: "", sent: Number.NEGATIVE_INFINITY };
  return {
    async commit(commit: PgCommit): Promise<CommitVerdict> {
      const sent = clock.monotonic();
      const { push } = laneOf(commit.session);
      const verdict = await new Promise<CommitVerdict>((resolve, reject) => push({ commit, resolve, reject }));
      if (verdict === "done") last = { node: commit.node, sent };
      return verdict;
    },
    /** When the last commit was sent that was done for this node. */
    doneAt: (node: string): number => (last.node === node ? last.sent : Number.NEGATIVE_INFINITY),
    /** Runs after everything that was asked before with the same key. */
    query: (key: string, query: Query): Promise<PgRow[]> =>
      new Promise((resolve, reject) => laneOf(key).push({ query, resolve, reject })),
    isBusy: (key: string): boolean => laneOf(key).isBusy(),
    /** Commits of nothing in each: the first one in a connection takes ten times as long, and may be somebody's stop. */
    async warm(node: string): Promise<void> {
      const queries = [...SHAPES.map(commitQuery), groupQuery(node, [])];
      const sent = [first, ...others].flatMap(({ push }) =>
        queries.map((query) => new Promise((resolve, reject) => push({ query, resolve, reject }))),
      );
      await Promise.all(sent);
    },
    async close(): Promise<void> {
      await Promise.all([first, ...others].map((lane) => lane.close()));
    },
  };
}

/** FNV-1a. */
function placeOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % LANES;
}

function createLane(link: Link) {
  let waiting: LaneTask[] = [];
  let working: Promise<void> | null = null;
  let connection: Connection | null = null;
  /** The last commits went as a group, so the next ones may. */
  let together = false;

  function wake() {
    working ??= work().finally(() => {
      working = null;
      if (waiting.length) wake();
    });
  }

  async function work() {
    for (let next = await nextTask(); next; next = await nextTask()) {
      if ("query" in next) await answer(next, () => send(next.query));
      else await commit([next, ...others(next)]);
    }
  }

  /** Sessions that were answered together commit again together: sent at once, the first of them went alone (5 commits in a group of 200
   *  sessions, now 40). */
  async function nextTask(): Promise<LaneTask | undefined> {
    if (together) await new Promise(setImmediate);
    return waiting.shift();
  }

  /** Those behind it that can go with it, up to what is not a commit. */
  function others({ commit }: CommitTask): CommitTask[] {
    const taken: CommitTask[] = [];
    const left: CommitTask[] = [];
    const sessions = new Set([commit.session]);
    let looked = 0;
    for (const task of waiting) {
      if (!("commit" in task) || taken.length >= GROUP - 1) break;
      looked++;
      const alone = sessions.has(task.commit.session) || task.commit.node !== commit.node;
      (alone ? left : taken).push(task);
      sessions.add(task.commit.session);
    }
    waiting = [...left, ...waiting.slice(looked)];
    return taken;
  }

  async function commit(group: CommitTask[]): Promise<void> {
    together = group.length > 1;
    if (together) {
      try {
        if ((await verdictOf(group)) === "done") return group.forEach(({ resolve }) => resolve("done"));
      } catch (error) {
        if (error instanceof StoreFault && error.landed === "unknown")
          return group.forEach(({ reject }) => reject(error));
      }
    }
    // One of them is refused or wrong: only its sender pays.
    for (const task of group) await answer(task, () => verdictOf([task]));
  }

  async function verdictOf(group: readonly CommitTask[]): Promise<CommitVerdict> {
    const commits = group.map(({ commit }) => commit);
    const [first, ...more] = commits;
    try {
      if (first && !more.length && (await send(commitQuery(first))).length) return "done";
      const [row] = await send(groupQuery(first?.node ?? "", commits));
      return verdict(row?.["verdict"]);
    } catch (error) {
      const taken = error instanceof StoreFault && error.cause instanceof DatabaseError ? error.cause.constraint : "";
      // Somebody else was first, after we had looked.
      if (taken === "session_pkey") return "stale";
      if (taken === "input_id" || taken === "input_pkey") return "duplicate";
      throw error;
    }
  }

  async function answer<T>({ resolve, reject }: Waits<T>, work: () => Promise<T>): Promise<void> {
    await work().then(resolve, reject);
  }

  async function send(query: Query): Promise<PgRow[]> {
    await link.settled();
    connection ??= await connect();
    const { backend } = connection;
    try {
      return await connection.query(query);
    } catch (error) {
      if (!isLost(error)) throw faultOf(error, "no", link.where);
      link.suspect(backend);
      void connection?.end();
      connection = null;
      throw faultOf(error, "unknown", link.where);
    }
  }

  async function connect(): Promise<Connection> {
    const made = await link.connect();
    try {
      await made.query({ text: PLANS });
    } catch (error) {
      void made.end();
      throw faultOf(error, "no", link.where);
    }
    void made.lost.then(() => {
      if (connection === made) connection = null;
    });
    return made;
  }

  return {
    push(task: LaneTask) {
      waiting.push(task);
      wake();
    },
    isBusy: () => working !== null,
    async close() {
      for (let rest = working; rest; rest = working) await rest;
      await connection?.end();
    },
  };
}

const VERDICTS: readonly CommitVerdict[] = ["done", "stale", "duplicate", "elsewhere"];
const verdict = (value: unknown): CommitVerdict => VERDICTS.find((one) => one === value) ?? "fenced";
