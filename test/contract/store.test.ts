import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALONE, type Store } from "../../src/core/store.ts";
import { openPostgres } from "../../src/store/postgres/postgres.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { startPostgres, type TestServer } from "../fakes/postgres.ts";
import { announcementsContract } from "./announcements.ts";
import { catalogContract } from "./catalog.ts";
import { journalContract } from "./journal.ts";
import { lifecycleContract } from "./lifecycle.ts";
import { clusterContract, nodesContract } from "./nodes.ts";
import { notesContract } from "./notes.ts";
import { searchContract } from "./search.ts";
import { commitOf, entryOf, stateOf } from "./store.ts";

const dir = mkdtempSync(join(tmpdir(), "hermes-store-"));
const newFile = () => join(mkdtempSync(join(dir, "place-")), "store.db");
let server: TestServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => {
  rmSync(dir, { recursive: true });
  await server.stop();
});

let used: string | null = null;
async function emptyPlace(): Promise<string> {
  if (used) await server.empty(used);
  else {
    used = await server.place();
    await (await openPostgres({ url: used })).close(); // makes the tables
  }
  return used;
}

const PLACES: Record<string, () => () => Promise<Store>> = {
  SQLite: () => {
    const file = newFile();
    return () => openSqlite({ file });
  },
  PostgreSQL: () => {
    const url = emptyPlace();
    return async () => openPostgres({ url: await url });
  },
  memory: () => {
    const disk = createMemoryStore();
    return async () => asStore(disk);
  },
};

describe.each(Object.entries(PLACES))("%s", (_, place) => {
  journalContract(place);
  catalogContract(place);
  notesContract(place);
  nodesContract(place);
  announcementsContract(place);
  searchContract(place);
  lifecycleContract(place);
});

describe("memory, shared", () => {
  let disk = createMemoryStore();
  let now = 0;
  const place = () => {
    disk = createMemoryStore({ shared: true, now: () => now });
    return async () => asStore(disk);
  };
  // The others beat meanwhile.
  clusterContract(place, async (id) => {
    now += 6_000;
    for (const { id: other } of disk.nodes.list()) if (other !== id) disk.nodes.beat(other);
  });
});

describe("PostgreSQL, shared", () => {
  const place = () => {
    const url = emptyPlace();
    return async () => openPostgres({ url: await url, member: true });
  };
  clusterContract(place, async (id) => {
    await server.sql(`UPDATE node SET lease_until = now() - interval '1 second' WHERE id = '${id}'`, used ?? "");
  });
});

// What the simulator shows on the memory store counts for a database only if nobody can tell them apart.
test.each([
  ["SQLite", 30],
  ["PostgreSQL", 15],
])("%s and memory give the same answers to the same calls", async (name, numRuns) => {
  const KEYS = ["a:1", "a:2", "b:1"];
  const IDS = ["i1", "i2", "i3", "i4"];
  const input = fc.constantFrom(...IDS);
  const commit = fc.record({
    do: fc.constant("commit" as const),
    key: fc.constantFrom(...KEYS),
    off: fc.constantFrom(0, 0, 0, 0, -1, 1),
    older: fc.constantFrom(0, 0, 0, 1),
    entries: fc.array(fc.constantFrom("t1", "t2", "t3"), { maxLength: 3 }),
    active: fc.boolean(),
    parent: fc.constantFrom(null, ...KEYS),
    at: fc.nat(20),
    accepted: fc.array(fc.record({ id: input, digest: fc.constantFrom("x", "y") }), { maxLength: 2 }),
    taken: fc.array(fc.record({ id: input, turn: fc.constantFrom(null, "t1", "t2") }), { maxLength: 2 }),
  });
  const other = fc.oneof(
    fc.record({ do: fc.constant("claim" as const) }),
    fc.record({ do: fc.constant("prune" as const), prefix: fc.constantFrom("", "a:", "b"), before: fc.nat(20) }),
  );
  const calls = fc.array(fc.oneof({ weight: 8, arbitrary: commit }, { weight: 1, arbitrary: other }), {
    maxLength: 60,
  });
  type Calls = typeof calls extends fc.Arbitrary<infer T> ? T : never;

  async function answers(store: Store, calls: Calls): Promise<unknown> {
    const said: unknown[] = [];
    const joins = [await store.nodes.join(ALONE)];
    for (const call of calls) {
      if (call.do === "claim") joins.push(await store.nodes.join(ALONE));
      else if (call.do === "prune") said.push(await store.catalog.prune(call.prefix, call.before));
      else {
        const { key, off, older, active, parent, at, accepted, taken } = call;
        const row = await store.journal.load(key);
        const from = row?.state.seq ?? 0;
        const entries = call.entries.map((turn, i) => entryOf(from + i + 1, key + turn));
        const state = stateOf({ seq: from + entries.length });
        const node = joins.at(-1 - older) ?? "0";
        const change = { node, state, entries, active, parent, at, accepted, taken };
        said.push(row, await store.journal.commit(commitOf(key, (row?.version ?? 0) + off, change)));
      }
    }
    for (const key of KEYS)
      said.push(
        await store.journal.load(key),
        await store.journal.entries(key, 1, 5),
        await store.journal.children(key),
      );
    for (const key of KEYS) for (const turn of ["t1", "t2", "t3"]) said.push(await store.journal.turn(key + turn));
    for (const id of IDS) said.push(await store.journal.input(id));
    said.push(
      await store.nodes.claim(joins.at(-1) ?? "", 2),
      await store.nodes.claim(joins.at(-1) ?? "", 9),
      await store.catalog.sessions({ limit: 2 }),
      await store.catalog.sessions({ limit: 9, after: { updatedAt: 10, session: "b" } }),
    );
    // Who they are is random in some: only the order counts.
    return JSON.parse(joins.reduce((text, id, n) => text.replaceAll(`"${id}"`, `"node ${n}"`), JSON.stringify(said)));
  }

  await fc.assert(
    fc.asyncProperty(calls, async (calls) => {
      const store = await PLACES[name]?.()();
      if (!store) throw new Error(`there is no ${name}`);
      try {
        expect(await answers(store, calls)).toEqual(await answers(asStore(createMemoryStore()), calls));
      } finally {
        await store.close();
      }
    }),
    { numRuns, seed: 1 },
  );
});
