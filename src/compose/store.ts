// The store that the configuration names: a file in the home, or PostgreSQL.
import { existsSync } from "node:fs";
import { loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import { ConfigError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { type Home, homeOf } from "../platform/home.ts";
import { lockFile, refuseCutOff } from "../store/sqlite/file.ts";
import { openSqlite } from "../store/sqlite/sqlite.ts";

/** For the one process that owns this home. */
export async function openStore({ store: { url }, cluster }: Config, { database }: Home): Promise<Store> {
  if (url === undefined) return openSqlite({ file: database });
  const { openPostgres } = await import("../store/postgres/postgres.ts");
  refuseCutOff(database);
  const unlock = lockFile(database); // what else is in the home has one owner too
  try {
    const store = await openPostgres({ url, member: cluster.secret !== undefined });
    return { ...store, close: () => store.close().finally(unlock) };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** For a process that only looks, beside the one that owns it. Null: nothing was stored yet. */
export async function readStore(env: NodeJS.ProcessEnv): Promise<Store | null> {
  const url = storeUrl(env);
  if (url !== undefined) return (await import("../store/postgres/postgres.ts")).openPostgres({ url, readOnly: true });
  const file = homeOf(env).database;
  return existsSync(file) ? openSqlite({ file, readOnly: true }) : null;
}

/** With a mistake in its configuration a home can still be looked at. */
export function storeUrl(env: NodeJS.ProcessEnv): string | undefined {
  try {
    return loadConfig({ env }).config.store.url;
  } catch (error) {
    if (error instanceof ConfigError) return;
    throw error;
  }
}
