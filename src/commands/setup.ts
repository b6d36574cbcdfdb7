// hermes models, setup, doctor: shows, chooses and checks the model and the configuration.
import type { Command } from "commander";
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
      const { outlook } = await import("../compose/doctor.ts");
      const { endpoints, secrets } = (await outlook(env))();
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
      const { outlook } = await import("../compose/doctor.ts");
      process.exitCode = await setUp({ flags, home: homeOf(env), look: await outlook(env), clock });
    });

  program
    .command("doctor")
    .description("check the installation and the configuration, and say what to fix")
    .option("--online", "also contact the server of the model", false)
    .option("--json", "print JSON", false)
    .action(async ({ json, online }: { json: boolean; online: boolean }) => {
      const { diagnose } = await import("../compose/doctor.ts");
      process.exitCode = await diagnose(env, { online, json, colour, print });
    });
}
