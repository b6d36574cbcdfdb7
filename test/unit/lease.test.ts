// What one of several nodes does for all, over the shared store in memory.
import { expect, it } from "vitest";
import { type HeldLease, holdLease } from "../../src/engine/lease.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { calm, handClock } from "../fakes/scripted.ts";

const ABOUT = { address: "http://x", version: "1" };

async function setUp() {
  const clock = handClock();
  const { nodes } = asStore(createMemoryStore({ shared: true, now: clock.now }));
  const working = new Set<string>();
  const begun: string[] = [];
  const ids = { a: await nodes.join(ABOUT), b: await nodes.join(ABOUT) };
  let deaf = false;
  const hold = (who: "a" | "b"): HeldLease =>
    holdLease(
      {
        nodes: {
          ...nodes,
          lease: (name, id) => (deaf && who === "a" ? Promise.reject(new Error("no store")) : nodes.lease(name, id)),
        },
        node: () => ids[who],
        clock,
        log: () => {},
      },
      "schedule",
      async () => {
        working.add(who);
        begun.push(who);
        return async () => working.delete(who);
      },
    );
  const pass = async (ms: number) => {
    await clock.pass(ms);
    await calm();
  };
  const cutOff = () => {
    deaf = true;
  };
  return { nodes, ids, working, begun, hold, pass, cutOff, clock };
}

it("the first has it, and the second when the first lets go", async () => {
  const { working, hold, pass } = await setUp();
  const first = hold("a");
  await pass(1);
  hold("b");
  await pass(3_000);
  expect([...working]).toEqual(["a"]);
  await first.release();
  await pass(1_000);
  expect([...working]).toEqual(["b"]);
});

it("a node that was reaped ends the work, and goes on as another member when it is free again", async () => {
  const { nodes, ids, working, hold, pass } = await setUp();
  const first = hold("a");
  await pass(1);
  const second = hold("b");
  await nodes.leave(ids.a);
  await pass(1_000);
  expect([...working]).toEqual(["b"]);
  expect([first.here(), second.here()]).toEqual([false, true]);
  ids.a = await nodes.join(ABOUT);
  await second.release();
  await pass(1_000);
  expect([...working]).toEqual(["a"]);
});

it("a node that cannot ask ends the work before another one may have it", async () => {
  const { working, hold, pass, cutOff } = await setUp();
  hold("a");
  await pass(1);
  cutOff();
  await pass(3_000);
  expect([...working]).toEqual(["a"]);
  await pass(1_500);
  expect([...working]).toEqual([]);
});

it("one that is released while it asks for the work does not begin it", async () => {
  const { nodes, ids, begun, hold, pass } = await setUp();
  await hold("a").release();
  await pass(1_000);
  expect(begun).toEqual([]);
  expect(await nodes.lease("schedule", ids.b)).toBe(true);
});
