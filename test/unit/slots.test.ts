import { expect, it } from "vitest";
import { emptyTranscript, extend } from "../../src/core/transcript.ts";
import { createInflight } from "../../src/engine/inflight.ts";
import { createSlots } from "../../src/engine/slots.ts";
import { entryOf } from "../contract/store.ts";
import { handClock } from "../fakes/scripted.ts";

const TEXT = "x".repeat(60_000);

it("keeps of sessions at rest what weighs 32 MB, conversations and entries together, of those that were used last", () => {
  const { of, weigh } = createSlots(500, () =>
    createInflight({
      clock: handClock(),
      graceMs: 1,
      run: async () => null,
      threw: () => null,
      report: async () => {},
      dead: () => {},
      landed: () => {},
    }),
  );
  const used = Array.from({ length: 450 }, (_, n) => {
    const slot = of(`session ${n}`);
    const entry = entryOf(1, "t", TEXT);
    slot.view.recent.add([entry]);
    if (n % 2) {
      slot.transcript = emptyTranscript();
      extend(slot.transcript, entry);
    }
    weigh(slot);
    return slot;
  });
  const kept = used.filter(({ view, transcript }) => view.recent.after(0) || transcript);
  const held = kept.reduce(
    (sum, { view, transcript }) => sum + view.recent.weight() + (transcript ? TEXT.length : 0),
    0,
  );
  expect(held).toBeGreaterThan(31_800_000);
  expect(held).toBeLessThanOrEqual(32_000_000);
  expect(kept).toEqual(used.slice(-kept.length));
});
