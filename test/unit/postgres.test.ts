// What only PostgreSQL has: connections that are lost, servers that differ, tables that others made.

import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { LOCKS } from "../../src/store/postgres/migrate.ts";
import { openPostgres } from "../../src/store/postgres/postgres.ts";
import { commitOf, entriesOf, entryOf, joined } from "../contract/store.ts";
import { startPostgres, type TestServer } from "../fakes/postgres.ts";

let server: TestServer;
let url: string;
let store: Store | null = null;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());
beforeEach(async () => {
  url = await server.place();
});
afterEach(async () => {
  await store?.close();
  store = null;
});

async function open(at = url): Promise<Store> {
  store = await openPostgres({ url: at });
  await joined(store);
  return store;
}

/** A way to the server that can be cut: the client hears of it, the server does not. */
async function cuttable(to = url) {
  const target = new URL(to);
  const path = `${target.searchParams.get("host") ?? ""}/.s.PGSQL.5432`;
  let ways: { near: Socket; far: Socket; said: string }[] = [];
  const proxy = createServer((near) => {
    const far = createConnection(path);
    const way = { near, far, said: "" };
    ways.push(way);
    near.on("data", (bytes) => {
      way.said += bytes.toString();
    });
    near.pipe(far, { end: false });
    far.pipe(near);
    for (const socket of [near, far]) socket.on("error", () => {});
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  target.searchParams.delete("host");
  target.host = `127.0.0.1:${(proxy.address() as { port: number }).port}`;
  return {
    url: target.href,
    /** Those over which this was said. */
    cut: (text = "") => {
      for (const { near, said } of ways) if (said.includes(text)) near.destroy();
      ways = ways.filter(({ near }) => !near.destroyed);
    },
    /** Nothing more comes over the connection that listens, and neither side hears of that. */
    silence: () => {
      for (const { near, far, said } of ways)
        if (said.includes("LISTEN")) for (const socket of [near, far]) socket.pause().unpipe();
    },
    close: () => {
      for (const { near, far } of ways) for (const socket of [near, far]) socket.destroy();
      proxy.close();
    },
  };
}

/** Holds the rows that it returns, until it is let go of. */
async function hold(rows: string) {
  const holder = new Client({ connectionString: url });
  onTestFinished(() => holder.end());
  await holder.connect();
  await holder.query(`BEGIN; ${rows} FOR UPDATE`);
  return { letGo: () => holder.query("ROLLBACK") };
}

it("judges a commit that has waited by what the one before it has left, not by what was there when it came", async () => {
  const { journal } = await open();
  for (const key of ["version", "owner", "gone"]) await journal.commit(commitOf(key, 0));
  const other = new Client({ connectionString: url });
  await other.connect();
  const changes = ["SET version = 2 WHERE key = 'version'", "SET owner = 'another' WHERE key = 'owner'"];
  await other.query(
    `BEGIN; UPDATE session ${changes.join("; UPDATE session ")}; DELETE FROM session WHERE key = 'gone'`,
  );
  const verdicts = ["version", "owner", "gone"].map((key) => journal.commit(commitOf(key, 1)));
  await expect.poll(() => server.sql("SELECT 1 FROM pg_locks WHERE NOT granted")).not.toHaveLength(0);
  await other.query("COMMIT");
  await other.end();
  expect(await Promise.all(verdicts)).toEqual(["stale", "elsewhere", "stale"]);
});

it("leaves the same rows of commits that go alone and of those that go as a group", async () => {
  const keys = Array.from({ length: 20 }, (_, n) => `s${n}`);
  const rounds = (key: string) => {
    const [now, later, never] = [`${key} now`, `${key} later`, `${key} never`];
    const accepted = [now, later, never].map((id) => ({ id, digest: `of ${id}` }));
    return [
      commitOf(key, 0, {
        accepted,
        taken: [{ id: now, turn: now }],
        entries: [entryOf(1, now)],
        active: true,
        title: key,
      }),
      commitOf(key, 1, {
        taken: [
          { id: later, turn: now },
          { id: never, turn: null },
        ],
        entries: entriesOf(2, 4, now),
      }),
      commitOf(key, 2, {
        parent: "p",
        announced: ["x", "y"].map((to) => ({ to, turn: now })),
        title: "another",
        at: 7,
      }),
      commitOf(key, 1, { entries: [entryOf(9, "refused")] }),
    ];
  };
  async function rowsAfter(commit: (round: number) => Promise<string[]>) {
    const verdicts = [await commit(0), await commit(1), await commit(2), await commit(3)];
    const [row] = await server.sql(
      `SELECT (SELECT json_agg(to_jsonb(s) - 'number' - 'writer' - 'owner' || jsonb_build_object('owned', owner = writer) ORDER BY key) FROM session s) s,
         (SELECT json_agg(e ORDER BY session, seq) FROM entry e) e, (SELECT json_agg(i ORDER BY id) FROM input i) i,
         (SELECT json_agg(to_jsonb(a) - 'id' ORDER BY session, id) FROM announcement a) a, (SELECT json_agg(q ORDER BY session, seq) FROM said_queue q) q`,
      url,
    );
    await store?.close();
    url = await server.place();
    return { verdicts, row };
  }
  const one = await open();
  const alone = await rowsAfter(async (round) => {
    const verdicts = [];
    for (const key of keys) verdicts.push(await one.journal.commit(rounds(key)[round] ?? commitOf(key, 0)));
    return verdicts;
  });
  const { journal } = await open();
  const together = await rowsAfter((round) =>
    Promise.all(keys.map((key) => journal.commit(rounds(key)[round] ?? commitOf(key, 0)))),
  );
  expect(together).toEqual(alone);
  expect(alone.verdicts.map((all) => new Set(all))).toEqual(
    ["done", "done", "done", "stale"].map((one) => new Set([one])),
  );
  expect(alone.row?.["a"]).toHaveLength(40);
});

describe("a commit whose answer was lost", () => {
  const waiting = (query: string) => () =>
    server.sql(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '${query}%'`);

  it("never lands after somebody has looked whether it did", async () => {
    const way = await cuttable();
    const { journal } = await open(way.url);
    await journal.commit(commitOf("a", 0));
    // So that the commit is at work in the server when its connection is cut.
    const row = await hold("SELECT 1 FROM session");
    const lost = journal.commit(commitOf("a", 1, { entries: [entryOf(1, "t")] }));
    await expect.poll(waiting("WITH own")).toHaveLength(1);
    way.cut();
    await expect(lost).rejects.toMatchObject({ name: "StoreFault", landed: "unknown" });
    // A read may meet a connection that was cut and does not know it yet.
    await expect.poll(() => journal.load("a").catch(() => null)).toMatchObject({ version: 1 });
    await row.letGo();
    expect(await journal.load("a")).toMatchObject({ version: 1 });
    expect(await journal.commit(commitOf("a", 1))).toBe("done");
    await store?.close();
    way.close();
  });

  it("nor does one whose answer was lost while another one was looked after", async () => {
    const way = await cuttable();
    const { journal } = await open(way.url);
    for (const key of ["the first", "the second"]) await journal.commit(commitOf(key, 0));
    const [rows, last] = [await hold("SELECT 1 FROM session"), await hold("SELECT 1 FROM owner")];
    const [first, second] = ["the first", "the second"].map((key) => journal.commit(commitOf(key, 1)));
    await expect.poll(waiting("WITH own")).toHaveLength(2);
    way.cut("the first");
    await expect(first).rejects.toMatchObject({ landed: "unknown" });
    const looked = journal.load("the first");
    await expect.poll(waiting("UPDATE owner")).toHaveLength(1);
    way.cut("the second");
    await expect(second).rejects.toMatchObject({ landed: "unknown" });
    const lookedAgain = journal.load("the second");
    await last.letGo();
    expect([await looked, await lookedAgain]).toMatchObject([{ version: 1 }, { version: 1 }]);
    await rows.letGo();
    await expect.poll(waiting("WITH own")).toEqual([]);
    expect(await journal.load("the second")).toMatchObject({ version: 1 });
    await store?.close();
    way.close();
  });
});

describe("a commit whose replica does not answer", () => {
  it("is not believed to have landed before a replica has it", async () => {
    const replicated = await startPostgres({ replicated: true });
    onTestFinished(() => replicated.stop());
    const place = await replicated.place();
    const way = await cuttable(place);
    const { journal } = await open(way.url);
    await journal.commit(commitOf("a", 0));
    await replicated.withoutReplica(async () => {
      const lost = journal.commit(commitOf("a", 1));
      const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'WITH own%'`;
      await expect.poll(() => replicated.sql(waits)).toHaveLength(1);
      way.cut();
      await expect(lost).rejects.toMatchObject({ name: "StoreFault", landed: "unknown" });
      await expect(journal.load("a")).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
    });
    await expect.poll(() => journal.load("a").catch(() => null)).toMatchObject({ version: 2 });
    expect(await journal.commit(commitOf("a", 2))).toBe("done");
    await store?.close();
    way.close();
  });
});

describe("of nodes whose connections are lost", () => {
  const about = { address: "http://here", version: "1" };
  const locked = async (id: string) =>
    (await server.sql(`SELECT is_locked(${LOCKS}, '${id}') locked`, url))[0]?.["locked"];

  it("the first one that is back does not take the others for dead, unless they stay away", async () => {
    const [way, other] = [await cuttable(), await cuttable()];
    const one = await openPostgres({ url: way.url, member: true });
    const two = await openPostgres({ url: other.url, member: true });
    const [here, away] = [await one.nodes.join(about), await two.nodes.join(about)];
    await server.sql("UPDATE node SET lease_until = lease_until + interval '1 hour'", url);
    const isOld = "SELECT 1 WHERE clock_timestamp() > pg_postmaster_start_time() + interval '3 seconds'";
    await expect.poll(() => server.sql(isOld)).toHaveLength(1);
    expect(await one.nodes.reap()).toEqual([]);
    other.close();
    way.cut();
    await expect.poll(async () => [await locked(here), await locked(away)]).toEqual([true, false]);
    expect(await one.nodes.reap()).toEqual([]);
    await expect.poll(() => one.nodes.reap()).toEqual([away]);
    await one.close();
    await two.close();
    way.close();
  });

  it("one that is silent is given up, and its node has its lock again; a silent one can be closed", async () => {
    const way = await cuttable();
    store = await openPostgres({ url: way.url, member: true });
    const id = await store.nodes.join(about);
    const lock = `locktype = 'advisory' AND objid = (node_lock('${id}')::bigint & 4294967295)::oid`;
    const holder = () => server.sql(`SELECT pid FROM pg_locks WHERE ${lock}`, url);
    const before = await holder();
    way.silence();
    await expect
      .poll(async () => (await holder()).filter(({ pid }) => pid !== before[0]?.["pid"]), { timeout: 30_000 })
      .toHaveLength(1);
    way.silence();
    await store.close();
    way.close();
  });
});

it("a search in one session does not wait until everything that others have said is in the index", async () => {
  const { journal, search } = await open();
  await journal.commit(commitOf("others", 0, { entries: entriesOf(1, 1_500, "t") }));
  await journal.commit(commitOf("mine", 0, { entries: [entryOf(1, "u", "a needle")] }));
  expect(await search("needle", { session: "mine", limit: 5 })).toMatchObject([{ session: "mine" }]);
  const [left] = await server.sql("SELECT count(*) FROM said_queue", url);
  expect(Number(left?.["count"])).toBe(1_000);
  expect(await search("entry", { limit: 5 })).toHaveLength(5);
  expect(await server.sql("SELECT 1 FROM said_queue", url)).toEqual([]);
});

describe("a server that was restarted", () => {
  it("has forgotten the locks of a node, which leaves and joins again without them", async () => {
    store = await openPostgres({ url, member: true });
    const { nodes } = store;
    const about = { address: "http://here", version: "1" };
    const cutOff = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE pid <> pg_backend_pid() AND (query LIKE 'LISTEN%' OR query LIKE '%node_lock%')`;
    for (let i = 0; i < 5; i++) {
      const id = await nodes.join(about).catch((error: unknown) => error);
      await server.sql(cutOff, url);
      if (typeof id === "string") await nodes.leave(id);
      else expect(id).toMatchObject({ name: "StoreFault" });
    }
  });

  it("is used again, and what it had acknowledged is there", async () => {
    const { journal, notes } = await open();
    await journal.commit(commitOf("a", 0));
    await server.restart(async () => {
      await expect(journal.load("a")).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
      await expect(journal.commit(commitOf("a", 1))).rejects.toMatchObject({ name: "StoreFault" });
    });
    expect(await journal.commit(commitOf("a", 1))).toBe("done");
    await notes.set("n", 1);
    expect(await journal.load("a")).toMatchObject({ version: 2 });
    // The lock is taken again, so that nobody else thinks that the store is free.
    const locks = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'";
    await expect.poll(() => server.sql(locks), { timeout: 10_000 }).toHaveLength(1);
  });
});

describe("opening", () => {
  it("of several that start together one makes the tables, and one owns them", async () => {
    const all = await Promise.allSettled([1, 2, 3].map(() => openPostgres({ url })));
    const opened = all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    expect(opened).toHaveLength(1);
    expect(all.filter((one) => one.status === "rejected").map(({ reason }) => reason.name)).toEqual([
      "StoreInUse",
      "StoreInUse",
    ]);
    await opened[0]?.close();
  });

  it("refuses tables of a newer version, and creates nothing for one who only looks", async () => {
    await expect(openPostgres({ url, readOnly: true })).rejects.toThrow("start hermes once");
    await (await open()).close();
    await server.sql("UPDATE hermes_schema SET version = 99", url);
    await expect(openPostgres({ url })).rejects.toMatchObject({ name: "ConfigError" });
    await server.sql("UPDATE hermes_schema SET version = 1", url);
  });

  it("to read only shows everything beside the owner and writes nothing", async () => {
    const { journal } = await open();
    await journal.commit(commitOf("a", 0));
    const reader = await openPostgres({ url, readOnly: true });
    expect(await reader.journal.load("a")).toMatchObject({ version: 1 });
    await expect(reader.journal.commit(commitOf("a", 1))).rejects.toThrow("read only");
    await expect(reader.notes.set("n", 1)).rejects.toThrow("read only");
    await reader.close();
  });
});
