import type { SessionPage, SessionSummary } from "../../../src/core/store.ts";
import { hasWork } from "../../../src/core/turn.ts";
import type { Disk, Kept, SyncPort } from "./disk.ts";

export function memoryCatalog(disk: Disk): SyncPort<"catalog"> {
  const { sessions, turns, inputs } = disk;

  function summaries({ after, limit, top = false, active = false, titled = "", prefix = "" }: SessionPage) {
    return [...sessions.values()]
      .filter((kept) => !after || isBefore(kept, after))
      .filter((kept) => kept.session.startsWith(prefix) && (kept.active || !active))
      .filter(({ parent, title }) => !(top && parent) && title.toLowerCase().includes(titled.toLowerCase()))
      .sort((a, b) => (isBefore(a, b) ? 1 : -1))
      .slice(0, limit)
      .map(summaryOf);
  }

  function drop({ session, entries }: Kept) {
    for (const { turn } of entries) turns.delete(turn);
    for (const input of inputs.values()) if (input.session === session) inputs.delete(input.id);
    sessions.delete(session);
  }

  return {
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
    granted: () =>
      [...sessions.values()].flatMap(({ session, state }) => (state.grants.length ? [session] : [])).toSorted(),
    forget: ({ session, node, version }) => {
      const kept = sessions.get(session);
      if (!disk.nodes.has(node)) return "fenced";
      if (kept?.owner && kept.owner !== node) return "elsewhere";
      if (!kept || kept.version !== version) return "stale";
      drop(kept);
      return "done";
    },
    prune: (prefix, before) => {
      const old = [...sessions.values()].filter(
        (kept) => !hasWork(kept.state) && kept.updatedAt < before && kept.session.startsWith(prefix),
      );
      for (const kept of old) drop(kept);
      return old.length;
    },
  };
}

const isBefore = (a: Kept, b: { updatedAt: number; session: string }) =>
  a.updatedAt < b.updatedAt || (a.updatedAt === b.updatedAt && a.session < b.session);

const summaryOf = ({ session, title, parent, active, state, createdAt, updatedAt }: Kept): SessionSummary => ({
  session,
  title,
  parent,
  active,
  entries: state.seq,
  createdAt,
  updatedAt,
});
