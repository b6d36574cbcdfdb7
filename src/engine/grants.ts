// The approvals that hold for the rest of their sessions, read without an engine, so that reading them starts no work of a session.
import { pagesOf } from "../core/pages.ts";
import type { Clock } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Entry } from "../core/session.ts";
import { ALONE, type Store } from "../core/store.ts";
import { emptyTranscript, extend } from "../core/transcript.ts";
import { transition } from "../core/turn.ts";

const RULES = { iterations: 0, recoveries: 0, parallel: 0, memory: [] };

/** For a store that no engine has open. */
export const storedGrants = (
  { journal, catalog, nodes }: Pick<Store, "journal" | "catalog" | "nodes">,
  clock: Pick<Clock, "now">,
): Pick<Runtime, "granted" | "grants" | "revoke"> => ({
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
      node: await nodes.join(ALONE),
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
