// Brings the tables to the version that this program knows. Of several that start together, one does it.
import { ConfigError } from "../../core/errors.ts";
import { type Connection, faultOf, type Link } from "./link.ts";
import { MIGRATIONS } from "./schema.ts";

/** "Herm", the first half of the names of all our advisory locks. */
export const LOCKS = 1_214_607_981;
const OLDEST = 15;
const VERSION = "SELECT version FROM hermes_schema";

export async function migrate(link: Link, readOnly: boolean): Promise<void> {
  const { where } = link;
  const connection = await link.connect(true);
  const ask = async (text: string) => (await connection.query({ text }))[0];
  try {
    await checkServer(connection, where);
    const there = (await ask("SELECT to_regclass('hermes_schema') IS NOT NULL there"))?.["there"] === true;
    const version = there ? Number((await ask(VERSION))?.["version"]) : 0;
    if (version > MIGRATIONS.length)
      throw new ConfigError(
        `${where} was written by a newer hermes (schema ${version}, this one knows ${MIGRATIONS.length}); install that version`,
      );
    if (version === MIGRATIONS.length) return;
    if (readOnly) throw new ConfigError(`${where} has no tables of this hermes yet; start hermes once`);
    await ask("BEGIN");
    await ask(`SELECT pg_advisory_xact_lock(${LOCKS}, hashtext(current_schema() || '/schema'))`);
    await ask("CREATE TABLE IF NOT EXISTS hermes_schema (version bigint NOT NULL)");
    const from = Number((await ask(VERSION))?.["version"] ?? 0);
    for (const step of MIGRATIONS.slice(from)) await ask(step);
    await ask(`DELETE FROM hermes_schema; INSERT INTO hermes_schema VALUES (${MIGRATIONS.length})`);
    await ask("COMMIT");
  } catch (error) {
    throw error instanceof ConfigError ? error : faultOf(error, "no", where);
  } finally {
    await connection.end();
  }
}

async function checkServer({ query }: Connection, where: string): Promise<void> {
  const text = `SELECT current_setting('server_version') version, current_setting('server_encoding') encoding,
    pg_is_in_recovery() replica, current_schema() "schema"`;
  const [row] = await query({ text });
  if (Number.parseInt(String(row?.["version"]), 10) < OLDEST)
    throw new ConfigError(`${where} is version ${String(row?.["version"])}; hermes needs ${OLDEST} or newer`);
  if (row?.["encoding"] !== "UTF8")
    throw new ConfigError(`${where} does not have the encoding UTF8; create another database`);
  if (row["schema"] === null) throw new ConfigError(`${where} has no schema to create tables in; create one`);
  if (row["replica"] === true)
    throw new Error("it is a replica, which cannot be written; name the primary in store.url");
}

/** Behind a pooler in transaction mode a connection is another one for each statement: locks and prepared statements of one are gone
 *  with the next. Proved when a second connection has the process of the first one, which is still open. */
export async function checkPooler(link: Link): Promise<void> {
  const [one, two] = [await link.connect(), await link.connect()];
  try {
    const pid = async ({ query }: Connection) => (await query({ text: "SELECT pg_backend_pid() pid" }))[0]?.["pid"];
    const first = await pid(one);
    await two.query({ text: "BEGIN" });
    if ((await pid(two)) === first || (await pid(one)) !== first)
      throw new ConfigError(
        `${link.where} is behind a pooler in transaction mode, which loses locks; connect to the server itself, or use session mode`,
      );
    await two.query({ text: "ROLLBACK" });
  } finally {
    await Promise.all([one.end(), two.end()]);
  }
}
