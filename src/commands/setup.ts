// hermes models, setup, doctor: who answers, and whether everything is in order.
import type { Command } from "commander";
import { ConfigError } from "../core/errors.ts";
import { alternatives, PROVIDERS } from "../core/providers.ts";
import { homeOf } from "../platform/home.ts";
import { createRedactor } from "../platform/redact.ts";
import type { SetupFlags } from "../surfaces/cli/setup.ts";
import { colour, complain, env, print } from "./shared.ts";

export function addSetup(program: Command): void {
  program
    .command("models")
    .description("which model answers and why, and which others its server offers")
    .option("--json", "for programs", false)
    .action(async ({ json }: { json: boolean }) => {
      const { showModels } = await import("../surfaces/cli/models.ts");
      const { endpoints, secrets } = (await outlook())();
      const redactor = createRedactor();
      for (const secret of secrets) redactor.add(secret);
      process.exitCode = await showModels({ endpoints, json, redact: redactor.text, print, complain });
    });

  program
    .command("setup")
    .description("choose who answers and how careful to be: asks, tries it, then writes config.yaml and .env")
    .option("--provider <name>", alternatives(PROVIDERS.map(({ name }) => name)))
    .option("--model <name>", "the model to use")
    .option("--base-url <url>", "where the server answers")
    .option("--key-stdin", "read the key from stdin", false)
    .option("--yes", "ask nothing: what is not given stays as it is, or is the default", false)
    .action(async (flags: SetupFlags) => {
      const { setUp } = await import("../surfaces/cli/setup.ts");
      const { clock } = await import("../platform/clock.ts");
      process.exitCode = await setUp({ flags, home: homeOf(env), look: await outlook(), clock });
    });

  program
    .command("doctor")
    .description("check that everything is in order, and say what to do where it is not")
    .option("--online", "also ask the model's server what it offers", false)
    .option("--json", "for programs", false)
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
        openStore: async (file) => {
          const { openSqlite } = await import("../store/sqlite/sqlite.ts");
          return openSqlite({ file, readOnly: true });
        },
      });
    });
}

/** The configuration as it is, or as it would be with these texts in the place of its files, and the endpoints that
 *  follow from it. */
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
        open: () => createModel({ ...endpoint, guessed: false }), // whoever asks here lists them too
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
    if (error instanceof ConfigError) return []; // it does not say
    throw error;
  }
}
