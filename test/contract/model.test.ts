// What every endpoint must make of what a provider does to it: each fault, over each of the three wire formats.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ModelRequest, ModelResult } from "../../src/core/ports.ts";
import type { Message } from "../../src/core/transcript.ts";
import { createModel } from "../../src/llm/provider.ts";
import { FAULTS } from "../fakes/llm/faults.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

const PROVIDERS = ["openai-compatible", "openai", "anthropic"] as const;
const WORDS = "Grüße, naïve 世界 👋";
const TERMINAL = {
  name: "terminal",
  description: "Runs a command.",
  schema: { type: "object", properties: { command: { type: "string" } } },
};
const request = (...messages: Message[]): ModelRequest => ({
  session: "s",
  system: "Be good.",
  messages: messages.length ? messages : [{ role: "user", text: "hi" }],
  tools: [TERMINAL],
  final: false,
});
const fault = (kind: string) => ({ end: "fault", kind });
const answer = (...calls: unknown[]) => ({ end: "answer", calls });
const call = (command: string) => ({ tool: "terminal", args: { command } });
const cut = { tool: "terminal", args: {}, bad: expect.stringContaining("not valid JSON") };

/** The classification table, row by row: what is heard, and how the call ends. */
const TABLE: [name: keyof typeof FAULTS, heard: string, end: Record<string, unknown>][] = [
  ["reset before headers", "", fault("network")],
  ["reset after headers", "", fault("network")],
  ["reset after text", WORDS, fault("network")],
  ["reset inside tool arguments", WORDS, fault("network")],
  ["connection closed after text", WORDS, fault("network")],
  ["body ends after text", WORDS, fault("incomplete")],
  ["body ends inside tool arguments", WORDS, fault("incomplete")],
  ["one byte at a time", WORDS, answer()],
  ["429, seconds", "", { ...fault("rate_limited"), retryAfter: 1_000 }],
  ["429, date", "", { ...fault("rate_limited"), retryAfter: expect.any(Number) }],
  ["429, absent", "", { end: "fault", kind: "rate_limited", reason: expect.any(String) }],
  ["429, 0", "", { ...fault("rate_limited"), retryAfter: 0 }],
  ["429, 10⁹", "", { ...fault("rate_limited"), retryAfter: 1e12 }],
  ["500", "", fault("unavailable")],
  ["502", "", fault("unavailable")],
  ["503", "", fault("unavailable")],
  ["529", "", fault("unavailable")],
  ["401", "", fault("auth")],
  ["403", "", fault("auth")],
  ["context overflow", "", fault("too_long")],
  ["redirect to another host", "", fault("bad_request")],
  ["error event", WORDS, fault("unavailable")],
  ["error event before text", "", fault("unavailable")],
  ["context overflow as an event", "", fault("too_long")],
  ["CRLF", WORDS, answer()],
  ["split UTF-8", WORDS, answer()],
  ["BOM", WORDS, answer()],
  ["comments", WORDS, answer()],
  ["no last blank line", WORDS, answer()],
  ["[DONE] twice", WORDS, answer()],
  ["HTML instead", "", { ...fault("garbled"), reason: expect.stringContaining("base URL") }],
  ["truncated tool JSON", "", answer(cut)],
  ["tool JSON cut by the length limit", "", answer(cut)],
  ["duplicate call ids", "", answer(call("ls -la"), call("ls -la"))],
  ["unknown tool", "", answer({ tool: "no_such_tool", args: {} })],
  ["wrong argument types", "", answer({ tool: "terminal", args: { command: ["ls"], timeout: "soon" } })],
  ["arguments that are no object", "", answer({ tool: "terminal", args: {}, bad: expect.stringContaining("object") })],
  ["empty reply", "", fault("incomplete")],
  ["no finish reason", WORDS, fault("incomplete")],
  ["unknown finish reason", WORDS, answer()],
];

describe.each(PROVIDERS)("a model over %s", (provider) => {
  let llm: FakeLlm;
  beforeAll(async () => {
    llm = await startFakeLlm();
  });
  afterAll(async () => {
    expect(llm.violations).toEqual([]);
    await llm.close();
  });

  const modelAt = (baseUrl: string) =>
    createModel({ provider, model: "fake-model", baseUrl, apiKey: "key", context: 1_000, because: "" });
  async function ask(given: ModelRequest = request(), signal = new AbortController().signal) {
    const heard = { text: "", reasoning: "" };
    const hear = {
      alive: () => {},
      text: (text: string) => void (heard.text += text),
      reasoning: (text: string) => void (heard.reasoning += text),
    };
    const result: ModelResult = await modelAt(llm.url).call(given, hear, signal);
    return { result, heard };
  }

  it.each(TABLE)("%s", async (name, text, end) => {
    llm.script(FAULTS[name]);
    const { result, heard } = await ask();
    expect(heard.text).toBe(text);
    expect(result).toMatchObject(end);
  });

  it.each(["half-open", "stall", "stall after text", "stall inside tool arguments"] as const)(
    "%s: our abort ends it at once, closes the socket, and is no fault",
    async (name) => {
      llm.script(FAULTS[name]);
      const abort = new AbortController();
      const asked = ask(request(), abort.signal);
      const seen = await llm.nextRequest().then(async (first) => {
        let request = first;
        while (request.ending !== undefined) request = await llm.nextRequest(); // those of the tests before
        await request.holding;
        return request;
      });
      abort.abort();
      expect((await asked).result).toEqual({ end: "aborted" });
      expect(await seen.closed).toBe("closed-by-client");
    },
  );

  it("parallel calls come out whole, however their arguments were interleaved", async () => {
    llm.script(FAULTS["interleaved parallel arguments"]);
    const { result } = await ask();
    expect(result.end === "answer" && result.calls.map((c) => c.args)).toEqual(
      expect.arrayContaining([{ command: "ls -la" }, { command: "echo 世界" }, { command: "pwd" }]),
    );
  });

  it("`__proto__` in arguments pollutes nothing", async () => {
    llm.script(FAULTS["__proto__ in arguments"]);
    await ask();
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("a line without end is cut off", async () => {
    llm.script({ fault: { longLine: Number.POSITIVE_INFINITY } });
    const { result } = await ask();
    expect(result).toMatchObject({ end: "fault", reason: expect.stringContaining("bytes") });
  });

  it("text, reasoning, calls and usage of one answer", async () => {
    llm.script({
      reasoning: ["first ", "this"],
      text: ["one ", "two"],
      calls: [{ name: "terminal", args: { command: "ls" } }],
      usage: { input: 120, output: 30, cached: 100 },
    });
    const { result, heard } = await ask();
    expect(heard).toEqual({ text: "one two", reasoning: "first this" });
    expect(result).toMatchObject({
      end: "answer",
      calls: [call("ls")],
      usage: { input: 120, output: 30, cached: 100 },
    });
  });

  it("a transcript of every kind is accepted by a strict provider: stopped turns, failed tools, images, steers", async () => {
    const image = { mime: "image/png", data: "iVBORw0KGgo=" };
    const uses = (id: string) => ({ id, tool: "terminal", args: { command: "ls" } });
    const gives = (id: string, outcome: "ok" | "unknown") =>
      ({ role: "tool", call: id, tool: "terminal", outcome, text: "" }) as const;
    const { result } = await ask(
      request(
        { role: "user", text: "never answered" },
        { role: "user", text: "look", images: [image] },
        { role: "assistant", text: "", calls: [uses("call_1_0"), { ...uses("call_1_1"), args: "not an object" }] },
        gives("call_1_1", "unknown"),
        gives("call_1_0", "ok"),
        { role: "user", text: "a steer" },
        { role: "assistant", text: "cut off", calls: [] },
        { role: "assistant", text: "again", calls: [uses("call_2_0")] },
        gives("call_2_0", "ok"),
      ),
    );
    expect(result.end).toBe("answer");
  });

  it.each([
    ["with its tools named", [TERMINAL]],
    ["when they are gone", []],
  ])("a call that must be an answer is accepted behind calls, %s", async (_, tools) => {
    const use = { id: "call_1_0", tool: "terminal", args: {} };
    const history = request(
      { role: "user", text: "hi" },
      { role: "assistant", text: "", calls: [use] },
      { role: "tool", call: use.id, tool: "terminal", outcome: "ok", text: "done" },
    );
    expect((await ask({ ...history, tools, final: true })).result.end).toBe("answer");
    expect(JSON.stringify(llm.requests.at(-1)?.body)).toMatch(/"tool_choice":("none"|\{"type":"none"\})/);
  });

  it("a name that the model made up is accepted behind it, whatever is in it", async () => {
    const use = { id: "call_1_0", tool: `run "this" 🙂${"!".repeat(100)}`, args: {} };
    const history = request(
      { role: "user", text: "hi" },
      { role: "assistant", text: "", calls: [use] },
      { role: "tool", call: use.id, tool: use.tool, outcome: "error", text: "There is no such tool." },
    );
    expect((await ask({ ...history, tools: [TERMINAL] })).result.end).toBe("answer");
  });

  it("nothing is sent to where a redirect points", async () => {
    const elsewhere = await startFakeLlm();
    llm.script({ fault: { redirect: `${elsewhere.url}/chat/completions` } });
    expect((await ask()).result).toMatchObject(fault("bad_request"));
    expect([elsewhere.requests.length, elsewhere.others.length]).toEqual([0, 0]);
    await elsewhere.close();
  });

  it("a server that is not there is a network fault", async () => {
    const gone = await startFakeLlm();
    await gone.close();
    const nothing = { alive: () => {}, text: () => {}, reasoning: () => {} };
    const result = await modelAt(gone.url).call(request(), nothing, new AbortController().signal);
    expect(result).toMatchObject(fault("network"));
  });
});
