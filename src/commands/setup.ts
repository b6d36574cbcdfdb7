// hermes models, setup, doctor: shows, chooses and checks the model and the configuration.
import type { Command } from "commander";
import { ConfigError } from "../core/errors.ts";
import { alternatives, PROVIDERS } from "../core/providers.ts";
import { homeOf } from "../platform/home.ts";
import { createRedactor } from "../platform/redact.ts";
import type { SetupFlags } from "../surfaces/cli/setup.ts";
import { offerImport } from "./import.ts";
import { colour, complain, env, print } from "./shared.ts";

export function addSetup(program: Command): void {
  program
    .command("models")
    .description("show which model is used and why, and which models its server offers")
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { showModels } = await import("../surfaces/cli/models.ts");
      const { endpoints, secrets } = (await outlook())();
      const redactor = createRedactor();
      for (const secret of secrets) redactor.add(secret);
      process.exitCode = await showModels({ endpoints, json, redact: redactor.text, print, complain });
    });

  program
    .command("setup")
    .description("choose a model and the safety settings, test them, and write config.yaml and .env")
    .option("--provider <name>", alternatives(PROVIDERS.map(({ name }) => name)))
    .option("--model <name>", "the model to use")
    .option("--base-url <url>", "address of the server")
    .option("--key-stdin", "read the API key from stdin", false)
    .option("--yes", "ask nothing; options that are not given keep their value or default", false)
    .action(async (flags: SetupFlags) => {
      if (!flags.yes) await offerImport();
      const { setUp } = await import("../surfaces/cli/setup.ts");
      const { clock } = await import("../platform/clock.ts");
      process.exitCode = await setUp({ flags, home: homeOf(env), look: await outlook(), clock });
    });

  program
    .command("doctor")
    .description("check the installation and the configuration, and say what to fix")
    .option("--online", "also contact the server of the model", false)
    .option("--json", "print JSON", false)
    .action(async ({ json, online }: { json: boolean; online: boolean }) => {
      const { examine } = await import("../surfaces/cli/doctor.ts");
      process.exitCode = await examine({
        home: homeOf(env),
        nodeVersion: process.version,
        online,
        json,
        colour,
        print,
        look: await outlook(),
        sandbox: whereCommandsRun,
        openStore: async () => {
          const { readStore } = await import("../compose/store.ts");
          return readStore(env);
        },
      });
    });
}

/** Loads the configuration, with these texts instead of its files if they are given, and the endpoints that follow from it. */
async function outlook() {
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

async function whereCommandsRun() {
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
