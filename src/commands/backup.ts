// hermes backup, restore: the whole home in one file, and back.
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { homeOf, makeDir } from "../platform/home.ts";
import { complain, env, print } from "./shared.ts";

export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("copy conversations, settings, notes and keys into one file, also while hermes runs (docs/install.md)")
    .argument("[file]", "the file to write (default: a new one in HERMES_HOME/backups)")
    .action(async (named?: string) => {
      const { writeBackup } = await import("../store/sqlite/backup.ts");
      const { storeUrl } = await import("../compose/store.ts");
      const home = homeOf(env);
      const file = named ? resolve(named) : join(makeDir(join(home.dir, "backups")), `hermes-${now()}.db`);
      const { bytes, files, leftOut } = await writeBackup(home, file, progress).finally(clearLine);
      if (storeUrl(env) !== undefined)
        complain(
          "conversations are in PostgreSQL and not in this file: back them up with pg_dump (docs/postgresql.md)",
        );
      for (const name of leftOut) complain(`left out, because it is too large: ${name}`);
      await print(
        `Wrote ${file}: the database and ${files} files, ${(bytes / 1e6).toFixed(1)} MB, read back and checked.\n` +
          "It contains your API keys, so only you can read it. Keep a copy on another machine.\n",
      );
    });
  program
    .command("restore")
    .description("put a backup in the place of HERMES_HOME, while hermes does not run (docs/install.md)")
    .argument("[file]", "a file from `hermes backup`; without it, finish a restore that was cut off")
    .option("--replace", "move the files that are there to HERMES_HOME/backups", false)
    .action(async (named: string | undefined, { replace }: { replace: boolean }) => {
      const { restoreBackup } = await import("../store/sqlite/restore.ts");
      const home = homeOf(env);
      const replaced = join(home.dir, "backups", `replaced-${now()}`);
      const options = { file: named === undefined ? null : resolve(named), replace, replaced, progress };
      const moved = await restoreBackup(home, options).finally(clearLine);
      await print(`Restored ${home.dir}.\n${moved ? `What was there before is in ${replaced}.\n` : ""}`);
    });
}

/** As part of a name: 20261116-041530. */
const now = () => new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");

const EVERY_MS = 100;
let shown = 0;

/** On one line of a terminal. */
function progress(line: string): void {
  if (!process.stderr.isTTY || performance.now() - shown < EVERY_MS) return;
  shown = performance.now();
  process.stderr.write(`\r${line} …\u001b[K`);
}

function clearLine(): void {
  if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
}
