// What was allowed for the rest of sessions, for `hermes policy grants`: over the gateway that runs, or over its files while
// none does.
import { createRemoteRuntime } from "../client/remote.ts";
import type { Runtime } from "../core/runtime.ts";
import { storedGrants } from "../engine/grants.ts";
import { clock } from "../platform/clock.ts";
import { gatewayOf, withStore } from "./gateway.ts";

export type GrantDesk = Pick<Runtime, "granted" | "grants" | "revoke">;

export async function withGrants<T>(env: NodeJS.ProcessEnv, use: (desk: GrantDesk) => Promise<T>): Promise<T> {
  const remote = await gatewayOf(env);
  if (remote) return use(createRemoteRuntime({ url: remote.url, key: remote.key }));
  return withStore(env, (store) => use(storedGrants(store, clock)));
}
