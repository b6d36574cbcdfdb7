// Children are sessions: they work side by side, are stopped with their parent, and survive a restart.
import { describe, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import type { Unattended } from "../../src/core/session.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createBackgroundChildren } from "../../src/tools/background-children.ts";
import { createClarify } from "../../src/tools/clarify.ts";
import { createDelegate } from "../../src/tools/delegate.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { type BootOptions, bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

type Children = { usual?: Unattended; more?: Tool[] };

async function boot(options: Omit<BootOptions, "clock"> = {}, { usual = "deny", more = [] }: Children = {}) {
  const clock = handClock();
  const { disk = createMemoryStore() } = options;
  const model = scriptedModel();
  let engine: Engine | null = null;
  const runtime = () => {
    if (!engine) throw new Error("not started");
    return engine;
  };
  const delegated = createBackgroundChildren({
    notes: asStore(disk).notes,
    runtime,
    clock,
    log: () => {},
    async tell({ session, unattended }, text, key) {
      const from = { source: "delegate", key, same: key, ...(unattended && { unattended }) };
      await runtime().accept({ session, text, mode: "queue", reply: "pull", ...from });
      return true;
    },
  });
  const tools = [createDelegate({ runtime, clock, unattended: usual, delegated }), createClarify(60_000), ...more];
  // What was left begins to work while the engine starts, so it must be there by then.
  const booted = await bootEngine({
    ...options,
    disk,
    clock,
    model,
    tools,
    observe: delegated.observe,
    made: (made) => {
      engine = made;
    },
  });
  await delegated.takeUp(() => true);
  return { ...booted, model, clock, delegated };
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

describe("delegate_task in the background", () => {
  const inBackground = (...goals: string[]) => ({
    tool: "delegate_task",
    args: { tasks: goals.map((goal) => ({ goal })), background: true, timeout: 60 },
  });

  /** The parent has ended its turn, and its two children are at work. */
  async function begun() {
    const booted = await boot();
    const { model, send, ended } = booted;
    const { id } = await send("s", "go", { unattended: "allow" });
    (await model.next()).answer("", inBackground("count", "paint"));
    const asked = [await model.next(), await model.next(), await model.next()];
    const parent = asked.find(({ request }) => request.session === "s");
    const [count, paint] = asked.filter((one) => one !== parent);
    if (!parent || !count || !paint) throw new Error("not everybody has begun");
    expect(lastText(parent.request.messages)).toContain(`- ${count.request.session}`);
    parent.answer("They work on it.");
    expect(await ended("s", id)).toBe("completed");
    return { ...booted, count, paint };
  }
  const heard = (journal: ReturnType<Awaited<ReturnType<typeof boot>>["journal"]>) =>
    journal.flatMap((entry) => (entry.kind === "accepted" ? [entry.input] : [])).slice(1);

  it("returns at once, and the end of each child wakes its parent, as unattended as it was", async () => {
    const { model, journal, count, paint, delegated } = await begun();
    expect(delegated.list("s").map(({ command }) => command)).toEqual(["count", "paint"]);
    count.answer("seven");
    (await model.next()).answer("Seven it is.");
    paint.answer("blue");
    (await model.next()).answer("And blue.");
    await calm();
    expect(heard(journal("s"))).toMatchObject([
      { source: "delegate", unattended: "allow", text: expect.stringMatching(/ended: completed.*seven.*count/s) },
      { source: "delegate", unattended: "allow", text: expect.stringMatching(/ended: completed.*blue.*paint/s) },
    ]);
    expect(delegated.list("s")).toEqual([]);
  });

  it("is told once, whether the process dies before the child has ended or before the parent has heard", async () => {
    const { disk, kill, count, journal } = await begun();
    count.answer("seven");
    await calm();
    kill();
    const next = await boot({ disk });
    const asked = [await next.model.next(), await next.model.next()];
    for (const { request, answer } of asked) answer(request.session === "s" ? "Seven it is." : "blue");
    (await next.model.next()).answer("And blue.");
    await calm();
    expect(heard(journal("s")).map(({ text }) => /Its task was: (.*)/.exec(text)?.[1])).toEqual(["count", "paint"]);
    next.kill();
    const last = await boot({ disk });
    await calm();
    expect(heard(journal("s"))).toHaveLength(2);
    expect(last.delegated.list("s")).toEqual([]);
  });

  it("is stopped without a word when somebody ends it, and reported when its time is over", async () => {
    const { clock, journal, delegated, engine, count, paint, model } = await begun();
    await clock.pass(61_000);
    expect(heard(journal("s")).map(({ text }) => text)).toEqual([
      expect.stringContaining("timed out"),
      expect.stringContaining("timed out"),
    ]);
    expect([count.signal.aborted, paint.signal.aborted]).toEqual([true, true]);
    (await model.next()).answer("", inBackground("again"));
    const again = [await model.next(), await model.next()].find(({ request }) => request.session !== "s");
    const before = heard(journal("s")).length;
    await delegated.end("s");
    await calm();
    expect(again?.signal.aborted).toBe(true);
    expect(heard(journal("s"))).toHaveLength(before);
    expect((await engine.status(again?.request.session ?? "")).turn).toBeNull();
  });
});
