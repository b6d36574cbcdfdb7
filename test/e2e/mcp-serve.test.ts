// Our sessions as MCP tools, as the official client sees them: over stdio, and over HTTP on the gateway.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, it } from "vitest";
import { program } from "../fakes/hermes.ts";
import { llm, openGateway, place, useProgram } from "../fakes/program.ts";

useProgram({ config: "terminal: {sandbox: off}\n" });
const forever = new Promise(() => {});

async function connect(transport: Transport) {
  const client = new Client({ name: "another agent", version: "1.0.0" });
  await client.connect(transport);
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { structuredContent, isError, content } = await client.callTool({ name, arguments: args });
    return { ...(structuredContent as Record<string, unknown>), ...(isError && { refused: content }) } as Record<
      string,
      // oxlint-disable-next-line typescript/no-explicit-any -- as a model reads it
      any
    >;
  };
  return { client, call };
}

it.each(["stdio", "HTTP"])(
  "another agent starts a run, waits, approves, follows and stops it over %s",
  async (kind) => {
    let transport: Transport;
    if (kind === "HTTP") {
      const { url } = await openGateway();
      const headers = { Authorization: `Bearer ${readFileSync(join(place.home, "api_key"), "utf8").trim()}` };
      expect((await fetch(`${url}/mcp`, { method: "POST", body: "{}" })).status).toBe(401);
      transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } });
    } else {
      const env = Object.fromEntries(Object.entries(place.env()).map(([name, value]) => [name, value ?? ""]));
      transport = new StdioClientTransport({ command: program, args: ["mcp-serve"], env, cwd: place.dir });
    }
    const { client, call } = await connect(transport);
    expect((await client.listTools()).tools.map(({ name }) => name).toSorted()).toEqual([
      "session_approve",
      "session_list",
      "session_start",
      "session_status",
      "session_stop",
      "session_wait",
    ]);

    llm.script([
      { text: "First. ", calls: [{ name: "terminal", args: { command: "touch made" } }] },
      { text: "Done." },
    ]);
    const start = { message: "touch it", idempotency_key: "k1" };
    const { run_id, session_id } = await call("session_start", start);
    expect((await call("session_start", start))["run_id"]).toBe(run_id);
    const asks = await call("session_wait", { run_id });
    expect(asks).toMatchObject({ status: "waiting_for_approval", said: "First. " });
    expect(asks["waiting_for"]).toMatchObject([{ kind: "approval", text: expect.stringContaining("touch made") }]);
    expect(await call("session_approve", { run_id, answer: "perhaps" })).toHaveProperty("refused");
    expect(await call("session_approve", { run_id, answer: "once" })).toMatchObject({ decided: true });
    const { cursor } = asks;
    expect(await call("session_wait", { run_id, cursor })).toMatchObject({ status: "completed", said: "Done." });
    expect(await call("session_status", { run_id })).toMatchObject({ status: "completed", output: "Done." });
    expect(existsSync(join(place.dir, "made"))).toBe(true);

    llm.script({ text: "Half ", hold: forever });
    const second = await call("session_start", { message: "go on", session_id });
    const slow = await call("session_wait", { run_id: second["run_id"], timeout_seconds: 1 });
    expect(slow).toMatchObject({ status: "running", said: "Half " });
    expect(await call("session_stop", { run_id: second["run_id"] })).toEqual({ stopped: "stopping" });
    expect(await call("session_wait", { run_id: second["run_id"] })).toMatchObject({ status: "cancelled" });
    expect(await call("session_status", { run_id: "nonsense" })).toHaveProperty("refused");
    expect(await call("session_list")).toMatchObject({ sessions: [{ session_id, active: false }] });
    await client.close();
  },
);
