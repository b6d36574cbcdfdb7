// The composition root: the only file that knows every folder. A command's body is imported when it is run,
// so that `hermes --help` costs no more than it shows.

import { join } from "node:path";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import pkg from "../package.json" with { type: "json" };
import { ConfigError, messageOf } from "./core/errors.ts";
import { homeOf } from "./platform/home.ts";
import { isTerminal, LEVELS, type Level } from "./platform/logline.ts";
import { createRedactor } from "./platform/redact.ts";
import type { AddFlags, CronOptions } from "./surfaces/cli/cron.ts";
import type { SetupFlags } from "./surfaces/cli/setup.ts";

type RunFlags = {
  image: string[];
  json: boolean;
  quiet: boolean;
  continue: boolean;
  session?: string;
  model?: string;
  yolo: boolean;
};

/** sysexits.h, and what a service manager is told (docs/cli.md). */
const EXIT = { ok: 0, failed: 1, usage: 2, config: 78 };

const { env, stdout } = process;
const colour = isTerminal(stdout, env);
const print = (text: string) => new Promise<void>((resolve) => stdout.write(text, () => resolve()));
// The reader has had enough (`hermes logs | head`): that is no failure.
stdout.on("error", (error) => process.exit("code" in error && error.code === "EPIPE" ? EXIT.ok : EXIT.failed));

const program = new Command("hermes")
  .description("A self-hosted AI agent that can always be interrupted, stopped or restarted without losing a word.")
  .version(pkg.version, "-V, --version", "show the version")
  .helpOption("-h, --help", "show this help")
  .helpCommand(false)
  .showHelpAfterError("Try: hermes --help")
  .exitOverride();

program
  .command("chat")
  .description("talk with the agent in this terminal (what `hermes` alone does there)")
  .option("-c, --continue", "go on with the newest conversation", false)
  .option("--session <name>", "go on with this conversation, or start it")
  .option("--model <name>", "the model to use")
  .option("--attach", "over the gateway that runs; done by itself when one owns this home", false)
  .action(async (options: { continue: boolean; session?: string; model?: string; attach: boolean }) => {
    const { openChat } = await import("./surfaces/cli/terminal.ts");
    const { openOrAttach } = await import("./compose/attach.ts");
    const open: typeof openOrAttach = (given) => openOrAttach({ ...given, attach: options.attach, serves: true });
    process.exitCode = await openChat({ ...options, open, env });
  });

program
  .command("run")
  .description("one turn: the answer on stdout, everything else on stderr")
  .argument("[prompt...]", "what to do; without it, or as -, it is read from stdin")
  .option("--json", "one event a line, for programs", false)
  .option("-q, --quiet", "nothing but the answer", false)
  .option("-c, --continue", "go on with the newest conversation", false)
  .option("--session <name>", "go on with this conversation, or start it")
  .option("--model <name>", "the model to use")
  .option("--image <file...>", "pictures to look at", [])
  .option("--yolo", "ask for nothing; what is never allowed is still refused", false)
  .action(async (prompt: string[], options: RunFlags) => {
    const { openRun } = await import("./surfaces/cli/terminal.ts");
    const { openOrAttach } = await import("./compose/attach.ts");
    process.exitCode = await openRun({ ...options, prompt: prompt.join(" "), open: openOrAttach, env });
  });

const gateway = program
  .command("gateway")
  .description("serve day and night: chat apps and the HTTP API (docs/gateway.md)");

gateway
  .command("run", { isDefault: true })
  .description("serve in the foreground (what `hermes gateway` alone does)")
  .option("--host <address>", "where the API listens")
  .option("--port <number>", "its port; 0 picks a free one")
  .action(async ({ host, port }: { host?: string; port?: string }) => {
    const { runGateway } = await import("./compose/gateway.ts");
    const flags = [
      { flag: "--host", key: "gateway.api_server.host", value: host },
      { flag: "--port", key: "gateway.api_server.port", value: port },
    ];
    const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
    process.exitCode = await runGateway({
      env,
      flags,
      version: pkg.version,
      print: (line) => console.log(line),
      again,
    });
    process.exit();
  });

gateway
  .command("status")
  .description("whether it runs, and what it does")
  .option("--json", "for programs", false)
  .action(async ({ json }: { json: boolean }) => {
    const { gatewayStatus } = await import("./surfaces/cli/gateway.ts");
    const { gatewayOf } = await import("./compose/gateway.ts");
    const health = async () => {
      const found = await (await gatewayOf(env))?.ask("GET", "/health/detailed");
      return typeof found === "object" && found !== null ? { ...found } : null;
    };
    process.exitCode = await gatewayStatus(await somewhere(), health, json);
  });

gateway
  .command("stop")
  .description("let running turns finish, then stop it")
  .action(async () => {
    const { stopGateway } = await import("./surfaces/cli/gateway.ts");
    process.exitCode = await stopGateway(await somewhere(), await longestDrain());
  });

gateway
  .command("restart")
  .description("let running turns finish, then start it anew")
  .action(async () => {
    const { restartGateway } = await import("./surfaces/cli/gateway.ts");
    process.exitCode = await restartGateway(await somewhere(), await longestDrain());
  });

gateway
  .command("install")
  .description("write a systemd unit for this user")
  .action(async () => {
    const { installService, unitFile } = await import("./surfaces/cli/gateway.ts");
    const { serviceUnit } = await import("./surfaces/gateway/service.ts");
    const { fileURLToPath } = await import("node:url");
    const { dir: home } = homeOf(env);
    const program = fileURLToPath(new URL("../bin/hermes", import.meta.url));
    const unit = serviceUnit({ program, home, workspace: process.cwd() });
    process.exitCode = await installService({ file: unitFile(env, home), unit, print });
  });

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

const pairing = program.command("pairing").description("who may talk to the agent from a chat app");
pairing
  .command("create")
  .description("make a code that pairs one person, once, within ten minutes")
  .argument("<platform>", "telegram, discord or slack")
  .action(async (platform: string) => {
    const { makePairingCode } = await import("./surfaces/cli/gateway.ts");
    const { withPairing } = await import("./compose/gateway.ts");
    process.exitCode = await withPairing(env, (desk) => makePairingCode(desk, platform, print));
  });
pairing
  .command("list")
  .description("who is paired")
  .option("--json", "for programs", false)
  .action(async ({ json }: { json: boolean }) => {
    const { listPaired } = await import("./surfaces/cli/gateway.ts");
    const { withPairing } = await import("./compose/gateway.ts");
    process.exitCode = await withPairing(env, (desk) => listPaired(desk, json, print));
  });
pairing
  .command("remove")
  .description("take a pairing back")
  .argument("<platform>")
  .argument("<id>", "as `hermes pairing list` shows it")
  .action(async (platform: string, id: string) => {
    const { endPairing } = await import("./surfaces/cli/gateway.ts");
    const { withPairing } = await import("./compose/gateway.ts");
    process.exitCode = await withPairing(env, (desk) => endPairing(desk, platform, id, print));
  });

const memory = program.command("memory").description("what is remembered: notes that you can read and change");
memory
  .command("list")
  .description("all notes")
  .option("--scope <name>", "only whose these are")
  .option("--json", "for programs", false)
  .action(async (options: { scope?: string; json: boolean }) => {
    const { listMemory } = await import("./surfaces/cli/memory.ts");
    await listMemory({ ...options, notes: await notebook(), print });
  });
memory
  .command("search")
  .description("notes, and what was said in conversations")
  .argument("<words...>")
  .option("--scope <name>", "only whose these are")
  .option("-n, --limit <count>", "how many", wholeNumber, 20)
  .option("--json", "for programs", false)
  .action(async (words: string[], options: { scope?: string; limit: number; json: boolean }) => {
    const { searchMemory } = await import("./surfaces/cli/memory.ts");
    const { openSqlite } = await import("./store/sqlite.ts");
    const { existsSync } = await import("node:fs");
    const file = homeOf(env).database;
    const store = existsSync(file) ? await openSqlite({ file, readOnly: true }) : null;
    await searchMemory({ ...options, words: words.join(" "), notes: await notebook(), store, print });
    await store?.close();
  });
memory
  .command("forget")
  .description("take out a note that has this in it, or with --all every note")
  .argument("[text...]")
  .option("--scope <name>", "whose it is; yours if not given")
  .option("--all", "every note of that scope", false)
  .action(async (text: string[], options: { scope?: string; all: boolean }) => {
    const { forgetMemory } = await import("./surfaces/cli/memory.ts");
    process.exitCode = await forgetMemory({ ...options, text: text.join(" "), notes: await notebook(), print });
  });
memory
  .command("export")
  .description("all notes, one JSON object a line")
  .option("--scope <name>", "only whose these are")
  .action(async (options: { scope?: string }) => {
    const { exportMemory } = await import("./surfaces/cli/memory.ts");
    await exportMemory({ ...options, notes: await notebook(), print });
  });

const skills = program.command("skills").description("what the agent can look up: SKILL.md folders");
skills
  .command("list")
  .option("--json", "for programs", false)
  .action(async ({ json }: { json: boolean }) => {
    const { listSkills } = await import("./surfaces/cli/skills.ts");
    await listSkills({ skills: await ownSkills(), json, print });
  });
skills
  .command("show")
  .argument("<name>")
  .argument("[file]", "another file of its folder")
  .action(async (name: string, file: string | undefined) => {
    const { showSkill } = await import("./surfaces/cli/skills.ts");
    process.exitCode = await showSkill({ skills: await ownSkills(), name, file, print });
  });
skills
  .command("trust")
  .description("take in the skills of this directory too")
  .argument("[dir]")
  .action(async (dir = process.cwd()) => {
    const { trustSkills } = await import("./surfaces/cli/skills.ts");
    const { openTrust } = await import("./skills/trust.ts");
    process.exitCode = await trustSkills({ trust: openTrust(homeOf(env).dir), dir, print });
  });
skills
  .command("untrust")
  .argument("[dir]")
  .action(async (dir = process.cwd()) => {
    const { untrustSkills } = await import("./surfaces/cli/skills.ts");
    const { openTrust } = await import("./skills/trust.ts");
    process.exitCode = await untrustSkills({ trust: openTrust(homeOf(env).dir), dir, print });
  });

program
  .command("sessions")
  .description("list conversations, newest first")
  .option("-n, --limit <count>", "how many", wholeNumber, 20)
  .option("--json", "for programs", false)
  .action(async ({ limit, json }: { limit: number; json: boolean }) => {
    const { listSessions } = await import("./surfaces/cli/sessions.ts");
    const { openSqlite } = await import("./store/sqlite.ts");
    const { existsSync } = await import("node:fs");
    const file = homeOf(env).database;
    if (!existsSync(file)) return print(json ? "" : "There are no conversations yet.\n");
    const store = await openSqlite({ file, readOnly: true });
    await print(await listSessions({ store, limit, json }));
    await store.close();
  });

program
  .command("models")
  .description("which model answers and why, and which others its server offers")
  .option("--json", "for programs", false)
  .action(async ({ json }: { json: boolean }) => {
    const { showModels } = await import("./surfaces/cli/models.ts");
    const { endpoints, secrets } = (await outlook())();
    const redactor = createRedactor();
    for (const secret of secrets) redactor.add(secret);
    const complain = (line: string) => console.error(`hermes: ${line}`);
    process.exitCode = await showModels({ endpoints, json, redact: redactor.text, print, complain });
  });

program
  .command("setup")
  .description("choose who answers and how careful to be: asks, tries it, then writes config.yaml and .env")
  .option("--provider <name>", "openrouter, anthropic, openai, openai-compatible or demo")
  .option("--model <name>", "the model to use")
  .option("--base-url <url>", "where the server answers")
  .option("--key-stdin", "read the key from stdin", false)
  .option("--yes", "ask nothing: what is not given stays as it is, or is the default", false)
  .action(async (flags: SetupFlags) => {
    const { setUp } = await import("./surfaces/cli/setup.ts");
    const { VENDORS: vendors } = await import("./llm/endpoint.ts");
    const { clock } = await import("./platform/clock.ts");
    process.exitCode = await setUp({ flags, home: homeOf(env), vendors, look: await outlook(), clock });
  });

program
  .command("logs")
  .description("show the log, newest last")
  .option("-f, --follow", "go on showing what is written, until Ctrl+C", false)
  .option("-n, --lines <count>", "how many lines", wholeNumber, 50)
  .option("--json", "the lines as they are in the file", false)
  .addOption(new Option("--level <least>", "nothing below this level").choices(LEVELS).default("debug"))
  .action(async (options: { follow: boolean; lines: number; json: boolean; level: Level }) => {
    const { showLogs } = await import("./surfaces/cli/logs.ts");
    const { clock } = await import("./platform/clock.ts");
    const { log: file } = homeOf(env);
    // It only reads: there is nothing to put in order before it ends.
    process.once("SIGINT", () => process.exit(EXIT.ok));
    const found = await showLogs({ ...options, file, colour, print, clock });
    if (!found) console.error(`There is no log yet: ${file}`);
  });

program
  .command("doctor")
  .description("check that everything is in order, and say what to do where it is not")
  .option("--online", "also ask the model's server what it offers", false)
  .option("--json", "for programs", false)
  .action(async ({ json, online }: { json: boolean; online: boolean }) => {
    const { examine } = await import("./surfaces/cli/doctor.ts");
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
        const { openSqlite } = await import("./store/sqlite.ts");
        return openSqlite({ file, readOnly: true });
      },
    });
  });

program
  .command("policy")
  .description("see what the policy says of a command, before trusting it")
  .addCommand(
    new Command("check")
      .description("allow, ask or deny, the reason, and the part that decided; nothing is run")
      .argument("[command]", "the command, in quotes")
      .option("--stdin", "one JSON string a line in, one verdict a line out", false)
      .option("--sandbox", "as it is inside a sandbox", false)
      .action(async (command: string | undefined, { stdin, sandbox }: { stdin: boolean; sandbox: boolean }) => {
        const { checkPolicy } = await import("./surfaces/cli/policy.ts");
        const { openGrants } = await import("./tools/grants.ts");
        const { escapeOnLine } = await import("./tools/policy/display.ts");
        const { loadConfig } = await import("./config/config.ts");
        const { createInterface } = await import("node:readline");
        const { homedir } = await import("node:os");
        const { mode, allow, deny } = loadConfig({ env }).config.approvals;
        const file = join(homeOf(env).dir, "policy.yaml");
        const lists = { allow, deny };
        const grants = await openGrants({ file, lists, mode, sandbox, userHome: homedir(), log: () => {} });
        process.exitCode = await checkPolicy({
          command,
          stdin: stdin ? createInterface({ input: process.stdin }) : undefined,
          judge: (text) => grants.judge(text, process.cwd(), ""),
          escape: escapeOnLine,
          print,
        });
      }),
  );

try {
  const args = process.argv.slice(2);
  // Without a terminal to talk in, what serves: `npm start` under a service manager or in a container.
  const usual = process.stdin.isTTY ? "chat" : "gateway";
  await program.parseAsync(args.length > 0 ? args : [usual], { from: "user" });
} catch (error) {
  process.exitCode = exitCodeOf(error);
}

async function ownSkills() {
  const { openSkills } = await import("./skills/open.ts");
  const { loadConfig } = await import("./config/config.ts");
  const { clock } = await import("./platform/clock.ts");
  const workspace = loadConfig({ env }).config.terminal.cwd ?? process.cwd();
  return openSkills({ home: homeOf(env).dir, workspace, clock, log: () => {} });
}

async function notebook() {
  const { openNotebook } = await import("./memory/notebook.ts");
  const { notesIn } = await import("./memory/open.ts");
  return openNotebook(notesIn(homeOf(env).dir));
}

async function somewhere() {
  const { ownerPid } = await import("./store/sqlite.ts");
  const { clock } = await import("./platform/clock.ts");
  return { owner: () => ownerPid(homeOf(env).database), clock, print };
}

/** What a gateway may take to leave, and a little more. */
async function longestDrain(): Promise<number> {
  const { loadConfig } = await import("./config/config.ts");
  const { restart_drain_timeout: drain, exit_watchdog: watchdog } = loadConfig({ env }).config.agent;
  return (drain + watchdog + 5) * 1_000;
}

type CronCli = typeof import("./surfaces/cli/cron.ts");

async function onJobs(command: (cli: CronCli, options: CronOptions) => Promise<number>) {
  const { withJobs } = await import("./compose/gateway.ts");
  const cli = await import("./surfaces/cli/cron.ts");
  const complain = (line: string) => console.error(`hermes: ${line}`);
  process.exitCode = await withJobs(env, (jobs) => command(cli, { jobs, print, complain }));
}

async function whereCommandsRun() {
  const { loadConfig } = await import("./config/config.ts");
  const { pickSandbox, sandboxLine } = await import("./tools/toolbox.ts");
  try {
    const { terminal } = loadConfig({ env }).config;
    const workspace = terminal.cwd ?? process.cwd();
    const choice = await pickSandbox({ home: homeOf(env).dir, workspace, terminal });
    return { inForce: choice.sandbox !== null, says: sandboxLine(choice) };
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** The configuration as it is, or as it would be with these texts in the place of its files, and the endpoints that
 *  follow from it. */
async function outlook() {
  const { loadConfig } = await import("./config/config.ts");
  const { chooseEndpoints } = await import("./llm/endpoint.ts");
  const { listModels } = await import("./llm/list.ts");
  const { createModel } = await import("./llm/provider.ts");
  return (drafts: ReadonlyMap<string, string> = new Map()) => {
    const loaded = loadConfig({ env, drafts });
    const { config } = loaded;
    const endpoints = (unnamed?: string) => {
      const model = { ...config.model, default: config.model.default ?? unnamed };
      return chooseEndpoints({ ...config, model }).map((endpoint) => ({
        ...endpoint,
        list: (ms: number) => listModels(endpoint, ms),
        open: () => createModel(endpoint),
      }));
    };
    return { ...loaded, endpoints };
  };
}

function exitCodeOf(error: unknown): number {
  // Commander has said it already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  console.error(createRedactor().text(messageOf(error)).replace(/^/gm, "hermes: "));
  return error instanceof ConfigError ? EXIT.config : EXIT.failed;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}
