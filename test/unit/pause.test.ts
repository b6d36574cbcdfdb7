// A pause of the whole program: nothing new begins until somebody resumes, and nothing that was said meanwhile is lost.
import { describe, expect, it } from "vitest";
import { createScheduler } from "../../src/schedule/scheduler.ts";
import { ASK, use } from "../fakes/engine.ts";
import { bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

async function boot(options: Parameters<typeof bootEngine>[0] = {}) {
  const model = scriptedModel();
  return { ...(await bootEngine({ model, ...options })), model };
}

describe("a pause", () => {
  it("lets a running turn come to its end, also one that waits for a person, and its children work", async () => {
    const tool = scriptedTool("careful", { gate: ASK });
    const { engine, model, send, ended } = await boot({ tools: [tool] });
    const { id } = await send("s", "go");
    (await model.next()).answer("", use("careful"));
    await calm();
    await engine.pause("anna");
    const child = await send("s/child/x", "part of it", { parent: "s" });
    expect(child).not.toHaveProperty("paused");
    (await model.next()).answer("done");
    expect(await ended("s/child/x", child.id)).toBe("completed");
    const [question] = (await engine.status("s")).asking;
    await engine.answer({ session: "s", call: question?.call ?? "", allow: true, text: "", by: "anna" });
    (await tool.next()).done("did it");
    (await model.next()).answer("done");
    expect(await ended("s", id)).toBe("completed");
  });

  it("holds what is said meanwhile, in order, until somebody resumes", async () => {
    const { engine, model, send, ended } = await boot();
    await engine.pause("anna");
    expect(await engine.paused()).toMatchObject({ by: "anna" });
    const first = await send("s", "one");
    const second = await send("s", "two", { mode: "interrupt" });
    const other = await send("other", "three");
    expect([first, second, other]).toMatchObject([
      { applied: "began", paused: true },
      { applied: "queue", paused: true },
      { applied: "began", paused: true },
    ]);
    await calm();
    expect(model.all).toEqual([]);
    expect(await engine.stop({ session: "other", turn: other.id })).toBe("stopping");
    expect(await ended("other", other.id)).toBe("cancelled");
    await engine.resume();
    expect(await engine.paused()).toBeNull();
    (await model.next()).answer("1");
    (await model.next()).answer("2");
    expect([await ended("s", first.id), await ended("s", second.id)]).toEqual(["completed", "completed"]);
    expect(model.all.map(({ request }) => request.messages.at(-1)?.text)).toEqual(["one", "two"]);
  });

  it("survives a kill, and what a dead process had at work waits too", async () => {
    const { engine, send, kill, disk, model } = await boot();
    const { id } = await send("s", "one");
    await model.next();
    await engine.pause("anna");
    await send("other", "two");
    kill();
    const next = await boot({ disk });
    await calm();
    expect(next.model.all).toEqual([]);
    await next.engine.resume();
    for (const asked of [await next.model.next(), await next.model.next()]) asked.answer("done");
    expect(await next.ended("s", id)).toBe("completed");
  });

  it("makes up for a time of a job once, after it", async () => {
    const clock = handClock();
    const { engine, journal } = await boot({ clock });
    const scheduler = createScheduler({ runtime: engine, notes: engine.notes, clock, log: () => {} });
    await engine.pause("anna");
    await scheduler.add({ text: "look", every: "10m", session: "s", createdBy: "test" });
    scheduler.start();
    await clock.pass(3_600_000);
    expect(journal("s")).toEqual([]);
    await engine.resume();
    await clock.pass(60_000);
    expect(journal("s").filter(({ kind }) => kind === "accepted")).toHaveLength(1);
    await scheduler.close();
  });
});
