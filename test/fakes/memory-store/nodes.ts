import type { Disk, SyncPort } from "./disk.ts";

const LEASE_MS = 5_000;

/** `shared`: several may be members; otherwise whoever joins replaces the one before. `now`: the store's clock. */
export function memoryNodes(disk: Disk, { shared, now }: { shared: boolean; now(): number }): SyncPort<"nodes"> {
  const { sessions, nodes, leases } = disk;
  const listeners = new Set<() => void>();
  const lease = () => (shared ? now() + LEASE_MS : Number.MAX_SAFE_INTEGER);
  const hint = () => {
    for (const listener of listeners) listener();
  };

  function free(which: (owner: string, session: string) => boolean, change: { writer?: string } = {}) {
    for (const kept of sessions.values())
      if (kept.owner && which(kept.owner, kept.session))
        sessions.set(kept.session, { ...kept, owner: null, ...change });
    hint();
  }

  function leave(id: string) {
    if (nodes.delete(id)) free((owner) => owner === id);
  }

  return {
    join: (about) => {
      if (!shared) for (const id of nodes.keys()) leave(id);
      const id = String(++disk.joined);
      nodes.set(id, { ...about, id, leaving: false, leaseUntil: lease() });
      hint();
      return id;
    },
    beat: (id) => {
      const node = nodes.get(id);
      if (!node) return "gone";
      node.leaseUntil = lease();
      return node.leaving ? "leaving" : "ok";
    },
    drain: (id) => {
      const node = nodes.get(id);
      if (node) node.leaving = true;
      hint();
      return node !== undefined;
    },
    leave,
    reap: () => {
      const dead = [...nodes.values()].flatMap(({ id, leaseUntil }) => (leaseUntil < now() ? [id] : []));
      for (const id of dead) leave(id);
      return dead;
    },
    claim: (id, most) => {
      const node = nodes.get(id);
      if (!node || node.leaving) return [];
      const free = [...sessions.values()]
        .filter((kept) => kept.active && (!kept.owner || (kept.owner === id && kept.writer !== id)))
        .sort((a, b) => Number(a.owner !== null) - Number(b.owner !== null) || a.updatedAt - b.updatedAt)
        .slice(0, most);
      for (const kept of free) sessions.set(kept.session, { ...kept, owner: id });
      return free.map(({ session }) => session);
    },
    handOver: (id, which) => free((owner, session) => owner === id && which.includes(session), { writer: "" }),
    list: () =>
      [...nodes.values()].map((node) => ({
        ...node,
        sessions: [...sessions.values()].filter(({ owner }) => owner === node.id).length,
      })),
    ownerOf: (session) => {
      const owner = nodes.get(sessions.get(session)?.owner ?? "");
      return owner ? { node: owner.id, address: owner.address } : null;
    },
    lease: (name, id) => {
      const holder = leases.get(name);
      if (nodes.get(id)?.leaving !== false || (holder !== undefined && holder !== id && nodes.has(holder)))
        return false;
      leases.set(name, id);
      return true;
    },
    release: (name, id) => {
      if (leases.get(name) === id) leases.delete(name);
    },
    onHint: (listener: () => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
