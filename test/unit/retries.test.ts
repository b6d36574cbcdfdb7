import { expect, it } from "vitest";
import { createRetries } from "../../src/surfaces/http/runs/retries.ts";
import { bootEngine, handClock } from "../fakes/scripted.ts";

it("a retry that comes to another node is the turn of the latest attempt, not of the latest one here", async () => {
  const clock = handClock();
  const { engine, send } = await bootEngine({ clock });
  const [here, there] = [createRetries(engine, clock), createRetries(engine, clock)];
  const begin = async (retries: typeof here) => {
    const key = await retries.keyOf("request", false);
    await send(key, "hi", { source: "api", key });
    return key;
  };
  await begin(here);
  const latest = await begin(there);
  expect(await here.keyOf("request", true)).toBe(latest);
});
