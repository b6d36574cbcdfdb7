// hermes cron: what is done at set times.
import type { Command } from "commander";
import type { AddFlags, CronOptions } from "../surfaces/cli/cron.ts";
import { complain, env, print } from "./shared.ts";

export function addCron(program: Command): void {
  const cron = program.command("cron").description("what is done at set times (docs/schedule.md)");
  cron
    .command("list", { isDefault: true })
    .description("all jobs, what is next first")
    .option("--json", "for programs", false)
    .action(({ json }: { json: boolean }) => onJobs((cli, options) => cli.listJobs(options, json)));
  cron
    .command("add")
    .description("add a job: with one of --cron, --at and --in")
    .argument("<text>", "what is to be done, in quotes")
    .option("--cron <expression>", "again and again: minute, hour, day, month, weekday, in quotes")
    .option("--at <time>", "once, at this time: 2026-11-20T09:00")
    .option("--in <wait>", "once, after this: 20m, 3h or 2d")
    .option("--zone <name>", "the time zone of --cron and --at: Europe/Berlin")
    .option("--to <chat>", "deliver the answers there: telegram:dm:999")
    .option("--name <name>", "what to call it")
    .option("--model <name>", "the model to use")
    .option("--allow", "say yes to approvals: nobody is there to ask")
    .option("--skip-missed", "what was missed is not run late")
    .action((text: string, flags: AddFlags) => onJobs((cli, options) => cli.addJob(options, text, flags)));
  for (const verb of ["remove", "pause", "resume"] as const)
    cron
      .command(verb)
      .description(`${verb} a job`)
      .argument("<id>", "as `hermes cron list` shows it")
      .action((id: string) => onJobs((cli, options) => cli.changeJob(options, verb, id)));
  cron
    .command("run")
    .description("run a job now, besides its times")
    .argument("<id>", "as `hermes cron list` shows it")
    .action((id: string) => onJobs((cli, options) => cli.runJob(options, id)));
}

type CronCli = typeof import("../surfaces/cli/cron.ts");

async function onJobs(command: (cli: CronCli, options: CronOptions) => Promise<number>) {
  const { withJobs } = await import("../compose/gateway.ts");
  const cli = await import("../surfaces/cli/cron.ts");
  process.exitCode = await withJobs(env, (jobs) => command(cli, { jobs, print, complain }));
}
