// The runs API on a real socket: each case of seed 003, its name in brackets.
import { describe, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import { turnId } from "../../src/engine/engine.ts";
import { approve, asking, finish, idem, isError, nothingLeft, post, start, status, stop } from "../fakes/runs.ts";
import { scriptedTool } from "../fakes/scripted.ts";

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
    expect(api.disk.journal.input(turnId("api", "k"))).toBeNull();
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
    expect(body.endsWith(": stream closed\n")).toBe(true);
  });
});
