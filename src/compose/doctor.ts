// What `hermes doctor` and the other commands about the installation look at.
import { ConfigError } from "../core/errors.ts";
import { homeOf } from "../platform/home.ts";
import type { DoctorOptions } from "../surfaces/cli/doctor.ts";

/** The exit code of `hermes doctor`. */
export async function diagnose(
  env: NodeJS.ProcessEnv,
  how: Pick<DoctorOptions, "online" | "json" | "colour" | "print">,
): Promise<number> {
  const { examine } = await import("../surfaces/cli/doctor.ts");
  return examine({
    ...how,
    home: homeOf(env),
    nodeVersion: process.version,
    look: await outlook(env),
    sandbox: () => whereCommandsRun(env),
    openStore: async () => {
      const { readStore } = await import("./store.ts");
      return readStore(env);
    },
  });
}

/** The same as JSON, for a route. */
export async function diagnosis(env: NodeJS.ProcessEnv): Promise<unknown> {
  let text = "";
  const print = async (more: string) => {
    text += more;
  };
  await diagnose(env, { online: false, json: true, colour: false, print });
  return JSON.parse(text);
}

/** Loads the configuration, with these texts instead of its files if they are given, and the endpoints that follow from it. */
export async function outlook(env: NodeJS.ProcessEnv) {
  const { loadConfig } = await import("../config/config.ts");
  const { chooseEndpoints } = await import("../llm/endpoint.ts");
  const { listModels } = await import("../llm/model-list.ts");
  const { createModel } = await import("../llm/provider.ts");
  return (drafts: ReadonlyMap<string, string> = new Map()) => {
    const loaded = loadConfig({ env, drafts });
    const { config } = loaded;
    const endpoints = (unnamed?: string) => {
      const model = { ...config.model, default: config.model.default ?? unnamed };
      return chooseEndpoints({ ...config, model }).map((endpoint) => ({
        ...endpoint,
        list: (ms: number) => listModels(endpoint, ms),
        open: () => createModel({ ...endpoint, guessed: false }), // the commands that use this also call list()
      }));
    };
    return { ...loaded, endpoints };
  };
}

async function whereCommandsRun(env: NodeJS.ProcessEnv) {
  const { loadConfig } = await import("../config/config.ts");
  const { inForce } = await import("../tools/sandbox/in-force.ts");
  const { pickSandbox } = await import("../tools/toolbox.ts");
  try {
    const { terminal } = loadConfig({ env }).config;
    const workspace = terminal.cwd ?? process.cwd();
    const choice = await pickSandbox({ home: homeOf(env).dir, workspace, terminal });
    return await inForce(choice, terminal);
  } catch (error) {
    if (error instanceof ConfigError) return []; // another check reports the error
    throw error;
  }
}
