// Conversations of Hermes into our store: chains of compressed sessions joined, forks and the work of child agents under their
// parents, and each chat where it was last. A conversation that is here already is left alone, unless it grew there and not here.
import { StoreFault } from "../core/errors.ts";
import { chatSession, childSession, generation, parseKey, RUN, TERMINAL } from "../core/session-key.ts";
import { ALONE, type Store } from "../core/store.ts";
import { titleOf } from "../core/title.ts";
import { toObject } from "../platform/json.ts";
import type { OldDatabase, OldRoute, OldRow, OldSession } from "./database.ts";
import { digest, entriesOf, type Imported, isSummary, wordsOf } from "./entries.ts";

type OldConversation = {
  sessions: OldSession[];
  relation: { kind: "fork" | "child" | "after"; of: string } | null;
};
/** What we know of one that came before. `through`: the last row; 0: it was not finished. */
type ImportMark = { session: string; through: number; version: number };

/** Entries in one commit. */
const BATCH = 500;

export async function importSessions(options: {
  db: OldDatabase;
  routes: readonly OldRoute[];
  store: Pick<Store, "journal" | "catalog" | "notes" | "nodes">;
  progress(done: number, all: number): void;
}) {
  const { db, routes, store, progress } = options;
  const { journal, catalog, notes, nodes } = store;
  const all = conversationsIn(db.sessions());
  const node = await nodes.join(ALONE);
  /** For people: what could not come, or not as it was. */
  const left: string[] = [];
  const counted = new Map<string, number>();
  /** By the id there: our key, and what its rows became. */
  const placed = new Map<string, { session: string; rows: OldRow[]; made: Imported }>();
  const current = new Map(routes.map(({ key, session }) => [session, key]));
  const tally = { came: 0, messages: 0, here: 0, left };

  for (const [done, conversation] of all.entries()) {
    progress(done, all.length);
    await bring(conversation);
  }
  progress(all.length, all.length);
  for (const [what, count] of counted) left.push(`${count} ${what}`);
  const marks = db.sessions().filter(({ archived, pinned, hidden }) => archived || pinned || hidden).length;
  if (marks)
    left.push(`${marks} conversations are archived, pinned or hidden there; here they are in the list like all others`);
  const cut = routes.filter((route) => route.cut).length;
  if (cut)
    left.push(`${cut} chats had a turn under way when Hermes ended; it is not continued by itself: ask again there`);
  return tally;

  async function bring(conversation: OldConversation): Promise<void> {
    const { sessions, relation } = conversation;
    const [first] = sessions;
    const last = sessions.at(-1);
    if (!first || !last) return;
    const rows = db.rows(sessions.map(({ id }) => id));
    const through = rows.at(-1)?.id ?? 0;
    const parent = relation && placed.get(relation.of);
    const markName = `imported/hermes/${first.id}`;
    const mark = markOf(await notes.get(markName));
    const session = mark?.session ?? (await keyOf(conversation, parent));
    const shared = relation?.kind === "fork" && parent ? copiedFrom(parent.rows, rows) : [];
    const by = first.user && first.key ? `${first.source}:${first.user}` : undefined;
    const made = entriesOf(rows, {
      id: first.id,
      model: last.model,
      by,
      ...(parent && shared.length && { fork: { from: parent.session, upTo: parent.made.state.seq, rows: shared } }),
    });
    for (const { id } of sessions) placed.set(id, { session, rows, made });
    const row = await journal.load(session);
    if (row && mark?.through === through) {
      tally.here += 1;
      return;
    }
    const unfinished = mark?.through === 0 && row !== null && row.state.seq <= made.state.seq;
    if (row && mark && mark.version !== row.version && !unfinished) {
      left.push(`"${row.session}" has new messages there and here; ours stays as it is`);
      return;
    }
    if (row && mark) await must(catalog.forget({ session, node, version: row.version }));
    else if (row) {
      left.push(`${first.id}: there is another conversation with this name here`);
      return;
    }
    await notes.set(markName, { session, through: 0, version: 0 });
    const above = relation?.kind === "child" ? (parent?.session ?? null) : null;
    const version = await write(session, first, last, made, above);
    const key = sessions.map(({ id }) => current.get(id)).find((one) => one !== undefined);
    await place(session, key !== undefined);
    await notes.set(markName, { session, through, version });
    tally.came += 1;
    tally.messages += rows.filter((one) => !isSummary(one)).length;
    for (const [what, count] of made.left) counted.set(what, (counted.get(what) ?? 0) + count);
  }

  /** Created empty at its time, then filled: each commit is small. */
  async function write(
    session: string,
    first: OldSession,
    last: OldSession,
    made: Imported,
    parent: string | null,
  ): Promise<number> {
    const { entries, state, inputs } = made;
    const words = entries.find((entry) => entry.kind === "accepted" && entry.input.text);
    const said = words?.kind === "accepted" ? words.input.text : "";
    const title = last.title || first.title || titleOf(said);
    const common = { session, node, active: false, parent, title };
    let version = 0;
    for (let from = 0, to = 0; version === 0 || from < entries.length; from = to, to += BATCH) {
      const batch = entries.slice(from, to);
      const seq = from + batch.length;
      const begun = new Set(batch.flatMap(({ kind, turn }) => (kind === "accepted" ? [turn] : [])));
      const ids = inputs.filter((id) => begun.has(id));
      await must(
        journal.commit({
          ...common,
          version: version++,
          state: { ...state, seq, ended: Math.min(state.ended, seq) },
          at: batch.at(-1)?.at ?? first.startedAt,
          entries: batch,
          accepted: ids.map((id) => ({ id, digest: digest("hermes", id) })),
          taken: ids.map((id) => ({ id, turn: id })),
        }),
      );
    }
    return version;
  }

  async function keyOf(
    { sessions, relation }: OldConversation,
    parent: { session: string; made: Imported } | null | undefined,
  ) {
    const [first] = sessions;
    if (!first) return "";
    if (relation?.kind === "child" && parent) {
      const task = [...parent.made.calls.values()].findLast(
        ({ tool, at }) => tool === "delegate_task" && at <= first.startedAt + 1_000,
      );
      const children = await journal.children(parent.session);
      return childSession(
        parent.session,
        task?.turn ?? `${RUN}${digest("hermes", first.id).slice(0, 32)}`,
        task?.call ?? "call",
        children.length,
      );
    }
    const chat = first.key && parseKey(first.key);
    if (chat && chat.of === "chat") {
      const key = chatSession({ ...chat, generation: 1 });
      const { most } = await talkOf(key);
      return generation(key, most + 1);
    }
    if (first.source === "cli") return `${TERMINAL}${first.id}`;
    return parseKey(first.id).of === "named" ? first.id : `hermes-${first.id}`;
  }

  /** The chat talks in it now, or could go back to it. */
  async function place(session: string, now: boolean): Promise<void> {
    const key = parseKey(session);
    if (key.of !== "chat") return;
    const name = chatSession({ ...key, generation: 1 });
    const before = await talkOf(name);
    const most = Math.max(before.most, key.generation);
    await notes.set(`talk/${name}`, { now: now || before.most === 0 ? key.generation : before.now, most });
  }

  async function talkOf(key: string): Promise<{ now: number; most: number }> {
    const { now, most: last } = toObject(await notes.get(`talk/${key}`));
    if (typeof last === "number") return { now: Number(now), most: last };
    const most = (await journal.load(key)) ? 1 : 0;
    return { now: most, most };
  }
}

async function must(verdict: Promise<string>): Promise<void> {
  const was = await verdict;
  if (was !== "done") throw new StoreFault("no", `an imported conversation could not be written (${was})`);
}

function markOf(note: unknown): ImportMark | null {
  const { session, through, version } = toObject(note);
  return typeof session === "string" ? { session, through: Number(through), version: Number(version) } : null;
}

/** Parents before those that came from them. */
function conversationsIn(sessions: readonly OldSession[]): OldConversation[] {
  const byId = new Map(sessions.map((one) => [one.id, one]));
  const chains = new Map<string, OldConversation>();
  const ordered: OldConversation[] = [];
  const visit = (one: OldSession, above: ReadonlySet<string>): OldConversation => {
    const known = chains.get(one.id);
    if (known) return known;
    const parent = one.parent !== null && !above.has(one.parent) ? byId.get(one.parent) : undefined;
    const before = parent && visit(parent, new Set([...above, one.id]));
    const kind = parent && relationOf(one, parent);
    if (before && kind === "same") {
      before.sessions.push(one);
      chains.set(one.id, before);
      return before;
    }
    const of = parent?.id ?? "";
    const made: OldConversation = { sessions: [one], relation: kind && kind !== "same" ? { kind, of } : null };
    chains.set(one.id, made);
    ordered.push(made);
    return made;
  };
  for (const one of sessions) visit(one, new Set());
  return ordered;
}

function relationOf(one: OldSession, parent: OldSession): "child" | "fork" | "same" | "after" {
  if (one.source === "subagent" || one.settings["_delegate_from"]) return "child";
  if (one.settings["_branched_from"] || parent.end === "branched") return "fork";
  return parent.end === "compression" ? "same" : "after";
}

/** The rows at the beginning of a fork that its parent has too. */
function copiedFrom(parent: readonly OldRow[], rows: readonly OldRow[]): OldRow[] {
  const same = (row: OldRow) =>
    JSON.stringify([row.role, isSummary(row) ? row.content : wordsOf(row), row.at, row.calls, row.call]);
  const theirs = new Set(parent.map(same));
  const end = rows.findIndex((row) => !theirs.has(same(row)));
  return rows.slice(0, end === -1 ? rows.length : end);
}
