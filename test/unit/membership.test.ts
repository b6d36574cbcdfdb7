import { expect, it } from "vitest";
import type { Clock } from "../../src/core/ports.ts";
import { onAbort } from "../../src/core/wait.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { createMembership } from "../../src/engine/membership.ts";
import { clock } from "../../src/platform/clock.ts";
import { request } from "../fakes/engine.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

it("looks again for a hint that came during a look", async () => {
  // Time stands still: only hints end a wait.
  const still: Clock = {
    now: () => 0,
    monotonic: () => 0,
    sleep: (_, signal) => new Promise((r) => onAbort(signal, r)),
  };
  const { nodes } = asStore(createMemoryStore());
  let hint = () => {};
  const looks = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const goOn = Promise.withResolvers<void>();
  let claims = 0;
  const member = createMembership({
    clock: still,
    log: () => {},
    about: { address: "http://here", version: "1" },
    nodes: {
      ...nodes,
      onHint: (listener) => {
        hint = listener;
        return () => {};
      },
      async claim() {
        looks[claims++]?.resolve();
        if (claims === 2) await goOn.promise;
        return [];
      },
    },
    room: () => 1,
    takeUp: async () => {},
    letGo: async () => {},
    looked: () => {},
    leaving: () => {},
  });
  await member.start(async () => {});
  hint();
  await looks[1]?.promise;
  hint();
  goOn.resolve();
  await looks[2]?.promise;
  expect(claims).toBe(3);
  await member.leave();
});

it("hands its sessions over together, and leaves only then: whoever goes on with them counts no crash", async () => {
  const store = asStore(createMemoryStore());
  const { nodes } = store;
  const steps: string[] = [];
  const free = Promise.withResolvers<void>();
  const engine = createEngine({
    clock,
    log: () => {},
    node: { address: "http://here", version: "1" },
    store: {
      ...store,
      nodes: {
        ...nodes,
        async handOver(id, sessions) {
          await free.promise;
          await nodes.handOver(id, sessions);
          steps.push(`handed over ${sessions.join(", ")}`);
        },
        async leave(id) {
          steps.push("left");
          await nodes.leave(id);
        },
      },
    },
    perform: (_, { signal }) => new Promise((resolve) => onAbort(signal, () => resolve(null))),
    rules: { iterations: 1, recoveries: 1, parallel: 1, memory: [] },
    limits: { turns: 2, inbox: 1, text: 100, graceMs: 1_000, resumeWithinMs: 1_000, warm: 2 },
  });
  await engine.start();
  for (const session of ["a", "b"]) await engine.accept(request({ session, key: session }));
  const drained = engine.drain(1_000);
  await new Promise(setImmediate);
  expect(steps).toEqual([]);
  free.resolve();
  await drained;
  expect(steps).toEqual(["handed over a, b", "left"]);
});
