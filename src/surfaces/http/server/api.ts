// All routes over one runtime, served.
import type { Runtime } from "../../../core/runtime.ts";
import type { Entry } from "../../../core/session.ts";
import { completionRoutes } from "../openai/completions.ts";
import { conversationRoutes } from "../openai/conversations.ts";
import { responseRoutes } from "../openai/responses.ts";
import { createRetries } from "../runs/retries.ts";
import { countRuns } from "../runs/run-limit.ts";
import { runRoutes } from "../runs/runs.ts";
import { webhookRoutes } from "../runtime/webhooks.ts";
import { sessionRoutes } from "../sessions/sessions.ts";
import { type Health, infoRoutes } from "./info.ts";
import { openApi } from "./openapi.ts";
import type { Api, Route } from "./route.ts";
import { type ServeOptions, serve } from "./server.ts";

const COUNT_MS = 2_000;

export type ApiOptions = Omit<Api, "runs" | "retries" | "leaving" | "open"> &
  ServeOptions & {
    health: Health;
    /** Routes of others that are served beside ours. */
    more?: readonly Route[];
  };
export type ServedApi = Awaited<ReturnType<typeof serveApi>>;

export async function serveApi(options: ApiOptions) {
  const { runtime, clock, log, newKey, tools, settings, health, node, more = [] } = options;
  const leaving = new AbortController();
  const runs = countRuns(settings.maxRuns);
  let open = false;
  const api: Api = {
    runtime,
    clock,
    log,
    newKey,
    tools,
    settings,
    runs,
    retries: createRetries(runtime, clock),
    leaving: leaving.signal,
    open: () => open,
    ...(node && { node }),
  };
  /** Runs that have moved to another node end there, unseen from here. */
  async function countAgain(): Promise<void> {
    while (!leaving.signal.aborted) {
      await clock.sleep(COUNT_MS, leaving.signal);
      const load = await runtime.load().catch(() => null); // the store is in trouble: next time
      if (load) runs.keep(load.inputs);
    }
  }
  let url = "";
  const describe = () => openApi(routes, { url, version: settings.version });
  const routes: Route[] = [...routesOf(api, health, describe), ...more];
  const server = await serve(api, routes, options);
  ({ url } = server);
  return {
    url,
    observe: (_session: string, entries: readonly Entry[]) => runs.observe(entries),
    connections: server.connections,
    /** The runtime has started: from now on requests are answered. */
    async opened(): Promise<void> {
      const { inputs } = await runtime.load();
      const left = await Promise.all(inputs.map(async (id) => ((await isOurs(runtime, id)) ? [id] : [])));
      runs.found(left.flat());
      open = true;
      if (node) void countAgain();
    },
    /** Streams end with the hint to come back; then waits for what is under way, at most so long. */
    async close(ms: number): Promise<void> {
      leaving.abort("leaving");
      await server.close(ms);
    },
  };
}

/** Whether it came by this API: only those count among its runs. */
async function isOurs(runtime: Runtime, id: string): Promise<boolean> {
  const [first] = await runtime.turn(id);
  return first?.kind === "accepted" && first.input.source === "api";
}

/** The table itself, for those who look at all rows. */
export const routesOf = (api: Api, health: Health, describe: () => Record<string, unknown>): Route[] => [
  ...runRoutes(api),
  ...completionRoutes(api),
  ...responseRoutes(api),
  ...conversationRoutes(api),
  ...sessionRoutes(api),
  ...webhookRoutes(api),
  ...infoRoutes(api, health, describe),
];
