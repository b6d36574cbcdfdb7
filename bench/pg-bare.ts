// The same rows without us, on the same PostgreSQL: arrays that are ready, one statement for each group, as many lanes as the store has,
// and no checks. What it cannot leave out is the round trip and the server's own work.
import { Client } from "pg";
import type { Commit } from "../src/core/store.ts";
import { openPostgres } from "../src/store/postgres/postgres.ts";
import { textOf } from "../src/store/search-text.ts";
import { type Row, rowOf } from "./bare.ts";

const LANES = 4;
const MOST = 100;

const STATEMENT = `
WITH s AS (
  INSERT INTO session (key, owner, writer, version, active, works, granted, created_at, updated_at, entries, title, state)
  SELECT key, CASE WHEN active THEN 'one' END, 'one', version, active, active, false, at, at, entries, '', state
  FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::bigint[], $5::bigint[], $6::text[]) c (key, version, active, at, entries, state)
  ON CONFLICT (key) DO UPDATE SET owner = EXCLUDED.owner, writer = EXCLUDED.writer, version = EXCLUDED.version, active = EXCLUDED.active, works = EXCLUDED.works,
    updated_at = EXCLUDED.updated_at, entries = EXCLUDED.entries, state = EXCLUDED.state
), e AS (
  INSERT INTO entry (session, seq, turn, at, fact)
  SELECT * FROM unnest($7::text[], $8::bigint[], $9::text[], $10::bigint[], $11::text[])
), q AS (
  INSERT INTO said_queue (session, seq) SELECT * FROM unnest($16::text[], $17::bigint[])
)
INSERT INTO input (session, id, digest, at, status, turn)
SELECT session, id, digest, at, 'taken', id FROM unnest($12::text[], $13::text[], $14::text[], $15::bigint[]) i (session, id, digest, at)`;

/** `said`: the entries that searches look in. */
type PgRow = Row & { said: number[] };
export const pgRowOf = (commit: Commit): PgRow => ({
  ...rowOf(commit),
  said: commit.entries.flatMap((entry) => (textOf(entry) === "" ? [] : [entry.seq])),
});

export type BarePg = { commit(row: PgRow): Promise<void>; close(): Promise<void> };

export async function openBarePg(url: string): Promise<BarePg> {
  await (await openPostgres({ url })).close(); // makes the tables
  const lanes = await Promise.all(Array.from({ length: LANES }, () => openLane(url)));
  return {
    commit: (row) => lanes[hash(row.session) % LANES]?.commit(row) ?? Promise.resolve(),
    async close() {
      await Promise.all(lanes.map((lane) => lane.close()));
    },
  };
}

/** Whatever has come in while the last group was on its way is the next group. */
async function openLane(url: string): Promise<BarePg> {
  const client = new Client({ connectionString: url });
  await client.connect();
  let waiting: { row: PgRow; done(): void }[] = [];
  let busy = false;
  async function work() {
    busy = true;
    while (waiting.length) {
      const group = waiting.splice(0, MOST);
      await client.query({ name: "bare", text: STATEMENT, values: valuesOf(group.map(({ row }) => row)) });
      for (const { done } of group) done();
    }
    busy = false;
  }
  return {
    commit: (row) =>
      new Promise((resolve) => {
        waiting.push({ row, done: resolve });
        if (!busy) void work();
      }),
    async close() {
      waiting = [];
      await client.end();
    },
  };
}

function valuesOf(rows: readonly PgRow[]): unknown[][] {
  const entries = rows.flatMap(({ session, entries: all }) => all.map((entry) => ({ session, ...entry })));
  const inputs = rows.flatMap(({ session, at, accepted }) => accepted.map((input) => ({ session, at, ...input })));
  const said = rows.flatMap(({ session, said: seqs }) => seqs.map((seq) => ({ session, seq })));
  return [
    rows.map(({ session }) => session),
    rows.map(({ version }) => version + 1),
    rows.map(({ active }) => active),
    rows.map(({ at }) => at),
    rows.map(({ entries: all }) => all.at(-1)?.seq ?? 0),
    rows.map(({ state }) => state),
    entries.map(({ session }) => session),
    entries.map(({ seq }) => seq),
    entries.map(({ turn }) => turn),
    entries.map(({ at }) => at),
    entries.map(({ fact }) => fact),
    inputs.map(({ session }) => session),
    inputs.map(({ id }) => id),
    inputs.map(({ digest }) => digest),
    inputs.map(({ at }) => at),
    said.map(({ session }) => session),
    said.map(({ seq }) => seq),
  ];
}

function hash(text: string): number {
  let sum = 7;
  for (let at = 0; at < text.length; at++) sum = (sum * 31 + text.charCodeAt(at)) >>> 0;
  return sum;
}
