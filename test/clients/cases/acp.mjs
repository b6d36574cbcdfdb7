// packages: @agentclientprotocol/sdk
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const { HERMES, PROVIDER_URL, ...rest } = process.env;
const cwd = mkdtempSync(join(tmpdir(), "hermes-acp-"));
const env = {
  ...rest,
  HERMES_HOME: join(cwd, "home"),
  LLM_MODEL: "m",
  OPENAI_BASE_URL: PROVIDER_URL,
  OPENAI_API_KEY: "k",
};
const child = spawn(HERMES, ["acp"], { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
let text = "";
const { agent } = client({ name: "editor" })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") text += update.content.text;
  })
  .connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
const { sessionId } = await agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
const prompt = [{ type: "text", text: 'play:[{"text": ["t", "wo"]}]' }];
assert.equal((await agent.request(methods.agent.session.prompt, { sessionId, prompt })).stopReason, "end_turn");
assert.equal(text, "two");
child.stdin.end();
assert.equal((await once(child, "exit"))[0], 0);
