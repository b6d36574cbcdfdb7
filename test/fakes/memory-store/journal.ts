import { StoreFault } from "../../../src/core/errors.ts";
import type { Entry } from "../../../src/core/session.ts";
import { type Commit, type CommitVerdict, PAGE_CHARS, type SessionRow } from "../../../src/core/store.ts";
import type { Disk, SyncPort } from "./disk.ts";

export function memoryJournal(disk: Disk): SyncPort<"journal"> {
  const { sessions, turns, inputs, announcements } = disk;

  function commit(change: Commit): CommitVerdict {
    const { session, version, at, parent, active, state } = change;
    const kept = sessions.get(session);
    const { node } = change;
    if (!disk.nodes.has(node)) return "fenced";
    if (kept?.owner && kept.owner !== node) return "elsewhere";
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
      owner: active ? node : null,
      writer: node,
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
      const id = ++disk.announced;
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
    const page = all.slice(from, from + limit);
    let room = PAGE_CHARS;
    const first = page.findIndex((entry, index) => {
      room -= lengthOf(entry);
      return room < 0 && index > 0;
    });
    return first < 0 ? page : page.slice(0, first);
  }

  return {
    load,
    commit,
    entries,
    turn: (id) => [...(turns.get(id) ?? [])],
    input: (id) => inputs.get(id) ?? null,
    inputs: (session) => [...inputs.values()].filter((input) => input.session === session),
    children: (parent) => [...sessions.values()].filter((kept) => kept.parent === parent).map((kept) => kept.session),
  };
}

/** Counted once for each entry: the simulator reads them again and again. */
const lengths = new WeakMap<Entry, number>();

function lengthOf(entry: Entry): number {
  const known = lengths.get(entry) ?? JSON.stringify(entry).length;
  lengths.set(entry, known);
  return known;
}
