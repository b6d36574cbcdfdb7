// A Store without a disk. The object is the disk: it outlives every process that the simulator kills. What is
// stored is kept by reference; states and entries are never changed after they are made.
import { StoreFault } from "../../src/core/errors.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { memoryAnnouncements } from "./memory-store/announcements.ts";
import { memoryCatalog } from "./memory-store/catalog.ts";
import { createDisk, type Disk, type Sync } from "./memory-store/disk.ts";
import { memoryJournal } from "./memory-store/journal.ts";
import { memoryNodes } from "./memory-store/nodes.ts";
import { memoryNotes } from "./memory-store/notes.ts";
import { memorySearch } from "./memory-store/search.ts";

export type MemoryStore = Sync<Omit<Store, "close">> & {
  /** The whole journal of a session, however long. */
  all(session: string): Entry[];
};

/** `shared`: for several nodes at once. `now`: milliseconds of the store's own clock. */
export function createMemoryStore({ shared = false, now = () => performance.now() } = {}): MemoryStore {
  const disk = createDisk();
  return {
    journal: memoryJournal(disk),
    catalog: memoryCatalog(disk),
    notes: memoryNotes(disk),
    announcements: memoryAnnouncements(disk),
    search: memorySearch(disk),
    nodes: memoryNodes(disk, { shared, now }),
    check: () => check(disk),
    all: (session) => [...(disk.sessions.get(session)?.entries ?? [])],
  };
}

function check({ sessions, inputs }: Disk): string[] {
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

/** What one process sees of the disk. */
export function asStore(disk: MemoryStore): Store {
  let closed = false;
  const ports = throughIo(disk, async (_, work) => {
    if (closed) throw new StoreFault("no", "the store is closed");
    return work();
  });
  return {
    ...ports,
    close: async () => {
      closed = true;
    },
  };
}

/** Every access is an `io`, by its name. */
export function throughIo(
  { journal, catalog, notes, announcements, search, nodes, check }: MemoryStore,
  io: <T>(name: string, work: () => T) => Promise<T>,
): Omit<Store, "close"> {
  return {
    journal: {
      load: (session) => io("load", () => journal.load(session)),
      commit: (change) => io("commit", () => journal.commit(change)),
      entries: (session, after, limit) => io("entries", () => journal.entries(session, after, limit)),
      turn: (id) => io("turn", () => journal.turn(id)),
      input: (id) => io("input", () => journal.input(id)),
      inputs: (session) => io("inputs", () => journal.inputs(session)),
      children: (parent) => io("children", () => journal.children(parent)),
    },
    catalog: {
      sessions: (page) => io("sessions", () => catalog.sessions(page)),
      summary: (session) => io("summary", () => catalog.summary(session)),
      retitle: (session, title) => io("retitle", () => catalog.retitle(session, title)),
      granted: () => io("granted", () => catalog.granted()),
      forget: (which) => io("forget", () => catalog.forget(which)),
      prune: (prefix, before) => io("prune", () => catalog.prune(prefix, before)),
    },
    notes: {
      get: (key) => io("note", () => notes.get(key)),
      set: (key, value) => io("write", () => notes.set(key, value)),
      swap: (key, from, to) => io("write", () => notes.swap(key, from, to)),
      list: (prefix) => io("notes", () => notes.list(prefix)),
    },
    announcements: {
      list: (page) => io("announcements", () => announcements.list(page)),
      update: (id, next) => io("announced", () => announcements.update(id, next)),
    },
    search: (query, within) => io("search", () => search(query, within)),
    nodes: {
      join: (about) => io("join", () => nodes.join(about)),
      beat: (id) => io("beat", () => nodes.beat(id)),
      drain: (id) => io("drain", () => nodes.drain(id)),
      leave: (id) => io("leave", () => nodes.leave(id)),
      reap: () => io("reap", () => nodes.reap()),
      claim: (id, most) => io("claim", () => nodes.claim(id, most)),
      handOver: (id, sessions) => io("handOver", () => nodes.handOver(id, sessions)),
      list: () => io("list", () => nodes.list()),
      ownerOf: (session) => io("ownerOf", () => nodes.ownerOf(session)),
      lease: (name, id) => io("lease", () => nodes.lease(name, id)),
      release: (name, id) => io("release", () => nodes.release(name, id)),
      onHint: (listener) => nodes.onHint(listener),
    },
    check: () => io("check", () => check()),
  };
}
