// The runs API on a real socket: starting one, the cap, idempotency keys.
import { describe, expect, it } from "vitest";
import { turnId } from "../../src/engine/engine.ts";
import { type TestApi } from "../fakes/api.ts";
import {
  codeOf,
  finish,
  idem,
  isError,
  nothingLeft,
  post,
  restart,
  start,
  status,
  steer,
  stop,
} from "../fakes/runs.ts";
import { scriptedModel, scriptedTool } from "../fakes/scripted.ts";

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
    expect(api.disk.journal.input(turnId("api", "k"))).toBeNull();
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
    expect(api.disk.catalog.sessions({ limit: 10 })).toHaveLength(2);
    expect(api.disk.journal.input(turnId("api", "k"))).toBeNull();
  });

  it("many at once never pass the cap", async () => {
    const api = await start({ settings: { maxRuns: 3 } });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => post(api, { input: `${n}` })));
    expect(answers.filter(({ status: code }) => code === 202)).toHaveLength(3);
    expect(answers.filter((answer) => codeOf(answer) === "rate_limit_exceeded")).toHaveLength(17);
    expect(api.disk.catalog.sessions({ limit: 50 })).toHaveLength(3);
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
    expect(api.disk.catalog.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([id]);
  });

  it("sent many times at once starts one run", async () => {
    const api = await start();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(api, { input: "x" }, idem("k"))));
    expect(new Set(answers.map(({ body }) => body["run_id"])).size).toBe(1);
    expect(answers.filter(({ body }) => body["replayed"] === false)).toHaveLength(1);
    expect(answers.every(({ status: code }) => code === 202)).toBe(true);
    expect(api.disk.catalog.sessions({ limit: 10 })).toHaveLength(1);
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
    expect(api.disk.catalog.sessions({ limit: 10 })).toHaveLength(1);
  });
});
