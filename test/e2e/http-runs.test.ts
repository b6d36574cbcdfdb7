// The runs API on a real socket: first each case of the seed (its name in brackets), then each row of the contract.
import { afterEach, describe, expect, it } from "vitest";
import type { Gate, Tool } from "../../src/core/ports.ts";
import { turnId } from "../../src/engine/engine.ts";
import { eventsOf, frames, type StartOptions, startApi, type TestApi } from "../fakes/api.ts";
import { createMemoryStore } from "../fakes/memory-store.ts";
import { scriptedModel, scriptedTool } from "../fakes/scripted.ts";

let opened: TestApi[] = [];
afterEach(async () => {
  for (const api of opened.splice(0)) await api.close();
});
async function start(options: StartOptions = {}): Promise<TestApi> {
  const api = await startApi(options);
  opened.push(api);
  return api;
}
/** `kill -9`, then a new process on the same disk. */
async function restart(api: TestApi, options: StartOptions = {}): Promise<TestApi> {
  opened = opened.filter((one) => one !== api);
  await api.kill();
  return start({ ...options, disk: api.disk });
}

type Failure = { error: { message: string; type: string; param: string | null; code: string | null } };
const post = (api: TestApi, body: unknown, headers?: Record<string, string>) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", "/v1/runs", body, headers);
const status = async (api: TestApi, id: string) => (await api.json("GET", `/v1/runs/${id}`)).body;
const approve = (api: TestApi, id: string, body: unknown) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", `/v1/runs/${id}/approval`, body);
const steer = (api: TestApi, id: string, body: unknown, headers?: Record<string, string>) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", `/v1/runs/${id}/steer`, body, headers);
const stop = (api: TestApi, id: string) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", `/v1/runs/${id}/stop`);
const codeOf = ({ body }: { body: Partial<Failure> }) => body.error?.code;
/** Ends the run that the model was asked for last. */
const finish = async (api: TestApi, session: string, id = session, text = "done") => {
  (await api.model.next()).answer(text);
  return api.ended(session, id);
};
const idem = (key: string) => ({ "Idempotency-Key": key });
const nothingLeft = (api: TestApi) => {
  expect(api.disk.sessions({ limit: 10 })).toEqual([]);
  expect(api.model.all).toEqual([]);
};

/** All of the contract's shape of a "no". */
function isError({ status, body }: { status: number; body: Partial<Failure> }, expected: number, code?: string) {
  expect([status, body]).toEqual([
    expected,
    {
      error: {
        message: expect.stringMatching(/\S/),
        type: expect.any(String),
        param: body.error?.param ?? null,
        code: code ?? body.error?.code ?? null,
      },
    },
  ]);
}

// ── Seed 003 ──────────────────────────────────────────────────────────────────────────────────────────

describe("seed 003: starting a run", () => {
  it("is answered 202 with an id, and its status can be read [test_start_returns_202]", async () => {
    const api = await start();
    const { status: code, body } = await post(api, { input: "hello" });
    expect(code).toBe(202);
    expect(body).toMatchObject({ status: "started", run_id: expect.stringMatching(/^run_[0-9a-f]{32}$/) });
    const read = await api.json("GET", `/v1/runs/${String(body["run_id"])}`);
    expect(read.status).toBe(200);
    expect(read.body).toMatchObject({ run_id: body["run_id"], object: "hermes.run" });
    expect(["queued", "running", "completed"]).toContain(read.body["status"]);
  });

  it("with what is no JSON is refused [test_start_invalid_json_returns_400]", async () => {
    const api = await start();
    const refused = await post(api, "not json");
    isError(refused, 400);
    expect(refused.body.error?.message).toContain("Invalid JSON");
    nothingLeft(api);
  });

  it("without input is refused and names it [test_start_missing_input_returns_400]", async () => {
    const api = await start();
    const refused = await post(api, { model: "test" });
    isError(refused, 400);
    expect(refused.body.error?.message).toContain("input");
    nothingLeft(api);
  });

  it("with empty input is refused [test_start_empty_input_returns_400]", async () => {
    const api = await start();
    isError(await post(api, { input: "" }), 400);
    nothingLeft(api);
  });

  it("with a history that is no list leaves nothing [test_start_invalid_history_does_not_allocate_run]", async () => {
    const api = await start();
    isError(await post(api, { input: "hello", conversation_history: { role: "user" } }, idem("k")), 400);
    nothingLeft(api);
    expect(api.disk.input(turnId("api", "k"))).toBeNull();
  });

  it("needs the key [test_start_requires_auth]", async () => {
    const api = await start();
    const { status: code } = await post(api, { input: "hello" }, { Authorization: "" });
    expect(code).toBe(401);
    nothingLeft(api);
  });

  it("is done with the key [test_start_with_valid_auth]", async () => {
    const api = await start({ server: { key: "sk-secret" } });
    expect((await post(api, { input: "hello" })).status).toBe(401);
    expect((await post(api, { input: "hello" }, { Authorization: "Bearer sk-secret" })).status).toBe(202);
  });
});

describe("seed 003: the status of a run", () => {
  it("has output and usage when it is completed [test_status_completed_run_includes_output_and_usage]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello" });
    const asked = await api.model.next();
    asked.say("done");
    asked.end({ end: "answer", calls: [], usage: { input: 4, output: 2 } });
    await api.ended(id, id);
    expect(await status(api, id)).toMatchObject({
      status: "completed",
      output: "done",
      usage: { input_tokens: 4, output_tokens: 2, total_tokens: 6 },
      last_event: "run.completed",
    });
  });

  it("shows the session that was asked for [test_status_reflects_explicit_session_id]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello", session_id: "space-session" });
    const asked = await api.model.next();
    expect(asked.request.session).toBe("space-session");
    asked.answer("done");
    await api.ended("space-session", id);
    expect(await status(api, id)).toMatchObject({ status: "completed", session_id: "space-session" });
    expect(api.model.all).toHaveLength(1);
  });

  it("of an unknown run is 404 [test_status_not_found_returns_404]", async () => {
    const api = await start();
    isError(await api.json("GET", "/v1/runs/run_nonexistent"), 404, "run_not_found");
  });

  it("needs the key, also for an unknown run [test_status_requires_auth]", async () => {
    const api = await start();
    expect((await api.json("GET", "/v1/runs/run_any", undefined, { Authorization: "" })).status).toBe(401);
  });
});

describe("seed 003: the events of a run", () => {
  it("end with its completion and what it said [test_events_stream_returns_completed]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello" });
    const response = await api.call("GET", `/v1/runs/${id}/events`);
    expect(response.status).toBe(200);
    (await api.model.next()).answer("Hello!");
    const body = await response.text();
    expect(body).toContain("run.completed");
    expect(body).toContain("Hello!");
  });

  it("an approval that nobody asked for is 409 [test_approval_response_without_pending_returns_409]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello" });
    isError(await approve(api, id, { choice: "once" }), 409, "approval_not_pending");
    await finish(api, id);
    isError(await approve(api, id, { choice: "once" }), 409, "approval_not_active");
  });

  it('"all": "false" answers one question only [test_approval_string_false_does_not_resolve_all]', async () => {
    const { api, id } = await asking(2);
    const { status: code, body } = await approve(api, id, { choice: "once", all: "false" });
    expect([code, body["resolved"]]).toEqual([200, 1]);
    expect((await api.engine.run(id))?.asking).toHaveLength(1);
  });

  it("of an unknown run are 404 [test_events_not_found_returns_404]", async () => {
    const api = await start();
    isError(await api.json("GET", "/v1/runs/run_nonexistent/events"), 404, "run_not_found");
  });

  it("need the key [test_events_requires_auth]", async () => {
    const api = await start();
    expect((await api.json("GET", "/v1/runs/run_any/events", undefined, { Authorization: "" })).status).toBe(401);
  });
});

describe("seed 003: a stop", () => {
  it("stops the model call, and nothing of the run is left [test_stop_running_agent]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello" });
    const asked = await api.model.next();
    const { status: code, body } = await stop(api, id);
    expect([code, body]).toEqual([200, { run_id: id, status: "stopping" }]);
    expect(asked.signal.aborted).toBe(true);
    expect(["stopping", "cancelled"]).toContain((await status(api, id))["status"]);
    expect(await api.ended(id, id)).toBe("cancelled");
    expect(await api.engine.load()).toMatchObject({ turns: 0, waiting: 0 });
  });

  it("of an unknown run is 404 [test_stop_nonexistent_run_returns_404]", async () => {
    const api = await start();
    isError(await stop(api, "run_nonexistent"), 404, "run_not_found");
  });

  it("needs the key [test_stop_requires_auth]", async () => {
    const api = await start();
    expect((await api.json("POST", "/v1/runs/run_any/stop", undefined, { Authorization: "" })).status).toBe(401);
  });

  it("of a run that is over is 404 [test_stop_already_completed_run_returns_404]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello" });
    await finish(api, id);
    isError(await stop(api, id), 404, "run_not_found");
    expect(await status(api, id)).toMatchObject({ status: "completed" });
  });

  it("succeeds also when what is stopped fails at it [test_stop_interrupt_exception_does_not_crash]", async () => {
    const { promise: ran, resolve: runs } = Promise.withResolvers<void>();
    const brittle: Tool = {
      ...scriptedTool("brittle"),
      run: (_args, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(new Error("interrupt failed")));
          runs();
        }),
    };
    const api = await start({ tools: [brittle] });
    const id = await api.run({ input: "hello" });
    (await api.model.next()).answer("", { tool: "brittle", args: {} });
    await ran;
    const { status: code, body } = await stop(api, id);
    expect([code, body["status"]]).toEqual([200, "stopping"]);
    expect(await api.ended(id, id)).toBe("cancelled");
  });

  it("closes the stream of events [test_stop_sends_sentinel_to_events_stream]", async () => {
    const api = await start();
    const id = await api.run({ input: "hello" });
    await api.model.next();
    const response = await api.call("GET", `/v1/runs/${id}/events`);
    expect((await stop(api, id)).status).toBe(200);
    const body = await response.text();
    expect(body).toContain("run.cancelled");
    expect(body.endsWith(": stream closed\n\n")).toBe(true);
  });
});

// ── Start ─────────────────────────────────────────────────────────────────────────────────────────────

describe("a start", () => {
  const bad: [string, unknown, RegExp][] = [
    ["no body at all", undefined, /input/],
    ["an empty body", "", /input/],
    ["a list", "[]", /object/],
    ["truncated JSON", '{"input": "he', /Invalid JSON/],
    ["input that is null", { input: null }, /input/],
    ["input that is a number", { input: 5 }, /input/],
    ["input that is an object", { input: { text: "x" } }, /input/],
    ["input of spaces", { input: " \n\t" }, /input/],
    ["an empty list of messages", { input: [] }, /input/],
    ["messages that end with the assistant's", { input: [{ role: "assistant", content: "x" }] }, /input/],
    ["a last message that is empty", { input: [{ role: "user", content: "" }] }, /input/],
    ["a message with an unknown role", { input: [{ role: "boss", content: "x" }] }, /input/],
    ["history that is text", { input: "x", conversation_history: "said" }, /conversation_history/],
    ["history without a role", { input: "x", conversation_history: [{ content: "x" }] }, /conversation_history/],
    ["history without content", { input: "x", conversation_history: [{ role: "user" }] }, /conversation_history/],
    [
      "history with null as content",
      { input: "x", conversation_history: [{ role: "user", content: null }] },
      /history/,
    ],
    ["history of texts", { input: "x", conversation_history: ["said"] }, /conversation_history/],
    ["an empty session", { input: "x", session_id: "" }, /session_id/],
    ["a session that is a number", { input: "x", session_id: 5 }, /session_id/],
    ["a session with a line break", { input: "x", session_id: "a\nb" }, /session_id/],
    ["a session of 513 characters", { input: "x", session_id: "s".repeat(513) }, /session_id/],
    ["instructions that are a list", { input: "x", instructions: [] }, /instructions/],
    ["a model that is an object", { input: "x", model: {} }, /model/],
    ["a provider that is not configured", { input: "x", provider: "nobody" }, /provider/],
    ["a mode that there is not", { input: "x", mode: "shout" }, /mode/],
    ["model options that are a list", { input: "x", model_options: [] }, /model_options/],
    ["a temperature of 3", { input: "x", model_options: { temperature: 3 } }, /temperature/],
    ["half a token", { input: "x", model_options: { max_tokens: 0.5 } }, /max_tokens/],
    ["a picture by address", { input: [userImage("https://example.com/a.png")] }, /input/],
    ["a picture that is no base64", { input: [userImage("data:image/png;base64,%%%")] }, /input/],
    ["a text that is too long", { input: "x".repeat(1_001) }, /input/],
  ];
  it.each(bad)("with %s is refused with 400 and leaves nothing behind", async (_, body, message) => {
    const api = await start({ limits: { text: 1_000 } });
    const refused = await post(api, body, { ...idem("k"), "Content-Type": "application/json" });
    isError(refused, 400);
    expect(refused.body.error?.message).toMatch(message);
    expect(refused.body.error?.type).toBe("invalid_request_error");
    nothingLeft(api);
    expect(api.disk.input(turnId("api", "k"))).toBeNull();
  });

  it("that goes on from an unknown answer is refused with 404 and leaves nothing behind", async () => {
    const api = await start();
    isError(await post(api, { input: "x", previous_response_id: "run_unknown" }), 404, "previous_response_not_found");
    nothingLeft(api);
  });

  it("that was refused has not used up its idempotency key", async () => {
    const api = await start();
    expect((await post(api, { input: "" }, idem("again"))).status).toBe(400);
    const { status: code, body } = await post(api, { input: "x" }, idem("again"));
    expect([code, body["replayed"]]).toEqual([202, false]);
  });

  it("while it drains is refused with 503 before anything else is looked at", async () => {
    const api = await start();
    await api.engine.drain(0);
    for (const body of [{ input: "x" }, "not json", {}]) {
      const refused = await post(api, body, idem("no spaces, please"));
      isError(refused, 503, "gateway_draining");
      expect(refused.headers.get("Retry-After")).toBe("1");
    }
    nothingLeft(api);
  });

  it("without a session gets one of its own, with the run's id", async () => {
    const api = await start();
    const { body } = await post(api, { input: "x" });
    expect(body).toMatchObject({ session_id: body["run_id"], mode: "began" });
    expect(await status(api, String(body["run_id"]))).toMatchObject({ session_id: body["run_id"] });
  });

  it("takes instructions, history and options to the model", async () => {
    const api = await start();
    await api.run({
      input: "and now?",
      instructions: "Be brief.",
      conversation_history: [
        { role: "user", content: "one" },
        { role: "assistant", content: [{ type: "text", text: "two" }] },
      ],
      model_options: { temperature: 0.5, top_p: 0.9, max_tokens: 100, reasoning_effort: "low" },
    });
    const { request } = await api.model.next();
    expect(request.system).toContain("Be brief.");
    expect(request.messages).toEqual([
      { role: "user", text: "one" },
      { role: "assistant", text: "two", calls: [] },
      { role: "user", text: "and now?" },
    ]);
    expect(request.options).toEqual({ temperature: 0.5, topP: 0.9, maxTokens: 100, effort: "low" });
  });

  it("takes a list of messages: the last is the input, what was before it the past, the system's the instructions", async () => {
    const api = await start();
    const picture = `data:image/png;base64,${btoa("pixels")}`;
    await api.run({
      input: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "one" },
        { role: "assistant", content: "two" },
        {
          role: "user",
          content: [
            { type: "text", text: "what is this?" },
            { type: "image_url", image_url: { url: picture } },
          ],
        },
      ],
    });
    const { request } = await api.model.next();
    expect(request.system).toContain("Be kind.");
    expect(request.messages).toEqual([
      { role: "user", text: "one" },
      { role: "assistant", text: "two", calls: [] },
      { role: "user", text: "what is this?", images: [{ mime: "image/png", data: btoa("pixels") }] },
    ]);
  });

  it("with a picture and no words is asked all the same", async () => {
    const api = await start();
    await api.run({ input: [userImage(`data:image/webp;base64,${btoa("pixels")}`)] });
    const { request } = await api.model.next();
    expect(request.messages.at(-1)).toMatchObject({ role: "user", images: [{ mime: "image/webp" }] });
  });

  it("can name the model, and its status shows who answered", async () => {
    const other = scriptedModel({ end: "aborted" }, { name: "other-model" });
    const api = await start({ modelNamed: (name) => (name === "other-model" ? other : null) });
    const id = await api.run({ input: "x", model: "other-model" });
    (await other.next()).answer("it is me");
    await api.ended(id, id);
    expect(await status(api, id)).toMatchObject({ output: "it is me", model: "other-model" });
    expect(api.model.all).toEqual([]);
  });

  it("echoes X-Hermes-Session-Key", async () => {
    const api = await start();
    const { headers } = await post(api, { input: "x" }, { "X-Hermes-Session-Key": "user:42" });
    expect(headers.get("X-Hermes-Session-Key")).toBe("user:42");
    expect((await post(api, { input: "y" })).headers.get("X-Hermes-Session-Key")).toBeNull();
  });

  it.each([
    ["empty", ""],
    ["of 257 characters", "k".repeat(257)],
    ["with a control character", "a\tb"],
  ])("with an X-Hermes-Session-Key that is %s is refused and leaves nothing behind", async (_, key) => {
    const api = await start();
    isError(await post(api, { input: "x" }, { "X-Hermes-Session-Key": key }), 400, "invalid_session_key");
    nothingLeft(api);
  });

  it("over the cap is refused with 429 and leaves nothing behind", async () => {
    const api = await start({ settings: { maxRuns: 2 } });
    await api.run({ input: "one" });
    await api.run({ input: "two" });
    const refused = await post(api, { input: "three" }, idem("k"));
    isError(refused, 429, "rate_limit_exceeded");
    expect(refused.headers.get("Retry-After")).toBe("1");
    expect(api.disk.sessions({ limit: 10 })).toHaveLength(2);
    expect(api.disk.input(turnId("api", "k"))).toBeNull();
  });

  it("many at once never pass the cap", async () => {
    const api = await start({ settings: { maxRuns: 3 } });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => post(api, { input: `${n}` })));
    expect(answers.filter(({ status: code }) => code === 202)).toHaveLength(3);
    expect(answers.filter((answer) => codeOf(answer) === "rate_limit_exceeded")).toHaveLength(17);
    expect(api.disk.sessions({ limit: 50 })).toHaveLength(3);
  });

  it("has no cap with max_concurrent_runs 0", async () => {
    const api = await start({ settings: { maxRuns: 0 } });
    for (let n = 0; n < 12; n++) expect((await post(api, { input: `${n}` })).status).toBe(202);
  });
});

function userImage(url: string) {
  return { role: "user", content: [{ type: "image_url", image_url: { url } }] };
}

// ── The cap ───────────────────────────────────────────────────────────────────────────────────────────

describe("a place under the cap is free again when a run", () => {
  const full = async (api: TestApi) => expect(codeOf(await post(api, { input: "x" }))).toBe("rate_limit_exceeded");
  const free = async (api: TestApi) => expect((await post(api, { input: "x" })).status).toBe(202);

  it("is completed", async () => {
    const api = await start({ settings: { maxRuns: 1 } });
    const id = await api.run({ input: "one" });
    await full(api);
    await finish(api, id);
    await free(api);
  });

  it("has failed", async () => {
    const api = await start({ settings: { maxRuns: 1 } });
    const id = await api.run({ input: "one" });
    await full(api);
    (await api.model.next()).fault("no such key", "auth");
    expect(await api.ended(id, id)).toBe("failed");
    await free(api);
  });

  it("was cancelled", async () => {
    const api = await start({ settings: { maxRuns: 1 } });
    const id = await api.run({ input: "one" });
    await api.model.next();
    await full(api);
    await stop(api, id);
    expect(await api.ended(id, id)).toBe("cancelled");
    await free(api);
  });

  it("was stopped before it began", async () => {
    const api = await start({ settings: { maxRuns: 2 } });
    await api.run({ input: "one", session_id: "s" });
    const second = await api.run({ input: "two", session_id: "s", mode: "queue" });
    await full(api);
    expect((await stop(api, second)).status).toBe(200);
    await free(api);
  });

  it("was interrupted by another", async () => {
    const api = await start({ settings: { maxRuns: 2 } });
    const first = await api.run({ input: "one", session_id: "s" });
    await api.model.next();
    await api.run({ input: "two", session_id: "s", mode: "interrupt" });
    expect(await api.ended("s", first)).toBe("interrupted");
    await free(api);
    await full(api);
  });

  it("has joined another as a steer", async () => {
    const tool = scriptedTool("look");
    const api = await start({ settings: { maxRuns: 2 }, tools: [tool] });
    await api.run({ input: "one", session_id: "s" });
    (await api.model.next()).answer("", { tool: "look", args: {} });
    const { done } = await tool.next();
    await api.run({ input: "two", session_id: "s", mode: "steer" });
    await full(api);
    done("seen");
    await api.entry("s", "joined");
    await free(api);
  });

  it("ends after a restart that found it", async () => {
    const api = await start({ settings: { maxRuns: 1 } });
    const id = await api.run({ input: "one" });
    const again = await restart(api, { settings: { maxRuns: 1 } });
    await full(again);
    await finish(again, id);
    await free(again);
  });
});

// ── Idempotency ───────────────────────────────────────────────────────────────────────────────────────

describe("an idempotency key", () => {
  it("sent again is answered like the first time, and nothing runs twice", async () => {
    const api = await start();
    const first = await post(api, { input: "x" }, idem("k"));
    expect(first.body["replayed"]).toBe(false);
    expect(first.headers.get("Idempotency-Replayed")).toBeNull();
    const second = await post(api, { input: "x" }, idem("k"));
    expect(second).toMatchObject({ status: 202, body: { ...first.body, replayed: true } });
    expect(second.headers.get("Idempotency-Replayed")).toBe("true");
    await finish(api, String(first.body["run_id"]));
    expect(await post(api, { input: "x" }, idem("k"))).toMatchObject({ status: 202, body: { replayed: true } });
    expect(api.model.all).toHaveLength(1);
  });

  it.each([
    { input: "y" },
    { input: "x", session_id: "s" },
    { input: "x", instructions: "i" },
    { input: "x", model: "m" },
    { input: "x", mode: "queue" },
    { input: "x", model_options: { temperature: 1 } },
    { input: "x", conversation_history: [] },
    { input: "x", conversation_history: [{ role: "user", content: "h" }] },
  ])("sent again with another payload is a conflict: %j", async (payload) => {
    const api = await start();
    const id = await api.run({ input: "x" }, idem("k"));
    isError(await post(api, payload, idem("k")), 409, "idempotency_key_conflict");
    expect(api.disk.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([id]);
  });

  it("sent many times at once starts one run", async () => {
    const api = await start();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(api, { input: "x" }, idem("k"))));
    expect(new Set(answers.map(({ body }) => body["run_id"])).size).toBe(1);
    expect(answers.filter(({ body }) => body["replayed"] === false)).toHaveLength(1);
    expect(answers.every(({ status: code }) => code === 202)).toBe(true);
    expect(api.disk.sessions({ limit: 10 })).toHaveLength(1);
  });

  it("sent at once with different payloads has one winner", async () => {
    const api = await start();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => post(api, { input: `${n}`, session_id: "s" }, idem("k"))),
    );
    const codes = answers.map((answer) => codeOf(answer) ?? "started");
    expect(codes.filter((code) => code === "started")).toHaveLength(1);
    expect(codes.filter((code) => code === "idempotency_key_conflict")).toHaveLength(9);
    expect(api.journal("s").filter(({ kind }) => kind === "accepted")).toHaveLength(1);
  });

  it("is known after a restart, and so is a conflict", async () => {
    const api = await start();
    const id = await api.run({ input: "x" }, idem("k"));
    const again = await restart(api);
    expect(await post(again, { input: "x" }, idem("k"))).toMatchObject({
      status: 202,
      body: { run_id: id, replayed: true },
    });
    isError(await post(again, { input: "y" }, idem("k")), 409, "idempotency_key_conflict");
  });

  it("is known after a restart with another busy mode: the payload is the same", async () => {
    const api = await start({ settings: { busyMode: "interrupt" } });
    const id = await api.run({ input: "x" }, idem("k"));
    const again = await restart(api, { settings: { busyMode: "queue" } });
    expect(await post(again, { input: "x" }, idem("k"))).toMatchObject({ status: 202, body: { run_id: id } });
  });

  it("is looked at before the cap", async () => {
    const api = await start({ settings: { maxRuns: 1 } });
    const id = await api.run({ input: "x" }, idem("k"));
    expect(codeOf(await post(api, { input: "y" }))).toBe("rate_limit_exceeded");
    expect(await post(api, { input: "x" }, idem("k"))).toMatchObject({ status: 202, body: { run_id: id } });
    isError(await post(api, { input: "y" }, idem("k")), 409, "idempotency_key_conflict");
  });

  it("is looked at before the limit of the inbox", async () => {
    const api = await start({ limits: { inbox: 1 } });
    await api.run({ input: "1", session_id: "s" });
    const id = await api.run({ input: "2", session_id: "s", mode: "queue" }, idem("k"));
    expect(await post(api, { input: "3", session_id: "s", mode: "queue" })).toMatchObject({ status: 429 });
    const again = await post(api, { input: "2", session_id: "s", mode: "queue" }, idem("k"));
    expect(again).toMatchObject({ status: 202, body: { run_id: id, mode: "queue", replayed: true } });
  });

  it.each(["", " ", "a b", "é", "k".repeat(256), "a,\tb"])("that is %j is refused", async (key) => {
    const api = await start();
    isError(await post(api, { input: "x" }, idem(key)), 400, "invalid_idempotency_key");
    nothingLeft(api);
  });

  it("may have 255 visible characters", async () => {
    const api = await start();
    expect((await post(api, { input: "x" }, idem(`${"~!".repeat(127)}x`))).status).toBe(202);
  });

  it("of a steer sent again is one steer, also when the run is over by then", async () => {
    const tool = scriptedTool("look");
    const api = await start({ tools: [tool] });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "look", args: {} });
    const { done } = await tool.next();
    const first = await steer(api, id, { input: "mind this" }, idem("s"));
    const second = await steer(api, id, { input: "mind this" }, idem("s"));
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(second.body).toMatchObject({ input_id: first.body["input_id"], replayed: true });
    done("seen");
    await finish(api, id);
    const third = await steer(api, id, { input: "mind this" }, idem("s"));
    expect([third.status, third.body["input_id"]]).toEqual([200, first.body["input_id"]]);
    expect(api.journal(id).filter(({ kind }) => kind === "joined")).toHaveLength(1);
  });

  it("of a run that goes on from an answer can be sent again", async () => {
    const api = await start();
    const first = await api.run({ input: "one" });
    await finish(api, first);
    const body = { input: "two", previous_response_id: first };
    const second = await api.run(body, idem("k"));
    const again = await post(api, body, idem("k"));
    expect([again.status, again.body["run_id"], again.body["replayed"]]).toEqual([202, second, true]);
    await finish(api, first, second);
    expect((await post(api, body, idem("k"))).body).toMatchObject({ run_id: second, replayed: true });
    expect(api.disk.sessions({ limit: 10 })).toHaveLength(1);
  });
});

// ── Sessions ──────────────────────────────────────────────────────────────────────────────────────────

describe("a session that is named", () => {
  it("is joined: its transcript is loaded", async () => {
    const api = await start();
    const first = await api.run({ input: "my name is Ada", session_id: "s" });
    await finish(api, "s", first, "hello Ada");
    await api.run({ input: "who am I?", session_id: "s" });
    expect((await api.model.next()).request.messages).toEqual([
      { role: "user", text: "my name is Ada" },
      { role: "assistant", text: "hello Ada", calls: [] },
      { role: "user", text: "who am I?" },
    ]);
  });

  it("is joined after a restart too", async () => {
    const api = await start();
    const first = await api.run({ input: "my name is Ada", session_id: "s" });
    await finish(api, "s", first, "hello Ada");
    const again = await restart(api);
    await again.run({ input: "who am I?", session_id: "s" });
    expect((await again.model.next()).request.messages).toHaveLength(3);
    expect(await status(again, first)).toMatchObject({ status: "completed", output: "hello Ada" });
  });

  it("shows the history that is given instead of its own", async () => {
    const api = await start();
    const first = await api.run({ input: "my name is Ada", session_id: "s" });
    await finish(api, "s", first);
    await api.run({ input: "who am I?", session_id: "s", conversation_history: [] });
    expect((await api.model.next()).request.messages).toEqual([{ role: "user", text: "who am I?" }]);
  });

  it("has its turns in series, in the order in which they were accepted", async () => {
    const api = await start();
    const ids = [await api.run({ input: "0", session_id: "s" })];
    for (const n of [1, 2, 3]) ids.push(await api.run({ input: `${n}`, session_id: "s", mode: "queue" }));
    expect(await status(api, String(ids[3]))).toMatchObject({ status: "queued", last_event: null });
    for (const [n, id] of ids.entries()) {
      const asked = await api.model.next();
      expect(api.model.all).toHaveLength(n + 1);
      expect(asked.request.messages.at(-1)).toEqual({ role: "user", text: `${n}` });
      asked.answer(`answer ${n}`);
      await api.ended("s", id);
      expect(await status(api, id)).toMatchObject({ status: "completed", output: `answer ${n}` });
    }
  });

  it.each(["interrupt", "queue", "steer"] as const)("busy, follows the configured mode: %s", async (busyMode) => {
    const api = await start({ settings: { busyMode } });
    const first = await api.run({ input: "one", session_id: "s" });
    await api.model.next();
    const { body } = await post(api, { input: "two", session_id: "s" });
    expect(body["mode"]).toBe(busyMode);
    if (busyMode === "interrupt") expect(await api.ended("s", first)).toBe("interrupted");
    else expect(await status(api, first)).toMatchObject({ status: "running" });
  });

  it.each(["interrupt", "queue", "steer"] as const)("busy, follows the body's mode first: %s", async (mode) => {
    const api = await start({ settings: { busyMode: mode === "queue" ? "interrupt" : "queue" } });
    await api.run({ input: "one", session_id: "s" });
    await api.model.next();
    const { body } = await post(api, { input: "two", session_id: "s", mode });
    expect(body["mode"]).toBe(mode);
  });

  it("idle, just begins, whatever the mode", async () => {
    const api = await start();
    for (const mode of ["interrupt", "queue", "steer"])
      expect((await post(api, { input: "x", session_id: mode, mode })).body["mode"]).toBe("began");
  });

  it("interrupted, tells the old run by whom, and the new one runs", async () => {
    const api = await start();
    const first = await api.run({ input: "one", session_id: "s" });
    (await api.model.next()).say("so f");
    const events = eventsOf(await api.call("GET", `/v1/runs/${first}/events`));
    const second = await api.run({ input: "two", session_id: "s" });
    expect((await events).slice(-2)).toMatchObject([
      { event: "run.stopping" },
      { event: "run.interrupted", by: second },
    ]);
    expect(await status(api, first)).toMatchObject({ status: "interrupted", last_event: "run.interrupted" });
    (await api.model.next()).answer("two it is");
    expect(await api.ended("s", second)).toBe("completed");
  });

  it("steered by a run, makes that run a part of the one it joined", async () => {
    const tool = scriptedTool("look");
    const api = await start({ tools: [tool] });
    const first = await api.run({ input: "one", session_id: "s" });
    (await api.model.next()).answer("", { tool: "look", args: {} });
    const { done } = await tool.next();
    const second = await api.run({ input: "two", session_id: "s", mode: "steer" });
    expect(await status(api, second)).toMatchObject({ status: "queued" });
    done("seen");
    const asked = await api.model.next();
    expect(asked.request.messages.at(-1)).toEqual({ role: "user", text: "two" });
    expect(await status(api, second)).toMatchObject({ run_id: second, status: "running", joined: first });
    asked.answer("both");
    await api.ended("s", first);
    for (const id of [first, second])
      expect(await status(api, id)).toMatchObject({ run_id: id, status: "completed", output: "both" });
  });

  it("whose steer came too late begins the next turn with it", async () => {
    const api = await start();
    const first = await api.run({ input: "one", session_id: "s" });
    const asked = await api.model.next();
    const second = await api.run({ input: "two", session_id: "s", mode: "steer" });
    expect((await stop(api, first)).status).toBe(200);
    expect(asked.signal.aborted).toBe(true);
    (await api.model.next()).answer("two");
    expect(await api.ended("s", second)).toBe("completed");
    expect(await status(api, first)).toMatchObject({ status: "cancelled" });
    expect(await status(api, second)).toMatchObject({ status: "completed", output: "two" });
  });

  it("with a full inbox says so with 429, and the rest is kept", async () => {
    const api = await start({ limits: { inbox: 2 } });
    await api.run({ input: "0", session_id: "s" });
    for (const n of [1, 2]) await api.run({ input: `${n}`, session_id: "s", mode: "queue" });
    const refused = await post(api, { input: "3", session_id: "s", mode: "queue" }, idem("k"));
    isError(refused, 429, "inbox_full");
    expect(refused.headers.get("Retry-After")).toBe("1");
    expect(api.disk.input(turnId("api", "k"))).toBeNull();
    expect((await api.engine.status("s")).inbox).toHaveLength(2);
  });
});

describe("previous_response_id", () => {
  const past = [
    { role: "user", text: "one" },
    { role: "assistant", text: "first", calls: [] },
  ];
  it("that is a run's id goes on in its session", async () => {
    const api = await start();
    const first = await api.run({ input: "one" });
    await finish(api, first, first, "first");
    const { body } = await post(api, { input: "two", previous_response_id: first });
    expect(body["session_id"]).toBe(first);
    expect((await api.model.next()).request.messages).toEqual([...past, { role: "user", text: "two" }]);
  });

  it("of an answer that was gone on from already makes a branch of it", async () => {
    const api = await start();
    const first = await api.run({ input: "one" });
    await finish(api, first, first, "first");
    const second = await api.run({ input: "two", previous_response_id: first });
    await finish(api, first, second, "second");
    const { body } = await post(api, { input: "other two", previous_response_id: first });
    expect(body["session_id"]).not.toBe(first);
    expect((await api.model.next()).request.messages).toEqual([...past, { role: "user", text: "other two" }]);
  });

  it("is not looked at beside a session_id", async () => {
    const api = await start();
    const { status: code, body } = await post(api, { input: "x", session_id: "s", previous_response_id: "run_no" });
    expect([code, body["session_id"]]).toEqual([202, "s"]);
  });

  it("with a text that is too long leaves no branch behind", async () => {
    const api = await start({ limits: { text: 100 } });
    const first = await api.run({ input: "one" });
    await finish(api, first);
    const second = await api.run({ input: "two", previous_response_id: first });
    await finish(api, first, second);
    isError(await post(api, { input: "x".repeat(101), previous_response_id: first }), 400, "input_too_long");
    expect(api.disk.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([first]);
  });

  it("with a key that was used for something else leaves no branch behind", async () => {
    const api = await start();
    const first = await api.run({ input: "one" });
    await finish(api, first);
    const second = await api.run({ input: "two", previous_response_id: first }, idem("k"));
    await finish(api, first, second);
    const refused = await post(api, { input: "three", previous_response_id: first }, idem("k"));
    isError(refused, 409, "idempotency_key_conflict");
    expect(api.disk.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([first]);
  });

  it("of a run that still works, with others behind it, never answers without the past", async () => {
    const api = await start();
    const first = await api.run({ input: "my name is Ada", session_id: "s" });
    await api.model.next();
    await api.run({ input: "wait", session_id: "s", mode: "queue" });
    const { status: code, body } = await post(api, { input: "who am I?", previous_response_id: first });
    if (code === 202) {
      const { messages } = (await api.model.next()).request;
      expect(messages.map(({ text }) => text)).toEqual(expect.arrayContaining(["my name is Ada", "who am I?"]));
    } else isError({ status: code, body }, 409);
  });
});

// ── Status ────────────────────────────────────────────────────────────────────────────────────────────

describe("a status", () => {
  it("has all fields of the contract", async () => {
    const api = await start();
    const before = Date.now() / 1_000;
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const running = await status(api, id);
    expect(running).toEqual({
      object: "hermes.run",
      run_id: id,
      status: "running",
      created_at: expect.any(Number),
      updated_at: expect.any(Number),
      session_id: id,
      model: "hermes-agent",
      last_event: "run.started",
    });
    expect(running["created_at"]).toBeGreaterThanOrEqual(before);
    expect(running["created_at"]).toBeLessThan(before + 60);
    asked.answer("done");
    await api.ended(id, id);
    const over = await status(api, id);
    expect(Number(over["updated_at"])).toBeGreaterThanOrEqual(Number(running["created_at"]));
    expect(over["created_at"]).toBe(running["created_at"]);
  });

  it("has the error of a run that failed, and no output", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    (await api.model.next()).fault("the key is not right", "auth");
    await api.ended(id, id);
    const failed = await status(api, id);
    expect(failed).toMatchObject({ status: "failed", error: expect.stringContaining("the key is not right") });
    expect(failed).not.toHaveProperty("output");
    expect(failed["last_event"]).toBe("run.failed");
  });

  it("has what it asks while it waits for an approval, and goes back to running", async () => {
    const { api, id, tool } = await asking(1);
    const waiting = await status(api, id);
    expect(waiting).toMatchObject({
      status: "waiting_for_approval",
      last_event: "approval.request",
      approval: { request_id: expect.any(String), description: "delete it all", expires_at: expect.any(Number) },
    });
    await approve(api, id, { choice: "once" });
    const { done } = await tool.next();
    const running = await status(api, id);
    expect(running).toMatchObject({ status: "running", last_event: "tool.started" });
    expect(running).not.toHaveProperty("approval");
    done("deleted");
    await finish(api, id);
    expect(await status(api, id)).toMatchObject({ status: "completed" });
  });

  it("is stopping until what was stopped is dead", async () => {
    const tool = scriptedTool("deaf", { deaf: true });
    const api = await start({ tools: [tool], limits: { graceMs: 60_000 } });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "deaf", args: {} });
    const { done } = await tool.next();
    await stop(api, id);
    expect(await status(api, id)).toMatchObject({ status: "stopping", last_event: "run.stopping" });
    done("at last");
    expect(await api.ended(id, id)).toBe("cancelled");
    expect(await status(api, id)).toMatchObject({ status: "cancelled", last_event: "run.cancelled" });
  });

  it.each([
    ["completed", (api: TestApi, id: string) => finish(api, id)],
    ["cancelled", (api: TestApi, id: string) => stop(api, id)],
  ] as const)("of a run that is %s is the same after a restart", async (_, end) => {
    const api = await start();
    const id = await api.run({ input: "x" });
    await end(api, id);
    await api.ended(id, id);
    const before = await status(api, id);
    expect(await status(await restart(api), id)).toEqual(before);
  });

  it("names the last event that a viewer is told", async () => {
    const danger = scriptedTool("danger", { gate: question() });
    const look = scriptedTool("look");
    const api = await start({ tools: [danger, look] });
    const id = await api.run({ input: "x" });
    const told = frames(await api.call("GET", `/v1/runs/${id}/events`));
    const says = async (event: string) => expect((await status(api, id))["last_event"]).toBe(event);
    const agrees = async (event: string) => {
      const { value } = await told.next();
      expect(JSON.parse(value?.data ?? "{}")).toMatchObject({ event });
      await says(event);
    };
    const asked = await api.model.next();
    await agrees("run.started");
    asked.answer("", { tool: "danger", args: {} });
    await agrees("approval.request");
    await approve(api, id, { choice: "deny" });
    const second = await api.model.next();
    await agrees("approval.responded");
    second.answer("", { tool: "look", args: {} });
    const { done } = await look.next();
    await agrees("tool.started");
    done("seen");
    const third = await api.model.next();
    await agrees("tool.completed");
    third.answer("", { tool: "unknown", args: {} });
    const fourth = await api.model.next();
    await says("tool.completed");
    fourth.answer("", { tool: "danger", args: {} });
    await agrees("approval.request");
    await stop(api, id);
    await api.ended(id, id);
    expect((await told.next()).value?.data).toContain("run.stopping");
    await agrees("run.cancelled");
  });
});

// ── Approval ──────────────────────────────────────────────────────────────────────────────────────────

function question(timeoutMs = 60_000): Gate {
  return {
    gate: "ask",
    kind: "approval",
    text: "delete it all",
    choices: ["once", "session", "always", "deny"],
    timeoutMs,
  };
}
/** A run with so many questions open, all from one answer. */
async function asking(count: number, { timeoutMs = 60_000 } = {}) {
  const tool = scriptedTool("danger", { gate: question(timeoutMs) });
  const api = await start({ tools: [tool] });
  const id = await api.run({ input: "x" });
  const calls = Array.from({ length: count }, (_, n) => ({ tool: "danger", args: { command: `rm ${n}` } }));
  (await api.model.next()).answer("", ...calls);
  await api.entry(id, "asked");
  const waiting = (await api.engine.run(id))?.asking ?? [];
  expect(waiting).toHaveLength(count);
  return { api, id, tool, waiting };
}

describe("an approval", () => {
  it.each(["once", "session", "always", "approve", "approved", "allow"])("%s lets it run", async (choice) => {
    const { api, id, tool } = await asking(1);
    const meant = ["session", "always"].includes(choice) ? choice : "once";
    const { status: code, body } = await approve(api, id, { choice });
    expect([code, body]).toEqual([
      200,
      { object: "hermes.run.approval_response", run_id: id, choice: meant, resolved: 1 },
    ]);
    (await tool.next()).done("deleted");
    expect(await finish(api, id)).toBe("completed");
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    expect(events.find(({ event }) => event === "approval.responded")).toMatchObject({ choice: meant, resolved: 1 });
  });

  it("deny does not let it run, and the model is told why", async () => {
    const { api, id, tool } = await asking(1);
    expect((await approve(api, id, { choice: "deny", reason: "not on a Friday" })).body).toMatchObject({ resolved: 1 });
    const asked = await api.model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({ role: "tool", outcome: "denied", text: "not on a Friday" });
    asked.answer("as you wish");
    await api.ended(id, id);
    expect(tool.all).toEqual([]);
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    expect(events.map(({ event }) => event)).not.toContain("tool.started");
    expect(events.find(({ event }) => event === "approval.responded")).toMatchObject({ choice: "deny" });
  });

  it("is asked for with the exact command, its id, choices and a deadline on the wall clock", async () => {
    const { api, id, waiting } = await asking(1);
    await stop(api, id);
    await api.ended(id, id);
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    const request = events.find(({ event }) => event === "approval.request");
    expect(request).toMatchObject({
      command: "rm 0",
      description: "delete it all",
      choices: ["once", "session", "always", "deny"],
      request_id: waiting[0],
      run_id: id,
    });
    const left = Number(request?.["expires_at"]) - Date.now() / 1_000;
    expect(left).toBeGreaterThan(30);
    expect(left).toBeLessThanOrEqual(60);
  });

  it("without a request_id is for the oldest", async () => {
    const { api, id, tool, waiting } = await asking(3);
    await approve(api, id, { choice: "once" });
    expect((await tool.next()).args).toEqual({ command: "rm 0" });
    expect((await api.engine.run(id))?.asking).toEqual(waiting.slice(1));
    expect(await status(api, id)).toMatchObject({
      status: "waiting_for_approval",
      approval: { request_id: waiting[1] },
    });
  });

  it("with a request_id is for that one", async () => {
    const { api, id, tool, waiting } = await asking(3);
    await approve(api, id, { choice: "once", request_id: waiting[2] });
    expect((await tool.next()).args).toEqual({ command: "rm 2" });
    expect((await api.engine.run(id))?.asking).toEqual(waiting.slice(0, 2));
  });

  it("with a request_id that does not wait changes nothing", async () => {
    const { api, id, tool, waiting } = await asking(1);
    isError(await approve(api, id, { choice: "once", request_id: "call_9_9" }), 409, "approval_not_pending");
    isError(await approve(api, id, { choice: "once", request_id: "call_9_9", all: true }), 409, "approval_not_pending");
    expect((await api.engine.run(id))?.asking).toEqual(waiting);
    expect(tool.all).toEqual([]);
  });

  it("with the request_id of another run answers neither", async () => {
    const tool = scriptedTool("danger", { gate: question() });
    const api = await start({ tools: [tool] });
    const asks = async (input: string) => {
      const id = await api.run({ input });
      (await api.model.next()).answer("", { tool: "danger", args: { command: `rm ${input}` } });
      await api.entry(id, "asked");
      return { id, call: (await api.engine.run(id))?.asking[0] ?? "" };
    };
    const [first, second] = [await asks("one"), await asks("two")];
    expect(first.call).not.toBe(second.call);
    isError(await approve(api, second.id, { choice: "once", request_id: first.call }), 409, "approval_not_pending");
    expect(tool.all).toEqual([]);
    await approve(api, second.id, { choice: "once", request_id: second.call });
    expect((await tool.next()).args).toEqual({ command: "rm two" });
    expect((await api.engine.run(first.id))?.asking).toEqual([first.call]);
  });

  it("with a choice that is not offered is refused: nothing is kept that was not said", async () => {
    const tool = scriptedTool("danger", { gate: { ...question(), choices: ["once", "deny"] } as Gate });
    const api = await start({ tools: [tool] });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "danger", args: {} });
    await api.entry(id, "asked");
    for (const choice of ["session", "always"])
      isError(await approve(api, id, { choice }), 400, "invalid_approval_choice");
    expect(await approve(api, id, { choice: "once" })).toMatchObject({ status: 200 });
  });

  it.each([{ all: true }, { resolve_all: true }])("with %j is for all", async (all) => {
    const { api, id, tool } = await asking(3);
    expect((await approve(api, id, { choice: "once", ...all })).body).toMatchObject({ resolved: 3 });
    for (const n of [0, 1, 2]) expect((await tool.next()).args).toEqual({ command: `rm ${n}` });
  });

  it.each([{ all: "false" }, { all: "true" }, { all: 1 }, { all: null }, { all: [true] }, { resolve_all: "yes" }])(
    "with %j is for one: only true is true",
    async (all) => {
      const { api, id } = await asking(2);
      expect((await approve(api, id, { choice: "once", ...all })).body).toMatchObject({ resolved: 1 });
      expect((await api.engine.run(id))?.asking).toHaveLength(1);
    },
  );

  it.each([
    {},
    { choice: "" },
    { choice: "maybe" },
    { choice: 1 },
    { choice: true },
    { choice: null },
    { choice: "y".repeat(60) },
  ])("that is no choice is refused: %j", async (body) => {
    const { api, id, waiting } = await asking(1);
    isError(await approve(api, id, body), 400, "invalid_approval_choice");
    expect((await api.engine.run(id))?.asking).toEqual(waiting);
  });

  it("is no consent when it has words but no choice", async () => {
    const { api, id, waiting, tool } = await asking(1);
    isError(await approve(api, id, { answer: "no" }), 400, "invalid_approval_choice");
    expect((await api.engine.run(id))?.asking).toEqual(waiting);
    expect(tool.all).toEqual([]);
  });

  it("of an unknown run is 404", async () => {
    const api = await start();
    isError(await approve(api, "run_nonexistent", { choice: "once" }), 404, "run_not_found");
  });

  it("is decided once: of many at the same time one wins, and the others get 409", async () => {
    const { api, id, tool, waiting } = await asking(1);
    const choices = Array.from({ length: 12 }, (_, n) => (n % 2 ? "deny" : "once"));
    const answers = await Promise.all(
      choices.map((choice) => approve(api, id, { choice, ...(choice === "deny" && { request_id: waiting[0] }) })),
    );
    const won = answers.filter(({ status: code }) => code === 200);
    expect(won).toHaveLength(1);
    expect(answers.filter((answer) => codeOf(answer) === "approval_not_pending")).toHaveLength(11);
    const decided = api.journal(id).find(({ kind }) => kind === "decided");
    expect(decided).toMatchObject({ allow: won[0]?.body["choice"] === "once" });
    expect(api.journal(id).filter(({ kind }) => kind === "started")).toHaveLength(
      won[0]?.body["choice"] === "once" ? 1 : 0,
    );
    expect(tool.all.length).toBeLessThanOrEqual(1);
  });

  it("that two give for all at once answers each question once", async () => {
    const { api, id } = await asking(4);
    const answers = await Promise.all([1, 2, 3].map(() => approve(api, id, { choice: "once", all: true })));
    const resolved = answers.map(({ body }) => Number(body["resolved"] ?? 0));
    expect(resolved.reduce((a, b) => a + b, 0)).toBe(4);
    expect(api.journal(id).filter(({ kind }) => kind === "decided")).toHaveLength(4);
  });

  it("can be given after a restart", async () => {
    const { api, id } = await asking(2);
    const tool = scriptedTool("danger", { gate: question() });
    const again = await restart(api, { tools: [tool] });
    expect(await status(again, id)).toMatchObject({ status: "waiting_for_approval" });
    expect((await approve(again, id, { choice: "once" })).body).toMatchObject({ resolved: 1 });
    const first = await tool.next();
    expect(first.args).toEqual({ command: "rm 0" });
    expect((await approve(again, id, { choice: "deny" })).body).toMatchObject({ resolved: 1 });
    first.done("deleted");
    expect(await finish(again, id)).toBe("completed");
  });

  it("that nobody gives in time is a no", async () => {
    const { api, id, tool } = await asking(1, { timeoutMs: 40 });
    const decided = await api.entry(id, "decided");
    expect(decided).toMatchObject({ allow: false, by: "timeout" });
    isError(await approve(api, id, { choice: "once" }), 409, "approval_not_pending");
    await finish(api, id);
    expect(tool.all).toEqual([]);
  });

  it("whose time was over while nobody ran is a no after the restart", async () => {
    const { api, id } = await asking(1, { timeoutMs: 150 });
    opened = opened.filter((one) => one !== api);
    await api.kill();
    const asked = api.journal(id).find((entry) => entry.kind === "asked");
    await expect.poll(() => Date.now()).toBeGreaterThan(asked?.kind === "asked" ? asked.ask.until : 0);
    const tool = scriptedTool("danger", { gate: question() });
    const again = await start({ disk: api.disk, tools: [tool] });
    isErrorOneOf(await approve(again, id, { choice: "once" }));
    expect(await again.entry(id, "decided")).toMatchObject({ allow: false, by: "timeout" });
    await finish(again, id);
    expect(tool.all).toEqual([]);
  });

  it("of a run that was stopped is 409, and nothing runs", async () => {
    const { api, id, tool } = await asking(1);
    await stop(api, id);
    await api.ended(id, id);
    isError(await approve(api, id, { choice: "once" }), 409, "approval_not_active");
    expect(tool.all).toEqual([]);
  });

  it("of one session does not answer another's", async () => {
    const tool = scriptedTool("danger", { gate: question() });
    const api = await start({ tools: [tool] });
    const ids = [await api.run({ input: "a" }), await api.run({ input: "b" })];
    for (const _ of ids) (await api.model.next()).answer("", { tool: "danger", args: {} });
    for (const id of ids) await api.entry(id, "asked");
    await approve(api, String(ids[0]), { choice: "once", all: true });
    expect(await status(api, String(ids[1]))).toMatchObject({ status: "waiting_for_approval" });
  });
});

function isErrorOneOf(answer: { status: number; body: Partial<Failure> }) {
  expect(answer.status).toBe(409);
  expect(["approval_not_pending", "approval_not_active"]).toContain(codeOf(answer));
}

// ── Steer ─────────────────────────────────────────────────────────────────────────────────────────────

describe("a steer", () => {
  it.each(["input", "message", "text"])("takes its text from %s into the turn at the next boundary", async (field) => {
    const tool = scriptedTool("look");
    const api = await start({ tools: [tool] });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "look", args: {} });
    const { done } = await tool.next();
    const { status: code, body } = await steer(api, id, { [field]: "mind the gap" });
    expect([code, body["run_id"]]).toEqual([200, id]);
    done("seen");
    const asked = await api.model.next();
    expect(asked.request.messages.slice(-2)).toMatchObject([
      { role: "tool", text: "seen" },
      { role: "user", text: "mind the gap" },
    ]);
    asked.answer("minded");
    await api.ended(id, id);
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    expect(events.map(({ event }) => event)).toEqual([
      "run.started",
      "tool.started",
      "tool.completed",
      "run.steered",
      "message.delta",
      "run.completed",
    ]);
  });

  it("into the last thought leaves that answer as it is, and is the next run: neither text is lost", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const { body } = await steer(api, id, { input: "and this" });
    asked.answer("first");
    const second = await api.model.next();
    expect(second.request.messages.at(-1)).toEqual({ role: "user", text: "and this" });
    second.answer("second");
    const next = String(body["input_id"]);
    await api.ended(id, next);
    expect(await status(api, id)).toMatchObject({ status: "completed", output: "first" });
    expect(await status(api, next)).toMatchObject({ status: "completed", output: "second" });
  });

  it("into a turn that is stopped begins the next turn", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    await api.model.next();
    const { body } = await steer(api, id, { input: "not lost" });
    await stop(api, id);
    const next = await api.model.next();
    expect(next.request.messages.at(-1)).toEqual({ role: "user", text: "not lost" });
    next.answer("here");
    expect(await api.ended(id, String(body["input_id"]))).toBe("completed");
  });

  it.each([{}, { input: "" }, { input: " ", text: "" }, { input: 5 }, { text: null }])(
    "without text is refused: %j",
    async (body) => {
      const api = await start();
      const id = await api.run({ input: "x" });
      isError(await steer(api, id, body), 400);
      expect((await api.engine.status(id)).inbox).toEqual([]);
    },
  );

  it("into a run that waits is 409 and leaves nothing behind", async () => {
    const api = await start();
    await api.run({ input: "one", session_id: "s" });
    const id = await api.run({ input: "two", session_id: "s", mode: "queue" });
    isError(await steer(api, id, { input: "x" }, idem("k")), 409, "run_not_accepting_steer");
    expect((await api.engine.status("s")).inbox.map((waiting) => waiting.id)).toEqual([id]);
    expect(api.disk.input(turnId("api", "k"))).toBeNull();
  });

  it("into a run that is over or is being stopped is 409 and leaves nothing behind", async () => {
    const tool = scriptedTool("deaf", { deaf: true });
    const api = await start({ tools: [tool], limits: { graceMs: 60_000 } });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "deaf", args: {} });
    const { done } = await tool.next();
    await stop(api, id);
    isError(await steer(api, id, { input: "x" }, idem("k")), 409, "run_not_accepting_steer");
    done("at last");
    await api.ended(id, id);
    isError(await steer(api, id, { input: "x" }, idem("k")), 409, "run_not_accepting_steer");
    expect(api.disk.input(turnId("api", "k"))).toBeNull();
  });

  it("into an unknown run is 404", async () => {
    const api = await start();
    isError(await steer(api, "run_nonexistent", { input: "x" }), 404, "run_not_found");
  });

  it("into a run that waits for an approval is taken, and the question stays", async () => {
    const { api, id, tool } = await asking(1);
    expect((await steer(api, id, { input: "and be quick" })).status).toBe(200);
    expect(await status(api, id)).toMatchObject({ status: "waiting_for_approval" });
    await approve(api, id, { choice: "once" });
    (await tool.next()).done("deleted");
    expect((await api.model.next()).request.messages.at(-1)).toEqual({ role: "user", text: "and be quick" });
  });

  it("that was accepted is there after a restart", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    await api.model.next();
    await steer(api, id, { input: "not lost" });
    const again = await restart(api);
    (await again.model.next()).answer("first");
    const second = await again.model.next();
    expect(second.request.messages.at(-1)).toEqual({ role: "user", text: "not lost" });
  });
});

// ── Stop ──────────────────────────────────────────────────────────────────────────────────────────────

describe("a stop", () => {
  it("is answered 200 again and again while the run lives, then 404", async () => {
    const tool = scriptedTool("deaf", { deaf: true });
    const api = await start({ tools: [tool], limits: { graceMs: 60_000 } });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "deaf", args: {} });
    const { done } = await tool.next();
    const answers = await Promise.all(Array.from({ length: 5 }, () => stop(api, id)));
    for (const { status: code, body } of answers)
      expect([code, body]).toEqual([200, { run_id: id, status: "stopping" }]);
    done("at last");
    await api.ended(id, id);
    isError(await stop(api, id), 404, "run_not_found");
    expect(api.journal(id).filter(({ kind }) => kind === "stopping")).toHaveLength(1);
  });

  it("is at once the end of all text and all work", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    asked.say("so far");
    await stop(api, id);
    asked.say(" and more");
    asked.answer("", { tool: "look", args: {} });
    await api.ended(id, id);
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    expect(events.map(({ event, delta }) => delta ?? event)).toEqual([
      "run.started",
      "so far",
      "run.stopping",
      "run.cancelled",
    ]);
    expect(api.model.all).toHaveLength(1);
  });

  it("of a run that waits takes it out: it never runs, also not after a restart", async () => {
    const api = await start();
    const first = await api.run({ input: "one", session_id: "s" });
    const second = await api.run({ input: "two", session_id: "s", mode: "queue" });
    expect(await stop(api, second)).toMatchObject({ status: 200, body: { run_id: second, status: "stopping" } });
    expect(await status(api, second)).toMatchObject({ status: "cancelled", last_event: "run.cancelled" });
    isError(await stop(api, second), 404, "run_not_found");
    const again = await restart(api);
    await finish(again, "s", first);
    expect(again.model.all).toHaveLength(1);
    expect(await status(again, second)).toMatchObject({ status: "cancelled" });
  });

  it("keeps what waits behind it", async () => {
    const api = await start();
    const first = await api.run({ input: "one", session_id: "s" });
    await api.model.next();
    const second = await api.run({ input: "two", session_id: "s", mode: "queue" });
    await stop(api, first);
    (await api.model.next()).answer("two");
    expect(await api.ended("s", second)).toBe("completed");
  });

  it("while a run waits for an approval ends it without running anything", async () => {
    const { api, id, tool } = await asking(2);
    expect((await stop(api, id)).status).toBe(200);
    expect(await api.ended(id, id)).toBe("cancelled");
    expect(await status(api, id)).not.toHaveProperty("approval");
    expect(tool.all).toEqual([]);
  });

  it("takes no body, or any", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    await api.model.next();
    const { status: code } = await api.json("POST", `/v1/runs/${id}/stop`, { anything: [1] });
    expect(code).toBe(200);
    expect(await api.ended(id, id)).toBe("cancelled");
  });

  it("that a crash followed is a stop after the restart too", async () => {
    const tool = scriptedTool("deaf", { deaf: true });
    const disk = createMemoryStore();
    const api = await start({ tools: [tool], disk, limits: { graceMs: 60_000 } });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "deaf", args: {} });
    await tool.next();
    await stop(api, id);
    const again = await restart(api, { tools: [tool] });
    expect(await again.ended(id, id)).toBe("cancelled");
    expect(again.model.all).toEqual([]);
  });
});
