// What was allowed for the rest of sessions, for `hermes policy grants`: over the gateway that runs, or over its files while
// none does.
import { createRemoteRuntime } from "../client/remote.ts";
import { pagesOf } from "../core/pages.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Entry } from "../core/session.ts";
import type { Store } from "../core/store.ts";
import { emptyTranscript, extend } from "../core/transcript.ts";
import { transition } from "../core/turn.ts";
import { clock } from "../platform/clock.ts";
import { homeOf } from "../platform/home.ts";
import { gatewayOf } from "./gateway.ts";

export type GrantDesk = Pick<Runtime, "granted" | "grants" | "revoke">;

export async function withGrants<T>(env: NodeJS.ProcessEnv, use: (desk: GrantDesk) => Promise<T>): Promise<T> {
  const remote = await gatewayOf(env);
  if (remote) return use(createRemoteRuntime({ url: remote.url, key: remote.key }));
  const { openSqlite } = await import("../store/sqlite/sqlite.ts");
  const store = await openSqlite({ file: homeOf(env).database });
  try {
    return await use(deskOver(store));
  } finally {
    await store.close();
  }
}

const RULES = { iterations: 0, recoveries: 0, parallel: 0, memory: [] };

/** Without an engine: nothing that a session has to do is begun by a look at what it is allowed. */
const deskOver = ({ journal, catalog }: Pick<Store, "journal" | "catalog">): GrantDesk => ({
  granted: () => catalog.granted(),
  async grants(session) {
    const transcript = emptyTranscript();
    for await (const page of pagesOf(journal, session)) for (const entry of page) extend(transcript, entry);
    return transcript.grants;
  },
  async revoke(session, call, by) {
    const row = await journal.load(session);
    const summary = await catalog.summary(session);
    if (!row || !summary) return false;
    const [state, facts] = transition(row.state, { type: "revoked", call, by }, RULES);
    if (state === row.state) return false;
    const at = clock.now();
    const verdict = await journal.commit({
      session,
      epoch: await journal.claim(),
      version: row.version,
      state,
      active: summary.active,
      parent: row.parent,
      at,
      entries: facts.map((fact): Entry => ({ ...fact, at })),
      accepted: [],
      taken: [],
    });
    return verdict === "done";
  },
});
