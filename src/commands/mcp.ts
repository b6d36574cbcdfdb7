// hermes mcp-serve: our sessions as tools for other agents. Standard output carries only the protocol.
import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import pkg from "../../package.json" with { type: "json" };
import { env } from "./shared.ts";

export function addMcp(program: Command): void {
  program
    .command("mcp-serve")
    .description("offer conversations as MCP tools to another agent, over stdio (docs/mcp.md)")
    .action(async () => {
      await serveOverStdio();
      process.exit(); // a request to a gateway that hangs would keep us
    });
}

async function serveOverStdio(): Promise<void> {
  const { serveStdio } = await import("@modelcontextprotocol/server/stdio");
  const { createMcpServe } = await import("../surfaces/mcp/server.ts");
  const { openOrAttach } = await import("../compose/attach.ts");
  const { leave } = await import("../surfaces/terminal/open.ts");
  const { parseKey } = await import("../core/session-key.ts");
  const left = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => left.resolve());
  process.stdout.removeAllListeners("error").on("error", () => left.resolve());
  process.stdin.once("end", () => left.resolve());
  const mine = (session: string) => ["run", "named"].includes(parseKey(session).of);
  const running = await openOrAttach({ env, flags: [], logToStderr: false, mine, serves: true });
  const serve = { runtime: running.engine, version: pkg.version, newKey: randomUUID };
  const { close } = serveStdio(() => createMcpServe(serve));
  await left.promise;
  await close();
  await leave(running);
}
