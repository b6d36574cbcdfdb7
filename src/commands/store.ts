// hermes store: moves everything that is stored from one database to another.
import type { Command } from "commander";
import type { Store } from "../core/store.ts";
import { print } from "./shared.ts";

const PROGRESS_MS = 1_000;

export function addStore(program: Command): void {
  const store = program.command("store").description("copy what is stored to another database");
  store
    .command("copy")
    .description("copy a store into an empty one, and verify the copy; hermes must not be running")
    .argument("<from>", "a file such as ~/.hermes/hermes.db, or an address such as postgres://user@host/hermes")
    .argument("<to>", "the same; the password of an address can be given in PGPASSWORD")
    .action(async (from: string, to: string) => {
      const { copyStore } = await import("../store/copy.ts");
      const { existingFile } = await import("../store/sqlite/file.ts");
      if (!isAddress(from)) existingFile(from);
      await using opened = new AsyncDisposableStack();
      const open = async (name: string) => opened.adopt(await openNamed(name), (store) => store.close());
      const [source, target] = [await open(from), await open(to)];
      let next = performance.now() + PROGRESS_MS;
      const done = await copyStore(source, target, ({ sessions, entries }) => {
        if (performance.now() < next) return;
        next = performance.now() + PROGRESS_MS;
        void print(`${sessions} sessions, ${entries} entries\n`);
      });
      const { sessions, entries, notes } = done;
      await print(`Copied and verified ${sessions} sessions, ${entries} entries and ${notes} notes.\n`);
    });
}

const isAddress = (name: string) => /^postgres(ql)?:/.test(name);

async function openNamed(name: string): Promise<Store> {
  if (isAddress(name)) return (await import("../store/postgres/postgres.ts")).openPostgres({ url: name });
  return (await import("../store/sqlite/sqlite.ts")).openSqlite({ file: name });
}
