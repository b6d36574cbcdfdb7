// What every Store must do as a whole: be checked, and be closed.
import { beforeEach, describe, expect, test } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import { commitOf, entryOf, joined, opened, type Place, stateOf, waiting } from "./store.ts";

export function lifecycleContract(place: Place<"nodes" | "journal" | "catalog" | "search" | "check">) {
  describe("lifecycle", () => {
    const { store, reopen } = opened(place);
    const journal = () => store().journal;
    const catalog = () => store().catalog;
    beforeEach(() => joined(store()));

    describe("check", () => {
      test("finds nothing in what is right, nor in what was forgotten", async () => {
        const state = stateOf({ seq: 1, inbox: [waiting("in", 1)] });
        const accepted = [{ id: "in", digest: "d" }];
        await journal().commit(commitOf("a", 0, { state, accepted, entries: [entryOf(1, "in")] }));
        await journal().commit(
          commitOf("old", 0, { at: 10, entries: [entryOf(1, "old")], accepted: [{ id: "old", digest: "d" }] }),
        );
        await store().search("entry", { limit: 1 });
        expect(await catalog().prune("old", 100)).toBe(1);
        expect(await store().check()).toEqual([]);
      });

      test("names a session whose entries have a gap", async () => {
        await journal().commit(
          commitOf("a", 0, { state: stateOf({ seq: 3 }), entries: [entryOf(1, "t"), entryOf(3, "t")] }),
        );
        expect(await store().check()).toEqual([expect.stringContaining("session a")]);
      });

      test("names an input that waits in no inbox, and one in an inbox that does not wait", async () => {
        await journal().commit(commitOf("a", 0, { accepted: [{ id: "lost", digest: "d" }] }));
        await journal().commit(commitOf("b", 0, { state: stateOf({ inbox: [waiting("ghost", 1)] }) }));
        const wrong = (await store().check()).toSorted();
        expect(wrong).toEqual([expect.stringContaining("lost"), expect.stringContaining("ghost")]);
      });
    });

    describe("close", () => {
      test("finishes what was asked before; what is asked later did not happen; twice is once", async () => {
        const asked = Array.from({ length: 50 }, (_, i) => journal().commit(commitOf(`s${i}`, 0)));
        const closed = store().close();
        await expect(journal().commit(commitOf("late", 0))).rejects.toThrow(StoreFault);
        await expect(journal().load("s1")).rejects.toMatchObject({ landed: "no" });
        await Promise.all([closed, store().close()]);
        expect(new Set(await Promise.all(asked))).toEqual(new Set(["done"]));
        await reopen();
        for (let i = 0; i < 50; i++) expect(await journal().load(`s${i}`)).not.toBeNull();
        expect(await journal().load("late")).toBeNull();
      });
    });
  });
}
