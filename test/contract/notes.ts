// What every Notes must do.
import { describe, expect, test } from "vitest";
import { opened, type Place } from "./store.ts";

export function notesContract(place: Place<"notes">) {
  describe("notes", () => {
    const { store, reopen } = opened(place);
    const notes = () => store().notes;

    describe("a note", () => {
      test("is what was last written under its name, until it is erased, also by the next process", async () => {
        expect(await notes().get("a/1")).toBeUndefined();
        await notes().set("a/1", { x: [1, null, "ä"] });
        await notes().set("a/2", 2);
        await notes().set("a/1", "new");
        await notes().set("b", true);
        await reopen();
        expect((await notes().list("a/")).map(({ key, value }) => [key, value])).toEqual([
          ["a/1", "new"],
          ["a/2", 2],
        ]);
        await notes().set("a/1", undefined);
        expect([await notes().get("a/1"), await notes().get("b")]).toEqual([undefined, true]);
      });

      test("is never read as it was before, whoever reads it while it is written", async () => {
        for (let n = 0; n < 20; n++) {
          const swaps = n % 2 === 1;
          const early = notes().get("n");
          const written = swaps ? notes().swap("n", n, n + 1) : notes().set("n", n + 1);
          const late = notes().get("n");
          expect([[n || undefined, n + 1].includes(Number(await early) || undefined), await late]).toEqual([
            true,
            n + 1,
          ]);
          await written;
          expect([await notes().get("n"), await notes().get("n")]).toEqual([n + 1, n + 1]);
        }
        const early = [1, 2, 3].map((n) => notes().get(`new/${n}`));
        await Promise.all([1, 2, 3].map((n) => notes().set(`new/${n}`, n)));
        expect(await Promise.all(early)).toHaveLength(3);
        expect(await Promise.all([1, 2, 3].map((n) => notes().get(`new/${n}`)))).toEqual([1, 2, 3]);
        expect(await notes().swap("n", "another", 0)).toBe(false);
        expect(await notes().get("n")).toBe(20);
      });

      test("is swapped only from what it is, and of many who swap from the same value one does", async () => {
        expect(await notes().swap("n", 1, 2)).toBe(false);
        expect(await notes().swap("n", undefined, { b: [1, null], a: "\u0000 \ud800" })).toBe(true);
        expect(await notes().swap("n", undefined, 2)).toBe(false);
        await reopen();
        const from = await notes().get("n");
        const all = await Promise.all([1, 2, 3, 4, 5].map((to) => notes().swap("n", from, to)));
        expect(all.filter(Boolean)).toHaveLength(1);
        expect(await notes().get("n")).toBe(all.indexOf(true) + 1);
        expect(await notes().swap("n", all.indexOf(true) + 1, undefined)).toBe(true);
        expect(await notes().get("n")).toBeUndefined();
        expect(await notes().swap("n", undefined, "again")).toBe(true);
      });
    });
  });
}
