// GET /api/usage over a real engine.
import { expect, it } from "vitest";
import { usageRoutes } from "../../src/surfaces/http/runtime/usage.ts";
import { bootEngine, handClock, scriptedModel } from "../fakes/scripted.ts";

type Answer = { body: { data: { session_id: string; calls: number; cost: number | null }[]; left: number } };

it("counts for a moment in each request and goes on in the next, counts nothing twice, and uses the configured prices", async () => {
  const model = scriptedModel({ end: "aborted" }, { name: "demo:m", context: 1_000_000 });
  const clock = handClock();
  const { engine, send, ended } = await bootEngine({ model, clock });
  for (const session of ["a", "b", "c"])
    for (let n = 0; n < 2; n++) {
      const { id } = await send(session, "hi");
      (await model.next()).answer("yes"); // 2 tokens in, 1 out
      await ended(session, id);
    }
  let time = 0;
  const slow = { ...clock, monotonic: () => (time += 140) }; // the third look is beyond the moment
  const prices = { m: { input: 1_000_000, output: 0 } };
  const [route] = usageRoutes(engine, { prices, clock: slow });
  const ask = async () => {
    const answered = await route?.handle({ query: new URLSearchParams() } as never);
    return (answered as Answer).body;
  };
  const lefts: number[] = [];
  do {
    const [{ left }] = await Promise.all([ask(), ask()]);
    lefts.push(left);
  } while (lefts.at(-1));
  expect(lefts.length).toBeGreaterThan(1);
  const { data } = await ask();
  const rows = data.map(({ session_id, calls, cost }) => `${session_id} ${calls} ${cost}`);
  expect(new Set(rows)).toEqual(new Set(["a 2 4", "b 2 4", "c 2 4"]));
  expect(rows).toHaveLength(3);
});

it("does not count what was said before a session was deleted and begun anew", async () => {
  const model = scriptedModel({ end: "aborted" }, { name: "demo:m", context: 1_000_000 });
  const clock = handClock();
  const { engine, send, ended } = await bootEngine({ model, clock });
  const talk = async () => {
    const { id } = await send("a", "hi");
    (await model.next()).answer("yes");
    await ended("a", id);
  };
  const [route] = usageRoutes(engine, { prices: {}, clock });
  const calls = async () => {
    const answered = await route?.handle({ query: new URLSearchParams() } as never);
    return (answered as Answer).body.data.map((row) => row.calls);
  };
  for (let n = 0; n < 3; n++) await talk();
  expect(await calls()).toEqual([3]);
  await clock.pass(1_000);
  expect(await engine.forget("a")).toBe("forgotten");
  await talk();
  expect(await calls()).toEqual([1]);
});
