// A Store without a disk. The object is the disk: it outlives every process that the simulator kills. What is
// stored is kept by reference; states and entries are never changed after they are made.
import { StoreFault } from "../../src/core/errors.ts";
import type {
  Announcement,
  Commit,
  Found,
  InputRow,
  Note,
  Notes,
  SessionPage,
  SessionRow,
  SessionSummary,
  Store,
  Verdict,
} from "../../src/core/ports.ts";
import type { Entry } from "../../src/core/session.ts";
import { hasWork } from "../../src/core/turn.ts";
import { phrasesOf, snippetOf, textOf } from "../../src/store/sqlite/search.ts";

type Kept = SessionRow & { title: string; active: boolean; entries: Entry[] };
type Sync<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => Promise<infer R> ? (...args: A) => R : never;
};
export type MemoryStore = Sync<Omit<Store, "close" | "notes">> & { notes: Sync<Notes> };

export function createMemoryStore(): MemoryStore {
  const sessions = new Map<string, Kept>(); // in order of creation, which decides between equal times
  const turns = new Map<string, Entry[]>();
  const inputs = new Map<string, InputRow>();
  const announcements = new Map<number, Announcement>();
  let announced = 0;
  const notes = new Map<string, Note>();
  let epoch = 0;

  function commit(change: Commit): Verdict {
    const { session, version, at, parent, active, state } = change;
    const kept = sessions.get(session);
    if (change.epoch < epoch) return "fenced";
    if (version !== (kept?.version ?? 0)) return "stale";
    const ids = new Set(change.accepted.map(({ id }) => id));
    if (ids.size < change.accepted.length || change.accepted.some(({ id }) => inputs.has(id))) return "duplicate";
    const last = kept?.entries.at(-1)?.seq ?? 0;
    if (change.entries[0] && change.entries[0].seq <= last)
      throw new StoreFault("no", `entry ${change.entries[0].seq} of ${session} exists already`);

    const entries = kept?.entries ?? [];
    const createdAt = kept?.createdAt ?? at;
    sessions.set(session, {
      session,
      epoch: change.epoch,
      version: version + 1,
      state,
      parent,
      createdAt,
      updatedAt: at,
      title: kept?.title || change.title || "",
      active,
      entries,
    });
    for (const { to, turn } of change.announced ?? []) {
      const id = ++announced;
      announcements.set(id, { id, to, session, turn, at, attempts: 0, due: 0, error: "", dead: false });
    }
    for (const entry of change.entries) {
      entries.push(entry);
      const turn = turns.get(entry.turn);
      if (turn) turn.push(entry);
      else turns.set(entry.turn, [entry]);
    }
    for (const { id, digest } of change.accepted)
      inputs.set(id, { id, session, digest, at, status: "waiting", turn: null });
    for (const { id, turn } of change.taken) {
      const input = inputs.get(id);
      if (input) inputs.set(id, { ...input, status: turn === null ? "withdrawn" : "taken", turn });
    }
    return "done";
  }

  function load(session: string): SessionRow | null {
    const kept = sessions.get(session);
    if (!kept) return null;
    const { active: _, entries: __, title: ___, ...row } = kept;
    return row;
  }

  function entries(session: string, after: number, limit: number): Entry[] {
    const all = sessions.get(session)?.entries ?? [];
    let from = Math.min(after, all.length); // numbered densely from 1: the place is the number
    while (from > 0 && (all[from - 1]?.seq ?? 0) > after) from--;
    return all.slice(from, from + limit);
  }

  const isBefore = (a: Kept, b: { updatedAt: number; session: string }) =>
    a.updatedAt < b.updatedAt || (a.updatedAt === b.updatedAt && a.session < b.session);

  function summaries({ after, limit, top = false, active = false, titled = "", prefix = "" }: SessionPage) {
    return [...sessions.values()]
      .filter((kept) => !after || isBefore(kept, after))
      .filter((kept) => kept.session.startsWith(prefix) && (kept.active || !active))
      .filter(({ parent, title }) => !(top && parent) && title.toLowerCase().includes(titled.toLowerCase()))
      .sort((a, b) => (isBefore(a, b) ? 1 : -1))
      .slice(0, limit)
      .map(summaryOf);
  }

  const summaryOf = ({ session, title, parent, active, state, createdAt, updatedAt }: Kept): SessionSummary => ({
    session,
    title,
    parent,
    active,
    entries: state.seq,
    createdAt,
    updatedAt,
  });

  function prune(prefix: string, before: number): number {
    const old = [...sessions.values()].filter(
      (kept) => !hasWork(kept.state) && kept.updatedAt < before && kept.session.startsWith(prefix),
    );
    for (const kept of old) drop(kept);
    return old.length;
  }

  function drop({ session, entries }: Kept) {
    for (const { turn } of entries) turns.delete(turn);
    for (const input of inputs.values()) if (input.session === session) inputs.delete(input.id);
    sessions.delete(session);
  }

  /** By how often the phrases stand there, which is near enough to a ranking. */
  function search(query: string, { session: within, limit }: { session?: string; limit: number }): Found[] {
    const phrases = phrasesOf(query.toLowerCase());
    const found = [...sessions.values()]
      .filter(({ session }) => within === undefined || session === within || session.startsWith(`${within}:`))
      .flatMap(({ session, entries }) => entries.map((entry) => ({ session, ...entry, said: textOf(entry) })))
      .map((entry) => ({ ...entry, hits: phrases.map((phrase) => entry.said.toLowerCase().split(phrase).length - 1) }));
    const all = found.filter(({ hits }) => hits.length > 0 && hits.every((n) => n > 0));
    const sum = (hits: number[]) => hits.reduce((a, b) => a + b, 0);
    return (all.length > 0 ? all : found.filter(({ hits }) => sum(hits) > 0))
      .toSorted((a, b) => sum(b.hits) - sum(a.hits) || b.at - a.at)
      .slice(0, limit)
      .map(({ session, seq, turn, at, said }) => ({ session, seq, turn, at, text: snippetOf(said, query) }));
  }

  function check(): string[] {
    const wrong: string[] = [];
    for (const { session, state, entries } of sessions.values()) {
      if (entries.length !== state.seq || entries.some((entry, i) => entry.seq !== i + 1))
        wrong.push(`session ${session}: its entries are not 1 to ${state.seq}`);
      for (const { id } of state.inbox) {
        const input = inputs.get(id);
        if (input?.session !== session || input.status !== "waiting")
          wrong.push(`session ${session}: ${id} is in its inbox, but is not a waiting input`);
      }
    }
    for (const { id, session, status } of inputs.values())
      if (status === "waiting" && !sessions.get(session)?.state.inbox.some((waiting) => waiting.id === id))
        wrong.push(`input ${id} waits, but is not in the inbox of ${session}`);
    return wrong;
  }

  return {
    claim: () => ++epoch,
    epoch: () => epoch,
    load,
    commit,
    entries,
    turn: (id) => [...(turns.get(id) ?? [])],
    input: (id) => inputs.get(id) ?? null,
    active: () =>
      [...sessions.values()]
        .filter((kept) => kept.active)
        .sort((a, b) => a.updatedAt - b.updatedAt)
        .map(({ session, updatedAt }) => ({ session, updatedAt })),
    granted: () =>
      [...sessions.values()].flatMap(({ session, state }) => (state.grants.length ? [session] : [])).toSorted(),
    children: (parent) => [...sessions.values()].filter((kept) => kept.parent === parent).map((kept) => kept.session),
    sessions: summaries,
    summary: (session) => {
      const kept = sessions.get(session);
      return kept ? summaryOf(kept) : null;
    },
    retitle: (session, title) => {
      const kept = sessions.get(session);
      if (kept) sessions.set(session, { ...kept, title });
      return kept !== undefined;
    },
    forget: ({ session, epoch: claim, version }) => {
      const kept = sessions.get(session);
      if (claim < epoch) return "fenced";
      if (!kept || kept.version !== version) return "stale";
      drop(kept);
      return "done";
    },
    announcements: ({ dead, after, limit }) =>
      [...announcements.values()].filter((one) => one.dead === dead && one.id > after).slice(0, limit),
    announced: (id, next) => {
      const one = announcements.get(id);
      if (!next) announcements.delete(id);
      else if (one) announcements.set(id, { ...one, ...next });
    },
    search,
    prune,
    check,
    notes: {
      get: (key) => notes.get(key)?.value,
      set: (key, value) => {
        if (value === undefined) notes.delete(key);
        else notes.set(key, { key, value: JSON.parse(JSON.stringify(value)), at: 0 });
      },
      list: (prefix) =>
        [...notes.values()].filter(({ key }) => key.startsWith(prefix)).sort((a, b) => (a.key < b.key ? -1 : 1)),
    },
  };
}

/** What one process sees of the disk. */
export function asStore(disk: MemoryStore): Store {
  let closed = false;
  const io = async <T>(work: () => T): Promise<T> => {
    if (closed) throw new StoreFault("no", "the store is closed");
    return work();
  };
  return {
    claim: () => io(() => disk.claim()),
    epoch: () => io(() => disk.epoch()),
    load: (session) => io(() => disk.load(session)),
    commit: (change) => io(() => disk.commit(change)),
    entries: (session, after, limit) => io(() => disk.entries(session, after, limit)),
    turn: (id) => io(() => disk.turn(id)),
    input: (id) => io(() => disk.input(id)),
    active: () => io(() => disk.active()),
    children: (parent) => io(() => disk.children(parent)),
    granted: () => io(() => disk.granted()),
    sessions: (page) => io(() => disk.sessions(page)),
    summary: (session) => io(() => disk.summary(session)),
    retitle: (session, title) => io(() => disk.retitle(session, title)),
    forget: (which) => io(() => disk.forget(which)),
    announcements: (page) => io(() => disk.announcements(page)),
    announced: (id, next) => io(() => disk.announced(id, next)),
    notes: {
      get: (key) => io(() => disk.notes.get(key)),
      set: (key, value) => io(() => disk.notes.set(key, value)),
      list: (prefix) => io(() => disk.notes.list(prefix)),
    },
    search: (query, within) => io(() => disk.search(query, within)),
    prune: (prefix, before) => io(() => disk.prune(prefix, before)),
    check: () => io(() => disk.check()),
    close: async () => {
      closed = true;
    },
  };
}
