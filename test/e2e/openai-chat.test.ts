// /v1/chat/completions through OpenAI's own SDK, and where that hides something, through plain fetch.
import { APIUserAbortError, AuthenticationError, BadRequestError, InternalServerError } from "openai";
import { describe, expect, it } from "vitest";
import type { Gate } from "../../src/core/ports.ts";
import { frames } from "../fakes/api.ts";
import { clientOf, MODEL, PIXEL, refused, start } from "../fakes/openai.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const ask = (content: string) => ({ model: MODEL, messages: [{ role: "user" as const, content }] });
const TALK = { headers: { "X-Hermes-Session-Id": "talk" } };
const runOf = (id: string) => id.replace("chatcmpl-", "run_");

describe("a chat completion", () => {
  it("is answered whole, with usage, an id that names its run, and the session it ran in", async () => {
    const { client, model, engine } = await start();
    const asking = client.chat.completions.create(ask("hi")).withResponse();
    (await model.next()).answer("Hello.");
    const { data, response } = await asking;
    expect(data).toMatchObject({
      object: "chat.completion",
      model: MODEL,
      choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
    });
    expect(data.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
    expect(Number.isInteger(data.created)).toBe(true);
    expect(response.headers.get("x-hermes-session-id")).toMatch(/^run_chat_/);
    expect(await engine.run(runOf(data.id))).toMatchObject({ status: "completed", output: "Hello." });
  });

  it.each([
    ["length", "length"],
    ["filter", "content_filter"],
  ] as const)("that was cut short (%s) says so", async (endedBy, finish) => {
    const { client, model } = await start();
    for (const stream of [false, true]) {
      const asking = client.chat.completions.create({ ...ask("hi"), stream });
      const asked = await model.next();
      asked.say("Hel");
      asked.end({ end: "answer", calls: [], usage: { input: 2, output: 1 }, endedBy });
      const answer = await asking;
      const reasons: unknown[] = [];
      if ("choices" in answer) reasons.push(answer.choices[0]?.finish_reason);
      else for await (const { choices } of answer) reasons.push(choices[0]?.finish_reason);
      expect(reasons.at(-1)).toBe(finish);
    }
  });

  it("shows the model the history, the system's words and the options that the client sent", async () => {
    const { client, model } = await start();
    const asking = client.chat.completions.create({
      model: "some-model",
      messages: [
        { role: "system", content: "Speak French." },
        { role: "user", content: "one" },
        { role: "assistant", content: "un" },
        { role: "user", content: [{ type: "text", text: "two" }] },
      ],
      temperature: 0.5,
      top_p: 0.9,
      max_completion_tokens: 50,
      reasoning_effort: "xhigh",
      user: "u1",
      n: 1,
    });
    const asked = await model.next();
    expect(asked.request.messages).toEqual([
      { role: "user", text: "one" },
      { role: "assistant", text: "un", calls: [] },
      { role: "user", text: "two" },
    ]);
    expect(asked.request.system).toContain("Speak French.");
    expect(asked.request.options).toEqual({ temperature: 0.5, topP: 0.9, maxTokens: 50, effort: "high" });
    expect(asked.request.tools).toEqual([]);
    asked.answer("deux");
    expect((await asking).model).toBe("some-model");
  });

  it("shows the model a picture", async () => {
    const { client, model } = await start();
    const url = `data:image/png;base64,${PIXEL}`;
    const asking = client.chat.completions.create({
      model: MODEL,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "what is this?" },
            { type: "image_url", image_url: { url } },
          ],
        },
      ],
    });
    const asked = await model.next();
    expect(asked.request.messages).toEqual([
      { role: "user", text: "what is this?", images: [{ mime: "image/png", data: PIXEL }] },
    ]);
    asked.answer("A pixel.");
    expect((await asking).choices[0]?.message.content).toBe("A pixel.");
  });

  it("goes on with the session that a header names, which knows what was said in it", async () => {
    const { client, model } = await start();
    const headers = { "X-Hermes-Session-Id": "talk" };
    const first = client.chat.completions.create(ask("one"), { headers });
    (await model.next()).answer("uno");
    await first;
    const asking = client.chat.completions
      .create({ model: MODEL, messages: [{ role: "user", content: "forged" }, ...ask("two").messages] }, { headers })
      .withResponse();
    const asked = await model.next();
    expect(asked.request.messages).toEqual([
      { role: "user", text: "one" },
      { role: "assistant", text: "uno", calls: [] },
      { role: "user", text: "two" },
    ]);
    asked.answer("dos");
    const { response } = await asking;
    expect(response.headers.get("x-hermes-session-id")).toBe("talk");
  });

  it("answers with the last thing that the agent said", async () => {
    const look = scriptedTool("look");
    const { client, model } = await start({ tools: [look] });
    const asking = client.chat.completions.create(ask("hi"));
    (await model.next()).answer("Let me look.", { tool: "look", args: {} });
    (await look.next()).done("seen");
    (await model.next()).answer("It is blue.");
    const { choices, usage } = await asking;
    expect(choices[0]?.message.content).toBe("It is blue.");
    expect(usage?.total_tokens).toBe(6);
  });

  it("under the same idempotency key is the same one, also when it is asked for while it is being made", async () => {
    const { client, model } = await start();
    const headers = { "Idempotency-Key": "k1" };
    const first = client.chat.completions.create(ask("hi"), { headers });
    const asked = await model.next();
    const second = client.chat.completions.create(ask("hi"), { headers }).withResponse();
    asked.answer("Hello.");
    const [whole, replayed] = [await first, await second];
    expect(replayed.data).toEqual(whole);
    expect(replayed.response.headers.get("idempotency-replayed")).toBe("true");
    const later = await client.chat.completions.create({ ...ask("hi"), stream: true }, { headers });
    let text = "";
    for await (const chunk of later) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("Hello.");
    expect(model.all).toHaveLength(1);
    const other = await refused(client.chat.completions.create(ask("something else"), { headers }));
    expect(other).toMatchObject({ status: 409, code: "idempotency_key_conflict" });
  });
});

describe("a streamed chat completion", () => {
  it("sends the role, the text as it comes, the end and [DONE], and nothing else", async () => {
    const { call, model } = await start();
    const response = await call("POST", "/v1/chat/completions", { ...ask("hi"), stream: true });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const asked = await model.next();
    const read = frames(response);
    const next = async () => (await read.next()).value;
    expect(JSON.parse((await next())?.data ?? "")).toMatchObject({
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }],
    });
    asked.say("Hel");
    const hel = JSON.parse((await next())?.data ?? "");
    expect(hel.choices).toEqual([{ index: 0, delta: { content: "Hel" }, logprobs: null, finish_reason: null }]);
    expect("usage" in hel).toBe(false);
    asked.answer("lo.");
    expect(JSON.parse((await next())?.data ?? "").choices[0].delta).toEqual({ content: "lo." });
    expect(JSON.parse((await next())?.data ?? "").choices).toEqual([
      { index: 0, delta: {}, logprobs: null, finish_reason: "stop" },
    ]);
    expect((await next())?.data).toBe("[DONE]");
    expect((await next())?.comment).toBe("stream closed");
    expect((await read.next()).done).toBe(true);
  });

  it("is read by the SDK chunk by chunk, with the usage at the end where it is asked for", async () => {
    const { client, model } = await start();
    const stream = await client.chat.completions.create({
      ...ask("hi"),
      stream: true,
      stream_options: { include_usage: true },
    });
    (await model.next()).answer("Hello.");
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe("Hello.");
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 2, total_tokens: 3 } });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  it("works with the SDK's stream helper", async () => {
    const { client, model } = await start();
    const stream = client.chat.completions.stream(ask("hi"));
    const asked = await model.next();
    asked.say("Hel");
    asked.answer("lo.");
    expect(await stream.finalContent()).toBe("Hello.");
    expect((await stream.finalChatCompletion()).choices[0]?.finish_reason).toBe("stop");
  });

  it("tells what tools do beside the chunks, and sets off what is said before and after them", async () => {
    const look = scriptedTool("look");
    const { call, model } = await start({ tools: [look] });
    const response = await call("POST", "/v1/chat/completions", { ...ask("hi"), stream: true });
    (await model.next()).answer("Let me look.", { tool: "look", args: { place: "under the bed" } });
    (await look.next()).done("dust");
    (await model.next()).answer("Only dust.");
    const told: Record<string, unknown>[] = [];
    let text = "";
    for await (const { event, data } of frames(response)) {
      if (event === "hermes.tool.progress") told.push(JSON.parse(data));
      else if (data && data !== "[DONE]") text += JSON.parse(data).choices[0].delta.content ?? "";
    }
    const shape = {
      object: "hermes.tool.progress",
      choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: null }],
      tool: "look",
      id: expect.stringMatching(/^chatcmpl-/),
    };
    expect(told).toMatchObject([
      { ...shape, status: "running", preview: "under the bed", call_id: expect.any(String) },
      { ...shape, status: "completed", duration: expect.any(Number), is_error: false, call_id: told[0]?.["call_id"] },
    ]);
    expect(text).toBe("Let me look.\n\nOnly dust.");
  });

  it("is not ended for the SDK by a tool that fails", async () => {
    const look = scriptedTool("look");
    const { client, model } = await start({ tools: [look] });
    const stream = client.chat.completions.stream(ask("hi"));
    (await model.next()).answer("", { tool: "look", args: {} });
    (await look.next()).done("it is dark", false);
    (await model.next()).answer("I saw nothing.");
    expect(await stream.finalContent()).toBe("I saw nothing.");
  });

  it("that fails after some text ends with an error and without [DONE]", async () => {
    const { client, call, model } = await start();
    const stream = await client.chat.completions.create({ ...ask("hi"), stream: true });
    const asked = await model.next();
    asked.say("Hel");
    asked.fault("The provider went away");
    let text = "";
    const read = async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    };
    const error = await refused(read());
    expect(error).toMatchObject({ code: "connection_lost" }); // it would begin again, but nothing can be taken back
    expect(text).toBe("Hel");

    const response = await call("POST", "/v1/chat/completions", { ...ask("again"), stream: true });
    (await model.next()).fault("no", "auth");
    const body = await response.text();
    expect(body).toContain('data: {"error":{"message":"no","type":"run_error","param":null,"code":"run_failed"}}');
    expect(body).not.toContain("[DONE]");
  });
});

describe("a client that goes away", () => {
  it("in the middle of a stream stops its turn, and the model call's signal fires", async () => {
    const { client, model, ended } = await start();
    const stream = await client.chat.completions.create({ ...ask("hi"), stream: true }, TALK);
    const asked = await model.next();
    asked.say("Hel");
    let id = "";
    for await (const chunk of stream) {
      ({ id } = chunk);
      if (chunk.choices[0]?.delta.content) break; // the SDK aborts the request
    }
    expect(await ended("talk", runOf(id))).toBe("cancelled");
    expect(asked.signal.aborted).toBe(true);
  });

  it("while it waits for a whole answer stops its turn, with the tool that runs in it", async () => {
    const look = scriptedTool("look");
    const { client, model, entry } = await start({ tools: [look], settings: { retryMs: 0 } });
    const leave = new AbortController();
    const headers = { "X-Hermes-Session-Id": "talk" };
    const asking = client.chat.completions.create(ask("hi"), { signal: leave.signal, headers });
    (await model.next()).answer("", { tool: "look", args: {} });
    const running = await look.next();
    leave.abort();
    await expect(asking).rejects.toThrow(APIUserAbortError);
    expect((await entry("talk", "ended")).outcome).toBe("cancelled");
    expect(running.call.signal.aborted).toBe(true);
  });

  it("stops exactly its own turn: the one before it in the session goes on", async () => {
    const { client, model, run, entry, ended } = await start({ settings: { busyMode: "queue" } });
    const before = await run({ input: "first", session_id: "talk" });
    const first = await model.next();
    const stream = await client.chat.completions.create(
      { ...ask("second"), stream: true },
      { headers: { "X-Hermes-Session-Id": "talk" } },
    );
    for await (const _ of stream) break;
    await entry("talk", "withdrawn");
    expect(first.signal.aborted).toBe(false);
    first.answer("done");
    expect(await ended("talk", before)).toBe("completed");
    expect(model.all).toHaveLength(1);
  });

  it("does not stop a turn for which somebody else waits under the same key", async () => {
    const { client, model } = await start();
    const headers = { "Idempotency-Key": "k1" };
    const leave = new AbortController();
    const leaving = client.chat.completions.create(ask("hi"), { headers, signal: leave.signal });
    const asked = await model.next();
    const stream = await client.chat.completions.create({ ...ask("hi"), stream: true }, { headers });
    leave.abort();
    await expect(leaving).rejects.toThrow(APIUserAbortError);
    asked.answer("Hello.");
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("Hello.");
  });
});

describe("what goes wrong", () => {
  it("in the model is 400 with its reason, and the SDK does not try it a second time", async () => {
    const api = await start();
    const client = clientOf(api, { maxRetries: 2 });
    const asking = refused(client.chat.completions.create(ask("hi")));
    (await api.model.next()).fault("The key is wrong", "auth");
    const error = await asking;
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ status: 400, code: "run_failed", type: "run_error" });
    expect(error.message).toContain("The key is wrong");
    expect(error.headers?.get("x-hermes-session-id")).toMatch(/^run_chat_/);
    expect(api.model.all).toHaveLength(1);
  });

  it("because somebody stopped it is 400 run_cancelled", async () => {
    const { client, model, entry, call } = await start();
    const asking = refused(client.chat.completions.create(ask("hi"), { headers: { "X-Hermes-Session-Id": "talk" } }));
    await model.next();
    const { turn } = await entry("talk", "began");
    expect((await call("POST", `/v1/runs/${turn}/stop`)).status).toBe(200);
    const error = await asking;
    expect(error).toMatchObject({ status: 400, code: "run_cancelled" });
  });

  it("because a newer message took over is 400 run_interrupted", async () => {
    const { client, model, run } = await start();
    const asking = refused(client.chat.completions.create(ask("hi"), { headers: { "X-Hermes-Session-Id": "talk" } }));
    await model.next();
    await run({ input: "no, wait", session_id: "talk" });
    expect(await asking).toMatchObject({ status: 400, code: "run_interrupted" });
  });

  it("in the request is 400 that names the field, and nothing begins", async () => {
    const { client, model, disk } = await start();
    const create = (more: object, headers = {}) =>
      refused(client.chat.completions.create({ ...ask("hi"), ...more }, { headers }));
    const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
    const cases = [
      [await create({ n: 2 }), "n"],
      [await create({ messages: [] }), "messages"],
      [await create({ messages: [{ role: "user", content: " " }] }), "messages"],
      [
        await create({
          messages: [
            { role: "user", content: "a" },
            { role: "assistant", content: "b" },
          ],
        }),
        "messages",
      ],
      [await create({ messages: [{ role: "user", content: [image] }] }), "messages"],
      [await create({ messages: [{ role: "nobody", content: "a" }] }), "messages.0.role"],
      [await create({ temperature: 3 }), "temperature"],
      [await create({ max_tokens: 0 }), "max_tokens"],
      [await create({ stream: "yes" }), "stream"],
      [await create({}, { "X-Hermes-Session-Id": "x".repeat(513) }), "X-Hermes-Session-Id"],
      [await create({}, { "Idempotency-Key": "a b" }), "Idempotency-Key"],
    ] as const;
    for (const [error, param] of cases) {
      expect(error).toBeInstanceOf(BadRequestError);
      expect(error.param).toBe(param);
    }
    expect(model.all).toEqual([]);
    expect(disk.catalog.sessions({ limit: 10 })).toEqual([]);
  });

  it("with the key is 401", async () => {
    const api = await start();
    const error = await refused(clientOf(api, { apiKey: "wrong" }).chat.completions.create(ask("hi")));
    expect(error).toBeInstanceOf(AuthenticationError);
  });

  it("is not that too many runs are at work: fifty wait for their place", async () => {
    const { client, model } = await start({ settings: { maxRuns: 2 } });
    const all = Array.from({ length: 50 }, (_, i) => client.chat.completions.create(ask(`question ${i}`)));
    for (const _ of all) (await model.next()).answer("Hello.");
    expect((await Promise.all(all)).map(({ choices }) => choices[0]?.message.content)).toEqual(all.map(() => "Hello."));
    expect(model.all).toHaveLength(50);
  });

  it("in who waits is over with whoever gives up, and the next one gets the place", async () => {
    const { client, model } = await start({ settings: { maxRuns: 1 } });
    const first = client.chat.completions.create(ask("one"));
    const asked = await model.next();
    const leave = new AbortController();
    const second = client.chat.completions.create(ask("two"), { signal: leave.signal });
    const third = client.chat.completions.create(ask("three"));
    leave.abort();
    await expect(second).rejects.toThrow(APIUserAbortError);
    asked.answer("eins");
    const next = await model.next();
    expect(next.request.messages.at(-1)?.text).toBe("three");
    next.answer("drei");
    await Promise.all([first, third]);
  });
});

describe("a conversation of a web UI", () => {
  const user = (content: string) => ({ role: "user" as const, content });
  const assistant = (content: string) => ({ role: "assistant" as const, content });

  it("is one session, found again by what was said in it", async () => {
    const look = scriptedTool("look");
    const { call, model, disk } = await start({ tools: [look] });
    const say = async (messages: unknown[], answer: string, headers = {}) => {
      const asking = call("POST", "/v1/chat/completions", { messages, stream: true }, headers);
      const asked = await model.next();
      asked.answer(answer);
      const response = await asking;
      await response.text();
      return { session: response.headers.get("x-hermes-session-id"), shown: asked.request.messages };
    };
    const { session } = await say([user("hi")], "Hello.");
    const other = await say([user("hi")], "Good day.");
    expect(other.session).not.toBe(session);
    const second = [user("hi"), assistant("Hello."), user("who are you?")];
    const next = await say(second, "Hermes.");
    expect(next.session).toBe(session);
    expect(next.shown.map(({ text }) => text)).toEqual(["hi", "Hello.", "who are you?"]);
    // Edited: the same session, and the model sees what the client shows.
    const edited = await say([user("hi"), assistant("Hello."), user("where are you?")], "Here.");
    expect(edited.session).toBe(session);
    expect(edited.shown.map(({ text }) => text)).toEqual(["hi", "Hello.", "where are you?"]);
    const on = await say(
      [user("hi"), assistant("Hello."), user("where are you?"), assistant("Here."), user("ok")],
      "Bye.",
    );
    expect(on.session).toBe(session);
    expect(on.shown.map(({ text }) => text)).toEqual(["hi", "Hello.", "where are you?", "Here.", "ok"]);
    expect(disk.catalog.sessions({ limit: 10 })).toHaveLength(2);
    // Or by the id of the chat, whatever was said.
    const headers = { "X-OpenWebUI-Chat-Id": "c1" };
    expect((await say([user("hi")], "Hello.", headers)).session).toBe("chat:c1");
    const third = await say([user("hi"), assistant("Hello."), user("again")], "Yes.", headers);
    expect(third).toMatchObject({ session: "chat:c1", shown: [{ text: "hi" }, { text: "Hello." }, { text: "again" }] });
  });

  it("is not that of another request that says the same at the same time", async () => {
    const { client, model } = await start();
    const messages = [user("hi"), assistant("Hello."), user("again")];
    const first = client.chat.completions.create(ask("hi"));
    (await model.next()).answer("Hello.");
    await first;
    const both = [1, 2].map(() => client.chat.completions.create({ model: MODEL, messages }).withResponse());
    for (const asked of [await model.next(), await model.next()]) asked.answer("Yes.");
    const sessions = (await Promise.all(both)).map(({ response }) => response.headers.get("x-hermes-session-id"));
    expect(new Set(sessions).size).toBe(2);
  });

  it("asks for a title beside it: without tools, and nothing is left of that", async () => {
    const { client, model, disk } = await start({ tools: [scriptedTool("look")] });
    const task = "### Task:\nGenerate a title.\n### Output:\nJSON\n<chat_history>hi</chat_history>";
    const asking = client.chat.completions.create(ask(task));
    const asked = await model.next();
    expect(asked.request).toMatchObject({ tools: [], system: "" });
    asked.answer("A title");
    expect((await asking).choices[0]?.message.content).toBe("A title");
    await expect.poll(() => disk.catalog.sessions({ limit: 10 })).toEqual([]);
  });
});

describe("a server that leaves", () => {
  it("takes nothing new, and lets the answers that are being made come to their end", async () => {
    const { url, model, engine, api, call } = await start();
    const client = clientOf({ url }, { defaultHeaders: { Connection: "close" } }); // nothing idle to wait for
    const stream = await client.chat.completions.create({ ...ask("hi"), stream: true });
    const whole = client.chat.completions.create(ask("ho"));
    const asked = [await model.next(), await model.next()];
    const drained = engine.drain(20_000);
    const error = await refused(client.chat.completions.create(ask("late")));
    expect(error).toBeInstanceOf(InternalServerError);
    expect(error).toMatchObject({ status: 503, code: "gateway_draining" });
    expect((await call("GET", "/health")).status).toBe(200);
    const closed = api.close(20_000);
    for (const one of asked) one.answer("Still here.");
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("Still here.");
    expect((await whole).choices[0]?.message.content).toBe("Still here.");
    expect(await drained).toEqual({ left: [] });
    await closed;
  });

  it("before the answer is whole says so, stops nothing, and the next process answers under the same key", async () => {
    const before = await start();
    const key = (name: string) => ({ headers: { "Idempotency-Key": name } });
    const stream = await before.client.chat.completions.create({ ...ask("hi"), stream: true }, key("a"));
    const whole = refused(before.client.chat.completions.create(ask("ho"), key("b")));
    (await before.model.next()).say("Hel");
    await before.model.next();
    const read = async () => {
      for await (const _ of stream);
    };
    const cut = refused(read());
    const { left } = await before.engine.drain(0);
    expect(left).toHaveLength(2);
    expect((await cut).code).toBe("gateway_draining");
    expect(await whole).toMatchObject({ status: 503, code: "gateway_draining" });
    for (const id of left) expect(before.journal(id).map(({ kind }) => kind)).not.toContain("stopping");

    const after = await start({ disk: before.disk });
    const asking = after.client.chat.completions.create(ask("ho"), key("b")).withResponse();
    const [one, two] = [await after.model.next(), await after.model.next()];
    one.answer("Hello again.");
    two.answer("Hello again.");
    const { data, response } = await asking;
    expect(data.choices[0]?.message.content).toBe("Hello again.");
    expect(response.headers.get("idempotency-replayed")).toBe("true");
  });

  it("by cutting its connections stops nothing", async () => {
    const { client, model, api, ended } = await start();
    const stream = await client.chat.completions.create({ ...ask("hi"), stream: true }, TALK);
    const asked = await model.next();
    asked.say("Hel");
    const read = stream[Symbol.asyncIterator]();
    const { value: role } = await read.next();
    expect((await read.next()).value?.choices[0]?.delta.content).toBe("Hel");
    await Promise.all([api.close(0), expect(read.next()).rejects.toThrow()]);
    expect(asked.signal.aborted).toBe(false);
    asked.answer("lo.");
    const turn = runOf(role?.id ?? "");
    expect(await ended("talk", turn)).toBe("completed");
  });
});

describe("what a turn asks, since nobody can be asked", () => {
  const asks = (kind: "approval" | "question"): Gate => ({
    gate: "ask",
    kind,
    text: "?",
    choices: [],
    timeoutMs: 60_000,
  });

  it("is denied at once", async () => {
    const remove = scriptedTool("remove", { gate: asks("approval") });
    const { client, model, entry } = await start({ tools: [remove] });
    const asking = client.chat.completions.create(ask("hi"), { headers: { "X-Hermes-Session-Id": "talk" } });
    (await model.next()).answer("", { tool: "remove", args: {} });
    const asked = await model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({
      outcome: "denied",
      text: "Denied: approval needed, but this run is non-interactive. Use --yolo or an allow rule.",
    });
    expect(await entry("talk", "decided")).toMatchObject({ allow: false, by: "unattended" });
    asked.answer("I was not allowed to.");
    await asking;
    expect(remove.all).toEqual([]);
  });

  it("is allowed once where that is configured, but a question is declined", async () => {
    const remove = scriptedTool("remove", { gate: asks("approval") });
    const clarify = scriptedTool("clarify", { gate: asks("question") });
    const { client, model, entry } = await start({ tools: [remove, clarify], settings: { unattended: "allow" } });
    const asking = client.chat.completions.create(ask("hi"), { headers: { "X-Hermes-Session-Id": "talk" } });
    (await model.next()).answer("", { tool: "remove", args: {} });
    (await remove.next()).done("gone");
    expect(await entry("talk", "decided")).toMatchObject({ allow: true, scope: "once", by: "unattended" });
    (await model.next()).answer("", { tool: "clarify", args: {} });
    const asked = await model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({
      outcome: "denied",
      text: "Denied: this run is non-interactive, so nobody can answer.",
    });
    asked.answer("Done.");
    expect((await asking).choices[0]?.message.content).toBe("Done.");
  });
});

describe("the models", () => {
  it("are listed for the SDK", async () => {
    const { client } = await start();
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(["hermes-agent", "demo:scripted"]);
  });
});
