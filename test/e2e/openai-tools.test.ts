// Tools of a client: the turn waits for the client's results, durably, beside the agent's own tools.
import { describe, expect, it } from "vitest";
import { MODEL, refused, start } from "../fakes/openai.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const PARAMETERS = { type: "object", properties: { city: { type: "string" } } };
const FUNCTION = { name: "weather", description: "Of a city", parameters: PARAMETERS };
const CHAT_TOOLS = [{ type: "function" as const, function: FUNCTION }];
const TOOLS = [{ type: "function" as const, ...FUNCTION, strict: false }];
const USER = { role: "user" as const, content: "What is the weather?" };

describe("a chat completion with tools of its client", () => {
  it("ends with the calls, and the request with their results goes on with the same turn", async () => {
    const look = scriptedTool("look");
    const { client, model, run, engine } = await start({ tools: [look] });
    const asking = client.chat.completions.create({ model: MODEL, messages: [USER], tools: CHAT_TOOLS });
    const asked = await model.next();
    expect(asked.request.tools.map(({ name }) => name)).toEqual(["look", "weather"]);
    asked.answer(
      "Let me see.",
      { tool: "weather", args: { city: "Oslo" } },
      { tool: "look", args: {} },
      { tool: "weather", args: { city: "Rome" } },
    );
    (await look.next()).done("dust"); // the agent's own tool runs here, and its result is waited for
    const [choice] = (await asking).choices;
    expect(choice).toMatchObject({ finish_reason: "tool_calls", message: { content: "Let me see." } });
    const calls = choice?.message.tool_calls ?? [];
    expect(calls).toMatchObject([
      { type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
      { type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } },
    ]);
    const messages = [
      USER,
      { role: "assistant" as const, content: "Let me see.", tool_calls: calls },
      ...calls.map(({ id }, i) => ({ role: "tool" as const, tool_call_id: id, content: i ? "sun" : "snow" })),
    ];
    // A result for each of them, or none is taken.
    const missing = await refused(
      client.chat.completions.create({ model: MODEL, messages: messages.slice(0, -1), tools: CHAT_TOOLS }),
    );
    expect(missing).toMatchObject({ status: 400, code: "missing_tool_results" });
    const going = client.chat.completions.create({ model: MODEL, messages, tools: CHAT_TOOLS });
    const again = await model.next();
    expect(again.request.messages.slice(-3).map((message) => message.text)).toEqual(["dust", "snow", "sun"]);
    again.answer("Snow in Oslo, sun in Rome.");
    const whole = await going;
    expect(whole.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: "Snow in Oslo, sun in Rome." },
    });
    expect(whole.usage?.total_tokens).toBe(3); // of this part
    // The same results once more change nothing and get the same answer.
    expect(await client.chat.completions.create({ model: MODEL, messages, tools: CHAT_TOOLS })).toEqual(whole);
    expect(model.all).toHaveLength(2);
    // Whoever waits for its client takes nobody's place.
    expect(await run({ input: "next" })).toMatch(/^run_/);
    expect((await engine.run(`run_${calls[0]?.id.split("_")[1]}`))?.status).toBe("completed");
  });

  it("is streamed with the calls in a chunk, which the SDK's own loop of tools collects and answers", async () => {
    const { client, model } = await start();
    const cities: string[] = [];
    const runner = client.chat.completions.runTools({
      model: MODEL,
      messages: [USER],
      stream: true,
      tools: [
        {
          type: "function",
          function: {
            ...FUNCTION,
            function: (given: string) => {
              cities.push(given);
              return "snow";
            },
          },
        },
      ],
    });
    (await model.next()).answer("", { tool: "weather", args: { city: "Oslo" } });
    (await model.next()).answer("Snow.");
    expect(await runner.finalContent()).toBe("Snow.");
    expect(runner.allChatCompletions().map(({ choices }) => choices[0]?.finish_reason)).toEqual(["tool_calls", "stop"]);
    expect(cities).toEqual(['{"city":"Oslo"}']);
  });

  it("hands tool_choice on for the first model call, and leaves the tools out with none", async () => {
    const { client, model } = await start();
    const choice = { type: "function" as const, function: { name: "weather" } };
    const first = client.chat.completions.create({
      model: MODEL,
      messages: [USER],
      tools: CHAT_TOOLS,
      tool_choice: choice,
    });
    const asked = await model.next();
    expect(asked.request.options).toEqual({ toolChoice: { tool: "weather" } });
    asked.answer("Fine.");
    await first;
    const none = client.chat.completions.create({
      model: MODEL,
      messages: [USER],
      tools: CHAT_TOOLS,
      tool_choice: "none",
    });
    const bare = await model.next();
    expect(bare.request.tools).toEqual([]);
    bare.answer("Fine.");
    await none;
    const unknown = { type: "function" as const, function: { name: "other" } };
    const wrong = client.chat.completions.create({
      model: MODEL,
      messages: [USER],
      tools: CHAT_TOOLS,
      tool_choice: unknown,
    });
    expect(await refused(wrong)).toMatchObject({ status: 400, param: "tool_choice" });
  });

  it("tells in words a result that no turn waits for", async () => {
    const { client, model } = await start();
    const call = { id: "call_elsewhere", type: "function" as const, function: { name: "weather", arguments: "{}" } };
    const asking = client.chat.completions.create({
      model: MODEL,
      messages: [
        USER,
        { role: "assistant", tool_calls: [call] },
        { role: "tool", tool_call_id: call.id, content: "snow" },
      ],
      tools: CHAT_TOOLS,
    });
    const asked = await model.next();
    expect(asked.request.messages.at(-1)).toEqual({ role: "user", text: "[result of a tool]\nsnow" });
    asked.answer("Snow.");
    expect((await asking).choices[0]?.message.content).toBe("Snow.");
  });
});

describe("a response with tools of its client", () => {
  it("waits through a kill of the server, and goes on where it waited", async () => {
    const before = await start();
    const asking = before.client.responses.create({ model: MODEL, input: "Weather?", tools: TOOLS });
    (await before.model.next()).answer("", { tool: "weather", args: { city: "Oslo" } });
    const first = await asking;
    expect(first).toMatchObject({ status: "completed", output: [{ type: "function_call", name: "weather" }] });
    const [call] = first.output;
    if (call?.type !== "function_call") throw new Error("There is no call.");
    await before.kill();

    const { client, model, call: send } = await start({ disk: before.disk });
    expect(await client.responses.retrieve(first.id)).toEqual(first);
    const output = { type: "function_call_output" as const, call_id: call.call_id, output: "snow" };
    const stream = client.responses.stream({
      model: MODEL,
      previous_response_id: first.id,
      input: [output],
      tools: TOOLS,
    });
    const asked = await model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({ role: "tool", text: "snow", outcome: "ok" });
    asked.answer("Snow.");
    const second = await stream.finalResponse();
    expect(second).toMatchObject({ status: "completed", output_text: "Snow." });
    expect(second.id).not.toBe(first.id);
    const { output_text: _, ...read } = await client.responses.retrieve(second.id);
    const { output_parsed: __, output_text: ___, ...streamed } = second;
    expect({ ...read, previous_response_id: first.id }).toEqual({ ...streamed, output: read.output });
    expect((await client.responses.retrieve(first.id)).output).toEqual(first.output);
    // A conversation goes on from the second part.
    const third = client.responses.create({ model: MODEL, previous_response_id: second.id, input: "Thanks" });
    const thanked = await model.next();
    expect(thanked.request.messages.at(-1)?.text).toBe("Thanks");
    thanked.answer("Bye.");
    expect((await third).output_text).toBe("Bye.");
    expect((await send("POST", `/v1/responses/${first.id}/cancel`)).status).toBe(200);
  });

  it("can be stopped while it waits; a result that comes later begins a new turn", async () => {
    const { client, model, json } = await start();
    const asking = client.responses.create({ model: MODEL, input: "Weather?", tools: TOOLS });
    (await model.next()).answer("", { tool: "weather", args: {} });
    const { id, output } = await asking;
    const [call] = output;
    if (call?.type !== "function_call") throw new Error("There is no call.");
    const run = id.replace("resp_", "run_");
    expect((await json("GET", `/v1/runs/${run}`)).body["status"]).toBe("running");
    expect((await json("POST", `/v1/runs/${run}/stop`)).status).toBe(200);
    await expect.poll(async () => (await json("GET", `/v1/runs/${run}`)).body["status"]).toBe("cancelled");
    const late = client.responses.create({
      model: MODEL,
      tools: TOOLS,
      input: [
        USER,
        { ...call, status: "completed" },
        { type: "function_call_output", call_id: call.call_id, output: "snow" },
      ],
    });
    const asked = await model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({ role: "user", text: "[result of a tool]\nsnow" });
    asked.answer("Snow.");
    expect((await late).output_text).toBe("Snow.");
  });

  it("asks its client for approvals where the client names the agent as a tool that needs them", async () => {
    const remove = scriptedTool("remove", {
      gate: { gate: "ask", kind: "approval", text: "Remove?", choices: ["once", "deny"], timeoutMs: 60_000 },
    });
    const { client, model } = await start({ tools: [remove] });
    const tools = [{ type: "mcp" as const, server_label: "hermes", require_approval: "always" as const }];
    for (const approve of [true, false]) {
      const asking = client.responses.create({ model: MODEL, input: "Clean up", tools });
      (await model.next()).answer("", { tool: "remove", args: { what: "x" } });
      const { id, output } = await asking;
      expect(output).toMatchObject([
        { type: "mcp_approval_request", server_label: "hermes", name: "remove", arguments: '{"what":"x"}' },
      ]);
      const input = [
        {
          type: "mcp_approval_response" as const,
          approval_request_id: output[0]?.id ?? "",
          approve,
          reason: "not now",
        },
      ];
      const going = client.responses.create({ model: MODEL, previous_response_id: id, input, tools });
      if (approve) (await remove.next()).done("gone");
      const asked = await model.next();
      expect(asked.request.messages.at(-1)?.text).toBe(approve ? "gone" : "The user said no: not now");
      asked.answer("Done.");
      const done = await going;
      expect(done.output.map(({ type }) => type)).toEqual(approve ? ["mcp_call", "message"] : ["message"]);
    }
    expect(remove.all).toHaveLength(1);
  });

  it("reads what a client refers to of an earlier response", async () => {
    const { client, model } = await start();
    const asking = client.responses.create({ model: MODEL, input: "one" });
    (await model.next()).answer("eins");
    const { output } = await asking;
    const next = client.responses.create({
      model: MODEL,
      input: [
        { role: "user", content: "one" },
        { type: "item_reference", id: output[0]?.id ?? "" },
        { role: "user", content: "two" },
      ],
    });
    const asked = await model.next();
    expect(asked.request.messages.map((message) => message.text)).toEqual(["one", "eins", "two"]);
    asked.answer("zwei");
    await next;
    const unknown = client.responses.create({
      model: MODEL,
      input: [
        { type: "item_reference", id: "msg_1" },
        { role: "user", content: "two" },
      ],
    });
    expect(await refused(unknown)).toMatchObject({ status: 404, code: "item_not_found" });
  });
});

describe("options of a request", () => {
  it("reach the model where its endpoint takes them, and are refused by name where not", async () => {
    const { client, model, call } = await start({ settings: { models: ["openai-compatible:m", "anthropic:c"] } });
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const asking = client.chat.completions
      .create({
        model: MODEL,
        messages: [USER],
        stop: "END",
        seed: 7,
        presence_penalty: 0.5,
        frequency_penalty: -0.5,
        parallel_tool_calls: false,
        response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
        user: "u1",
        metadata: { a: "b" },
      })
      .withResponse();
    const asked = await model.next();
    expect(asked.request.options).toEqual({
      stop: ["END"],
      seed: 7,
      presencePenalty: 0.5,
      frequencyPenalty: -0.5,
      oneCall: true,
      json: { name: "answer", schema },
    });
    asked.answer("{}");
    expect((await asking).response.headers.get("x-hermes-ignored")).toBe("user, metadata");
    const cases: [object, string][] = [
      [{ model: "anthropic:c", seed: 7 }, "seed"],
      [{ model: "c", frequency_penalty: 1 }, "frequency_penalty"],
      [{ model: "anthropic:c", response_format: { type: "json_object" } }, "response_format"],
      [{ logprobs: true }, "logprobs"],
      [{ n: 2 }, "n"],
      [{ logit_bias: { 1: 1 } }, "logit_bias"],
      [{ functions: [] }, "functions"],
      [{ tools: [{ type: "custom", custom: { name: "x" } }] }, "tools.0.type"],
    ];
    for (const [more, param] of cases) {
      const response = await call("POST", "/v1/chat/completions", { messages: [USER], ...more });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param } });
    }
    expect(model.all).toHaveLength(1);
  });
});

describe("the description of the API", () => {
  type Operation = {
    responses: Record<string, { headers: Record<string, unknown>; content?: Record<string, unknown> }>;
  };

  it("has a body for every success, and every status that its routes answer with", async () => {
    const { json } = await start();
    const { body } = await json<{ paths: Record<string, Record<string, Operation>> }>("GET", "/openapi.json");
    for (const [path, operations] of Object.entries(body.paths))
      for (const [method, { responses }] of Object.entries(operations)) {
        const where = `${method} ${path}`;
        expect(Object.keys(responses), where).toEqual(
          expect.arrayContaining(["400", "403", "421", "429", "500", "503"]),
        );
        for (const [status, { headers, content }] of Object.entries(responses)) {
          expect(headers, where).toHaveProperty("X-Request-Id");
          if (status !== "204") expect(Object.keys(content ?? {}), `${where} ${status}`).not.toEqual([]);
        }
      }
    const started = JSON.stringify(body.paths["/v1/runs"]?.["post"]?.responses["202"]);
    expect(started).toContain('"run_id":{"type":"string"}');
  });
});
