// /v1/responses through OpenAI's own SDK, and where that hides something, through plain fetch.
import type OpenAI from "openai";
import { BadRequestError, NotFoundError } from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, it } from "vitest";
import { turnId } from "../../src/engine/engine.ts";
import { frames, type StartOptions } from "../fakes/api.ts";
import { PIXEL, refused, start as startOpenAi } from "../fakes/openai.ts";
import { scriptedTool } from "../fakes/scripted.ts";

async function start(options: StartOptions = {}) {
  const api = await startOpenAi(options);
  const { client } = api;
  /** Asks, answers for the model, and gives the response. */
  const talk = async (body: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>, answer: string) => {
    const asking = client.responses.create({ model: "hermes-agent", input: "hi", ...body });
    const asked = await api.model.next();
    asked.answer(answer);
    return { response: await asking, messages: asked.request.messages };
  };
  return { ...api, talk };
}

const runOf = (id: string) => id.replace("resp_", "run_");
const user = (text: string) => ({ role: "user", text });
const assistant = (text: string) => ({ role: "assistant", text, calls: [] });

describe("a response", () => {
  it("is answered whole, and reads the same later", async () => {
    const { client, talk } = await start();
    const { response } = await talk({ input: "hi", instructions: "Be short.", temperature: 0.5 }, "Hello.");
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      output_text: "Hello.",
      output: [
        {
          type: "message",
          role: "assistant",
          status: "completed",
          phase: "final_answer",
          content: [{ type: "output_text", text: "Hello.", annotations: [] }],
        },
      ],
      error: null,
      incomplete_details: null,
      instructions: "Be short.",
      temperature: 0.5,
      top_p: null,
      tools: [],
      tool_choice: "auto",
      parallel_tool_calls: true,
      text: { format: { type: "text" } },
      usage: {
        input_tokens: 2,
        output_tokens: 1,
        total_tokens: 3,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens_details: { reasoning_tokens: 0 },
      },
    });
    expect(response.id).toMatch(/^resp_[0-9a-f]{32}$/);
    expect(response.output[0]?.id).toMatch(/^msg_/);
    expect(Number.isInteger(response.created_at)).toBe(true);
    expect(await client.responses.retrieve(response.id)).toEqual(response);
  });

  it("reads back all that was sent", async () => {
    const { client, talk } = await start({ settings: { models: ["openai:gpt"] } });
    const sent = {
      metadata: { order: "17" },
      tools: [{ type: "function" as const, name: "mine", parameters: { type: "object" }, strict: false }],
      tool_choice: "auto" as const,
      parallel_tool_calls: false,
      truncation: "auto" as const,
      text: { format: { type: "json_schema" as const, name: "n", schema: { type: "object" } } },
    };
    const { response } = await talk(sent, "{}");
    expect(response).toMatchObject(sent);
    expect(await client.responses.retrieve(response.id)).toEqual(response);
  });

  it("shows the model the items that were sent, pictures and calls of the client's own too", async () => {
    const { client, model } = await start();
    const asking = client.responses.create({
      model: "hermes-agent",
      instructions: "Be short.",
      max_output_tokens: 70,
      reasoning: { effort: "low" },
      truncation: "auto",
      tools: [{ type: "function", name: "mine", parameters: {}, strict: false }],
      input: [
        { role: "developer", content: "Speak French." },
        { type: "message", role: "user", content: [{ type: "input_text", text: "one" }] },
        { type: "reasoning", id: "rs_1", summary: [] },
        { type: "function_call", call_id: "c1", name: "mine", arguments: '{"a":1}' },
        { type: "function_call_output", call_id: "c1", output: "42" },
        {
          type: "message",
          id: "msg_1",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "un", annotations: [] }],
        },
        {
          role: "user",
          content: [
            { type: "input_text", text: "what is this?" },
            { type: "input_image", detail: "auto", image_url: `data:image/png;base64,${PIXEL}` },
          ],
        },
      ],
    });
    const asked = await model.next();
    expect(asked.request.messages).toEqual([
      user("one"),
      assistant('[called [{"name":"mine","arguments":"{\\"a\\":1}"}]]'),
      user("[result of a tool]\n42"),
      assistant("un"),
      { ...user("what is this?"), images: [{ mime: "image/png", data: PIXEL }] },
    ]);
    expect(asked.request.system).toContain("Be short.\n\nSpeak French.");
    expect(asked.request.options).toEqual({ maxTokens: 70, effort: "low" });
    asked.answer("A pixel.");
    expect(await asking).toMatchObject({ max_output_tokens: 70, reasoning: { effort: "low" } });
  });

  it("lists the tools that ran before its message, in order, and not those that did not", async () => {
    const look = scriptedTool("look");
    const remove = scriptedTool("remove", {
      gate: { gate: "ask", kind: "approval", text: "Remove?", choices: [], timeoutMs: 60_000 },
    });
    const { client, model } = await start({ tools: [look, remove] });
    const asking = client.responses.create({ model: "hermes-agent", input: "hi" });
    (await model.next()).answer(
      "Let me look.",
      { tool: "look", args: { at: 1 } },
      { tool: "remove", args: {} }, // denied: nobody is there to ask
    );
    (await look.next()).done("dust");
    (await model.next()).answer("Only dust.");
    const response = await asking;
    expect(response.output).toMatchObject([
      { type: "message", phase: "commentary", content: [{ text: "Let me look." }] },
      {
        type: "mcp_call",
        status: "completed",
        server_label: "hermes",
        name: "look",
        arguments: '{"at":1}',
        output: "dust",
      },
      { type: "message", phase: "final_answer", content: [{ text: "Only dust." }] },
    ]);
    expect(await client.responses.retrieve(response.id)).toEqual(response);
    expect(remove.all).toEqual([]);
  });

  it("that was cut short is incomplete, and says why", async () => {
    const { client, model } = await start();
    const asking = client.responses.create({ model: "hermes-agent", input: "hi" });
    const asked = await model.next();
    asked.say("Hel");
    const usage = { input: 9, output: 5, cached: 4, reasoning: 3 };
    asked.end({ end: "answer", calls: [], usage, endedBy: "length" });
    expect(await asking).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output_text: "Hel",
      usage: { input_tokens_details: { cached_tokens: 4 }, output_tokens_details: { reasoning_tokens: 3 } },
    });
  });

  it("that failed says why, and is not an error of the request", async () => {
    const { client, model } = await start();
    const asking = client.responses.create({ model: "hermes-agent", input: "hi" });
    const asked = await model.next();
    asked.say("Hel");
    asked.fault("The provider went away", "bad_request");
    const response = await asking;
    expect(response).toMatchObject({
      status: "failed",
      error: { code: "server_error", message: "The provider went away" },
      output: [{ type: "message", status: "incomplete", content: [{ text: "Hel" }] }],
    });
    expect(await client.responses.retrieve(response.id)).toEqual(response);
  });

  it("that a newer message took over is incomplete", async () => {
    const { client, model } = await start();
    const first = client.responses.create({ model: "hermes-agent", input: "one", conversation: "c" });
    await model.next();
    const second = client.responses.create({ model: "hermes-agent", input: "two", conversation: "c" });
    (await model.next()).answer("zwei");
    expect(await first).toMatchObject({ status: "incomplete", incomplete_details: { reason: "interrupted" } });
    expect((await second).output_text).toBe("zwei");
  });

  it("that steered into another turn has what came of that", async () => {
    const tool = scriptedTool("look");
    const { client, model, entry } = await start({ tools: [tool], settings: { busyMode: "steer" } });
    const first = client.responses.create({ model: "hermes-agent", input: "one", conversation: "c" });
    const asked = await model.next();
    const headers = { "Idempotency-Key": "k2" };
    const second = client.responses.create({ model: "hermes-agent", input: "two", conversation: "c" }, { headers });
    await entry("conversation:c", "accepted", turnId("api", "k2"));
    asked.answer("eins", { tool: "look", args: {} });
    (await tool.next()).done("seen");
    (await model.next()).answer("zwei");
    expect((await first).output_text).toBe("einszwei");
    const joined = await second;
    expect(joined).toMatchObject({ status: "completed", output_text: "zwei" });
    expect((await client.responses.retrieve(joined.id)).output_text).toBe("zwei");
  });

  it("under the same idempotency key is the same one", async () => {
    const { client, model } = await start();
    const headers = { "Idempotency-Key": "k1" };
    const body = { model: "hermes-agent", input: "hi" };
    const first = client.responses.create(body, { headers });
    (await model.next()).answer("Hello.");
    const replayed = await client.responses.create(body, { headers }).withResponse();
    expect(replayed.data).toEqual(await first);
    expect(replayed.response.headers.get("idempotency-replayed")).toBe("true");
    const stream = client.responses.stream(body, { headers });
    expect((await stream.finalResponse()).id).toBe(replayed.data.id);
    expect(model.all).toHaveLength(1);
  });
});

describe("a streamed response", () => {
  it("tells every step of it, numbered, and ends with the whole", async () => {
    const look = scriptedTool("look");
    const { call, client, model } = await start({ tools: [look] });
    const response = await call("POST", "/v1/responses", { input: "hi", stream: true });
    (await model.next()).answer("", { tool: "look", args: { at: 1 } });
    (await look.next()).done("dust");
    const asked = await model.next();
    asked.say("Only ");
    asked.answer("dust.");
    const events: ResponseStreamEvent[] = [];
    for await (const { event, data } of frames(response)) {
      if (!data) continue;
      events.push(JSON.parse(data));
      expect(event).toBe(events.at(-1)?.type);
    }
    const types = events.map(({ type }) => type).filter((type) => type !== "response.output_text.delta");
    expect(types).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.mcp_call.in_progress",
      "response.mcp_call_arguments.delta",
      "response.mcp_call_arguments.done",
      "response.mcp_call.completed",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const numbers = events.map(({ sequence_number }) => sequence_number);
    expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    const deltas = events.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : []));
    expect(deltas.join("")).toBe("Only dust.");
    const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
    const last = events.at(-1);
    if (last?.type !== "response.completed") throw new Error("It did not complete.");
    expect(done).toEqual(last.response.output);
    const { output_text: _, ...read } = await client.responses.retrieve(last.response.id);
    expect(read).toEqual(last.response);
  });

  it("is followed by the SDK's helper, which finds what it heard in the end", async () => {
    const look = scriptedTool("look");
    const { client, model } = await start({ tools: [look] });
    const stream = client.responses.stream({ model: "hermes-agent", input: "hi" });
    let text = "";
    stream.on("response.output_text.delta", ({ delta }) => {
      text += delta;
    });
    (await model.next()).answer("Let me look.", { tool: "look", args: {} }, { tool: "look", args: {} });
    const both = [await look.next(), await look.next()];
    for (const one of both.toReversed()) one.done("dust");
    (await model.next()).answer("Only dust.");
    const response = await stream.finalResponse();
    expect(text).toBe("Let me look.Only dust.");
    expect(response).toMatchObject({ status: "completed", output_text: text });
    expect(response.output.map(({ type }) => type)).toEqual(["message", "mcp_call", "mcp_call", "message"]);
  });

  it("sends the text as it comes", async () => {
    const { client, model } = await start();
    const stream = await client.responses.create({ model: "hermes-agent", input: "hi", stream: true });
    const asked = await model.next();
    asked.say("Hel");
    const heard: string[] = [];
    for await (const event of stream) {
      if (event.type !== "response.output_text.delta") continue;
      heard.push(event.delta);
      if (heard.length === 1) asked.answer("lo.");
    }
    expect(heard).toEqual(["Hel", "lo."]);
  });

  it("that fails ends with response.failed and its reason", async () => {
    const { client, model } = await start();
    const stream = client.responses.stream({ model: "hermes-agent", input: "hi" });
    const asked = await model.next();
    asked.say("Hel");
    asked.fault("The provider went away", "bad_request");
    expect(await stream.finalResponse()).toMatchObject({
      status: "failed",
      error: { message: "The provider went away" },
      output_text: "Hel",
    });
  });

  it("whose model breaks off after words ends with an error, and is read later", async () => {
    const { client, model } = await start();
    const stream = await client.responses.create({ model: "hermes-agent", input: "hi", stream: true });
    const asked = await model.next();
    asked.say("Hel");
    asked.fault("The line broke");
    let id = "";
    const read = async () => {
      for await (const event of stream) if (event.type === "response.created") ({ id } = event.response);
    };
    await expect(read()).rejects.toMatchObject({
      message: expect.stringContaining("connection to the model was lost"),
    });
    (await model.next()).answer("Hello");
    await expect.poll(async () => (await client.responses.retrieve(id)).status).toBe("completed");
    expect((await client.responses.retrieve(id)).output_text).toBe("Hello");
  });

  it("goes on without its reader, and is read again from its beginning", async () => {
    const { client, model } = await start();
    const stream = await client.responses.create({ model: "hermes-agent", input: "hi", stream: true });
    const asked = await model.next();
    asked.say("Hel");
    let id = "";
    for await (const event of stream) {
      if (event.type === "response.created") ({ id } = event.response);
      if (event.type === "response.output_text.delta") break; // the SDK aborts the request
    }
    expect(await client.responses.retrieve(id)).toMatchObject({ status: "in_progress", usage: null });
    const again = client.responses.stream({ response_id: id });
    let text = "";
    again.on("response.output_text.delta", ({ delta }) => {
      text += delta;
      if (text === "Hel") asked.answer("lo.");
    });
    expect(await again.finalResponse()).toMatchObject({ status: "completed", output_text: "Hello." });
    expect(asked.signal.aborted).toBe(false);
    // From any event on: exactly the rest, in whatever pieces the text comes.
    const all = await client.responses.retrieve(id, { stream: true });
    const told: ResponseStreamEvent[] = [];
    for await (const event of all) told.push(event);
    const textIn = (events: ResponseStreamEvent[]) =>
      events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
    for (const { sequence_number } of told.slice(0, -1)) {
      const rest: ResponseStreamEvent[] = [];
      for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: sequence_number }))
        rest.push(event);
      expect(rest.at(-1)).toEqual(told.at(-1));
      expect(textIn(told.filter((event) => event.sequence_number <= sequence_number)) + textIn(rest)).toBe("Hello.");
    }
  });
});

describe("a chain of responses", () => {
  it("goes on from the one before it", async () => {
    const { talk } = await start();
    const { response: one } = await talk({ input: "one" }, "eins");
    const { response: two, messages } = await talk({ input: "two", previous_response_id: one.id }, "zwei");
    expect(messages).toEqual([user("one"), assistant("eins"), user("two")]);
    expect(two.previous_response_id).toBe(one.id);
    const more = await talk(
      {
        input: [
          { role: "user", content: "three" },
          { role: "user", content: "and four" },
        ],
        previous_response_id: two.id,
      },
      "drei",
    );
    expect(more.messages).toEqual([
      user("one"),
      assistant("eins"),
      user("two"),
      assistant("zwei"),
      user("three\n\nand four"),
    ]);
  });

  it("branches where an older one is gone on from, and leaves the other branch alone", async () => {
    const { talk, client } = await start();
    const { response: one } = await talk({ input: "one" }, "eins");
    const { response: two } = await talk({ input: "two", previous_response_id: one.id }, "zwei");
    const { response: other, messages } = await talk({ input: "zwo?", previous_response_id: one.id }, "ja");
    expect(messages).toEqual([user("one"), assistant("eins"), user("zwo?")]);
    const { messages: after } = await talk({ input: "three", previous_response_id: two.id }, "drei");
    expect(after).toEqual([user("one"), assistant("eins"), user("two"), assistant("zwei"), user("three")]);
    const { messages: branch } = await talk({ input: "next", previous_response_id: other.id }, "ja");
    expect(branch).toEqual([user("one"), assistant("eins"), user("zwo?"), assistant("ja"), user("next")]);
    expect((await client.responses.retrieve(other.id)).output).toEqual(other.output);
  });

  it("cannot begin behind one that does not exist", async () => {
    const { client, model } = await start();
    const previous_response_id = `resp_${"0".repeat(32)}`;
    const error = await refused(client.responses.create({ model: "hermes-agent", input: "hi", previous_response_id }));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ code: "previous_response_not_found", param: "previous_response_id" });
    expect(model.all).toEqual([]);
  });

  it("is a conversation under the name that is given to it", async () => {
    const { talk } = await start();
    const { response } = await talk({ input: "one", conversation: "c1" }, "eins");
    expect(response.conversation).toEqual({ id: "c1" });
    const { messages } = await talk({ input: "two", conversation: { id: "c1" } }, "zwei");
    expect(messages).toEqual([user("one"), assistant("eins"), user("two")]);
    const { messages: others } = await talk({ input: "two", conversation: "c2" }, "zwei");
    expect(others).toEqual([user("two")]);
  });
});

describe("what can be done with a response", () => {
  it("in the background it is answered at once, and polled", async () => {
    const { client, model, ended } = await start();
    const queued = await client.responses.create({ model: "hermes-agent", input: "hi", background: true });
    expect(["queued", "in_progress"]).toContain(queued.status);
    expect(queued.background).toBe(true);
    (await model.next()).answer("Hello.");
    await ended(runOf(queued.id), runOf(queued.id));
    expect(await client.responses.retrieve(queued.id)).toMatchObject({ status: "completed", output_text: "Hello." });
  });

  it("in the background what it asks is decided too", async () => {
    const remove = scriptedTool("remove", {
      gate: { gate: "ask", kind: "approval", text: "Remove?", choices: [], timeoutMs: 60_000 },
    });
    const { client, model, ended } = await start({ tools: [remove] });
    const { id } = await client.responses.create({ model: "hermes-agent", input: "hi", background: true });
    (await model.next()).answer("", { tool: "remove", args: {} });
    const asked = await model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({
      outcome: "denied",
      text: "Denied: approval needed, but this run is non-interactive. Use --yolo or an allow rule.",
    });
    asked.answer("No.");
    expect(await ended(runOf(id), runOf(id))).toBe("completed");
  });

  it("cancelled, it says so, its model call is aborted, and a second time changes nothing", async () => {
    const { client, model } = await start();
    const { id } = await client.responses.create({ model: "hermes-agent", input: "hi", background: true });
    const asked = await model.next();
    const stream = client.responses.stream({ response_id: id });
    asked.say("Hel");
    await stream.emitted("response.output_text.delta");
    const cancelled = await client.responses.cancel(id);
    expect(cancelled).toMatchObject({
      status: "cancelled",
      output: [{ status: "incomplete", content: [{ text: "Hel" }] }],
    });
    expect(asked.signal.aborted).toBe(true);
    expect(await stream.finalResponse()).toMatchObject({ id, status: "cancelled" });
    expect((await client.responses.cancel(id)).status).toBe("cancelled");
  });

  it("cancelled when it is over, it stays as it is", async () => {
    const { client, talk } = await start();
    const { response } = await talk({}, "Hello.");
    expect((await client.responses.cancel(response.id)).status).toBe("completed");
  });

  it("its input can be listed, page by page", async () => {
    const { client, talk } = await start();
    const { response } = await talk(
      {
        input: [
          { role: "user", content: "one" },
          { role: "assistant", content: "un" },
          {
            role: "user",
            content: [
              { type: "input_text", text: "two" },
              { type: "input_image", detail: "auto", image_url: `data:image/png;base64,${PIXEL}` },
            ],
          },
        ],
      },
      "deux",
    );
    const items: unknown[] = [];
    for await (const one of client.responses.inputItems.list(response.id, { order: "asc", limit: 2 })) items.push(one);
    expect(items).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "one" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "un" }] },
      {
        role: "user",
        content: [{ text: "two" }, { type: "input_image", image_url: `data:image/png;base64,${PIXEL}` }],
      },
    ]);
    const { data } = await client.responses.inputItems.list(response.id);
    expect(data).toEqual(items.toReversed());
  });

  it("deleted, it is gone with its session", async () => {
    const { client, call, disk, talk } = await start();
    const { response } = await talk({}, "Hello.");
    const answer = await call("DELETE", `/v1/responses/${response.id}`);
    expect(await answer.json()).toEqual({ id: response.id, object: "response", deleted: true });
    expect(disk.catalog.sessions({ limit: 10 })).toEqual([]);
    const error = await refused(client.responses.retrieve(response.id));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error.code).toBe("response_not_found");
    expect(await refused(client.responses.delete(response.id))).toMatchObject({ status: 404 });
  });

  it("is not deleted while it works, or while others stand in the same session", async () => {
    const { client, model, talk } = await start();
    const { id } = await client.responses.create({ model: "hermes-agent", input: "hi", background: true });
    const asked = await model.next();
    expect(await refused(client.responses.delete(id))).toMatchObject({ status: 409, code: "response_in_progress" });
    expect(asked.signal.aborted).toBe(false);
    asked.answer("Hello.");
    const { response: two } = await talk({ input: "two", previous_response_id: id }, "zwei");
    const error = await refused(client.responses.delete(two.id));
    expect(error).toMatchObject({ status: 409, code: "response_not_alone" });
    expect(error.message).toContain(`DELETE /api/sessions/${runOf(id)}`);
    expect((await client.responses.retrieve(two.id)).output_text).toBe("zwei");
  });

  it("not to be stored, it is answered and then forgotten", async () => {
    const { client, disk, talk } = await start();
    const { response } = await talk({ store: false }, "Hello.");
    expect(response).toMatchObject({ output_text: "Hello.", store: false });
    await expect.poll(() => disk.catalog.sessions({ limit: 10 })).toEqual([]);
    expect(await refused(client.responses.retrieve(response.id))).toMatchObject({ status: 404 });
  });

  it("not to be stored, it is streamed to its end before it is forgotten", async () => {
    const { client, disk, model } = await start();
    const stream = client.responses.stream({ model: "hermes-agent", input: "hi", store: false });
    const { response } = await stream.emitted("response.created");
    expect(await refused(client.responses.retrieve(response.id))).toMatchObject({ status: 404 });
    (await model.next()).answer("Hello.");
    expect((await stream.finalResponse()).output_text).toBe("Hello.");
    await expect.poll(() => disk.catalog.sessions({ limit: 10 })).toEqual([]);
  });

  it("not to be stored, it leaves what it went on from, and the conversation it is a part of", async () => {
    const { client, talk } = await start();
    const { response: one } = await talk({ input: "one" }, "eins");
    await talk({ input: "two", previous_response_id: one.id }, "zwei");
    const { response: aside } = await talk({ input: "psst", previous_response_id: one.id, store: false }, "ja");
    await expect.poll(() => client.responses.retrieve(aside.id).catch(({ status }) => status)).toBe(404);
    expect((await client.responses.retrieve(one.id)).output_text).toBe("eins");
    await talk({ input: "one", conversation: "c", store: false }, "eins");
    const { messages } = await talk({ input: "two", conversation: "c" }, "zwei");
    expect(messages).toEqual([user("one"), assistant("eins"), user("two")]);
  });
});

describe("what goes wrong", () => {
  it("in the request is 400 that names the field, and nothing begins", async () => {
    const { client, model, disk } = await start();
    const create = (more: object) => refused(client.responses.create({ model: "hermes-agent", input: "hi", ...more }));
    const previous_response_id = `resp_${"0".repeat(32)}`;
    const metadata = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"]));
    const cases = [
      [await create({ input: "" }), "input"],
      [await create({ input: [] }), "input"],
      [await create({ input: undefined }), "input"],
      [await create({ input: [{ type: "nonsense" }] }), "input"],
      [await create({ input: [{ role: "assistant", content: "a" }] }), "input"],
      [await create({ conversation: "c", previous_response_id }), "previous_response_id"],
      [await create({ conversation: "" }), "conversation"],
      [await create({ background: true, store: false }), "background"],
      [await create({ metadata }), "metadata"],
      [await create({ reasoning: { effort: "huge" } }), "reasoning.effort"],
    ] as const;
    for (const [error, param] of cases) {
      expect(error).toBeInstanceOf(BadRequestError);
      expect(error.param?.startsWith(param)).toBe(true);
    }
    expect(model.all).toEqual([]);
    expect(disk.catalog.sessions({ limit: 10 })).toEqual([]);
  });

  it("in the id is 404, and without a key 401", async () => {
    const { client, url } = await start();
    for (const id of ["resp_1", `resp_${"0".repeat(32)}`, `run_${"0".repeat(32)}`]) {
      const error = await refused(client.responses.retrieve(id));
      expect(error).toMatchObject({ status: 404, code: "response_not_found" });
    }
    expect((await fetch(`${url}/v1/responses/resp_1`)).status).toBe(401);
  });

  it("because the server leaves: nothing new is taken, and what is cut says so and goes on afterwards", async () => {
    const before = await start();
    const stream = await before.client.responses.create({ model: "hermes-agent", input: "hi", stream: true });
    const events = stream[Symbol.asyncIterator]();
    const { value: created } = await events.next();
    if (created?.type !== "response.created") throw new Error("It was not created.");
    await before.model.next();
    const draining = before.engine.drain(20_000);
    const late = await refused(before.client.responses.create({ model: "hermes-agent", input: "late" }));
    expect(late).toMatchObject({ status: 503, code: "gateway_draining" });
    const read = async () => {
      while (!(await events.next()).done);
    };
    const cut = refused(read());
    await before.engine.drain(0);
    expect((await cut).code).toBe("gateway_draining");
    await draining;

    const after = await start({ disk: before.disk });
    (await after.model.next()).answer("Hello again.");
    const { id } = created.response;
    await after.ended(runOf(id), runOf(id));
    expect(await after.client.responses.retrieve(id)).toMatchObject({
      status: "completed",
      output_text: "Hello again.",
    });
  });
});

describe("a conversation", () => {
  it("is made, gone on with, listed and deleted", async () => {
    const { client, talk } = await start();
    const { id, ...made } = await client.conversations.create({
      metadata: { topic: "numbers" },
      items: [
        { type: "message", role: "user", content: "one" },
        { type: "message", role: "assistant", content: "eins" },
      ],
    });
    expect(made).toMatchObject({ object: "conversation", metadata: { topic: "numbers" } });
    const { messages, response } = await talk({ conversation: id, input: "two" }, "zwei");
    expect(messages).toEqual([user("one"), assistant("eins"), user("two")]);
    expect(response.conversation).toEqual({ id });
    const texts: string[] = [];
    for await (const item of client.conversations.items.list(id, { order: "asc", limit: 2 }))
      if (item.type === "message" && "text" in (item.content[0] ?? {})) texts.push(JSON.stringify(item.content[0]));
    expect(texts.map((text) => JSON.parse(text).text)).toEqual(["one", "eins", "two", "zwei"]);
    expect((await client.conversations.update(id, { metadata: { topic: "words" } })).metadata).toEqual({
      topic: "words",
    });
    expect((await client.conversations.retrieve(id)).metadata).toEqual({ topic: "words" });
    expect(await client.conversations.delete(id)).toMatchObject({ id, deleted: true });
    expect(await refused(client.conversations.retrieve(id))).toMatchObject({ status: 404 });
  });

  it("can be measured before it is sent, and its models looked up", async () => {
    const { client } = await start();
    const { input_tokens } = await client.responses.inputTokens.count({
      model: "hermes-agent",
      input: "x".repeat(400),
    });
    expect(input_tokens).toBeGreaterThan(100);
    expect(input_tokens).toBeLessThan(130);
    expect((await client.models.retrieve("demo:scripted")).id).toBe("demo:scripted");
    const unknown = client.models.retrieve("org/none");
    expect(await refused(unknown)).toMatchObject({ status: 404, code: "model_not_found" });
    expect((await client.models.list().withResponse()).response.headers.get("x-request-id")).toMatch(
      /^req_[0-9a-f]{32}$/,
    );
  });
});
