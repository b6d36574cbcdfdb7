// Nodes in SQLite: a file has one process, so there is one, and whoever joins replaces the one before. Its id is a number that rises.
import type { DatabaseSync } from "node:sqlite";
import type { NodeRow, Nodes } from "../../core/store.ts";
import type { Thread } from "./thread.ts";

export function nodeTable(db: DatabaseSync) {
  const sql = {
    newest: db.prepare("SELECT epoch FROM owner WHERE id = 1"),
    join: db.prepare(
      "INSERT INTO owner VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
    ),
    unclaimed: db.prepare("SELECT key FROM session WHERE active = 1 AND epoch <> ? ORDER BY updated_at, rowid"),
    active: db.prepare("SELECT count(*) n FROM session WHERE active = 1"),
  };
  return {
    newest: (): number => Number(sql.newest.get()?.["epoch"] ?? 0),
    join: (): number => Number(sql.join.get()?.["epoch"]),
    unclaimed: (id: string): string[] => sql.unclaimed.all(Number(id)).map(({ key }) => String(key)),
    countActive: (): number => Number(sql.active.get()?.["n"]),
  };
}

export function nodesPort({ ask, write }: Thread) {
  let self: Omit<NodeRow, "sessions"> | null = null;
  /** What the node before has left, and this one has not written yet. */
  const claimed = new Set<string>();
  const isHere = (id: string) => self?.id === id;
  const owns = (session: string, writer: string) => isHere(writer) || claimed.has(session);

  const nodes: Nodes = {
    join: async (about) => {
      const id = String(await write("join"));
      self = { ...about, id, leaving: false, leaseUntil: Number.MAX_SAFE_INTEGER };
      claimed.clear();
      return id;
    },
    // While we hold the lock of the file nobody else can join: no need to ask the thread, behind whatever it writes.
    beat: async (id) => (isHere(id) ? (self?.leaving ? "leaving" : "ok") : "gone"),
    drain: async (id) => {
      if (self && isHere(id)) self.leaving = true;
      return isHere(id);
    },
    leave: async (id) => {
      if (isHere(id)) self = null;
    },
    reap: async () => [],
    claim: async (id, most) => {
      if (!self || self.leaving || !isHere(id)) return [];
      const left = await ask("unclaimed", id);
      const keys = left.toSorted((a, b) => Number(claimed.has(a)) - Number(claimed.has(b))).slice(0, most);
      for (const key of keys) claimed.add(key);
      return keys;
    },
    handOver: async (id, sessions) => {
      if (isHere(id)) for (const session of sessions) claimed.delete(session);
    },
    list: async () => (self ? [{ ...self, sessions: await ask("countActive") }] : []),
    ownerOf: async (session) => {
      const row = self && (await ask("load", session));
      return self && row?.owner && owns(session, row.writer) ? { node: self.id, address: self.address } : null;
    },
    lease: async (_, id) => isHere(id),
    release: async () => {},
    onHint: () => () => {},
  };
  return { nodes, ownerOf: (session: string, writer: string) => (owns(session, writer) ? (self?.id ?? null) : null) };
}
