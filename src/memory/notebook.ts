// The notes of each scope on the disk: MEMORY.md and USER.md, for their owner only. The notes of the terminal are in
// the directory itself, those of other scopes below it.

import { isUtf8 } from "node:buffer";
import { createHash, randomBytes } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { chmod, type FileHandle, link, lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { codeOf } from "../core/errors.ts";
import { attempt } from "../platform/attempt.ts";
import { type Changed, changed, entriesOf, type NotesChange, Unfit } from "./notes.ts";

export const TARGETS = {
  memory: { file: "MEMORY.md", most: 2_200 },
  user: { file: "USER.md", most: 1_375 },
} as const;
export type NotesTarget = keyof typeof TARGETS;

export type Notebook = ReturnType<typeof openNotebook>;

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** A file that a person made longer than this is not read in full and not written. */
const MOST_BYTES = 100_000;
const ATTEMPTS = 5;

export function openNotebook(dir: string) {
  const placeOf = (scope: string) => (scope === "local" ? dir : join(dir, nameOf(scope)));
  const fileOf = (scope: string, target: NotesTarget) => join(placeOf(scope), TARGETS[target].file);
  let last: Promise<unknown> = Promise.resolve();

  /** Most scopes have no notes, and every turn asks: checking the directory costs 2 µs, four failed calls 0.2 ms. */
  const read = async (scope: string, target: NotesTarget) =>
    existsSync(placeOf(scope)) ? ((await look(fileOf(scope, target)))?.text ?? "") : "";

  /** One change at a time in this process. If a person or another process writes meanwhile, their change is not
   *  overwritten. */
  function change(scope: string, target: NotesTarget, what: NotesChange): Promise<Changed> {
    const done = last.then(() => tryChange(scope, target, what));
    last = done.catch(() => {});
    return done;
  }

  async function tryChange(scope: string, target: NotesTarget, what: NotesChange): Promise<Changed> {
    const file = fileOf(scope, target);
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const before = await look(file);
      if (before?.damaged) throw new Unfit(`${file} ${before.damaged}. Put it right by hand; nothing was changed.`);
      const done = changed(before?.text ?? "", what, TARGETS[target].most);
      if (done.unchanged) return done;
      await makeDir(dir);
      await makeDir(dirname(file));
      if (await replace(file, done.source, before?.stamp ?? null)) return done;
    }
    throw new Unfit(`${file} is being changed by somebody else all the time. Try again later.`);
  }

  async function entries(scope: string) {
    const all = await Promise.all(
      TARGET_NAMES.map(async (target) => entriesOf(await read(scope, target)).map((text) => ({ target, text }))),
    );
    return all.flat();
  }

  return {
    read,
    change,
    entries,
    /** The scopes that have notes. */
    async scopes() {
      const names = await readdir(dir, { withFileTypes: true }).catch(() => []);
      const below = names.filter((entry) => entry.isDirectory()).flatMap(({ name }) => scopeNamed(name) ?? []);
      const all = await Promise.all(
        ["local", ...below.sort()].map(async (scope) => ((await entries(scope)).length > 0 ? [scope] : [])),
      );
      return all.flat();
    },
    /** Deletes all notes of a scope. Returns false if there are none. */
    async forget(scope: string) {
      const had = (await entries(scope)).length > 0;
      if (scope !== "local") await rm(placeOf(scope), { recursive: true, force: true });
      else await Promise.all(TARGET_NAMES.map((target) => rm(fileOf(scope, target), { force: true })));
      return had;
    },
  };
}

const TARGET_NAMES: readonly NotesTarget[] = ["memory", "user"];

// ── Names ─────────────────────────────────────────────────────────────────────────────────────────────

/** The name of a scope's directory. It resembles the scope, without capital letters, because some file systems ignore
 *  case. */
export function nameOf(scope: string): string {
  if (HASHED.test(scope)) return scope;
  const name = [...Buffer.from(scope)].map(signOf).join("");
  if (scope.isWellFormed() && name.length <= LONGEST_NAME && /^[a-z]/.test(name)) return name;
  const hash = createHash("sha256").update(Buffer.from(scope, "utf16le")).digest("hex");
  return `${name.slice(0, 60)}~${hash}`;
}

const LONGEST_NAME = 100;
const HASHED = /^[a-z0-9_.%-]{0,60}~[0-9a-f]{64}$/;

function signOf(byte: number): string {
  const sign = String.fromCharCode(byte);
  if (sign === ":") return ".";
  return /[a-z0-9_-]/.test(sign) ? sign : `%${byte.toString(16).padStart(2, "0")}`;
}

/** Null if it is not one of our directories. A scope that is too long for a name is identified by its directory's
 *  name. */
function scopeNamed(name: string): string | null {
  if (HASHED.test(name)) return name;
  const text = name.replaceAll(".", ":").replaceAll("%2e", ".");
  const scope = attempt(() => decodeURIComponent(text));
  return scope !== undefined && nameOf(scope) === name ? scope : null;
}

// ── Files ─────────────────────────────────────────────────────────────────────────────────────────────

/** `stamp` changes with the file. `damaged` says why the file must not be written. */
type NotesFile = { text: string; stamp: string; damaged?: string };

/** Null if there is no file. */
async function look(file: string): Promise<NotesFile | null> {
  try {
    await mustBeReal(dirname(file));
    await using handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return await contentOf(handle, file);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw codeOf(error) === "ELOOP" ? isLink(file) : error;
  }
}

async function contentOf(handle: FileHandle, file: string): Promise<NotesFile> {
  const stat = await handle.stat({ bigint: true });
  if (!stat.isFile()) throw new Unfit(`${file} is not a file. Move it away.`);
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(MOST_BYTES), 0, MOST_BYTES, 0);
  const bytes = buffer.subarray(0, bytesRead);
  const large = stat.size > MOST_BYTES && `is larger than ${MOST_BYTES / 1_000} kB`;
  const damaged = large || (!isUtf8(bytes) && "is not UTF-8 text");
  return { text: bytes.toString("utf8"), stamp: stampOf(stat), ...(damaged && { damaged }) };
}

const stampOf = ({ ino, mtimeNs, size }: { ino: bigint; mtimeNs: bigint; size: bigint }) => `${ino} ${mtimeNs} ${size}`;

/** Atomic. Returns false if the file changed meanwhile; then it is left alone. */
async function replace(file: string, text: string, before: string | null): Promise<boolean> {
  const draft = join(dirname(file), `.${randomBytes(8).toString("hex")}.tmp`);
  try {
    await write(draft, text);
    if (before === null) {
      await link(draft, file); // never overwrites a file that has just appeared
    } else {
      if (stampOf(await lstat(file, { bigint: true })) !== before) return false;
      await rename(draft, file);
    }
    await using dir = await open(dirname(file));
    await dir.sync().catch(() => {}); // not every file system supports this
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST" || codeOf(error) === "ENOENT") return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function write(draft: string, text: string): Promise<void> {
  await using handle = await open(draft, "wx", 0o600);
  await handle.writeFile(text);
  await handle.sync();
}

async function makeDir(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await mustBeReal(dir);
  const { mode, uid } = await lstat(dir);
  if ((mode & 0o077) !== 0 && uid === process.getuid?.()) await chmod(dir, 0o700);
}

async function mustBeReal(dir: string): Promise<void> {
  if ((await lstat(dir)).isSymbolicLink()) throw isLink(dir);
}

const isLink = (path: string) =>
  new Unfit(`${path} is a link, and links are not followed. Put the thing itself there.`);
