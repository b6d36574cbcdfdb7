// One turn out of a session's stream: nothing of its neighbours, and from any place on exactly the rest.
import { describe, expect, it } from "vitest";
import { type FollowedTurn, followTurn } from "../../src/conversation/follow-turn.ts";
import type { Update } from "../../src/core/runtime.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

async function boot() {
  const model = scriptedModel();
  const tool = scriptedTool("look");
  const clock = handClock();
  return { ...(await bootEngine({ model, tools: [tool], clock })), model, tool, clock };
}
const use = { tool: "look", args: {} };

/** All that comes, and whether that was all. */
function watch(engine: Engine, followed: FollowedTurn) {
  const updates: Update[] = [];
  const past: Entry[] = [];
  const leave = new AbortController();
  const over = (async () => {
    for await (const update of followTurn(engine, { past: (entry) => past.push(entry), ...followed }, leave.signal))
      updates.push(update);
  })();
  return { updates, past, over, leave: () => leave.abort(), told: () => updates.map(brief) };
}
const brief = (update: Update): string => {
  if ("entry" in update) return update.entry.kind;
  if ("delta" in update) return `"${update.delta}"`;
  if ("reasoning" in update) return `(${update.reasoning})`;
  if ("printed" in update) return `{${update.printed}}`;
  return "reset" in update ? "reset" : `[${update.notice}]`;
};

describe("following a turn", () => {
  it("gives what its input waits for, what the turn says and does, and ends with it", async () => {
    const { engine, model, tool, send } = await boot();
    await send("s", "first");
    const first = await model.next();
    first.say("not yours");
    const viewer = watch(engine, await send("s", "second"));
    await calm();
    expect(viewer.told()).toEqual(["accepted"]);
    first.answer("");
    const second = await model.next();
    second.reason("hm");
    await calm();
    second.say("let me look");
    second.answer("", use);
    (await tool.next()).done("there");
    (await model.next()).answer("found");
    await viewer.over;
    expect(viewer.told()).toEqual([
      "accepted",
      "began",
      "(hm)",
      '"let me look"',
      "thought",
      "started",
      "acted",
      '"found"',
      "thought",
      "ended",
    ]);
  });

  it("from each place that it named gives exactly the rest, and what was before as the past", async () => {
    const { engine, model, tool, send } = await boot();
    await send("s", "first");
    const first = await model.next();
    first.say("not yours");
    const receipt = await send("s", "second");
    const viewer = watch(engine, receipt);
    await calm();
    first.answer("");
    const second = await model.next();
    second.say("one ");
    await calm();
    await send("s", "third");
    second.answer("two", use);
    (await tool.next()).done("there");
    (await model.next()).answer("found");
    (await model.next()).answer("not yours either");
    await viewer.over;
    for (const [index, { cursor }] of viewer.updates.entries()) {
      const again = watch(engine, { ...receipt, cursor });
      await again.over;
      const rest = viewer.updates.slice(index + 1);
      expect(written(again.updates)).toEqual(written(rest));
      const entries = viewer.updates.slice(0, index + 1).flatMap((update) => ("entry" in update ? [update.entry] : []));
      expect(again.past).toEqual(entries);
    }
    expect((await all(engine, { ...receipt, cursor: "" })).length).toBeGreaterThan(0);
  });

  it("of a steer is the turn that it joins, from then on, also for one who comes back later", async () => {
    const { engine, model, tool, send } = await boot();
    const { id } = await send("s", "first");
    (await model.next()).answer("before", use);
    const steer = await send("s", "this way", { mode: "steer", into: id });
    const viewer = watch(engine, steer);
    (await tool.next()).done("there");
    (await model.next()).answer("after");
    await viewer.over;
    expect(viewer.told()).toEqual(["accepted", "joined", '"after"', "thought", "ended"]);
    expect(viewer.past.map(({ kind }) => kind)).toEqual(["accepted", "began", "thought", "started", "acted"]);
    for (const [index, { cursor }] of viewer.updates.entries())
      expect(await all(engine, { ...steer, cursor })).toEqual(viewer.told().slice(index + 1));
  });

  it("ends when its input is withdrawn, and gives nothing of one that is over or was never there", async () => {
    const { engine, model, send } = await boot();
    await send("s", "first");
    const receipt = await send("s", "second");
    const viewer = watch(engine, receipt);
    await engine.withdraw("s", receipt.id);
    await viewer.over;
    expect(viewer.told()).toEqual(["accepted", "withdrawn"]);
    (await model.next()).answer("done");
    expect(await all(engine, { ...receipt, cursor: viewer.updates.at(-1)?.cursor ?? "" })).toEqual([]);
    expect(await all(engine, { session: "s", id: "run_x", cursor: "" })).toEqual([]);
  });

  it("ends when nobody watches any more, and when the runtime closes, without an end of the turn", async () => {
    const { engine, send, clock } = await boot();
    const receipt = await send("s", "first");
    const [gone, closed] = [watch(engine, receipt), watch(engine, receipt)];
    await calm();
    gone.leave();
    await gone.over;
    await Promise.all([engine.drain(1_000), clock.pass(10_000)]);
    await closed.over;
    expect([gone.told(), closed.told()]).toEqual([
      ["accepted", "began"],
      ["accepted", "began"],
    ]);
  });
});

async function all(engine: Engine, followed: FollowedTurn): Promise<string[]> {
  const viewer = watch(engine, followed);
  await viewer.over;
  return viewer.told();
}

/** However the text was cut into pieces. */
const written = (updates: readonly Update[]) =>
  updates
    .map((update) => ("delta" in update ? update.delta : "entry" in update ? `|${update.entry.seq}|` : ""))
    .join("");
