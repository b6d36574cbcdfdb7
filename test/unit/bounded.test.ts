import { expect, it } from "vitest";
import { createBounded } from "../../src/core/bounded.ts";

it("forgets what was not used for longest, once all of it weighs too much", () => {
  const gone: string[] = [];
  const kept = createBounded<string>(10, (value) => gone.push(value));
  kept.set("a", "A", 4);
  kept.set("b", "B", 4);
  expect(kept.get("a")).toBe("A");
  kept.set("c", "C", 4);
  expect(gone).toEqual(["B"]);
  expect(["a", "b", "c"].map((key) => kept.get(key))).toEqual(["A", undefined, "C"]);
});

it("keeps what was set last, however heavy it is, and only until there is something else", () => {
  const gone: string[] = [];
  const kept = createBounded<string>(10, (value) => gone.push(value));
  kept.set("light", "light", 1);
  kept.set("heavy", "heavy", 100);
  expect([gone, kept.get("heavy")]).toEqual([["light"], "heavy"]);
  kept.set("next", "next", 1);
  expect(gone).toEqual(["light", "heavy"]);
});

it("weighs again what is set again, and no longer what is deleted", () => {
  const kept = createBounded<string>(10);
  kept.set("a", "A", 9);
  kept.set("a", "A", 1);
  kept.set("b", "B", 9);
  kept.delete("b");
  kept.set("c", "C", 9);
  expect(["a", "b", "c"].map((key) => kept.get(key))).toEqual(["A", undefined, "C"]);
});
