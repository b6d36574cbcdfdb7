// hermes acp: the agent inside an editor. Standard output carries only the protocol.
import { Readable, Writable } from "node:stream";
import type { Command } from "commander";
import pkg from "../../package.json" with { type: "json" };
import type { Usage } from "../core/session.ts";
import type { WantedRuntime } from "../surfaces/acp/agent.ts";
import type { OpenedTalk } from "../surfaces/terminal/open.ts";
import { env } from "./shared.ts";

export function addAcp(program: Command): void {
  program
    .command("acp")
    .description("talk with an editor over the Agent Client Protocol (docs/editors.md)")
    .action(async () => {
      process.exitCode = await runAcp();
      process.exit(); // a request to a gateway that hangs would keep us
    });
}

async function runAcp(): Promise<number> {
  const { ndJsonStream } = await import("@agentclientprotocol/sdk");
  const { serveAcp } = await import("../surfaces/acp/agent.ts");
  const { openOrAttach } = await import("../compose/attach.ts");
  const { isTerminal, rootOf } = await import("../core/session-key.ts");
  const { costOf } = await import("../conversation/cost.ts");
  const { leave } = await import("../surfaces/terminal/open.ts");
  let running: Promise<OpenedTalk> | null = null;

  const open = async ({ cwd, servers, resumes }: WantedRuntime) => {
    const { settingsFor } = await import("../compose/settings.ts");
    const configured = settingsFor(env, []).config.mcp_servers;
    const added = servers.filter(({ name }) => !(name in configured));
    const flags = [
      { flag: "cwd of the editor", key: "terminal.cwd", value: cwd },
      ...added.map(({ name, ...value }) => ({ flag: "MCP servers of the editor", key: `mcp_servers.${name}`, value })),
    ];
    const before = await running?.catch(() => null);
    if (before) await leave(before);
    const mine = (session: string) => resumes && isTerminal(rootOf(session));
    const opening = openOrAttach({ env, flags, logToStderr: false, mine, serves: true });
    running = opening;
    const { engine, config, endpoints, workspace, owner, models, skills, jobs } = await opening;
    return {
      runtime: engine,
      workspace,
      writable: config.terminal.writable,
      servers: Object.keys(owner === "self" ? config.mcp_servers : configured),
      model: endpoints[0]?.model ?? "",
      window: endpoints[0]?.context ?? 0,
      mode: config.display.busy_input_mode,
      models,
      costOf: (name: string, usage: Usage) => costOf(config.prices, name, usage),
      skills,
      jobs,
    };
  };

  const left = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => left.resolve());
  process.stdout.removeAllListeners("error").on("error", () => left.resolve());
  const stream = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
  const { closed } = serveAcp({ stream, version: pkg.version, open });
  void closed.then(left.resolve);
  await left.promise;
  const opened = await (running as Promise<OpenedTalk> | null)?.catch(() => null);
  if (opened) await leave(opened);
  return 0;
}
