// Copies one store into another, empty one, through their ports: every session is committed again, turn by turn, with its old times.
import { createHash } from "node:crypto";
import { pagesOf } from "../core/pages.ts";
import type { Entry } from "../core/session.ts";
import { ALONE, type Announcement, type Commit, type InputRow, type Store } from "../core/store.ts";

/** Sessions at the same time: their commits share a sync. */
const AT_ONCE = 32;
const PAGE = 500;

type Counts = { sessions: number; entries: number; notes: number };

/** Verifies the copy. Throws if the target is not empty, or differs from the source in the end. */
export async function copyStore(from: Store, to: Store, progress: (done: Counts) => void): Promise<Counts> {
  if ((await to.catalog.sessions({ limit: 1 })).length > 0 || (await to.notes.list("")).length > 0)
    throw new Error("The target is not empty. Name an empty one: nothing is ever overwritten.");
  const node = await to.nodes.join(ALONE);
  const done: Counts = { sessions: 0, entries: 0, notes: 0 };
  const announced = Map.groupBy(await announcementsOf(from), ({ session }) => session);
  const keys = await keysOf(from);
  const next = keys.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const key of next) {
        done.entries += await copySession({ from, to, node, key, announced: announced.get(key) ?? [] });
        if ((await wholeOf(from, key)) !== (await wholeOf(to, key))) throw differs(`Session ${key}`);
        done.sessions++;
        progress(done);
      }
    }),
  );
  await copyAttempts([...announced.values()].flat(), to);
  for (const { key, value } of await from.notes.list("")) {
    await to.notes.set(key, value);
    done.notes++;
    progress(done);
  }
  await verify(from, to, keys.length);
  return done;
}

/** The oldest first: children are listed in the order in which they were made. */
async function keysOf({ catalog }: Store): Promise<string[]> {
  const all: { session: string; createdAt: number }[] = [];
  for (let page = await catalog.sessions({ limit: PAGE }); page.length > 0; ) {
    for (const { session, createdAt } of page) all.push({ session, createdAt });
    const after = page.at(-1);
    page = after ? await catalog.sessions({ limit: PAGE, after }) : [];
  }
  return all.sort((a, b) => a.createdAt - b.createdAt).map(({ session }) => session);
}

async function announcementsOf({ announcements }: Store): Promise<Announcement[]> {
  const all: Announcement[] = [];
  for (const dead of [false, true])
    for (let after = 0; ; ) {
      const page = await announcements.list({ dead, after, limit: PAGE });
      all.push(...page);
      const last = page.at(-1);
      if (!last) break;
      after = last.id;
    }
  return all.sort((a, b) => a.id - b.id);
}

async function copySession(job: { from: Store; to: Store; node: string; key: string; announced: Announcement[] }) {
  const { from, to, node, key } = job;
  const [row, summary, inputs] = await Promise.all([
    from.journal.load(key),
    from.catalog.summary(key),
    from.journal.inputs(key),
  ]);
  if (!row || !summary) throw new Error(`Session ${key} went away while it was copied: stop hermes first.`);
  const unwritten = new Map(inputs.map((input) => [input.id, input]));
  let version = 0;
  const write = async (at: number, change: Partial<Commit>) => {
    const rest = {
      active: summary.active,
      parent: row.parent,
      title: summary.title,
      accepted: [],
      taken: [],
      entries: [],
    };
    const verdict = await to.journal.commit({ session: key, node, version, state: row.state, at, ...rest, ...change });
    if (verdict !== "done") throw new Error(`Session ${key} cannot be written: ${verdict}.`);
    version++;
  };
  const accept = (input: InputRow) => {
    unwritten.delete(input.id);
    const taken = input.status === "waiting" ? [] : [{ id: input.id, turn: input.turn }];
    return { accepted: [{ id: input.id, digest: input.digest }], taken };
  };

  await write(row.createdAt, {});
  for await (const page of pagesOf(from.journal, key))
    for (const { input, entries } of byInput(page, unwritten))
      await write(input?.at ?? row.createdAt, { entries, ...(input && accept(input)) });
  for (const input of unwritten.values()) await write(input.at, accept(input));
  for (const { to: recipient, turn, at } of job.announced) await write(at, { announced: [{ to: recipient, turn }] });
  await write(row.updatedAt, {});
  return row.state.seq;
}

/** An input has the time of the commit that accepted it. */
function byInput(page: readonly Entry[], inputs: ReadonlyMap<string, InputRow>) {
  const parts: { input: InputRow | undefined; entries: Entry[] }[] = [];
  for (const entry of page) {
    const input = entry.kind === "accepted" ? inputs.get(entry.input.id) : undefined;
    const last = parts.at(-1);
    if (last && !input) last.entries.push(entry);
    else parts.push({ input, entries: [entry] });
  }
  return parts;
}

async function copyAttempts(announced: readonly Announcement[], to: Store): Promise<void> {
  const nameOf = ({ session, turn, to: recipient }: Announcement) => JSON.stringify([session, turn, recipient]);
  const written = new Map((await announcementsOf(to)).map((one) => [nameOf(one), one.id]));
  for (const one of announced) {
    const id = written.get(nameOf(one));
    const { attempts, due, error, dead } = one;
    if (id !== undefined && (attempts > 0 || dead)) await to.announcements.update(id, { attempts, due, error, dead });
  }
}

const differs = (what: string) => new Error(`${what} is not the same in the target. Empty it and copy again.`);

async function verify(from: Store, to: Store, sessions: number): Promise<void> {
  if ((await keysOf(to)).length !== sessions) throw differs("The list of sessions");
  const notes = async (store: Store) =>
    JSON.stringify((await store.notes.list("")).map(({ key, value }) => [key, value]));
  if ((await notes(from)) !== (await notes(to))) throw differs("A note");
  const told = async (store: Store) =>
    (await announcementsOf(store))
      .map((one) => JSON.stringify({ ...one, id: 0 }))
      .toSorted()
      .join("\n");
  if ((await told(from)) !== (await told(to))) throw differs("An announcement");
  const [wrong] = await to.check();
  if (wrong !== undefined) throw new Error(`The target is not right: ${wrong}`);
}

/** Everything about a session, but who wrote it last and how often. */
async function wholeOf({ journal, catalog }: Store, key: string): Promise<string> {
  const hash = createHash("sha256");
  const row = await journal.load(key);
  const inputs = (await journal.inputs(key)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  hash.update(JSON.stringify([row?.state, row?.parent, inputs, await catalog.summary(key)]));
  for await (const page of pagesOf(journal, key)) for (const entry of page) hash.update(JSON.stringify(entry));
  return hash.digest("hex");
}
