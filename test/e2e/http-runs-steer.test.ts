// The runs API on a real socket: steering and stopping.
import { describe, expect, it } from "vitest";
import { turnId } from "../../src/engine/engine.ts";
import { eventsOf } from "../fakes/api.ts";
import { createMemoryStore } from "../fakes/memory-store.ts";
import { approve, asking, finish, idem, isError, restart, start, status, steer, stop } from "../fakes/runs.ts";
import { scriptedTool } from "../fakes/scripted.ts";

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
    expect(api.disk.journal.input(turnId("api", "k"))).toBeNull();
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
    expect(api.disk.journal.input(turnId("api", "k"))).toBeNull();
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
