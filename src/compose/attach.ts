// A terminal over the runtime of this process, or over the gateway that owns this home already: the same screen, and then
// the turn survives the terminal.

import { createRemoteRuntime } from "../client/remote.ts";
import { loadConfig } from "../config/config.ts";
import { ConfigError } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import { chooseEndpoints } from "../llm/endpoint.ts";
import { StoreInUse } from "../store/sqlite.ts";
import { gatewayOf } from "./gateway.ts";
import { openRuntime, type Running } from "./runtime.ts";

type Opened = Pick<Running, "config" | "endpoints" | "sandbox" | "newest" | "close"> & { engine: Runtime };

export async function openOrAttach(options: Parameters<typeof openRuntime>[0] & { attach?: boolean }): Promise<Opened> {
  if (options.attach) return attach(options);
  try {
    return await openRuntime(options);
  } catch (error) {
    if (!(error instanceof StoreInUse) || !(await gatewayOf(options.env))) throw error;
    return attach(options);
  }
}

async function attach({ env, flags = [] }: Parameters<typeof openRuntime>[0]): Promise<Opened> {
  const gateway = await gatewayOf(env);
  if (!gateway) throw new ConfigError("No gateway serves this home. Start one with: hermes gateway");
  const { config } = loadConfig({ env, flags });
  const engine = createRemoteRuntime({ url: gateway.url, key: gateway.key });
  return {
    engine,
    config,
    endpoints: chooseEndpoints(config),
    sandbox: `Attached to the gateway at ${gateway.url}: what runs goes on when you leave.`,
    newest: async () =>
      (await engine.sessions({ limit: 50 })).find((row) => row.session.includes(":terminal:"))?.session ?? null,
    close: async () => ({ left: [] }),
  };
}
