// Children are sessions: they work side by side, are stopped with their parent, and survive a restart.
import { describe, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import type { Unattended } from "../../src/core/session.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createClarify } from "../../src/tools/clarify.ts";
import { createDelegate } from "../../src/tools/delegate.ts";
import { type BootOptions, bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

type Children = { usual?: Unattended; more?: Tool[] };

async function boot(options: Omit<BootOptions, "clock"> = {}, { usual = "deny", more = [] }: Children = {}) {
  const clock = handClock();
  const model = scriptedModel();
  let engine: Engine | null = null;
  const runtime = () => {
    if (!engine) throw new Error("not started");
    return engine;
  };
  const tools = [createDelegate({ runtime, clock, unattended: usual }), createClarify(60_000), ...more];
  // What was left begins to work while the engine starts, so it must be there by then.
  const booted = await bootEngine({
    ...options,
    clock,
    model,
    tools,
    made: (made) => {
      engine = made;
    },
  });
  return { ...booted, model, clock };
}
const delegate = (...goals: string[]) => ({ tool: "delegate_task", args: { tasks: goals.map((goal) => ({ goal })) } });
const lastText = (messages: readonly { text: string }[]) => messages.at(-1)?.text ?? "";

describe("delegate_task", () => {
  it("children work side by side, see only their goal, and their reports come back together", async () => {
    const { model, send, ended } = await boot();
    const { id } = await send("s", "do both");
    (await model.next()).answer("", delegate("count", "paint"));
    const [first, second] = [await model.next(), await model.next()];
    expect([first, second].map(({ request }) => request.messages)).toEqual([
      [{ role: "user", text: "count" }],
      [{ role: "user", text: "paint" }],
    ]);
    second.answer("blue");
    first.answer("seven");
    const parent = await model.next();
    expect(lastText(parent.request.messages)).toMatch(/2 of 2 completed.*count.*seven.*paint.*blue/s);
    parent.answer("done");
    expect(await ended("s", id)).toBe("completed");
  });

  it("a stop of the parent reaches the children, and waits until they are dead", async () => {
    const { model, send, engine, ended } = await boot();
    const { id } = await send("s", "go");
    (await model.next()).answer("", delegate("one", "two"));
    const children = [await model.next(), await model.next()];
    expect(await engine.stop({ session: "s", turn: id })).toBe("stopping");
    expect(await ended("s", id)).toBe("cancelled");
    expect(children.map(({ signal }) => signal.aborted)).toEqual([true, true]);
    for (const child of children) {
      const { turn } = await engine.status(child.request.session);
      expect(turn).toBeNull();
    }
  });

  it("a child that takes too long is stopped and reported, the others are not", async () => {
    const { model, send, clock } = await boot();
    await send("s", "go");
    (await model.next()).answer("", {
      tool: "delegate_task",
      args: { tasks: [{ goal: "slow" }, { goal: "quick" }], timeout: 60 },
    });
    await model.next();
    (await model.next()).answer("here");
    await clock.pass(60_000);
    expect(lastText((await model.next()).request.messages)).toMatch(/1 of 2 completed.*timed out.*completed, .*here/s);
  });

  it("a child cannot ask anybody, and has no children", async () => {
    const { model, send } = await boot();
    await send("s", "go");
    (await model.next()).answer("", delegate("ask around"));
    (await model.next()).answer("", { tool: "clarify", args: { question: "which?" } }, delegate("more"));
    const child = await model.next();
    const results = child.request.messages.slice(-2).map(({ text }) => text);
    expect(results).toEqual(
      expect.arrayContaining([
        "Denied: this run is non-interactive, so nobody can answer.",
        expect.stringContaining("no children"),
      ]),
    );
  });

  it.each<[Unattended, Unattended | null, number]>([
    ["deny", null, 0],
    ["allow", null, 1],
    ["deny", "allow", 1],
    ["allow", "deny", 0],
  ])("where children are told to %s, and their parent to %s, %d call(s) run", async (usual, parent, ran) => {
    const tool = scriptedTool("remove", {
      gate: { gate: "ask", kind: "approval", text: "Remove?", choices: [], timeoutMs: 60_000 },
    });
    const { model, send, entry } = await boot({}, { usual, more: [tool] });
    await send("s", "go", parent ? { unattended: parent } : {});
    (await model.next()).answer("", delegate("clean up"));
    const child = await model.next();
    child.answer("", { tool: "remove", args: {} });
    const decided = await entry(child.request.session, "decided");
    expect(decided).toMatchObject({ allow: ran === 1, by: "unattended" });
    await calm();
    expect(tool.all).toHaveLength(ran);
  });

  it("after a crash the children go on, none is started again, and their reports arrive", async () => {
    const before = await boot();
    await before.send("s", "go");
    (await before.model.next()).answer("", delegate("one", "two"));
    await before.model.next();
    (await before.model.next()).answer("two is done");
    await calm();
    before.kill();
    const after = await boot({ disk: before.disk });
    const again = await after.model.next();
    expect(again.request.messages).toEqual([{ role: "user", text: "one" }]);
    again.answer("one is done");
    expect(lastText((await after.model.next()).request.messages)).toMatch(
      /2 of 2 completed.*one is done.*two is done/s,
    );
  });
});
