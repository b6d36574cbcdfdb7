// Whether the configured MCP servers work, for a person.
import type { Log } from "../../core/ports.ts";
import { ownerHere } from "../shell/exec.ts";
import { readLogin } from "./auth.ts";
import { createMcp, type McpOptions } from "./tools.ts";

/** The slowest that is waited for: `npx` may have to install a server first. */
const PROBE_MS = 20_000;

export async function probeServers(servers: McpOptions["servers"], home: string) {
  const states = new Map<string, string>();
  const log: Log = (_, event, { server, tools, why } = {}) => {
    if (event === "mcp.tools") states.set(String(server), `${Number(tools)} ${tools === 1 ? "tool" : "tools"}`);
    if (event === "mcp.lost") states.set(String(server), `does not work: ${String(why)}`);
  };
  const mcp = createMcp({ servers, home, roots: [], owner: ownerHere(home), log, startMs: PROBE_MS });
  await mcp.ready;
  const found = Object.entries(servers).map(([name, { url }]) => {
    const isIn = url !== undefined && readLogin({ home, name, url })?.tokens;
    const status = states.get(name) ?? "has not answered";
    return { name, status: isIn ? `${status} (logged in)` : status };
  });
  await mcp.close();
  return found;
}
