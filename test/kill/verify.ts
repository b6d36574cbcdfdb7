// What must hold when a directory has come to rest: its store, what the client was promised, and what tools, channel
// and memory wrote down, against each other. Throws the first Violation.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { entriesOf } from "../../src/core/pages.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { type Checker, createChecker, must } from "../simulation/checker.ts";
import type { Client } from "./client.ts";
import { openStoreIn } from "./store.ts";
import { INBOX, JOURNALS, type Ran, RECOVERIES, type Remembered, type Sent, type ToolName } from "./wire.ts";

const SIDE_EFFECTS: ReadonlySet<string> = new Set<ToolName>(["write", "danger", "hasty", "solo"]);

export async function verify(dir: string, client: Client): Promise<{ turns: number; entries: number }> {
  const store = await openStoreIn(dir, true);
  try {
    const wrong = await store.check();
    must(wrong.length === 0, "the store", () => wrong.join("; "));
    const checker = createChecker(INBOX, RECOVERIES);
    for (const id of client.stopAsked) checker.stopAsked.add(id);
    for (const id of client.withdrawAsked) checker.withdrawAsked.add(id);
    const entries = await replay(store, client.sessions, checker);
    await inputs(store, checker, client);
    stops(client, entries);
    sideEffects(dir, client, entries);
    replies(dir, checker, client, entries);
    memory(dir, checker, client);
    return { turns: checker.outcome.size, entries: entries.length };
  } finally {
    await store.close();
  }
}

type Filed = Entry & { session: string };

/** The journals through the simulator's checker: order, one end, one result for each call, and so on. */
async function replay(store: Store, sessions: string[], checker: Checker): Promise<Filed[]> {
  const all: Filed[] = [];
  const known = (await store.catalog.sessions({ limit: sessions.length + 1 })).map(({ session }) => session);
  for (const session of known) {
    must(sessions.includes(session), "I25", () => `there is a session ${session}`);
    const row = await store.journal.load(session);
    const entries = await entriesOf(store.journal, session);
    if (!row) continue;
    const { writer: node, version, state, parent, updatedAt: at } = row;
    checker.landing({ session, node, version, state, active: false, parent, at, entries, accepted: [], taken: [] });
    must(!checker.live(session) && !checker.waiting(session), "I24", () => `${session} is not at rest`);
    for (const entry of entries) all.push({ ...entry, session });
  }
  return all;
}

async function inputs(store: Store, checker: Checker, { said, stopped }: Client): Promise<void> {
  for (const { id, request, receipt } of said) {
    if (receipt) must(checker.accepted.get(id) === request.session, "I1", () => `${id} was acknowledged and is lost`);
    else must(!checker.accepted.has(id), "I23", () => `${id} was refused and is there`);
    const turn = checker.taken.get(id);
    const gone = checker.withdrawn.has(id);
    const places = Number(turn !== undefined) + Number(gone);
    must(places === Number(receipt !== null), "I1", () => `${id} is in ${places} places`);
    const row = await store.journal.input(id);
    const status = gone ? "withdrawn" : turn && "taken";
    must(
      row?.status === status && (row?.turn ?? undefined) === turn,
      "I1",
      () => `${id} is ${row?.status} in ${row?.turn}, by its journal ${status} in ${turn}`,
    );
    const outcome = checker.outcome.get(id) ?? "";
    if (stopped.has(id) && turn === id)
      must(["cancelled", "interrupted"].includes(outcome), "I9", () => `${id} was stopped and is ${outcome}`);
  }
}

/** What was called over had been taken, or withdrawn, by then. */
function stops({ over }: Client, entries: Filed[]): void {
  for (const entry of entries) {
    if (entry.kind !== "began" && entry.kind !== "joined" && entry.kind !== "withdrawn") continue;
    const said = over.get(entry.input) ?? Number.POSITIVE_INFINITY;
    must(entry.at <= said, "I8", () => `${entry.input} was called over, but waited`);
  }
}

function sideEffects(dir: string, { stopped }: Client, entries: Filed[]): void {
  const ran = new Map<string, Ran>();
  for (const line of read<Ran>(dir, JOURNALS.tools)) {
    must(!ran.has(line.id), "I14", () => `${line.id} ran twice`);
    const stop = stopped.get(line.turn) ?? Number.POSITIVE_INFINITY;
    must(line.at < stop, "I11", () => `${line.id} started after the stop of ${line.turn} was acknowledged`);
    ran.set(line.id, line);
  }
  const tools = new Map<string, string>();
  const started = new Set<string>();
  for (const entry of entries) {
    if (entry.kind === "thought") for (const { id, tool } of entry.calls) tools.set(`${entry.session}/${id}`, tool);
    if (entry.kind === "started") started.add(`${entry.session}/${entry.call}`);
    if (entry.kind !== "acted" || entry.outcome !== "ok") continue;
    const id = `${entry.session}/${entry.call}`;
    must(!SIDE_EFFECTS.has(tools.get(id) ?? "") || ran.has(id), "I14", () => `${id} is said to have run`);
  }
  for (const id of ran.keys()) must(started.has(id), "I14", () => `${id} ran without being recorded first`);
}

function replies(dir: string, checker: Checker, { said }: Client, entries: Filed[]): void {
  const copies = new Map<string, Sent>();
  for (const sent of read<Sent>(dir, JOURNALS.sent)) {
    must(checker.accepted.get(sent.turn) === sent.session, "I22", () => `${sent.turn} was sent to ${sent.session}`);
    must(sent.again || !copies.has(sent.turn), "I22", () => `${sent.turn} was sent twice, the second time unmarked`);
    copies.set(sent.turn, sent);
  }
  const delivered = new Set<string>();
  const parked = new Set<string>();
  const texts = new Map<string, string>();
  for (const entry of entries) {
    if (entry.kind === "thought") texts.set(entry.turn, entry.text);
    if (entry.kind === "failed") texts.set(entry.turn, entry.reason);
    if (entry.kind === "parked") parked.add(entry.turn);
    if (entry.kind === "delivered") delivered.add(entry.turn);
  }
  for (const { id, request } of said) {
    if (request.reply === "pull") must(!copies.has(id), "I22", () => `${id} was sent and nobody wanted that`);
    if (request.reply === "pull" || !["completed", "failed"].includes(checker.outcome.get(id) ?? "")) continue;
    // One that was given up says so in its journal.
    must(delivered.has(id) || parked.has(id), "I22", () => `the reply of ${id} was lost`);
    const text = copies.get(id)?.text;
    if (delivered.has(id)) must(text === texts.get(id), "I22", () => `${id} sent "${text}", not "${texts.get(id)}"`);
  }
}

function memory(dir: string, checker: Checker, { sessions }: Client): void {
  const written = new Map<string, string[]>(sessions.map((session) => [session, []]));
  for (const { session, key, user } of read<Remembered>(dir, JOURNALS.memory)) {
    must(user.includes(`<${session}>`), "I25", () => `${session} remembers ${user}`);
    const keys = written.get(session) ?? [];
    if (keys.at(-1) !== key) keys.push(key); // a crash may write the last one again
  }
  for (const [session, keys] of written) {
    const ended = checker.ended(session);
    must(keys.join() === ended.join(), "I17", () => `${session} remembers ${keys.join()} of ${ended.join()}`);
  }
}

function read<T>(dir: string, name: string): T[] {
  return readFileSync(join(dir, name), "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as T];
      } catch {
        return []; // cut in two by a kill: it had not happened yet
      }
    });
}
