// One process writes: it holds an advisory lock on a connection of its own, so that a second one is refused before it takes the store away
// from the first. The epoch is what keeps the store right; the lock is for people who start hermes twice.

import { clock } from "../../platform/clock.ts";
import { StoreInUse } from "../in-use.ts";
import type { Connection, Link } from "./link.ts";
import { LOCKS } from "./migrate.ts";

/** How long the connection of a process that was killed a moment ago may still be there. */
const GONE_MS = 3_000;
const AGAIN_MS = 1_000;
const TRY = `SELECT pg_try_advisory_lock(${LOCKS}, hashtext(current_schema() || '/owner')) locked`;

export async function lockStore(link: Link): Promise<() => Promise<void>> {
  const leaving = new AbortController();
  let held = await take(link);
  void keep();
  return async () => {
    leaving.abort();
    await held.end();
  };

  /** The server was restarted, or the network cut us off: nobody else should think that the store is free. */
  async function keep() {
    while (!leaving.signal.aborted) {
      await held.lost;
      await clock.sleep(AGAIN_MS, leaving.signal);
      if (leaving.signal.aborted) return;
      // Whoever has it now has claimed the store, and our next commit will hear of that.
      await take(link).then(
        (connection) => {
          held = connection;
        },
        () => {},
      );
    }
  }
}

async function take(link: Link): Promise<Connection> {
  const connection = await link.connect();
  try {
    for (const until = clock.monotonic() + GONE_MS; ; await clock.sleep(50)) {
      const [row] = await connection.query({ text: TRY });
      if (row?.["locked"] === true) return connection;
      if (clock.monotonic() > until)
        throw new StoreInUse(null, `Another hermes uses ${link.where}. Close it, or set another store.url.`);
    }
  } catch (error) {
    await connection.end();
    throw error;
  }
}
