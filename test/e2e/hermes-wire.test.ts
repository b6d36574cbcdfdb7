// Clients that were written for Hermes: each answer that was recorded there (wire.json) has its fields here, with values of the
// same kind. What Hermes leaves empty (null) may be anything.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import type { Runtime } from "../../src/core/runtime.ts";
import { clock } from "../../src/platform/clock.ts";
import { createScheduler, type Scheduler } from "../../src/schedule/scheduler.ts";
import { jobRoutes } from "../../src/surfaces/http/runtime/jobs.ts";
import { frames, KEY, startApi, type TestApi } from "../fakes/api.ts";
import { HERMES_FIXTURE } from "../fakes/hermes-home.ts";

type Recorded = { status: number; body?: unknown; frames?: { event?: string; data: unknown }[] };
const wire = JSON.parse(readFileSync(join(HERMES_FIXTURE, "wire.json"), "utf8")) as Record<string, Recorded>;

const TERMINAL: Tool = {
  name: "terminal",
  description: "Runs a command.",
  schema: {},
  repeatable: true,
  judge: () => ({ gate: "run" }),
  run: async () => ({ ok: true, text: "hi" }),
};

let api: TestApi;
let scheduler: Scheduler;
beforeEach(async () => {
  const onlooker = (runtime: Runtime) => {
    scheduler = createScheduler({ runtime, notes: runtime.notes, clock, log: () => {}, delivers: () => true });
    return { observe: scheduler.observe, routes: jobRoutes(scheduler) };
  };
  api = await startApi({ onlooker, tools: [TERMINAL] });
});
afterEach(async () => {
  await scheduler.close();
  await api.close();
});

/** What Hermes has that we do not have, or that is of another kind. */
function missing(theirs: unknown, ours: unknown, path = ""): string[] {
  if (theirs === null || theirs === undefined) return [];
  if (Array.isArray(theirs)) {
    if (!Array.isArray(ours)) return [`${path}: not a list`];
    return theirs.length && ours.length ? missing(theirs[0], ours[0], `${path}[0]`) : [];
  }
  if (typeof theirs !== "object")
    return ours === null || typeof ours === typeof theirs ? [] : [`${path}: ${typeof ours}`];
  if (typeof ours !== "object" || ours === null) return [`${path}: ${String(ours)}`];
  return Object.entries(theirs).flatMap(([name, value]) =>
    name in ours ? missing(value, (ours as Record<string, unknown>)[name], `${path}.${name}`) : [`${path}.${name}`],
  );
}

async function answers(name: string, method: string, path: string, body?: unknown, left: readonly string[] = []) {
  const recorded = wire[name];
  if (!recorded) throw new Error(`There is no ${name}.`);
  const answer = await api.json(method, path, body);
  expect([name, answer.status]).toEqual([name, recorded.status]);
  const lacks = missing(recorded.body, answer.body).filter((one) => !left.some((prefix) => one.startsWith(prefix)));
  expect([name, lacks]).toEqual([name, []]);
  return answer.body;
}

/** Beside the request, the model answers. */
async function speaks<T>(request: Promise<T>, ...replies: string[]): Promise<T> {
  for (const reply of replies) {
    const asked = await api.model.next();
    if (reply === "[tool]") asked.answer("", { tool: "terminal", args: { command: "echo hi" } });
    else asked.answer(reply);
  }
  return request;
}

const SERVICES = [
  ".endpoints.model_options",
  ".endpoints.artifact",
  ".endpoints.browser_control",
  ".features.model_options",
  ".features.admin",
  ".features.memory",
  ".features.audio",
  ".features.realtime",
  ".features.cors",
];

describe("what the server says of itself", () => {
  it.each(["/health", "/v1/health"])("%s needs no key", async (path) => {
    const response = await fetch(`${api.url}${path}`);
    expect([response.status, await response.json()]).toMatchObject([200, { status: "ok", platform: "hermes-agent" }]);
  });

  it("health, capabilities and tools", async () => {
    await answers("GET /health/detailed", "GET", "/health/detailed", undefined, [
      ".readiness.checks",
      ".platforms.api_server.writer",
    ]);
    await answers("GET /v1/capabilities", "GET", "/v1/capabilities", undefined, SERVICES);
    await answers("GET /v1/toolsets", "GET", "/v1/toolsets");
  });
});

describe("sessions", () => {
  it("are made, read, changed, forked, listed and deleted", async () => {
    await answers("POST session: own id", "POST", "/api/sessions", { id: "own", title: "Own", model: "fake-1" });
    await answers("POST session: same id again", "POST", "/api/sessions", { id: "own" });
    await answers("GET session", "GET", "/api/sessions/own");
    await answers("GET session: unknown", "GET", "/api/sessions/none");
    await answers("PATCH session title", "PATCH", "/api/sessions/own", { title: "New" });
    const ended = await answers("PATCH session end_reason", "PATCH", "/api/sessions/own", {
      end_reason: "done",
      pinned: true,
    });
    expect(ended).toMatchObject({ session: { title: "New", end_reason: "done", pinned: true, archived: false } });
    await answers("PATCH session unknown field", "PATCH", "/api/sessions/own", { colour: "red" });
    expect((await api.json("PATCH", "/api/sessions/own", { title: "" })).body).toMatchObject({
      session: { title: null },
    });
    await answers("POST session model", "POST", "/api/sessions/own/model", { model: "fake-2" });
    expect((await api.json("POST", "/api/sessions/own/model", {})).body).toMatchObject({
      error: { code: "missing_model" },
    });
    await answers("POST session fork", "POST", "/api/sessions/own/fork", { id: "forked" });
    expect((await api.json("GET", "/api/sessions/own")).body).toMatchObject({ session: { end_reason: "branched" } });
    const paged = await answers("GET sessions paged", "GET", "/api/sessions?limit=1&offset=1&source=api_server");
    expect(paged).toMatchObject({ limit: 1, offset: 1, has_more: false, data: [{ id: "own", source: "api_server" }] });
    await answers("DELETE session", "DELETE", "/api/sessions/own");
  });

  it("are talked in", async () => {
    await api.json("POST", "/api/sessions", { id: "s" });
    await speaks(
      answers("session chat (message)", "POST", "/api/sessions/s/chat", {
        input: [{ type: "text", text: "hello" }],
        system_message: "be brief",
      }),
      "hi",
    );
    expect(api.model.all[0]?.request).toMatchObject({ messages: [{ role: "user", text: "hello" }] });
    await answers("session chat: nothing", "POST", "/api/sessions/s/chat", {});
    await answers("GET session messages", "GET", "/api/sessions/s/messages?limit=50");
    const page = await answers("GET session messages limit", "GET", "/api/sessions/s/messages?limit=2&offset=1");
    expect(page).toMatchObject({
      data: [{ role: "assistant", content: "hi" }],
      pagination: { limit: 2, offset: 1, order: "oldest", returned: 1 },
    });
    const latest = await api.json("GET", "/api/sessions/s/messages?limit=1&order=latest");
    expect(latest.body).toMatchObject({ data: [{ content: "hi" }] });
  });

  it("are talked in with named events", async () => {
    await api.json("POST", "/api/sessions", { id: "s" });
    const response = await api.call("POST", "/api/sessions/s/chat/stream", { message: "echo hi" });
    expect(response.headers.get("x-hermes-session-id")).toBe("s");
    const got: { event: string; data: Record<string, unknown> }[] = [];
    const reading = (async () => {
      for await (const { event, data } of frames(response)) if (data) got.push({ event, data: JSON.parse(data) });
    })();
    await speaks(reading, "[tool]", "done");
    const recorded = wire["session chat stream tool"]?.frames ?? [];
    const names = recorded.map(({ event }) => event).filter((name) => name !== "tool.progress");
    expect(got.map(({ event }) => event)).toEqual(names);
    for (const { event, data } of recorded) {
      const ours = got.find((one) => one.event === event);
      if (ours)
        expect([event, missing(data, ours.data).filter((one) => !one.startsWith(".args"))]).toEqual([event, []]);
    }
    expect(got.map(({ data }) => data["seq"])).toEqual(names.map((_, index) => index + 1));
    expect(got.at(-2)?.data).toMatchObject({
      completed: true,
      messages: [{ tool_calls: [{ function: { name: "terminal" } }] }, { role: "tool" }, { content: "done" }],
    });
  });
});

describe("jobs", () => {
  it("are made, read, changed, paused, run and removed", async () => {
    const left = [
      ".job.origin",
      ".jobs[0].origin",
      ".job.provider_snapshot",
      ".job.model_snapshot",
      ".jobs[0].provider_snapshot",
      ".jobs[0].model_snapshot",
    ];
    const job = (body: unknown) => (body as { job: { id: string } }).job;
    const made = job(
      await answers("POST job", "POST", "/api/jobs", { name: "j", schedule: "0 9 * * *", prompt: "look" }, left),
    );
    await answers(
      "POST job: every 30m",
      "POST",
      "/api/jobs",
      { name: "k", schedule: "every 30m", prompt: "look", deliver: "telegram:1001" },
      left,
    );
    await answers("POST job: no name", "POST", "/api/jobs", { schedule: "30m", prompt: "look" });
    await answers("POST job: no schedule", "POST", "/api/jobs", { name: "j", prompt: "look" });
    expect((await api.json("POST", "/api/jobs", { name: "j", schedule: "often", prompt: "look" })).status).toBe(400);
    await answers("GET jobs", "GET", "/api/jobs", undefined, [...left, ".jobs[0].schedule"]);
    await answers("GET job", "GET", `/api/jobs/${made.id}`, undefined, left);
    await answers("GET job: unknown", "GET", "/api/jobs/000000000000");
    const changed = await answers(
      "PATCH job",
      "PATCH",
      `/api/jobs/${made.id}`,
      { name: "renamed", schedule: "0 10 * * *" },
      left,
    );
    expect(changed).toMatchObject({
      job: { name: "renamed", prompt: "look", schedule: { kind: "cron", expr: "0 10 * * *" } },
    });
    await answers("POST job pause", "POST", `/api/jobs/${made.id}/pause`, undefined, left);
    expect((await api.json("GET", "/api/jobs")).body).toMatchObject({
      jobs: [{ name: "k", deliver: "telegram:1001" }],
    });
    await answers("POST job resume", "POST", `/api/jobs/${made.id}/resume`, undefined, left);
    const run = await speaks(api.json("POST", `/api/jobs/${made.id}/run`), "done");
    expect(
      missing(wire["POST job run"]?.body, run.body).filter((one) => !left.some((prefix) => one.startsWith(prefix))),
    ).toEqual([]);
    await answers("DELETE job", "DELETE", `/api/jobs/${made.id}`);
  });
});

describe("runs", () => {
  it("are steered", async () => {
    const run = await api.run({ input: "go" });
    const asked = await api.model.next();
    await answers("POST steer: running run", "POST", `/v1/runs/${run}/steer`, { text: "also this" });
    await answers("POST steer: empty", "POST", `/v1/runs/${run}/steer`, {});
    asked.answer("done");
  });

  it("are begun by curl -d, which calls JSON a form", async () => {
    const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/x-www-form-urlencoded" };
    const response = await fetch(`${api.url}/v1/runs`, { method: "POST", headers, body: '{"input":"go"}' });
    expect(response.status).toBe(202);
    (await api.model.next()).answer("done");
  });
});
