// What a collector gets to see of a turn: when and how, not what was said.
import { afterEach, describe, expect, it } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import type { Log } from "../../src/core/ports.ts";
import type { Entry, Fact } from "../../src/core/session.ts";
import { openPost } from "../../src/platform/post.ts";
import { createTelemetry, type Telemetry } from "../../src/telemetry/otel.ts";
import { type Span, spansOf, type Telling } from "../../src/telemetry/spans.ts";
import { type Letter, type Receiver, startReceiver } from "../fakes/receiver.ts";
import { type BootOptions, bootEngine, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

const RUN = `run_${"0123456789abcdef".repeat(2)}`;
const SECOND = 1_000;

// ── Spans of hand-made journals ───────────────────────────────────────────────────────────────────────

const accepted: Fact = {
  kind: "accepted",
  input: { id: RUN, text: "my secret plan", mode: "queue", reply: "pull" },
  applied: "queue",
};
const began: Fact = { kind: "began", input: RUN };
const thought = (text: string, ...tools: string[]): Fact => ({
  kind: "thought",
  text,
  calls: tools.map((tool, n) => ({ id: `call_${n}`, tool, args: { command: "my secret command" } })),
  usage: { input: 10, output: 5, cached: 4 },
  model: "some/model",
});
const acted = (call: string, outcome: Extract<Fact, { kind: "acted" }>["outcome"] = "ok"): Fact => ({
  kind: "acted",
  call,
  outcome,
  text: "my secret result",
});
const asked = (call: string): Fact => ({
  kind: "asked",
  call,
  ask: { kind: "approval", text: "Run my secret command?", choices: [], until: 9 },
});
const decided = (call: string, allow: boolean): Fact => ({
  kind: "decided",
  call,
  allow,
  text: allow ? "once" : "my secret reason",
  by: "telegram:999",
});
const ended = (outcome: Extract<Fact, { kind: "ended" }>["outcome"]): Fact => ({ kind: "ended", outcome });

/** The facts of one turn, one a second. */
const journal = (...facts: Fact[]): Entry[] =>
  facts.map((fact, n) => ({ seq: n + 1, turn: RUN, at: (n + 1) * SECOND, ...fact }));
const quiet: Telling = { content: false, redact: (text) => text };
const open: Telling = { content: true, redact: (text) => text.replaceAll("secret", "***") };
const spans = (entries: Entry[], telling = quiet, session = "agent:main:telegram:dm:999") =>
  spansOf(session, entries, telling);
const part = (all: Span[], name: string) => all.filter((span) => span.name === name);
/** Name, start and end in seconds. */
const times = (all: Span[]) => all.map(({ name, start, end }) => [name, start / SECOND, end / SECOND]);

describe("the spans of a turn", () => {
  it("are the whole of it and its parts: the wait, model calls, tools, approvals", () => {
    const all = spans(
      journal(
        accepted,
        began,
        thought("", "terminal", "read_file"),
        asked("call_0"),
        { kind: "started", call: "call_1" },
        acted("call_1"),
        decided("call_0", true),
        { kind: "started", call: "call_0" },
        acted("call_0", "error"),
        thought("my secret answer"),
        ended("completed"),
      ),
    );
    expect(times(all)).toEqual([
      ["hermes.run", 1, 11],
      ["queue", 1, 2],
      ["model", 2, 3],
      ["tool read_file", 5, 6],
      ["approval", 4, 7],
      ["tool terminal", 8, 9],
      ["model", 9, 10],
    ]);
    expect(all[0]).toEqual({
      name: "hermes.run",
      start: SECOND,
      end: 11 * SECOND,
      attributes: {
        "hermes.run.id": RUN,
        "hermes.session.kind": "telegram:dm",
        "hermes.outcome": "completed",
        "gen_ai.response.model": "some/model",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cached_tokens": 8,
        "hermes.tool.count": 2,
      },
    });
    expect(part(all, "tool terminal")).toMatchObject([{ attributes: { "hermes.outcome": "error" }, error: "" }]);
    expect(part(all, "tool read_file")[0]).not.toHaveProperty("error");
    expect(part(all, "approval")[0]?.attributes).toEqual({
      "hermes.ask.kind": "approval",
      "hermes.decision": "allow",
    });
  });

  it("tell a stop in the middle of an answer", () => {
    const all = spans(
      journal(
        accepted,
        began,
        { kind: "cut", text: "my secret" },
        { kind: "stopping", outcome: "cancelled", by: "" },
        { kind: "abandoned", key: "think:1" },
        ended("cancelled"),
      ),
    );
    expect(times(all)).toEqual([
      ["hermes.run", 1, 6],
      ["queue", 1, 2],
      ["model", 2, 3],
      ["stop", 4, 6],
    ]);
    expect(part(all, "model")[0]?.attributes).toEqual({ "hermes.outcome": "stopped" });
    expect(all[0]?.attributes).toMatchObject({ "hermes.outcome": "cancelled" });
  });

  it("tell a call that was stopped while it waited for a person", () => {
    const all = spans(
      journal(accepted, began, thought("", "terminal"), asked("call_0"), acted("call_0", "cancelled"), ended("failed")),
    );
    expect(times(all).slice(3)).toEqual([["approval", 4, 5]]);
    expect(part(all, "approval")[0]?.attributes).toMatchObject({ "hermes.decision": "none" });
  });

  it("tell a failure as one model call, with or without some text before it", () => {
    const failed: Fact = { kind: "failed", reason: "my secret key is wrong" };
    const silent = spans(journal(accepted, began, failed, ended("failed")));
    expect(times(silent).slice(2)).toEqual([["model", 2, 3]]);
    const cut = spans(journal(accepted, began, { kind: "cut", text: "my" }, failed, ended("failed")));
    expect(times(cut).slice(2)).toEqual([["model", 2, 4]]);
    expect([silent[0]?.error, silent[2]?.error, cut[2]?.error]).toEqual(["", "", ""]);
  });

  it("tell no model call where a turn was given up after crashes", () => {
    const all = spans(
      journal(
        accepted,
        began,
        { kind: "restarted", attempt: 4 },
        { kind: "parked" },
        { kind: "failed", reason: "" },
        ended("failed"),
      ),
    );
    expect(times(all)).toEqual([
      ["hermes.run", 1, 6],
      ["queue", 1, 2],
    ]);
  });

  it("tell summaries and deliveries", () => {
    const all = spans(
      journal(
        accepted,
        began,
        { kind: "compacted", summary: "my secret", upTo: 7 },
        thought("hi"),
        { kind: "delivered", how: "maybe" },
        ended("completed"),
      ),
    );
    expect(times(all).slice(2)).toEqual([
      ["compact", 2, 3],
      ["model", 3, 4],
      ["deliver", 4, 5],
    ]);
    expect(part(all, "deliver")[0]?.attributes).toEqual({ "hermes.outcome": "maybe" });
  });

  it("tell one that was taken back before it began, and nothing of one that is not over", () => {
    expect(times(spans(journal(accepted, { kind: "withdrawn", input: RUN })))).toEqual([
      ["hermes.run", 1, 2],
      ["queue", 1, 2],
    ]);
    expect(spans(journal(accepted, began))).toEqual([]);
    expect(spans([])).toEqual([]);
  });

  it("never end before they start, though the clock was set back", () => {
    const entries = journal(accepted, began, thought("hi"), ended("completed")).map((entry, n) => ({
      ...entry,
      at: (10 - n) * SECOND,
    }));
    expect(spans(entries).every(({ start, end }) => end >= start)).toBe(true);
  });

  it.each([
    ["agent:main:telegram:group:chat1:u1", "telegram:group"],
    ["agent:main:terminal:dm:here", "terminal:dm"],
    ["agent:main:slack:thread:C1:17.5", "slack:thread"],
    [RUN, "run"],
    ["agent:main:anna:smith", "other"],
    ["anna@example.org", "other"],
  ])("say of the session %s only: %s", (session, kind) => {
    const [root] = spans(journal(accepted, began, thought("hi"), ended("completed")), quiet, session);
    expect(root?.attributes["hermes.session.kind"]).toBe(kind);
  });

  const whole = journal(
    accepted,
    began,
    thought("my secret thought", "terminal", "my secret tool"),
    asked("call_0"),
    decided("call_0", false),
    acted("call_0", "denied"),
    { kind: "started", call: "call_1" },
    acted("call_1"),
    { kind: "cut", text: "my secret start" },
    { kind: "failed", reason: "my secret fault" },
    ended("failed"),
  );

  it("hold nothing of what was said or done, and no person", () => {
    const all = JSON.stringify(spans(whole));
    expect(all).not.toMatch(/secret|999/);
    expect(all).toContain("tool other");
  });

  it("hold it where that is wanted: without secrets, and of each text the first 1,000 characters", () => {
    const all = spans(whole, open);
    const texts = JSON.stringify(all);
    expect(texts).not.toContain("secret");
    for (const text of ["my *** plan", "my *** thought", "Run my *** command?", "my *** result", "my *** fault"])
      expect(texts).toContain(text);
    const long = spans(journal(accepted, began, thought("x".repeat(9_999)), ended("completed")), open);
    expect(part(long, "model")[0]?.attributes["hermes.output"]).toBe("x".repeat(1_000));
  });
});

// ── Over the wire ─────────────────────────────────────────────────────────────────────────────────────

const opened: { close(): Promise<void> | void }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

async function collector(options?: { answer?: number }): Promise<Receiver> {
  const made = await startReceiver(options);
  opened.push(made);
  return made;
}

type WorldOptions = Pick<BootOptions, "tools" | "between"> & { content?: boolean; limitMs?: number };

async function world(endpoint: string, { content = false, limitMs = 10_000, ...boot }: WorldOptions = {}) {
  const clock = handClock();
  const model = scriptedModel();
  const logs: { event: string; fields: Record<string, unknown> }[] = [];
  const waiting = new Set<() => void>();
  const log: Log = (_level, event, fields = {}) => {
    logs.push({ event, fields });
    for (const look of waiting) look();
  };
  let telemetry: Telemetry | null = null;
  const booted = await bootEngine({
    ...boot,
    model,
    clock,
    observe: (session, entries) => telemetry?.observe(session, entries),
  });
  telemetry = createTelemetry({
    runtime: booted.engine,
    endpoint,
    headers: { "X-Team": "my-token" },
    content,
    redact: (text) => text,
    version: "1.2.3",
    clock,
    log,
    post: openPost({ limitMs }),
  });
  const made = telemetry;
  /** Time passes until it is closed. */
  const close = async (ms = 0) => {
    const closed = made.close(ms);
    await clock.pass(ms);
    await closed;
  };
  opened.push({ close });
  return {
    ...booted,
    telemetry: made,
    model,
    clock,
    logs,
    close,
    /** So many lines of this kind are in the log. */
    logged: (event: string, count = 1) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (logs.filter((line) => line.event === event).length >= count) resolve();
        };
        waiting.add(look);
        look();
      }),
    async run(session: string, text = "hello"): Promise<string> {
      const { id } = await booted.send(session, text);
      (await model.next()).answer(`You said ${text}`);
      await booted.ended(session, id);
      return id;
    },
  };
}

type WireSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, string> }[];
};
type Body = { resourceSpans: { resource: unknown; scopeSpans: { scope: unknown; spans: WireSpan[] }[] }[] };
const bodyOf = ({ body }: Letter) => JSON.parse(body) as Body;
const spansIn = (letter: Letter) => bodyOf(letter).resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans));

describe("a collector", () => {
  it("gets the spans of a turn that ended: ids that fit, times that rise, nothing of the text", async () => {
    const there = await collector();
    const tool = scriptedTool("terminal");
    const { send, model, ended: over, clock } = await world(there.url, { tools: [tool] });
    const { id } = await send("agent:main:telegram:dm:999", "my secret plan");
    await clock.pass(SECOND);
    (await model.next()).answer("my secret thought", { tool: "terminal", args: { command: "my secret command" } });
    await clock.pass(SECOND);
    (await tool.next()).done("my secret result");
    await clock.pass(SECOND);
    (await model.next()).answer("my secret answer");
    await over("agent:main:telegram:dm:999", id);
    await clock.pass(SECOND);

    const letter = await there.next();
    letter.answer();
    expect(letter.path).toBe("/v1/traces");
    expect(letter.headers).toMatchObject({ "content-type": "application/json", "x-team": "my-token" });
    expect(bodyOf(letter).resourceSpans[0]).toMatchObject({
      resource: {
        attributes: [
          { key: "service.name", value: { stringValue: "hermes" } },
          { key: "service.version", value: { stringValue: "1.2.3" } },
        ],
      },
      scopeSpans: [{ scope: { name: "hermes", version: "1.2.3" } }],
    });

    const all = spansIn(letter);
    expect(all.map(({ name }) => name)).toEqual(["hermes.run", "queue", "model", "tool terminal", "model"]);
    const [root, ...parts] = all;
    expect(root?.traceId).toBe(id.slice("run_".length));
    expect(root).not.toHaveProperty("parentSpanId");
    expect(parts.every(({ traceId, parentSpanId }) => traceId === root?.traceId && parentSpanId === root.spanId)).toBe(
      true,
    );
    expect(all.every(({ traceId, spanId }) => /^[0-9a-f]{32} [0-9a-f]{16}$/.test(`${traceId} ${spanId}`))).toBe(true);
    expect(new Set(all.map(({ spanId }) => spanId)).size).toBe(all.length);
    const begin = BigInt(clock.now() - 4 * SECOND) * 1_000_000n;
    const seconds = (nano: string) => Number(BigInt(nano) - begin) / 1e9;
    expect(all.map((s) => [seconds(s.startTimeUnixNano), seconds(s.endTimeUnixNano)])).toEqual([
      [0, 3],
      [0, 0],
      [0, 1],
      [1, 2],
      [2, 3],
    ]);
    expect(root?.attributes).toContainEqual({ key: "gen_ai.usage.input_tokens", value: { intValue: "4" } });
    expect(letter.body).not.toMatch(/secret|999/);
  });

  it("gets what was said only where that is wanted", async () => {
    const there = await collector({ answer: 200 });
    const { run, clock } = await world(there.url, { content: true });
    await run("s", "my secret plan");
    await clock.pass(SECOND);
    expect((await there.next()).body).toContain("my secret plan");
  });

  it("gets turns that end together in one letter, and an address with its path as it is", async () => {
    const there = await collector({ answer: 200 });
    const { run, clock } = await world(`${there.url}/otlp/v1/traces`);
    const ids = [await run("a"), await run("b"), await run("c")];
    await clock.pass(SECOND);
    const letter = await there.next();
    expect(letter.path).toBe("/otlp/v1/traces");
    const roots = spansIn(letter).filter(({ name }) => name === "hermes.run");
    expect(roots.map(({ traceId }) => `run_${traceId}`)).toEqual(ids);
    const last = await run("a");
    await clock.pass(SECOND);
    expect(spansIn(await there.next())[0]?.traceId).toBe(last.slice(4));
  });

  it("is asked again where it is overloaded, with the same spans", async () => {
    const there = await collector();
    const { run, telemetry, clock, logged, logs } = await world(there.url);
    await run("s");
    await clock.pass(SECOND);
    const first = await there.next();
    first.answer(503);
    await logged("telemetry.failed");
    await clock.pass(SECOND);
    const again = await there.next();
    expect(again.body).toBe(first.body);
    again.answer();
    await telemetry.close(60 * SECOND);
    expect(logs.map(({ event }) => event)).toEqual(["telemetry.failed"]);
  });

  it("that refuses is not asked again; the spans are dropped, and turns go on", async () => {
    const there = await collector({ answer: 400 });
    const { run, clock, logged, logs } = await world(there.url);
    await run("s");
    await clock.pass(SECOND);
    await logged("telemetry.dropped");
    expect(logs).toEqual([{ event: "telemetry.dropped", fields: { spans: 3, why: "answered 400" } }]);
    expect(there.all).toHaveLength(1);
    await run("s");
  });

  it("that hangs harms nothing: turns go on, what is too much is dropped, the end is bounded", async () => {
    const there = await collector();
    const { run, telemetry, clock, close, logs } = await world(there.url);
    await run("s");
    await clock.pass(SECOND);
    const letter = await there.next();
    for (let n = 0; n < 1_100; n++)
      telemetry.observe("s", [{ seq: n, turn: `run_${n}`, at: 1, kind: "ended", outcome: "completed" }]);
    await run("s");
    await close(500);
    await letter.left;
    expect(logs.map(({ fields }) => fields)).toContainEqual({ turns: 1_001, why: "there was no more time" });
  });

  it("that takes too long is left at the limit, and the next letter says what did not fit meanwhile", async () => {
    const there = await collector();
    const { run, telemetry, clock, logged, logs } = await world(there.url, { limitMs: 500 });
    await run("s");
    await clock.pass(SECOND);
    const first = await there.next();
    for (let n = 0; n < 1_100; n++)
      telemetry.observe("s", [{ seq: n, turn: `run_${n}`, at: 1, kind: "ended", outcome: "completed" }]);
    await first.left;
    await logged("telemetry.failed");
    await clock.pass(SECOND);
    await (await there.next()).left;
    await logged("telemetry.failed", 2);
    await clock.pass(5 * SECOND);
    await (await there.next()).left;
    await logged("telemetry.dropped", 2);
    const dropped = logs.filter(({ event }) => event === "telemetry.dropped").map(({ fields }) => fields);
    expect(dropped).toEqual([
      { spans: 3, why: "no answer within 0.5 s" },
      { turns: 100, why: "1000 turns wait already" },
    ]);
  });

  it("that is not there costs its spans, and no token is shown", async () => {
    const gone = await startReceiver();
    await gone.close();
    const { run, clock, logged, logs } = await world(gone.url);
    await run("s");
    await clock.pass(SECOND);
    await logged("telemetry.failed");
    await clock.pass(SECOND);
    await logged("telemetry.failed", 2);
    await clock.pass(5 * SECOND);
    await logged("telemetry.dropped");
    expect(JSON.stringify(logs)).not.toContain("my-token");
    expect(logs.slice(2)).toEqual([
      { event: "telemetry.dropped", fields: { spans: 3, why: "no answer (ECONNREFUSED)" } },
    ]);
  });

  it("gets what ended just before the end", async () => {
    const there = await collector();
    const { run, telemetry } = await world(there.url);
    const id = await run("s");
    const closed = telemetry.close(60 * SECOND);
    const letter = await there.next();
    expect(spansIn(letter)[0]?.traceId).toBe(id.slice(4));
    letter.answer();
    await closed;
  });

  it("gets the other turns where one cannot be read", async () => {
    const there = await collector({ answer: 200 });
    const between: BootOptions["between"] = (store) => ({
      ...store,
      journal: {
        ...store.journal,
        turn: (id) => (id === "run_lost" ? Promise.reject(new StoreFault("no", "disk full")) : store.journal.turn(id)),
      },
    });
    const { run, telemetry, clock, logs } = await world(there.url, { between });
    telemetry.observe("s", [{ seq: 1, turn: "run_lost", at: 1, kind: "ended", outcome: "completed" }]);
    const id = await run("s");
    await clock.pass(SECOND);
    expect(spansIn(await there.next())[0]?.traceId).toBe(id.slice(4));
    expect(logs).toEqual([{ event: "telemetry.unread", fields: { turn: "run_lost", error: "disk full" } }]);
  });
});
