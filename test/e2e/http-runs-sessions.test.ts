// The runs API on a real socket: the session it belongs to, and its status.
import { describe, expect, it } from "vitest";
import { turnId } from "../../src/engine/engine.ts";
import { eventsOf, frames, type TestApi } from "../fakes/api.ts";
import { approve, asking, finish, idem, isError, post, question, restart, start, status, stop } from "../fakes/runs.ts";
import { scriptedTool } from "../fakes/scripted.ts";

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
    expect(api.disk.journal.input(turnId("api", "k"))).toBeNull();
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
    expect(api.disk.catalog.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([first]);
  });

  it("with a key that was used for something else leaves no branch behind", async () => {
    const api = await start();
    const first = await api.run({ input: "one" });
    await finish(api, first);
    const second = await api.run({ input: "two", previous_response_id: first }, idem("k"));
    await finish(api, first, second);
    const refused = await post(api, { input: "three", previous_response_id: first }, idem("k"));
    isError(refused, 409, "idempotency_key_conflict");
    expect(api.disk.catalog.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([first]);
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
