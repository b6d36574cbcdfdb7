// Nobody runs a turn twice: what OpenAI's SDK sends again, with its own retries, is the same turn or is not sent again at all.
import type OpenAI from "openai";
import { describe, expect, it } from "vitest";
import type { StartOptions } from "../fakes/api.ts";
import { clientOf, refused, start as startOpenAi } from "../fakes/openai.ts";
import { scriptedTool } from "../fakes/scripted.ts";

async function start(options: StartOptions = {}) {
  const api = await startOpenAi(options);
  return { ...api, client: clientOf(api, { maxRetries: 2 }) }; // as it comes
}

const ASK = { model: "hermes-agent", messages: [{ role: "user" as const, content: "hi" }] };
const attempt = (count: number) => ({ "X-Stainless-Retry-Count": String(count) });
const answerOf = async (response: Promise<Response>) => {
  const body = (await (await response).json()) as OpenAI.ChatCompletion;
  return body.choices[0]?.message.content;
};

describe("a turn that began and has no answer", () => {
  it("is answered with a status that no client sends again for", async () => {
    const act = scriptedTool("act");
    const { client, call, model, entry } = await start({ tools: [act] });
    const failing = refused(client.chat.completions.create(ASK));
    (await model.next()).answer("", { tool: "act", args: {} });
    (await act.next()).done("done");
    (await model.next()).fault("The key is wrong", "auth");
    expect(await failing).toMatchObject({ status: 400, code: "run_failed", type: "run_error" });

    const headers = { "X-Hermes-Session-Id": "talk" };
    const stopping = refused(client.chat.completions.create(ASK, { headers }));
    await model.next();
    const { turn } = await entry("talk", "began");
    await call("POST", `/v1/runs/${turn}/stop`);
    const stopped = await stopping;
    expect(stopped).toMatchObject({ status: 400, code: "run_cancelled" });
    expect(stopped.headers?.get("x-should-retry")).toBe("false");
    expect(model.all).toHaveLength(3);
    expect(act.all).toHaveLength(1);
  });

  it("because the server leaves may be asked for again only by who has a name for the request", async () => {
    const { call, model, engine } = await start();
    const plain = call("POST", "/v1/chat/completions", ASK);
    await model.next();
    const counted = call("POST", "/v1/responses", { input: "hi" }, attempt(0));
    await model.next();
    await engine.drain(0);
    expect((await plain).status).toBe(400);
    expect((await counted).status).toBe(503);
  });
});

describe("a request that is sent again", () => {
  it("because its answer took too long is the same turn, and gets its answer", async () => {
    const act = scriptedTool("act");
    const { client, model } = await start({ tools: [act] });
    const asking = client.chat.completions.create(ASK, { timeout: 300 });
    (await model.next()).answer("", { tool: "act", args: {} });
    const acting = await act.next();
    const responding = client.responses.create({ model: "hermes-agent", input: "hi" }, { timeout: 300 });
    const asked = await model.next();
    setTimeout(() => acting.done("done"), 400);
    (await model.next()).answer("Once.");
    asked.answer("Also once.");
    expect((await asking).choices[0]?.message.content).toBe("Once.");
    expect((await responding).output_text).toBe("Also once.");
    expect(act.all).toHaveLength(1);
    expect(model.all).toHaveLength(3);
  });

  it("to the next process is the same turn, whether it still works or has ended", async () => {
    const before = await start();
    const lost = before.call("POST", "/v1/chat/completions", ASK, attempt(0)).catch(() => null);
    await before.model.next();
    await before.kill();
    await lost;
    const after = await start({ disk: before.disk });
    const again = answerOf(after.call("POST", "/v1/chat/completions", ASK, attempt(1)));
    (await after.model.next()).answer("Once.");
    expect(await again).toBe("Once.");
    expect(await answerOf(after.call("POST", "/v1/chat/completions", ASK, attempt(2)))).toBe("Once.");
    expect(after.model.all).toHaveLength(1);
  });

  it("begins a turn where the first attempt began none", async () => {
    const { call, model } = await start({ settings: { maxRuns: 1 } });
    const first = answerOf(call("POST", "/v1/chat/completions", ASK, attempt(0)));
    const asked = await model.next();
    expect((await call("POST", "/v1/runs", { input: "hi" }, attempt(0))).status).toBe(429);
    asked.answer("Hello.");
    expect(await first).toBe("Hello.");
    expect((await call("POST", "/v1/runs", { input: "hi" }, attempt(1))).status).toBe(202);
    (await model.next()).answer("Hello.");
    expect(model.all).toHaveLength(2);
  });

  it("is not one that only says the same", async () => {
    const { call, model } = await start();
    const both = [0, 0].map((count) => answerOf(call("POST", "/v1/chat/completions", ASK, attempt(count))));
    const [one, two] = [await model.next(), await model.next()];
    one.answer("One.");
    two.answer("Two.");
    expect(new Set(await Promise.all(both))).toEqual(new Set(["One.", "Two."]));
  });

  it("after its client had given up for good, the turn is stopped", async () => {
    const { client, model, entry } = await start({ settings: { retryMs: 50 } });
    const headers = { "X-Hermes-Session-Id": "talk" };
    const asking = refused(client.chat.completions.create(ASK, { timeout: 100, maxRetries: 0, headers }));
    await model.next();
    await asking;
    expect((await entry("talk", "ended")).outcome).toBe("cancelled");
  });
});
