// A home in one file: a copy of its database, and in a table of that copy all other files of the home. The table is SQLite's own
// archive format (https://sqlite.org/sqlar.html), so `sqlite3 FILE -At` lists them too.
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { deflateSync, inflateSync } from "node:zlib";
import { ConfigError, codeOf } from "../../core/errors.ts";
import type { Home } from "../../platform/home.ts";
import { findDamage } from "./damage.ts";
import { CUT_OFF, existingFile } from "./file.ts";
import { openSqlite } from "./sqlite.ts";

/** Of this machine, or made anew: what a backup leaves out, and a restore leaves in place. */
const STAYS = new Set("backups gateway.json hermes.db.lock locks logs snapshots terminal .restore".split(" "));
/** SQLite takes a gigabyte as one value. */
const LONGEST_FILE = 900_000_000;
const ALL_PAGES = 2_147_483_647;
const LOOK_MS = 500;
export const SYMLINK = -1;

export type ReportStep = (line: string) => void;
export type BackupResult = { bytes: number; files: number; leftOut: string[] };
export type ArchivedFile = { name: string; mode: number; size: number; bytes: Uint8Array };

/** Also while the home is in use: the database as it was at one moment. `file` appears when it is whole and was read back; a file that
 *  is there is never replaced. */
export async function writeBackup(home: Home, file: string, progress: ReportStep): Promise<BackupResult> {
  if (!existsSync(home.dir)) throw new ConfigError(`there is nothing to back up: no ${home.dir}`);
  if (existsSync(file)) throw new Error(`${file} exists already; choose another name`);
  const partial = `${file}.partial`;
  rmSync(partial, { force: true }); // left by one that was killed
  closeSync(openSync(partial, "wx", 0o600));
  try {
    if (existsSync(home.database)) await copyDatabase(existingFile(home.database), partial, progress);
    else await createEmpty(partial);
    const { hashes, leftOut } = addFiles(partial, home.dir, progress);
    progress("reading the backup back");
    verify(partial, hashes);
    linkSync(partial, file);
    sync(dirname(file));
    return { bytes: statSync(file).size, files: hashes.size, leftOut };
  } finally {
    rmSync(partial, { force: true });
  }
}

/** Whether a restore replaces it. `name`: directly in the home. */
export const isReplaced = (name: string): boolean => !STAYS.has(name) && !CUT_OFF.includes(name);

export function sync(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Names and bytes are as the backup has them: not to be trusted. */
export function* archivedIn(db: DatabaseSync): Generator<ArchivedFile> {
  for (const row of db.prepare("SELECT name, mode, sz, data FROM sqlar ORDER BY sz = -1, name").iterate()) {
    const size = Math.min(Number(row.sz), LONGEST_FILE);
    const data = row.data instanceof Uint8Array ? row.data : Buffer.from(String(row.data));
    const bytes = size > data.length ? inflateSync(data, { maxOutputLength: size }) : data;
    if (size !== SYMLINK && bytes.length !== size) throw new Error(`${String(row.name)} is damaged in the backup`);
    yield { name: String(row.name), mode: Number(row.mode), size, bytes };
  }
}

/** For a home whose conversations are elsewhere, or that has none yet. */
async function createEmpty(file: string): Promise<void> {
  const store = await openSqlite({ file });
  await store.close();
  rmSync(`${file}.lock`);
}

async function copyDatabase(from: string, to: string, progress: ReportStep): Promise<void> {
  using source = new DatabaseSync(from, { readOnly: true });
  const size = statSync(from).size || 1;
  const look = setInterval(() => {
    progress(`copying the database: ${Math.min(99, Math.floor((100 * statSync(to).size) / size))} %`);
  }, LOOK_MS);
  try {
    // In one step: several would begin again with each commit of the owner.
    await backup(source, to, { rate: ALL_PAGES });
  } finally {
    clearInterval(look);
  }
}

function addFiles(to: string, dir: string, progress: ReportStep) {
  using db = new DatabaseSync(to);
  db.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL"); // one file, with none beside it
  db.exec("BEGIN; CREATE TABLE sqlar (name TEXT PRIMARY KEY, mode INT, mtime INT, sz INT, data BLOB)");
  const insert = db.prepare("INSERT INTO sqlar VALUES (?, ?, ?, ?, ?)");
  const hashes = new Map<string, string>();
  const leftOut: string[] = [];
  const add = (name: string) => {
    const path = join(dir, name);
    const is = lstatSync(path);
    const changed = Math.floor(is.mtimeMs / 1_000);
    if (is.isSymbolicLink()) insert.run(name, is.mode, changed, SYMLINK, readlinkSync(path));
    else if (is.size > LONGEST_FILE) leftOut.push(name);
    else if (is.isFile()) {
      const bytes = readFileSync(path);
      const packed = deflateSync(bytes);
      insert.run(name, is.mode, changed, bytes.length, packed.length < bytes.length ? packed : bytes);
      hashes.set(name, hashOf(bytes));
    }
  };
  for (const name of filesIn(dir)) {
    progress(`adding file ${hashes.size + 1}`);
    if (!join(dir, name).startsWith(to)) unlessGone(() => add(name));
  }
  db.exec("COMMIT");
  return { hashes, leftOut };
}

/** Not `readdirSync` with `recursive`: that follows links to directories. */
function* filesIn(dir: string, below = ""): Generator<string> {
  for (const entry of unlessGone(() => readdirSync(join(dir, below), { withFileTypes: true })) ?? []) {
    const name = join(below, entry.name);
    if (below === "" && (!isReplaced(name) || /^hermes\.db(?:-|$)/.test(name))) continue;
    if (entry.isDirectory()) yield* filesIn(dir, name);
    else yield name;
  }
}

function verify(file: string, hashes: ReadonlyMap<string, string>): void {
  using db = new DatabaseSync(file, { readOnly: true });
  const damage = findDamage(db);
  let files = 0;
  for (const { name, size, bytes } of archivedIn(db)) {
    if (size === SYMLINK) continue;
    files++;
    if (hashOf(bytes) !== hashes.get(name)) damage.push(`${name} is not what was written`);
  }
  if (files !== hashes.size) damage.push(`${hashes.size} files were written, ${files} are there`);
  if (damage.length) throw new Error(`the backup could not be read back: ${damage.join("; ")}`);
}

/** Undefined: it was deleted meanwhile. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

const hashOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
