// What Prometheus reads, over HTTP, after real turns.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import type { Fact } from "../../src/core/session.ts";
import { createMetrics, metricsRoutes } from "../../src/surfaces/http/server/metrics.ts";
import { createTally, type Sample } from "../../src/surfaces/http/server/samples.ts";
import { type StartOptions, startApi } from "../fakes/api.ts";
import { createMemoryStore } from "../fakes/memory-store.ts";
import { handClock, scriptedTool } from "../fakes/scripted.ts";

const opened: { close(): Promise<void> | void }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

async function served(options: StartOptions = {}) {
  const api = await startApi({
    ...options,
    onlooker: (runtime) => {
      const metrics = createMetrics({ runtime, clock: { ...handClock(), now: Date.now }, connections: async () => 3 });
      opened.push(metrics);
      return { observe: metrics.observe, routes: metricsRoutes(metrics) };
    },
  });
  opened.push(api);
  /** The value of a series, by its name with its labels. */
  const scrape = async () => {
    const text = await (await api.call("GET", "/metrics")).text();
    const series = text.split("\n").filter((line) => line && !line.startsWith("#"));
    const values = new Map(
      series.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]),
    );
    return (name: string) => values.get(name);
  };
  return { ...api, scrape };
}

describe("/metrics", () => {
  it("counts inputs, turns, model calls, tokens and tool calls, also those before the first scrape", async () => {
    const tool = scriptedTool("terminal");
    const { run, model, ended, scrape } = await served({ tools: [tool] });
    const id = await run({ input: "hello", session_id: "s" });
    (await model.next()).answer("", { tool: "terminal", args: {} }, { tool: "not-a-tool", args: {} });
    (await tool.next()).done("done");
    (await model.next()).answer("hi");
    await ended("s", id);

    const value = await scrape();
    expect(value('hermes_inputs_total{applied="began"}')).toBe(1);
    expect(value('hermes_turns_total{outcome="completed"}')).toBe(1);
    expect(value("hermes_model_calls_total")).toBe(2);
    expect(value('hermes_tokens_total{direction="input"}')).toBe(4);
    expect(value('hermes_tokens_total{direction="output"}')).toBe(2);
    expect(value('hermes_tokens_total{direction="cached"}')).toBeUndefined();
    expect(value('hermes_tool_calls_total{tool="terminal",outcome="ok"}')).toBe(1);
    expect(value('hermes_tool_calls_total{tool="other",outcome="error"}')).toBe(1);
    expect(value("hermes_queue_wait_seconds_count")).toBe(1);
    expect(value("hermes_turn_seconds_count")).toBe(1);
    expect(value("hermes_tool_seconds_count")).toBe(1);
    expect(value("hermes_stop_seconds_count")).toBe(0);
    expect(value("hermes_restarts_total")).toBe(0);
  });

  it("goes on counting after a scrape", async () => {
    const { run, model, ended, scrape } = await served();
    for (const count of [1, 2]) {
      const id = await run({ input: "hello", session_id: "s" });
      (await model.next()).answer("hi");
      await ended("s", id);
      expect((await scrape())('hermes_turns_total{outcome="completed"}')).toBe(count);
    }
  });

  it("shows what runs and what waits at this moment, and the process itself", async () => {
    const { run, model, engine, ended, scrape } = await served();
    const first = await run({ input: "one", session_id: "s" });
    await run({ input: "two", session_id: "s", mode: "queue" });
    const busy = await scrape();
    expect(busy("hermes_turns_running")).toBe(1);
    expect(busy("hermes_inputs_waiting")).toBe(1);
    expect(busy("hermes_oldest_input_seconds")).toBeGreaterThanOrEqual(0);
    expect(busy("hermes_connections")).toBe(3);
    expect(busy("process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
    expect(busy("nodejs_eventloop_lag_p99_seconds")).toBeGreaterThanOrEqual(0);

    await model.next();
    await engine.stop({ session: "s", turn: first });
    const next = await model.next();
    const after = await scrape();
    expect(after('hermes_turns_total{outcome="cancelled"}')).toBe(1);
    expect(after('hermes_inputs_total{applied="queue"}')).toBe(1);
    expect(after("hermes_stop_seconds_count")).toBe(1);
    expect(after("hermes_inputs_waiting")).toBe(0);
    expect(after("hermes_oldest_input_seconds")).toBe(0);
    next.answer("hi");
    const { turn } = await engine.status("s");
    await ended("s", turn?.id ?? "");
  });

  it("counts approvals by what was decided, and questions not at all", async () => {
    const ask = { gate: "ask", text: "?", choices: [] as string[], timeoutMs: 60_000 } as const;
    const asks = scriptedTool("terminal", { gate: { ...ask, kind: "approval" } });
    const clarifies = scriptedTool("clarify", { gate: { ...ask, kind: "question" } });
    const { run, model, engine, entry, ended, scrape } = await served({ tools: [asks, clarifies] });
    const id = await run({ input: "hello", session_id: "s" });
    const call = (tool: string) => ({ tool, args: {} });
    (await model.next()).answer("", call("terminal"), call("terminal"), call("terminal"), call("clarify"));
    await entry("s", "asked");
    const answers = [
      { allow: true, text: "always", scope: "always" },
      { allow: true, text: "whatever they typed" },
      { allow: false, text: "no" },
      { allow: true, text: "blue" },
    ] as const;
    for (const answer of answers) {
      const [asking] = (await engine.status("s")).asking;
      await engine.answer({ session: "s", call: asking?.call ?? "", ...answer, by: "me" });
    }
    for (let n = 0; n < 2; n++) (await asks.next()).done("done");
    (await model.next()).answer("hi");
    await ended("s", id);
    const value = await scrape();
    expect(value('hermes_approvals_total{decision="always"}')).toBe(1);
    expect(value('hermes_approvals_total{decision="once"}')).toBe(1);
    expect(value('hermes_approvals_total{decision="deny"}')).toBe(1);
    expect(value('hermes_tool_calls_total{tool="terminal",outcome="denied"}')).toBe(1);
    expect(value('hermes_tool_calls_total{tool="clarify",outcome="ok"}')).toBe(1);
  });

  it("counts the turns that a dead process left", async () => {
    const disk = createMemoryStore();
    const before = await startApi({ disk });
    await before.run({ input: "hello", session_id: "s" });
    await before.model.next();
    await Promise.resolve(before.kill());

    const { scrape, model, run } = await served({ disk });
    await model.next();
    expect((await scrape())("hermes_restarts_total")).toBe(1);
    await run({ input: "other", session_id: "t" });
  });

  it("needs the key, and says what it is", async () => {
    const { call, url } = await served();
    expect((await fetch(`${url}/metrics`)).status).toBe(401);
    const answer = await call("GET", "/metrics");
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await answer.text()).toMatch(/^# HELP hermes_inputs_total .+\n# TYPE hermes_inputs_total counter\n/);
  });

  it("is each instance's own, but for the numbers of the process", async () => {
    const [one, two] = [await served(), await served()];
    const id = await one.run({ input: "hello", session_id: "s" });
    (await one.model.next()).answer("hi");
    await one.ended("s", id);
    expect((await one.scrape())('hermes_turns_total{outcome="completed"}')).toBe(1);
    const value = await two.scrape();
    expect(value('hermes_turns_total{outcome="completed"}')).toBeUndefined();
    expect(value("process_resident_memory_bytes")).toBeGreaterThan(0);
  });

  it("counts however much happens before anybody looks", async () => {
    const load = async () => ({ turns: 0, held: 0, waiting: 0, oldestWaitingAt: null, inputs: [] });
    const metrics = createMetrics({ runtime: { load }, clock: handClock(), connections: async () => 0 });
    opened.push(metrics);
    for (let n = 0; n < 6_000; n++)
      metrics.observe("s", [{ seq: n, turn: `run_${n}`, at: 1_000, kind: "restarted", attempt: 1 }]);
    expect(await metrics.text()).toContain("\nhermes_restarts_total 6000\n");
  });

  it("does not keep a process alive", async () => {
    const script = `
      import { createMetrics } from "./src/surfaces/http/server/metrics.ts";
      const load = async () => ({ turns: 0, held: 0, waiting: 0, oldestWaitingAt: null, inputs: [] });
      const clock = { now: Date.now, sleep: async () => {} };
      const metrics = createMetrics({ runtime: { load }, clock, connections: async () => 0 });
      if (!(await metrics.text()).includes("nodejs_gc_duration_seconds")) process.exitCode = 1;
      metrics.close();`;
    const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", script], { stdio: "inherit" });
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

// ── What is counted ───────────────────────────────────────────────────────────────────────────────────

function tallied() {
  const samples: Sample[] = [];
  const tally = createTally((sample) => samples.push(sample));
  let seq = 0;
  return {
    samples,
    tell: (turn: string, at: number, fact: Fact) => tally({ seq: ++seq, turn, at, ...fact }),
    times: (name: string) => samples.flatMap((s) => ("histogram" in s && s.histogram === name ? [s.seconds] : [])),
    counts: (name: string) => samples.flatMap((s) => ("counter" in s && s.counter === name ? [s.labels] : [])),
  };
}
const accepted = (id: string): Fact => ({
  kind: "accepted",
  input: { id, text: "hello", mode: "queue", reply: "pull" },
  applied: "queue",
});
const thought = (...tools: string[]): Fact => ({
  kind: "thought",
  text: "",
  calls: tools.map((tool, n) => ({ id: `call_${n}`, tool, args: {} })),
  usage: { input: 10, output: 5, cached: 4 },
  model: "m",
});

describe("the tally", () => {
  it("times the wait, the turn, its tools and its stop", () => {
    const { tell, times } = tallied();
    tell("a", 1_000, accepted("a"));
    tell("a", 3_000, { kind: "began", input: "a" });
    tell("a", 4_000, thought("terminal"));
    tell("a", 4_500, { kind: "started", call: "call_0" });
    tell("a", 6_000, { kind: "acted", call: "call_0", outcome: "ok", text: "" });
    tell("a", 7_000, { kind: "stopping", outcome: "cancelled", by: "" });
    tell("a", 7_250, { kind: "ended", outcome: "cancelled" });
    expect(["queue_wait", "turn", "tool", "stop"].map((name) => times(name))).toEqual([[2], [4.25], [1.5], [0.25]]);
  });

  it("takes a clock that was set back for no time at all", () => {
    const { tell, times } = tallied();
    tell("a", 5_000, accepted("a"));
    tell("a", 3_000, { kind: "began", input: "a" });
    expect(times("queue_wait")).toEqual([0]);
  });

  it("counts what it finds in the middle of a turn, and times what it can", () => {
    const { tell, times, counts } = tallied();
    tell("a", 1_000, { kind: "restarted", attempt: 1 });
    tell("a", 2_000, { kind: "acted", call: "call_0", outcome: "unknown", text: "" });
    tell("a", 3_000, { kind: "decided", call: "call_1", allow: false, text: "", by: "timeout" });
    tell("a", 4_000, { kind: "ended", outcome: "completed" });
    expect(counts("tool_calls")).toEqual([{ tool: "other", outcome: "unknown" }]);
    expect(counts("approvals")).toEqual([{ decision: "timeout" }]);
    expect(counts("turns")).toEqual([{ outcome: "completed" }]);
    expect([...times("turn"), ...times("tool")]).toEqual([]);
  });

  it("takes a turn that was given up after crashes for no model call", () => {
    const { tell, counts } = tallied();
    tell("a", 1_000, { kind: "restarted", attempt: 4 });
    tell("a", 1_000, { kind: "parked" });
    tell("a", 1_000, { kind: "failed", reason: "given up" });
    expect(counts("model_calls")).toEqual([]);
    tell("b", 1_000, { kind: "failed", reason: "no such model" });
    expect(counts("model_calls")).toHaveLength(1);
  });

  it("knows at most 100 tools by name", () => {
    const { tell, counts } = tallied();
    const tools = Array.from({ length: 150 }, (_, n) => `tool_${n}`);
    tell("a", 1_000, thought(...tools));
    tools.forEach((_, n) => {
      tell("a", 1_000, { kind: "started", call: `call_${n}` });
      tell("a", 1_000, { kind: "acted", call: `call_${n}`, outcome: "ok", text: "" });
    });
    const names = counts("tool_calls").map((labels) => labels?.["tool"]);
    expect(new Set(names).size).toBe(101);
    expect(names.filter((name) => name === "other")).toHaveLength(50);
  });

  it("forgets what is over, and what is too much", () => {
    const { tell, times } = tallied();
    tell("steer", 1_000, accepted("steer"));
    tell("a", 1_000, { kind: "joined", input: "steer" });
    tell("steer", 2_000, { kind: "began", input: "steer" });
    tell("gone", 1_000, accepted("gone"));
    tell("gone", 1_000, { kind: "withdrawn", input: "gone" });
    tell("gone", 2_000, { kind: "began", input: "gone" });
    expect(times("queue_wait")).toEqual([]);
    tell("first", 1_000, accepted("first"));
    for (let n = 0; n < 10_000; n++) tell(`input ${n}`, 1_000, accepted(`input ${n}`));
    tell("first", 2_000, { kind: "began", input: "first" });
    expect(times("queue_wait")).toEqual([]);
    tell("input 9999", 2_000, { kind: "began", input: "input 9999" });
    expect(times("queue_wait")).toEqual([1]);
  });

  it("leaves out what is not a number", () => {
    const { tell, counts } = tallied();
    tell("a", 1_000, { ...thought(), usage: { input: Number.NaN, output: -1 } } as Fact);
    expect(counts("tokens")).toEqual([]);
    expect(counts("model_calls")).toHaveLength(1);
  });
});
