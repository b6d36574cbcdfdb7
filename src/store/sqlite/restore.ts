// Puts a backup in the place of a home. Everything is made and checked beside the old files first. From then on the restore only
// renames: one that is cut off there is finished by the next `hermes restore`, and nothing else opens the home until then (file.ts).
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, normalize } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { ConfigError } from "../../core/errors.ts";
import { type Home, makeDir } from "../../platform/home.ts";
import { archivedIn, isReplaced, type ReportStep, SYMLINK, sync } from "./backup.ts";
import { CLEARING, existingFile, keepPrivate, lockFile, MOVING } from "./file.ts";
import { openSqlite } from "./sqlite.ts";

type RestoreOptions = {
  /** Null: finish one that was cut off. */
  file: string | null;
  /** Move what is in the home to `replaced`, instead of refusing. */
  replace: boolean;
  /** A directory that does not exist. */
  replaced: string;
  progress: ReportStep;
};

/** Throws StoreInUse if the home is in use. Returns whether there was anything to replace. */
export async function restoreBackup(home: Home, options: RestoreOptions): Promise<boolean> {
  const { file, replace, replaced, progress } = options;
  const cutOff = existsSync(join(home.dir, CLEARING)) || existsSync(join(home.dir, MOVING));
  if (file === null && !cutOff) throw new ConfigError("no restore was cut off here; name the backup to restore");
  if (file !== null && cutOff) throw new ConfigError("an earlier restore was cut off; finish it with: hermes restore");
  makeDir(home.dir);
  keepPrivate(`${home.database}.lock`);
  const unlock = lockFile(home.database);
  try {
    if (file !== null) {
      const old = readdirSync(home.dir).filter(isReplaced);
      if (old.length && !replace)
        throw new Error(`${home.dir} is not empty (${old.slice(0, 3).join(", ")}, …); --replace moves its files away`);
      await stage(home, existingFile(file), progress);
      renameSync(join(home.dir, ".restore"), join(home.dir, CLEARING));
      sync(home.dir);
    }
    return finish(home, replaced, progress);
  } finally {
    unlock();
  }
}

/** The whole new home, checked, in a directory beside the old files. */
async function stage(home: Home, file: string, progress: ReportStep): Promise<void> {
  const dir = join(home.dir, ".restore");
  rmSync(dir, { recursive: true, force: true }); // left by one that was killed
  mkdirSync(dir, { mode: 0o700 });
  const database = join(dir, "hermes.db");
  try {
    progress("copying the backup");
    keepPrivate(database);
    copyFileSync(file, database);
    unpack(database, dir, progress);
    progress("checking the database");
    const store = await openSqlite({ file: database });
    const damage = await store.check();
    await store.close();
    if (damage.length) throw new Error(`${file} is damaged: ${damage.join("; ")}`);
    rmSync(`${database}.lock`);
    sync(database);
    sync(dir);
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}

function unpack(database: string, dir: string, progress: ReportStep): void {
  using db = new DatabaseSync(database);
  if (!db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'sqlar'").get())
    throw new ConfigError("this file was not written by hermes backup");
  let files = 0;
  for (const { name, mode, size, bytes } of archivedIn(db)) {
    const path = join(dir, name);
    const [top = ""] = name.split("/");
    if (!path.startsWith(`${dir}/`) || normalize(name) !== name || !isReplaced(top))
      throw new Error(`the backup has a file that does not belong there: ${name}`);
    progress(`writing file ${++files}`);
    makeDir(dirname(path));
    // Links come last: no file is written through one. Nothing is written twice.
    if (size === SYMLINK) symlinkSync(Buffer.from(bytes).toString(), path);
    else writeFileSync(path, bytes, { mode: mode & 0o700, flag: "wx", flush: true });
  }
  db.exec("DROP TABLE sqlar");
}

/** Renames only, in two steps of which each can be taken up again: the old files go, then the new ones come. */
function finish(home: Home, replaced: string, progress: ReportStep): boolean {
  const [clearing, moving] = [join(home.dir, CLEARING), join(home.dir, MOVING)];
  let old: string[] = [];
  if (existsSync(clearing)) {
    old = readdirSync(home.dir).filter(isReplaced);
    if (old.length) makeDir(replaced);
    for (const name of old) {
      progress(`moving the old ${name} away`);
      renameSync(join(home.dir, name), join(replaced, name));
    }
    sync(home.dir);
    renameSync(clearing, moving);
  }
  for (const name of readdirSync(moving)) {
    progress(`moving ${name} in`);
    renameSync(join(moving, name), join(home.dir, name));
  }
  sync(home.dir);
  rmSync(moving, { recursive: true });
  return old.length > 0;
}
