// A terminal over the runtime of this process, or over the gateway that owns this home already: the same screen, and then
// the turn survives the terminal.

import pkg from "../../package.json" with { type: "json" };
import { createRemoteRuntime } from "../client/remote.ts";
import { ConfigError, messageOf } from "../core/errors.ts";
import type { ModelNames } from "../core/model-names.ts";
import type { Runtime } from "../core/runtime.ts";
import { TERMINAL } from "../core/session-key.ts";
import { modelNames } from "../llm/model-list.ts";
import { clock } from "../platform/clock.ts";
import { homeOf } from "../platform/home.ts";
import { StoreInUse } from "../store/sqlite/file.ts";
import { skillLines } from "../surfaces/cli/skills.ts";
import { serve } from "./api.ts";
import { gatewayOf } from "./gateway.ts";
import { openRuntime, type Running } from "./runtime.ts";
import { settingsFor } from "./settings.ts";
import { createShell, type Shell } from "./shell.ts";

const EXIT_MS = 200;
/** A terminal serves half a second after it has taken the store; a busy machine takes longer. */
const SERVED_MS = 3_000;
const LOOK_MS = 100;

type OpenedRuntime = Pick<Running, "config" | "home" | "endpoints" | "sandbox" | "newest" | "close"> & {
  engine: Runtime;
  skills(): Promise<string>;
  switched(from: string): void;
  /** The person's own commands, on this machine. */
  shell: Shell;
  models(): Promise<ModelNames>;
};

export async function openOrAttach(
  options: Parameters<typeof openRuntime>[0] & { attach?: boolean; serves?: boolean },
): Promise<OpenedRuntime> {
  if (options.attach) return attach(options);
  try {
    const running = await openRuntime(options);
    const skills = () => skillLines(running.skills);
    const switched = (session: string) => running.memory.sessionEnded({ session });
    const shell = shellOf(running, options.env);
    const models = () => modelNames(running.endpoints);
    return { ...(options.serves ? served(running) : running), skills, switched, shell, models };
  } catch (error) {
    if (!(error instanceof StoreInUse) || !(await gatewaySoon(options.env))) throw error;
    return attach(options);
  }
}

/** The API beside a terminal, so that other shells and programs reach the same home. Nobody waits for it: a terminal that
 *  cannot serve is still a terminal. */
function served(running: Running): Running {
  const { config, log } = running;
  const api = config.gateway.api_server.enabled
    ? serveOpened(running).catch((error: unknown) => {
        log("warn", "api.unserved", { error: messageOf(error) });
        return null;
      })
    : null;
  return {
    ...running,
    async close(drainMs) {
      await (await api)?.close(EXIT_MS);
      return running.close(drainMs);
    },
  };
}

/** Of two terminals that start together, the second waits until the first one serves. */
async function gatewaySoon(env: NodeJS.ProcessEnv): Promise<boolean> {
  for (let waited = 0; waited < SERVED_MS; waited += LOOK_MS) {
    if (await gatewayOf(env)) return true;
    await clock.sleep(LOOK_MS);
  }
  return false;
}

async function serveOpened(running: Running) {
  // Another shell finds the address in the home, so a busy port does not matter.
  const api = await serve(running, pkg.version, { anyPort: true });
  await api.opened();
  return api;
}

async function attach({ env, flags = [] }: Parameters<typeof openRuntime>[0]): Promise<OpenedRuntime> {
  const gateway = await gatewayOf(env);
  if (!gateway) throw new ConfigError("No gateway serves this HERMES_HOME. Start one with: hermes gateway");
  const settings = settingsFor(env, flags);
  const engine = createRemoteRuntime({ url: gateway.url, key: gateway.key });
  return {
    ...settings,
    engine,
    models: () => modelNames(settings.endpoints),
    sandbox: `Attached to the gateway at ${gateway.url}: turns continue when you leave.`,
    newest: async () => (await engine.sessions({ prefix: TERMINAL, top: true, limit: 1 }))[0]?.session ?? null,
    switched: () => {}, // the gateway's memories are its own business
    shell: shellOf(settings, env),
    skills: async () => "Run this on the machine of the gateway: hermes skills list\n",
    close: async () => ({ left: [] }),
  };
}

const shellOf = ({ config }: Pick<Running, "config">, env: NodeJS.ProcessEnv): Shell =>
  createShell({ cwd: config.terminal.cwd ?? process.cwd(), env, home: homeOf(env).dir });
