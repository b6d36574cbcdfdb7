// What only the SQLite store has: files, a lock, a thread, migrations, disks that fill up. The rest is the contract.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConfigError, StoreFault } from "../../src/core/errors.ts";
import { fresh } from "../../src/core/session.ts";
import { ALONE, type Store } from "../../src/core/store.ts";
import { StoreInUse } from "../../src/store/in-use.ts";
import { openSqlite, type SqliteOptions } from "../../src/store/sqlite/sqlite.ts";
import type { WorkerReply } from "../../src/store/sqlite/sqlite-worker.ts";
import { commitOf, entryOf, stateOf } from "../contract/store.ts";

const STORE = new URL("../../src/store/sqlite/sqlite.ts", import.meta.url).href;
const MIGRATIONS = new URL("../../src/store/sqlite/migrations/", import.meta.url);
const SCHEMA = new URL("../../src/store/sqlite/schema.sql", import.meta.url);

let dir: string;
let file: string;
const stores: Store[] = [];
const children: ChildProcess[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-sqlite-"));
  file = join(dir, "store.db");
});
afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
  for (const store of stores.splice(0)) await store.close();
  rmSync(dir, { recursive: true });
});

async function open(options: Partial<SqliteOptions> = {}): Promise<Store> {
  const store = await openSqlite({ file, ...options });
  stores.push(store);
  return store;
}

/** Runs `code` in a process of its own; `store` is what it has opened. `shell` goes before it. */
function run(code: string, shell = "exec") {
  const program = `
    import { writeSync } from "node:fs";
    import { openSqlite } from ${JSON.stringify(STORE)};
    const say = (line) => writeSync(1, line + "\\n");
    const fresh = ${JSON.stringify(stateOf({}))};
    const commitOf = (session, version, change) => ({ session, node: "9", version, state: fresh, active: false,
      parent: null, at: 1, entries: [], accepted: [], taken: [], ...change });
    try {
      const store = await openSqlite({ file: ${JSON.stringify(file)} });
      ${code}
    } catch (error) {
      say(error.name + " " + error.message);
    }`;
  const command = `${shell} "$0" --input-type=module -e "$1"`;
  const child = spawn("bash", ["-c", command, process.execPath, program], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, next: async () => String((await lines.next()).value), lines };
}

async function kill(child: ChildProcess) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** The thread that the next store starts. */
async function nextThread(): Promise<Worker> {
  const [worker] = await once(process, "worker");
  if (!(worker instanceof Worker)) throw new Error("not a worker");
  return worker;
}

/** A frame of the WAL that ends a transaction says how many pages the file has then: https://sqlite.org/fileformat2.html#walformat */
function transactionsIn(wal: string): number {
  const bytes = readFileSync(wal);
  let ends = 0;
  for (let frame = 32; frame < bytes.length; frame += 24 + 4096) if (bytes.readUInt32BE(frame + 4)) ends++;
  return ends;
}

function edit(...statements: string[]) {
  const db = new DatabaseSync(file);
  for (const statement of statements) db.exec(statement);
  db.close();
}

describe("durability", () => {
  test("what was committed is there when the file is opened again", async () => {
    const first = await open();
    await first.nodes.join(ALONE);
    const state = stateOf({ seq: 1, step: 7 });
    await first.journal.commit(commitOf("a", 0, { state, entries: [entryOf(1, "t")], active: true }));
    await first.close();
    const second = await open();
    expect(await second.journal.load("a")).toMatchObject({ version: 1, state });
    expect(await second.journal.entries("a", 0, 10)).toEqual([entryOf(1, "t")]);
    expect(await second.nodes.claim(await second.nodes.join(ALONE), 9)).toEqual(["a"]);
  });

  test("a process killed while it writes loses nothing it has acknowledged and tears nothing", async () => {
    const acknowledged = new Map<string, number>();
    for (let round = 0; round < 5; round++) {
      const { child, lines } = run(`
        const node = await store.nodes.join({});
        const lane = async (session) => {
          const row = await store.journal.load(session);
          let version = row?.version ?? 0, seq = row?.state.seq ?? 0, inbox = row?.state.inbox ?? [];
          for (;;) {
            const id = session + "." + version;
            const entries = Array.from({ length: 1 + (version % 3) }, () => ({
              seq: ++seq, turn: id, at: 1, kind: "cut", text: "x".repeat((version % 7) * 1000),
            }));
            const taken = inbox.map((waiting) => ({ id: waiting.id, turn: id }));
            inbox = [{ id, mode: "queue", reply: "pull", seq }];
            const change = { node, state: { ...fresh, seq, inbox }, entries, accepted: [{ id, digest: "d" }], taken };
            const verdict = await store.journal.commit(commitOf(session, version, change));
            if (verdict !== "done") throw new Error(verdict);
            say(session + " " + ++version);
          }
        };
        await Promise.all(["a", "b", "c", "d", "e", "f", "g", "h"].map(lane));`);
      for (let seen = 0, { value, done } = await lines.next(); !done; { value, done } = await lines.next()) {
        const [session, version] = String(value).split(" ");
        expect(session).toMatch(/^[a-h]$/);
        acknowledged.set(session ?? "", Number(version));
        if (++seen === 40 + round * 31) child.kill("SIGKILL");
      }
      const store = await open();
      expect(await store.check()).toEqual([]);
      for (const [session, version] of acknowledged) {
        const stored = (await store.journal.load(session))?.version ?? 0;
        expect([version, version + 1]).toContain(stored); // one may have landed whose answer did not
      }
      await store.close();
    }
    expect(acknowledged.size).toBe(8);
  });
});

describe("the lock", () => {
  test("a second process is refused at once, with the pid of the owner", async () => {
    const owner = run(`say(process.pid); await new Promise(() => {});`);
    const pid = Number(await owner.next());
    const refused = await openSqlite({ file }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(StoreInUse);
    expect(refused).toMatchObject({ pid, message: expect.stringContaining(`hermes is already running (PID ${pid})`) });
  });

  test("it is gone with the process, also with kill -9", async () => {
    const owner = run(
      `await store.journal.commit(commitOf("a", 0, {})); say("committed"); await new Promise(() => {});`,
    );
    expect(await owner.next()).toBe("committed");
    await expect(openSqlite({ file })).rejects.toThrow(StoreInUse);
    await kill(owner.child);
    expect(await (await open()).journal.load("a")).toMatchObject({ version: 1 });
  });

  test("this process is refused too, also under another name of the file, until it closes", async () => {
    const first = await open();
    symlinkSync(file, join(dir, "other.db"));
    await expect(openSqlite({ file })).rejects.toMatchObject({ name: "StoreInUse", pid: process.pid });
    await expect(openSqlite({ file: join(dir, "other.db") })).rejects.toThrow(StoreInUse);
    expect(await first.nodes.join(ALONE)).toBe("1"); // the refused ones took nothing from it
    const other = run("say('opened');");
    expect(await other.next()).toContain("StoreInUse");
    await first.close();
    expect(await (await open({ file: join(dir, "other.db") })).nodes.join(ALONE)).toBe("2");
  });

  test("of many that open the file together exactly one gets it", async () => {
    const opened = await Promise.allSettled(Array.from({ length: 8 }, () => open()));
    expect(opened.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const result of opened) if (result.status === "rejected") expect(result.reason).toBeInstanceOf(StoreInUse);
  });
});

describe("opening", () => {
  test("makes the directories that are missing", async () => {
    file = join(dir, "a", "b", "store.db");
    expect(await (await open()).nodes.join(ALONE)).toBe("1");
  });

  test.each([
    ["not a database", () => writeFileSync(file, "hello ".repeat(1_000)), "not a hermes database"],
    ["another program's database", () => edit("CREATE TABLE theirs (a)"), "another program's"],
    ["another program's, with a version", () => edit("CREATE TABLE theirs (a)", "PRAGMA user_version = 3"), "another"],
    ["a directory", () => mkdirSync(file), "not a file"],
  ])("refuses what is %s and names it", async (_, make, reason) => {
    make();
    const before = statSync(file).isFile() && readFileSync(file);
    const refused = await openSqlite({ file }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
    expect(refused).toMatchObject({ message: expect.stringContaining(file) });
    expect(refused).toMatchObject({ message: expect.stringContaining(reason) });
    expect(statSync(file).isFile() && readFileSync(file)).toEqual(before);
  });

  test("refuses a directory it cannot make, and names the file", async () => {
    writeFileSync(join(dir, "in-the-way"), "");
    file = join(dir, "in-the-way", "store.db");
    await expect(openSqlite({ file })).rejects.toMatchObject({ name: "ConfigError" });
    await expect(openSqlite({ file })).rejects.toThrow(file);
  });

  test("refuses a file of a newer schema and changes nothing in it", async () => {
    await (await open()).close();
    edit("PRAGMA user_version = 999");
    const before = readFileSync(file);
    for (const readOnly of [false, true]) {
      const refused = await openSqlite({ file, readOnly }).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(ConfigError);
      expect(refused).toMatchObject({ message: expect.stringMatching(`${file}.*newer hermes.*install that version`) });
    }
    expect(readFileSync(file)).toEqual(before);
    edit(`PRAGMA user_version = ${readdirSync(MIGRATIONS).length}`);
    expect(await (await open()).nodes.join(ALONE)).toBe("1"); // a refusal leaves no lock behind
  });

  test("refuses to load a session whose state is newer, and names it; the others go on", async () => {
    const first = await open();
    await first.journal.commit(commitOf("agent:new", 0));
    await first.journal.commit(commitOf("agent:old", 0));
    await first.close();
    edit(`UPDATE session SET state = json_set(state, '$.v', ${fresh.v + 1}) WHERE key = 'agent:new'`);
    const second = await open();
    await expect(second.journal.load("agent:new")).rejects.toThrow(ConfigError);
    await expect(second.journal.load("agent:new")).rejects.toThrow("agent:new");
    expect(await second.journal.load("agent:old")).not.toBeNull();
  });

  test("reads a session of version 1, which knew one memory at most", async () => {
    const first = await open();
    await first.journal.commit(commitOf("a", 0));
    await first.close();
    edit(`UPDATE session SET state = json_set(state, '$.v', 1, '$.remembered', 7)`);
    expect((await (await open()).journal.load("a"))?.state).toMatchObject({ v: fresh.v, remembered: {}, grants: [] });
  });
});

describe("a search", () => {
  const said = (from: number, count: number, text: string) =>
    Array.from({ length: count }, (_, i) => entryOf(from + i, "t", `${text} ${from + i}`));

  test("takes in thousands of entries without keeping commits waiting for all of them", async () => {
    const store = await open();
    await store.journal.commit(commitOf("a", 0, { entries: said(1, 3_000, "teapot") }));
    let searched = false;
    const search = store.search("teapot 2999", { limit: 1 }).then((found) => {
      searched = true;
      return found;
    });
    await store.journal.commit(commitOf("b", 0));
    expect(searched).toBe(false);
    expect(await search).toMatchObject([{ session: "a", seq: 2_999 }]);
  });

  test("finds the one old entry with a rare word behind many newer ones with a common word", async () => {
    const store = await open();
    await store.nodes.join(ALONE);
    const newer = said(2, 1_200, "a kettle, number");
    await store.journal.commit(commitOf("a", 0, { entries: [entryOf(1, "t", "where is the teapot"), ...newer] }));
    expect(await store.search("kettle teapot of porcelain", { limit: 1 })).toMatchObject([{ seq: 1 }]);
  });

  test("of a process that only looks finds what the owner has indexed, at rest or for a search", async () => {
    const owner = await open();
    await owner.nodes.join(ALONE);
    const entries = Array.from({ length: 250 }, (_, n) => entryOf(n + 1, "t", `teapot ${n}`));
    await owner.journal.commit(commitOf("a", 0, { entries }));
    const reader = await open({ readOnly: true });
    await expect
      .poll(async () => (await reader.search("teapot", { limit: 500 })).length, { timeout: 10_000 })
      .toBe(250);
    await owner.journal.commit(commitOf("a", 1, { entries: [entryOf(251, "t", "kettle")] }));
    expect(await owner.search("kettle", { limit: 1 })).toHaveLength(1);
    expect(await reader.search("kettle", { limit: 1 })).toHaveLength(1);
    expect(await owner.search("teapot 249", { limit: 1, soon: true })).toMatchObject([{ seq: 250 }]);
  });

  test("finds the right entries after VACUUM, which may number rows anew", async () => {
    const first = await open();
    for (const key of ["a", "b", "c"])
      await first.journal.commit(commitOf(key, 0, { entries: said(1, 2, `word${key}`) }));
    await first.search("x", { limit: 1 });
    expect(await first.catalog.prune("a", 5_000)).toBe(1);
    await first.close();
    edit("VACUUM");
    const second = await open();
    expect(await second.search("wordc 2", { limit: 1 })).toMatchObject([{ session: "c", seq: 2 }]);
    expect(await second.search("wordb 1", { limit: 1 })).toMatchObject([{ session: "b", seq: 1 }]);
  });

  test("is not stopped by a damaged entry", async () => {
    const first = await open();
    await first.journal.commit(commitOf("a", 0, { entries: said(1, 2, "teapot") }));
    await first.close();
    edit("UPDATE entry SET fact = '{' WHERE seq = 1");
    expect(await (await open()).search("teapot", { limit: 5 })).toMatchObject([{ seq: 2 }]);
  });

  test("that found no room on the disk can be asked again", async () => {
    const store = await open({ maxPages: 150 });
    const words = Array.from({ length: 40_000 }, (_, i) => `w${i}`).join(" ");
    await store.journal.commit(commitOf("a", 0, { entries: [entryOf(1, "t", words)] }));
    await expect(store.search("w1", { limit: 1 })).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
    await expect(store.search("w1", { limit: 1 })).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
    expect(await store.journal.commit(commitOf("b", 0))).toBe("done");
    await store.close();
    expect(await (await open()).search("w39999", { limit: 1 })).toHaveLength(1);
  });
});

describe("migrations", () => {
  const names = readdirSync(MIGRATIONS).toSorted();
  const sql = names.map((name) => readFileSync(new URL(name, MIGRATIONS), "utf8"));
  const schema = () => {
    const db = new DatabaseSync(file, { readOnly: true });
    const tables = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").all();
    const pragmas = ["application_id", "user_version"].map((name) => {
      return `PRAGMA ${name} = ${String(db.prepare(`PRAGMA ${name}`).get()?.[name])};\n`;
    });
    db.close();
    return [...pragmas, ...tables.map((row) => `${String(row.sql)};\n`)].join("\n");
  };

  test("are numbered from 001 without a gap, one statement each", () => {
    names.forEach((name, i) => expect(name).toMatch(new RegExp(`^${String(i + 1).padStart(3, "0")}-[a-z-]+\\.sql$`)));
    for (const text of sql) expect(text.match(/;/g)).toHaveLength(1);
  });

  // After a new migration: UPDATE_SCHEMA=1 vitest run test/unit/sqlite.test.ts
  test("result in schema.sql", async () => {
    await (await open()).close();
    if (process.env.UPDATE_SCHEMA) writeFileSync(SCHEMA, schema());
    expect(schema()).toBe(readFileSync(SCHEMA, "utf8"));
  });

  test("take a file from wherever it stopped to the same schema", async () => {
    for (let applied = 1; applied <= sql.length; applied++) {
      file = join(dir, `from-${applied}.db`);
      edit(...sql.slice(0, applied), `PRAGMA user_version = ${applied}`);
      const store = await open();
      expect(await store.journal.commit(commitOf("a", 0))).toBe("done");
      await store.close();
      expect(schema()).toBe(readFileSync(SCHEMA, "utf8"));
    }
  });
});

describe("a full disk", () => {
  const big = (seq: number, turn: string) => ({ entries: [entryOf(seq, turn, "x".repeat(20_000))] });

  test("refuses commits, goes on reading, and takes commits when there is room again", async () => {
    const store = await open({ maxPages: 100 });
    await store.journal.commit(commitOf("old", 0, big(1, "old")));
    let version = 0;
    const fill = async () => {
      for (;;) {
        await store.journal.commit(commitOf("a", version, { ...big(version + 1, "a"), at: 5_000 }));
        version++;
      }
    };
    const full = await fill().catch((error: unknown) => error);
    expect(full).toBeInstanceOf(StoreFault);
    expect(full).toMatchObject({ landed: "no", message: expect.stringMatching(`${file} is full; free some space`) });
    expect(version).toBeGreaterThan(5);

    const several = await Promise.allSettled(
      ["x", "y", "z"].map((key) => store.journal.commit(commitOf(key, 0, big(1, key)))),
    );
    for (const result of several) expect(result).toMatchObject({ status: "rejected", reason: { landed: "no" } });
    expect(await store.journal.load("x")).toBeNull();
    expect(await store.journal.load("a")).toMatchObject({ version });
    expect(await store.journal.entries("a", 0, 100)).toHaveLength(version);

    expect(await store.catalog.prune("old", 2_000)).toBe(1);
    expect(await store.journal.commit(commitOf("a", version, big(version + 1, "a")))).toBe("done");
    expect(await store.check()).toEqual([]);
  });
});

describe("a disk that fails in the middle of a COMMIT", () => {
  // `ulimit -f` makes the write of the WAL fail with EFBIG, which is an I/O error to SQLite.
  test("leaves the outcome unknown; what can be read then is what landed, and writing goes on", async () => {
    const { next } = run(
      `
        const entries = (version) => [{ seq: version + 1, turn: "t", at: 1, kind: "cut", text: "x".repeat(5000) }];
        const commit = (version) =>
          store.journal.commit(commitOf("a", version, { state: { ...fresh, seq: version + 1 }, entries: entries(version) }));
        let version = 0, fault = null;
        for (; !fault; version++) await commit(version).catch((error) => (fault = error));
        say(fault.name + " " + fault.landed + " " + fault.message);
        const look = () => store.journal.load("a").catch((error) => (error.name === "StoreFault" ? look() : Promise.reject(error)));
        const landed = (await look()).version;
        say([version - 1, version].includes(landed));
        say(await commit(landed));
        say(JSON.stringify(await store.check()));
        await store.close();
        say("closed");`,
      "ulimit -f 600; exec",
    );
    expect(await next()).toMatch(`StoreFault unknown the disk that holds ${file} failed`);
    expect(await next()).toBe("true");
    expect(await next()).toBe("done");
    expect(await next()).toBe("[]");
    expect(await next()).toBe("closed");
    expect(await (await open()).check()).toEqual([]);
  });

  test("is named to a commit that was on its way when the index could not be written at rest", async () => {
    const first = run(`
      const entries = [{ seq: 1, turn: "t", at: 1, kind: "cut", text: "x".repeat(700_000) }];
      say(await store.journal.commit(commitOf("a", 0, { state: { ...fresh, seq: 1 }, entries })));`);
    expect(await first.next()).toBe("done");
    await kill(first.child); // the log stays as it is, and the entry may have no index yet
    const { next } = run(
      `
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000); // busy elsewhere while the thread is at rest
        await store.journal.commit(commitOf("b", 0)).catch((error) => say(error.name + " " + error.landed + " " + error.message));`,
      "ulimit -f 600; exec",
    );
    expect(await next()).toMatch(`StoreFault unknown the disk that holds ${file} failed`);
  });
});

describe("the thread", () => {
  test("when it dies, what was pending is unknown, all of a commit or nothing is there, and work goes on", async () => {
    const started = nextThread();
    const store = await open();
    const thread = await started;
    const node = await store.nodes.join(ALONE);
    const keys = Array.from({ length: 300 }, (_, i) => `s${i}`);
    const asked = Promise.allSettled(
      keys.map((key) => store.journal.commit(commitOf(key, 0, { node, entries: [entryOf(1, key)] }))),
    );
    await thread.terminate();
    const results = await asked;
    expect(results.some(({ status }) => status === "rejected")).toBe(true);
    for (const [i, result] of results.entries()) {
      const row = await store.journal.load(`s${i}`);
      if (result.status === "fulfilled") expect(row).not.toBeNull();
      else expect(result.reason).toMatchObject({ name: "StoreFault", landed: "unknown" });
    }
    expect(await store.check()).toEqual([]);
    expect(await store.journal.commit(commitOf("after", 0, { node }))).toBe("done");
    await expect(openSqlite({ file })).rejects.toThrow(StoreInUse); // it was never given up
  });

  test("a file that is gone when it starts again is a fault, not a new file", async () => {
    const started = nextThread();
    const store = await open();
    await store.journal.commit(commitOf("a", 0));
    await (await started).terminate();
    for (const name of readdirSync(dir)) if (!name.endsWith(".lock")) rmSync(join(dir, name));
    await expect(store.journal.load("a")).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
    await expect(store.journal.load("a")).rejects.toThrow(file);
    expect(readdirSync(dir)).toEqual(["store.db.lock"]);
  });

  test("takes what piles up during one transaction into the next", async () => {
    const store = await open();
    const before = transactionsIn(`${file}-wal`);
    await Promise.all(Array.from({ length: 400 }, (_, i) => store.journal.commit(commitOf(`s${i}`, 0))));
    expect(transactionsIn(`${file}-wal`) - before).toBeLessThan(100);
  });

  test("the event loop goes on while a thousand commits are synced", async () => {
    const store = await open();
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    for (let i = 0; i < 1_000; i += 10)
      await Promise.all(Array.from({ length: 10 }, (_, j) => store.journal.commit(commitOf(`s${i + j}`, 0))));
    delay.disable();
    expect(delay.max / 1e6).toBeLessThan(500); // milliseconds; on the event loop itself it was 674 in one piece
  });

  test("keeps no process alive once it is closed", async () => {
    const { child, next } = run(`await store.nodes.join({}); await store.check(); await store.close(); say("closed");`);
    const exited = once(child, "exit");
    expect(await next()).toBe("closed");
    expect(await exited).toEqual([0, null]);
  });
});

describe("files", () => {
  const modes = (path: string) =>
    Object.fromEntries(readdirSync(path).map((name) => [name, (statSync(join(path, name)).mode & 0o777).toString(8)]));

  test("are for their owner only, whatever the umask, while open and after", async () => {
    const umask = process.umask(0);
    try {
      file = join(dir, "home", "data", "store.db");
      const store = await open();
      await store.journal.commit(commitOf("a", 0, { entries: [entryOf(1, "t")] }));
      expect(modes(dir)).toEqual({ home: "700" });
      expect(modes(join(dir, "home"))).toEqual({ data: "700" });
      const all = { "store.db": "600", "store.db-shm": "600", "store.db-wal": "600", "store.db.lock": "600" };
      expect(modes(join(dir, "home", "data"))).toEqual(all);
      await store.close();
      const look = await open({ readOnly: true });
      await look.journal.load("a");
      await look.close();
      for (const mode of Object.values(modes(join(dir, "home", "data")))) expect(mode).toBe("600");
    } finally {
      process.umask(umask);
    }
  });

  test("that others could read before are closed to them", async () => {
    const owner = run(
      `await store.journal.commit(commitOf("a", 0, {})); say("committed"); await new Promise(() => {});`,
    );
    expect(await owner.next()).toBe("committed");
    await kill(owner.child); // leaves -wal and -shm
    for (const name of readdirSync(dir)) chmodSync(join(dir, name), 0o644);
    chmodSync(dir, 0o755);
    const store = await open();
    await store.nodes.join(ALONE);
    expect(new Set(Object.values(modes(dir)))).toEqual(new Set(["600"]));
    expect((statSync(dir).mode & 0o777).toString(8)).toBe("755"); // a directory that was there is not ours to change
  });

  test("after a close nothing but the database and the lock is left", async () => {
    const store = await open();
    await store.journal.commit(commitOf("a", 0));
    await store.check();
    await store.close();
    expect(readdirSync(dir).toSorted()).toEqual([basename(file), `${basename(file)}.lock`]);
  });
});

describe("read only", () => {
  test("reads beside the owner, sees what it commits, and cannot write", async () => {
    const owner = run(`
      await store.nodes.join({});
      await store.journal.commit(commitOf("a", 0, {}));
      say("one");
      process.stdin.once("data", async () => {
        await store.journal.commit(commitOf("a", 1, {}));
        say("two");
      });`);
    expect(await owner.next()).toBe("one");
    const reader = await open({ readOnly: true });
    expect(await reader.journal.load("a")).toMatchObject({ version: 1 });
    for (const write of [
      reader.nodes.join(ALONE),
      reader.journal.commit(commitOf("b", 0)),
      reader.catalog.prune("", 9_999),
    ])
      await expect(write).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
    owner.child.stdin.write("go");
    expect(await owner.next()).toBe("two");
    expect(await reader.journal.load("a")).toMatchObject({ version: 2 });
    expect(await reader.check()).toEqual([]);
  });

  test("reads a file that nobody owns, and leaves it to the next owner", async () => {
    const first = await open();
    await first.journal.commit(commitOf("a", 0));
    await first.close();
    const reader = await open({ readOnly: true });
    expect(await reader.journal.load("a")).toMatchObject({ version: 1 });
    const second = await open();
    expect(await second.journal.commit(commitOf("a", 1))).toBe("done");
    expect(await reader.journal.load("a")).toMatchObject({ version: 2 });
  });

  test("makes no file and migrates none", async () => {
    await expect(openSqlite({ file, readOnly: true })).rejects.toThrow(ConfigError);
    expect(readdirSync(dir)).toEqual([]);
    edit("PRAGMA application_id = 1214607981", "PRAGMA user_version = 1");
    await expect(openSqlite({ file, readOnly: true })).rejects.toThrow("older hermes");
  });
});

describe("check", () => {
  test("tells of a damaged file", async () => {
    const first = await open();
    const entries = Array.from({ length: 200 }, (_, i) => entryOf(i + 1, `t${i}`, "x".repeat(500)));
    await first.journal.commit(commitOf("a", 0, { entries }));
    await first.close();
    const bytes = readFileSync(file);
    bytes.fill(0xff, 4096 * 15, 4096 * 20);
    writeFileSync(file, bytes);
    expect(await (await open()).check()).not.toEqual([]);
  });

  test("tells of a state that is not JSON, and of entries whose session is gone", async () => {
    const first = await open();
    await first.journal.commit(commitOf("a", 0));
    await first.journal.commit(commitOf("b", 0, { entries: [entryOf(1, "t")] }));
    await first.close();
    edit("DELETE FROM session WHERE key = 'b'");
    expect(await (await open()).check()).toEqual([expect.stringContaining("session b")]);
    await stores.at(-1)?.close();
    edit("UPDATE session SET state = 'x' WHERE key = 'a'");
    const store = await open();
    expect(await store.check()).toEqual([expect.stringContaining("session a")]);
    await expect(store.journal.load("a")).rejects.toMatchObject({ name: "StoreFault", landed: "no" });
  });
});

describe("durability", () => {
  test("every write that is answered was synced to the disk, also beside and right after work on the index (I2)", async () => {
    // The store's own thread; it says how each of its transactions is about to be committed: 2 is FULL, 1 is NORMAL.
    const thread = new Worker(
      `const { DatabaseSync } = require("node:sqlite");
       const { parentPort } = require("node:worker_threads");
       const { prepare } = DatabaseSync.prototype;
       DatabaseSync.prototype.prepare = function (sql) {
         const statement = prepare.call(this, sql);
         if (sql !== "COMMIT") return statement;
         const level = prepare.call(this, "PRAGMA synchronous");
         return { run: () => (parentPort.postMessage(level.get().synchronous), statement.run()) };
       };
       import(${JSON.stringify(new URL("../../src/store/sqlite/sqlite-worker.ts", import.meta.url).href)});`,
      { eval: true },
    );
    const heard: unknown[] = [];
    thread.on("message", (message: unknown) => {
      if (typeof message === "number") heard.push(message);
      else if (Array.isArray(message))
        heard.push(...message.map((reply: WorkerReply) => ("value" in reply ? reply.id : reply)));
    });
    const ask = (id: string, op: string, ...args: unknown[]) => thread.postMessage({ id, op, args }, []);
    writeFileSync(file, "");
    ask("open", "open", { file, readOnly: false, maxPages: null });
    await expect.poll(() => heard).toContain("open");
    ask("write", "setNote", "a", "1", 1);
    ask("index", "index", 100);
    ask("write behind it", "setNote", "a", "2", 2);
    await expect.poll(() => heard).toContain("index");
    ask("write later", "setNote", "a", "3", 3);
    await expect.poll(() => heard).toContain("write later");
    ask("close", "close");
    await once(thread, "exit");
    const levelOf = (id: string) => heard.slice(0, heard.indexOf(id)).findLast((one) => typeof one === "number");
    expect(["write", "write behind it", "write later"].map(levelOf)).toEqual([2, 2, 2]);
    expect(heard).toContain(1); // the index does not wait for the disk
  });
});
