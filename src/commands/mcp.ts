// hermes mcp: logins at MCP servers, and whether servers work. hermes mcp-serve: our sessions as tools for other agents; standard
// output carries only the protocol.
import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import pkg from "../../package.json" with { type: "json" };
import { complain, EXIT, env, print } from "./shared.ts";

export function addMcp(program: Command): void {
  const mcp = program.command("mcp").description("log in to MCP servers, and see whether they work (docs/mcp.md)");
  mcp
    .command("list")
    .description("start or connect every configured server, and show what came of it")
    .action(async () => {
      const { probeServers } = await import("../tools/mcp/probe.ts");
      const { config, home } = await settings();
      const found = await probeServers(config.mcp_servers, home.dir);
      const width = Math.max(0, ...found.map(({ name }) => name.length));
      const lines = found.map(({ name, status }) => `${name.padEnd(width)}  ${status}\n`);
      await print(lines.join("") || "There are no servers: see mcp_servers in docs/configuration.md.\n");
    });
  mcp
    .command("login")
    .description("log in to a server with a browser")
    .argument("<name>", "a name in mcp_servers")
    .action(async (name: string) => {
      process.exitCode = await logIn(name);
      process.exit(); // a terminal that is still read would keep us
    });
  mcp
    .command("logout")
    .description("forget the login of a server")
    .argument("<name>", "a name in mcp_servers")
    .action(async (name: string) => {
      const { forgetLogin } = await import("../tools/mcp/auth.ts");
      const { home } = await settings();
      await print(
        forgetLogin({ home: home.dir, name }) ? `Logged out of ${name}.\n` : `There was no login of ${name}.\n`,
      );
    });

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

async function settings() {
  const { settingsFor } = await import("../compose/settings.ts");
  return settingsFor(env, []);
}

async function logIn(name: string): Promise<number> {
  const { createInterface } = await import("node:readline");
  const { login } = await import("../tools/mcp/login.ts");
  const { config, home } = await settings();
  const url = config.mcp_servers[name]?.url;
  if (url === undefined) {
    complain(`There is no server ${name} with a url in mcp_servers.`);
    return EXIT.usage;
  }
  const done = await login({
    home: home.dir,
    name,
    url,
    open: (address) =>
      void print(
        `Open this address in a browser and log in:\n\n  ${address}\n\nIf the browser runs on another machine, paste the address ` +
          "at which it ends here:\n",
      ),
    pasted: createInterface({ input: process.stdin }),
  });
  await print(done === "done" ? `Logged in to ${name}.\n` : `${name} needs no login.\n`);
  return EXIT.ok;
}
