// `hermes acp` as an editor uses it: the SDK's own client, a real process, a scripted model.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type ContentBlock, type McpServer, methods, type SessionUpdate } from "@agentclientprotocol/sdk";
import { expect, it } from "vitest";
import { openEditor } from "../clients/acp.ts";
import { llm, openGateway, place, useProgram } from "../fakes/program.ts";

useProgram({ config: "terminal: {sandbox: off}\n" });

const { session } = methods.agent;
const MCP_SERVER = join(import.meta.dirname, "../fakes/mcp-server.ts");
const forever = new Promise(() => {});
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const of = <Kind extends SessionUpdate["sessionUpdate"]>(updates: readonly SessionUpdate[], kind: Kind) =>
  updates.filter((one): one is Extract<SessionUpdate, { sessionUpdate: Kind }> => one.sessionUpdate === kind);

it("shows a turn with its thoughts, changes, questions and plan, and shows it again when it is loaded", async () => {
  const editor = await openEditor(place, { permit: () => "once" });
  const sessionId = await editor.begin();
  const commands = await editor.sees(({ sessionUpdate }) => sessionUpdate === "available_commands_update");
  expect(commands).toMatchObject({
    availableCommands: expect.arrayContaining([expect.objectContaining({ name: "compress" })]),
  });
  llm.script([
    {
      reasoning: "Let me see.",
      text: "I begin. ",
      calls: [
        { name: "todo", args: { items: [{ text: "write a.txt", status: "in_progress" }] } },
        { name: "write_file", args: { path: "a.txt", content: "hello\n" } },
      ],
    },
    { calls: [{ name: "terminal", args: { command: "touch made" } }] },
    { text: ["All ", "done."] },
  ]);
  const prompt: ContentBlock[] = [
    { type: "text", text: "Look at" },
    { type: "resource_link", name: "b.txt", uri: `file://${place.dir}/b.txt` },
    { type: "text", text: "and this picture." },
    { type: "image", mimeType: "image/png", data: PIXEL },
    { type: "resource", resource: { uri: "file:///c.txt", text: "embedded words" } },
  ];
  expect(await editor.agent.request(session.prompt, { sessionId, prompt })).toEqual({ stopReason: "end_turn" });
  expect(llm.requests[0]?.raw).toContain(`Look at ${place.dir}/b.txt and this picture.`);
  expect(llm.requests[0]?.raw).toContain("embedded words");
  expect(llm.requests[0]?.raw).toContain(PIXEL);
  expect(editor.text()).toBe("I begin. All done.");
  expect(of(editor.updates, "agent_thought_chunk")).toMatchObject([{ content: { text: "Let me see." } }]);
  expect(of(editor.updates, "plan")).toMatchObject([{ entries: [{ content: "write a.txt", status: "in_progress" }] }]);

  const file = join(place.dir, "a.txt");
  const [, write, run] = of(editor.updates, "tool_call");
  expect(write).toMatchObject({ kind: "edit", status: "pending", locations: [{ path: file }] });
  expect(write?.content).toEqual([{ type: "diff", path: file, oldText: null, newText: "hello\n" }]);
  expect(run).toMatchObject({ kind: "execute", title: "`touch made`" });
  const { toolCall, options } = editor.asked[0] ?? {};
  expect(editor.asked).toHaveLength(1);
  expect(toolCall?.toolCallId).toBe(run?.toolCallId);
  expect(options?.map(({ optionId, kind }) => [optionId, kind])).toEqual([
    ["once", "allow_once"],
    ["session", "allow_always"],
    ["always", "allow_always"],
    ["deny", "reject_once"],
  ]);
  const states = of(editor.updates, "tool_call_update").filter((one) => one.toolCallId === run?.toolCallId);
  expect(states.map(({ status }) => status).filter(Boolean)).toEqual(["in_progress", "completed"]);
  expect(existsSync(join(place.dir, "made"))).toBe(true);
  expect(await editor.hangUp()).toBe(0);
  expect(editor.stray()).toBe("");

  const again = await openEditor(place, { cwd: "/" });
  const { sessions } = await again.agent.request(session.list, { cwd: place.dir });
  expect(sessions).toMatchObject([{ sessionId, cwd: place.dir, title: expect.stringContaining("Look at") }]);
  await again.agent.request(session.load, { sessionId, cwd: place.dir, mcpServers: [] });
  expect(again.text()).toBe("I begin. All done.");
  expect(of(again.updates, "user_message_chunk")[0]).toMatchObject({ content: { type: "text" } });
  expect(of(again.updates, "tool_call").map(({ toolCallId }) => toolCallId)).toEqual(
    of(editor.updates, "tool_call").map(({ toolCallId }) => toolCallId),
  );
  expect(again.asked).toEqual([]);
  llm.script({ text: "Here." });
  await again.prompt(sessionId, "where are you?"); // not where the editor has started it
  expect(llm.requests.at(-1)?.raw).toContain(`The working directory is ${place.dir}.`);
  await again.agent.request(session.delete, { sessionId });
  const gone = again.agent.request(session.load, { sessionId, cwd: place.dir, mcpServers: [] });
  await expect(gone).rejects.toMatchObject({ code: -32002 });
  await again.hangUp();
});

it("cancels, asks nothing in the mode that denies, runs commands, and takes the next prompt as the answer to a question", async () => {
  const editor = await openEditor(place);
  const tools: McpServer = { name: "editor tools", command: process.execPath, args: [MCP_SERVER], env: [] };
  const { sessionId } = await editor.agent.request(session.new, { cwd: place.dir, mcpServers: [tools] });
  llm.script({ text: ["Once upon ", "a time"], hold: forever });
  const long = editor.prompt(sessionId, "tell me a story");
  await editor.sees(() => editor.text().includes("Once upon"));
  await editor.agent.notify(session.cancel, { sessionId });
  expect(await long).toEqual({ stopReason: "cancelled" });
  expect(await llm.requests[0]?.closed).toBe("closed-by-client");
  expect(llm.requests[0]?.raw).toContain("mcp_editor_tools_echo");

  await editor.agent.request(session.setMode, { sessionId, modeId: "deny" });
  llm.script([{ calls: [{ name: "terminal", args: { command: "touch made" } }] }, { text: "Not done." }]);
  expect(await editor.prompt(sessionId, "touch it")).toEqual({ stopReason: "end_turn" });
  expect(existsSync(join(place.dir, "made"))).toBe(false);
  expect(editor.asked).toEqual([]);

  const { configOptions } = await editor.agent.request(session.setConfigOption, {
    sessionId,
    configId: "mode",
    value: "ask",
  });
  expect(configOptions).toMatchObject([{ id: "mode", currentValue: "ask" }, { id: "model" }]);
  llm.script([
    { calls: [{ name: "clarify", args: { question: "Which colour?", choices: ["red", "blue"] } }] },
    { text: "Blue it is." },
  ]);
  expect(await editor.prompt(sessionId, "paint it")).toEqual({ stopReason: "end_turn" });
  expect(editor.text()).toContain("Which colour?\n- red\n- blue");
  expect(await editor.prompt(sessionId, "blue")).toEqual({ stopReason: "end_turn" });
  expect(editor.text()).toMatch(/Blue it is\.$/);
  expect(llm.requests.at(-1)?.raw).toContain("blue");

  await expect(editor.prompt(sessionId, " ")).rejects.toMatchObject({ message: /empty|say/i });
  expect(await editor.prompt(sessionId, "/usage")).toEqual({ stopReason: "end_turn" });
  expect(editor.text()).toMatch(/fake-model: \d+ calls/);
  await editor.prompt(sessionId, "/yolo");
  llm.script([{ calls: [{ name: "terminal", args: { command: "touch made" } }] }, { text: "Done." }]);
  await editor.prompt(sessionId, "touch it");
  expect([existsSync(join(place.dir, "made")), editor.asked]).toEqual([true, []]);
  expect(editor.updates).toContainEqual({ sessionUpdate: "current_mode_update", currentModeId: "allow" });
  await expect(editor.prompt(sessionId, "/undo")).rejects.toMatchObject({ message: /Unknown command/ });
  llm.script({ fault: { status: 401 } });
  await expect(editor.prompt(sessionId, "hello")).rejects.toMatchObject({ message: /HTTP 401/ });
  expect(await editor.hangUp()).toBe(0);
});

it("works beside a gateway, whose turn survives the editor, and refuses a folder that the gateway does not work in", async () => {
  await openGateway();
  const editor = await openEditor(place, { permit: () => "once" });
  mkdirSync(join(place.dir, "project"));
  await expect(editor.begin("/")).rejects.toMatchObject({ message: /works in .* and this folder is \// });
  const sessionId = await editor.begin(join(place.dir, "project"));
  llm.script([
    { calls: [{ name: "terminal", args: { command: "touch made", workdir: join(place.dir, "project") } }] },
    { text: "Half of ", hold: forever },
  ]);
  const cut = editor.prompt(sessionId, "touch it").catch(() => {});
  await editor.sees(() => editor.text().includes("Half of"));
  expect(llm.requests[0]?.raw).toContain(`the folder ${place.dir}/project open`);
  expect(editor.asked).toHaveLength(1);
  expect(await editor.hangUp()).toBe(0);
  await cut;
  expect(llm.requests.at(-1)?.ending).toBeUndefined();

  const again = await openEditor(place);
  const request = { sessionId, cwd: place.dir, mcpServers: [] };
  await again.agent.request(session.load, request);
  await again.sees(() => again.text().includes("Half of"));
  await again.agent.notify(session.cancel, { sessionId });
  await llm.requests.at(-1)?.closed;
  await again.hangUp();
});

it("an editor that dies in the middle loses nothing: the turn goes on when the conversation is opened again", async () => {
  const editor = await openEditor(place);
  const sessionId = await editor.begin();
  llm.script({ text: "Half of ", hold: forever });
  const cut = editor.prompt(sessionId, "tell me").catch(() => {});
  await editor.sees(() => editor.text().includes("Half of"));
  expect(await editor.hangUp()).toBe(0);
  await cut;
  llm.script({ text: "The whole of it." });
  const again = await openEditor(place);
  await again.agent.request(session.load, { sessionId, cwd: place.dir, mcpServers: [] });
  await again.sees(() => again.text().includes("The whole of it."));
  expect(of(again.updates, "user_message_chunk")).toMatchObject([{ content: { text: "tell me" } }]);
  await again.hangUp();
  expect(readFileSync(join(place.home, "logs", "hermes.log"), "utf8")).not.toContain('"level":50');
});
