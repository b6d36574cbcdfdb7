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
    });
  });
}
