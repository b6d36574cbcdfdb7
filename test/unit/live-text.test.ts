import * as fc from "fast-check";
import { expect, it } from "vitest";
import { add, lengthOf, nextIn, nextOf, PIECE, silence, wholeOf } from "../../src/engine/live-text.ts";

/** Of lengths around a piece, with characters of two halves at odd places. */
const chunk = fc
  .tuple(fc.constantFrom("a", "👋", "é👋"), fc.integer({ min: 1, max: PIECE }))
  .map(([c, n]) => c.repeat(n));

it("a text that was spoken in any parts is taken in pieces from any place, whole characters each", () => {
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 6 }), (chunks) => {
      const spoken = silence();
      for (const one of chunks) add(spoken, one);
      const text = chunks.join("");
      expect(lengthOf(spoken)).toBe(text.length);
      expect(wholeOf(spoken) === text).toBe(true);
      for (const next of [(from: number) => nextOf(spoken, from), (from: number) => nextIn(text, from)]) {
        let taken = "";
        for (let piece = next(0); piece; piece = next(taken.length)) {
          expect(Buffer.byteLength(piece)).toBeLessThanOrEqual(65_536);
          expect(piece.isWellFormed()).toBe(true);
          taken += piece;
        }
        expect(taken === text).toBe(true);
      }
    }),
    { numRuns: 50 },
  );
});
