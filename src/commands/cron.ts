// hermes cron: manages scheduled jobs.
import type { Command } from "commander";
import type { AddFlags, CronOptions } from "../surfaces/cli/cron.ts";
import { complain, env, print } from "./shared.ts";

export function addCron(program: Command): void {
  const cron = program.command("cron").description("manage scheduled jobs (docs/schedule.md)");
  cron
    .command("list")
    .description("list all jobs, the next to run first (the default)")
    .option("--json", "print JSON", false)
    .action(({ json }: { json: boolean }) => onJobs((cli, options) => cli.listJobs(options, json)));
  cron
    .command("add")
    .description("add a job; give exactly one of --cron, --at, --in and --every")
    .argument("<text>", "the message to send to the agent, in quotes")
    .option("--cron <expression>", "run repeatedly: minute, hour, day, month, weekday, in quotes")
    .option("--at <time>", "run once at this time, such as 2026-11-20T09:00")
    .option("--in <wait>", "run once after this time, such as 20m, 3h or 2d")
    .option("--every <interval>", "run repeatedly, this long after each other, such as 45m, 3h or 2d")
    .option("--zone <name>", "the time zone of --cron and --at, such as Europe/Berlin")
    .option("--to <chat>", "deliver the answers to this chat, such as telegram:dm:999")
    .option("--name <name>", "a name for the job")
    .option("--model <name>", "the model to use")
    .option("--allow", "grant every approval that its turns ask for")
    .option("--skip-missed", "do not run a missed time later")
    .action((text: string, flags: AddFlags) => onJobs((cli, options) => cli.addJob(options, text, flags)));
  cron
    .command("create")
    .description("add a job, with its time as Hermes writes it")
    .argument("<schedule>", '30m (once), "every 2h", a cron expression, or a time')
    .argument("[prompt]", "the message to send to the agent, in quotes", "")
    .option("--name <name>", "a name for the job")
    .option("--deliver <chat>", "deliver the answers to this chat, such as telegram:1001")
    .option("--model <name>", "the model to use")
    .action((schedule: string, prompt: string, flags: { name?: string; deliver?: string; model?: string }) =>
      onJobs((cli, options) => cli.createJob(options, schedule, prompt, flags)),
    );
  cron
    .command("edit")
    .description("change a job; what is not given stays")
    .argument("<id>", "an id from `hermes cron list`")
    .option("--schedule <time>", "as for create")
    .option("--prompt <text>", "the message to send to the agent")
    .option("--name <name>", "a name for the job")
    .option("--deliver <chat>", "deliver the answers to this chat, such as telegram:1001, or local")
    .option("--model <name>", "the model to use")
    .action((id: string, flags: EditFlags) => onJobs((cli, options) => cli.editJob(options, id, flags)));
  for (const verb of ["remove", "pause", "resume"] as const)
    cron
      .command(verb)
      .description(`${verb} a job`)
      .argument("<id>", "an id from `hermes cron list`")
      .action((id: string) => onJobs((cli, options) => cli.changeJob(options, verb, id)));
  cron
    .command("status")
    .description("show whether jobs run, and which one is next")
    .action(() => onJobs((cli, options) => cli.jobStatus(options)));
  cron
    .command("tick")
    .description("run the jobs that are due, and leave; a gateway does this by itself")
    .action(async () => {
      const { runDueJobs } = await import("../compose/gateway.ts");
      await print(`${await runDueJobs(env)}\n`);
    });
  cron
    .command("run")
    .description("run a job now, in addition to its times")
    .argument("<id>", "an id from `hermes cron list`")
    .action((id: string) => onJobs((cli, options) => cli.runJob(options, id)));
}

type EditFlags = Parameters<CronCli["editJob"]>[2];
type CronCli = typeof import("../surfaces/cli/cron.ts");

async function onJobs(command: (cli: CronCli, options: CronOptions) => Promise<number>) {
  const { withJobs } = await import("../compose/gateway.ts");
  const cli = await import("../surfaces/cli/cron.ts");
  process.exitCode = await withJobs(env, (jobs) => command(cli, { jobs, print, complain }));
}
