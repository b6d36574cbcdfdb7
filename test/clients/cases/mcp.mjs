// packages: @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-memory @modelcontextprotocol/server-sequential-thinking
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";

const { HERMES_URL: url, HERMES_KEY: key, WORKSPACE } = process.env;
const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
const ask = async (method, path, body) => {
  const answer = await fetch(`${url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.json();
};
/** Lets the agent call a tool, and gives what the tool said. */
async function call(name, args) {
  const input = `play:${JSON.stringify([{ calls: [{ name, args }] }, { text: "done" }])}`;
  const { run_id, session_id } = await ask("POST", "/v1/runs", { input });
  for (;;) {
    const { status, output } = await ask("GET", `/v1/runs/${run_id}`);
    if (status === "completed") assert.equal(output, "done");
    else {
      assert.match(status, /queued|running/);
      await new Promise((resolve) => setTimeout(resolve, 100));
      continue;
    }
    const { data } = await ask("GET", `/api/sessions/${encodeURIComponent(session_id)}/messages?full=true`);
    return JSON.stringify(data);
  }
}

writeFileSync(`${WORKSPACE}/note.txt`, "the tea is green");
assert.match(await call("mcp_everything_echo", { message: "hello there" }), /Echo: hello there/);
assert.match(await call("mcp_files_read_text_file", { path: `${WORKSPACE}/note.txt` }), /the tea is green/);
const entities = [{ name: "Anna", entityType: "person", observations: ["likes tea"] }];
assert.match(await call("mcp_memory_create_entities", { entities }), /likes tea/);
assert.match(await call("mcp_memory_search_nodes", { query: "tea" }), /Anna/);
const thought = { thought: "first", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 };
assert.match(await call("mcp_thinking_sequentialthinking", thought), /thoughtHistoryLength/);
