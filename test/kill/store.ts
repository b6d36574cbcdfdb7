// The store of a run: a file in its directory, or the place in PostgreSQL that a file there names.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "../../src/core/store.ts";
import { openPostgres } from "../../src/store/postgres/postgres.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import type { TestServer } from "../fakes/postgres.ts";

const nameIn = (dir: string) => join(dir, "store-url");

export async function placeStore(dir: string, server: TestServer | null): Promise<void> {
  if (server) writeFileSync(nameIn(dir), await server.place());
}

export function openStoreIn(dir: string, readOnly = false): Promise<Store> {
  if (!existsSync(nameIn(dir))) return openSqlite({ file: join(dir, "store.db"), readOnly });
  return openPostgres({ url: readFileSync(nameIn(dir), "utf8"), readOnly });
}
