import { expect, it } from "vitest";
import type { Clock } from "../../src/core/ports.ts";
import { onAbort } from "../../src/core/wait.ts";
import { createMembership } from "../../src/engine/membership.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

it("looks again for a hint that came during a look", async () => {
  // Time stands still: only hints end a wait.
  const clock: Clock = {
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
    clock,
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
