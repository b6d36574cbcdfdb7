// What every Announcements must do, over a journal that makes them.
import { beforeEach, describe, expect, test } from "vitest";
import { commitOf, joined, opened, type Place } from "./store.ts";

export function announcementsContract(place: Place<"nodes" | "announcements" | "journal">) {
  describe("announcements", () => {
    const { store, reopen } = opened(place);
    const announcements = () => store().announcements;
    const journal = () => store().journal;
    beforeEach(() => joined(store()));

    describe("an announcement", () => {
      const turns = async (dead: boolean) =>
        (await announcements().list({ dead, after: 0, limit: 9 })).map(({ turn }) => turn);

      test("is made with its commit, in order, or not at all", async () => {
        await journal().commit(commitOf("a", 0, { announced: [{ to: "x", turn: "t1" }], at: 5 }));
        await journal().commit(commitOf("a", 0, { announced: [{ to: "x", turn: "stale" }] }));
        await journal().commit(commitOf("b", 0, { announced: [{ to: "x", turn: "t2" }] }));
        await reopen();
        const [first, second] = await announcements().list({ dead: false, after: 0, limit: 9 });
        const made = { to: "x", session: "a", turn: "t1", at: 5, attempts: 0, due: 0, error: "", dead: false };
        expect(first).toMatchObject(made);
        expect(second?.turn).toBe("t2");
        expect(await announcements().list({ dead: false, after: first?.id ?? 0, limit: 1 })).toEqual([second]);
      });

      test("waits until it is told, or is dead until it is revived", async () => {
        await journal().commit(commitOf("a", 0, { announced: ["t1", "t2"].map((turn) => ({ to: "x", turn })) }));
        const [one, two] = await announcements().list({ dead: false, after: 0, limit: 9 });
        await announcements().update(one?.id ?? 0, { attempts: 8, due: 0, error: "500", dead: true });
        await announcements().update(two?.id ?? 0, { attempts: 1, due: 99, error: "503", dead: false });
        expect([await turns(false), await turns(true)]).toEqual([["t2"], ["t1"]]);
        await reopen();
        const [kept] = await announcements().list({ dead: false, after: 0, limit: 9 });
        expect(kept).toMatchObject({ attempts: 1, due: 99, error: "503" });
        await announcements().update(two?.id ?? 0, null);
        await announcements().update(one?.id ?? 0, { attempts: 0, due: 0, error: "", dead: false });
        expect([await turns(false), await turns(true)]).toEqual([["t1"], []]);
      });
    });
  });
}
