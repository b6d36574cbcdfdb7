// What every Journal must do.
import { beforeEach, describe, expect, test } from "vitest";
import { entriesOf as wholeJournal } from "../../src/core/pages.ts";
import type { Entry } from "../../src/core/session.ts";
import { commitOf, entriesOf, entryOf, joined, opened, type Place, stateOf, waiting } from "./store.ts";

const seqs = (entries: Entry[]) => entries.map((entry) => entry.seq);

export function journalContract(place: Place<"nodes" | "journal">) {
  describe("journal", () => {
    const { store, reopen } = opened(place);
    const journal = () => store().journal;
    beforeEach(() => joined(store()));

    describe("a commit", () => {
      test("is what load returns, with the next version", async () => {
        expect(await journal().load("a")).toBeNull();
        const state = stateOf({ seq: 1, step: 4, inbox: [waiting("in", 1)] });
        expect(await journal().commit(commitOf("a", 0, { state, entries: [entryOf(1, "t")], parent: "p" }))).toBe(
          "done",
        );
        expect(await journal().load("a")).toEqual({
          session: "a",
          owner: null,
          writer: expect.any(String),
          version: 1,
          state,
          parent: "p",
          createdAt: 1_000,
          updatedAt: 1_000,
        });
      });

      test("of a later version replaces the state and keeps when it was created", async () => {
        await journal().commit(commitOf("a", 0));
        expect(await journal().commit(commitOf("a", 1, { state: stateOf({ step: 9 }), at: 2_000 }))).toBe("done");
        expect(await journal().load("a")).toMatchObject({ version: 2, createdAt: 1_000, updatedAt: 2_000 });
        expect((await journal().load("a"))?.state.step).toBe(9);
      });

      test.each([
        ["a version that is past", 0],
        ["a version that is to come", 2],
      ])("from %s is stale and writes nothing", async (_, version) => {
        await journal().commit(commitOf("a", 0));
        const before = await journal().load("a");
        const change = { entries: [entryOf(1, "t")], accepted: [{ id: "in", digest: "d" }], active: true, at: 9_000 };
        expect(await journal().commit(commitOf("a", version, change))).toBe("stale");
        expect(await journal().load("a")).toEqual(before);
        expect(await journal().entries("a", 0, 10)).toEqual([]);
        expect(await journal().input("in")).toBeNull();
        expect((await journal().load("a"))?.owner).toBeNull();
      });

      test("of a session that is not there, made from a later version, is stale", async () => {
        expect(await journal().commit(commitOf("a", 3))).toBe("stale");
        expect(await journal().load("a")).toBeNull();
      });

      test("with an input that exists already is a duplicate and writes nothing", async () => {
        const accepted = [{ id: "in", digest: "first" }];
        await journal().commit(commitOf("a", 0, { accepted }));
        const again = {
          accepted: [
            { id: "new", digest: "d" },
            { id: "in", digest: "second" },
          ],
        };
        expect(await journal().commit(commitOf("b", 0, { ...again, entries: [entryOf(1, "in")] }))).toBe("duplicate");
        expect(await journal().load("b")).toBeNull();
        expect(await journal().turn("in")).toEqual([]);
        expect(await journal().input("new")).toBeNull();
        expect(await journal().input("in")).toMatchObject({ session: "a", digest: "first" });
      });

      test("that accepts the same input twice is a duplicate", async () => {
        const accepted = [
          { id: "in", digest: "d" },
          { id: "in", digest: "d" },
        ];
        expect(await journal().commit(commitOf("a", 0, { accepted }))).toBe("duplicate");
        expect(await journal().input("in")).toBeNull();
      });

      test("of a node that was replaced is fenced, whatever its version, and writes nothing", async () => {
        await journal().commit(commitOf("a", 0));
        const { node: old } = commitOf("a", 1);
        const now = await joined(store());
        expect(await journal().commit(commitOf("a", 1, { node: old, entries: [entryOf(1, "t")] }))).toBe("fenced");
        expect(await journal().commit(commitOf("a", 7, { node: old }))).toBe("fenced");
        expect(await journal().load("a")).toMatchObject({ version: 1, writer: old });
        expect(await journal().entries("a", 0, 10)).toEqual([]);
        expect(await journal().commit(commitOf("a", 1))).toBe("done");
        expect(await journal().load("a")).toMatchObject({ version: 2, writer: now });
      });

      test("that uses an entry's number again fails, writes nothing and harms no other", async () => {
        await journal().commit(commitOf("a", 0, { entries: [entryOf(1, "t")] }));
        const [wrong, right] = await Promise.allSettled([
          journal().commit(
            commitOf("a", 1, { entries: [entryOf(1, "t", "again")], accepted: [{ id: "in", digest: "d" }] }),
          ),
          journal().commit(commitOf("b", 0)),
        ]);
        expect(wrong).toMatchObject({ status: "rejected", reason: { name: "StoreFault", landed: "no" } });
        expect(right).toMatchObject({ status: "fulfilled", value: "done" });
        expect(await journal().load("a")).toMatchObject({ version: 1 });
        expect(await journal().entries("a", 0, 10)).toEqual([entryOf(1, "t")]);
        expect(await journal().input("in")).toBeNull();
      });

      test("keeps every character of a text", async () => {
        const text = `quote " back \\ nul \0 lone \ud800 pair \u{1f600} line\n\u2028`;
        await journal().commit(commitOf("a", 0, { entries: [entryOf(1, "t", text)] }));
        expect(await journal().entries("a", 0, 10)).toEqual([entryOf(1, "t", text)]);
      });
    });

    describe("many commits at once", () => {
      test("to different sessions all land", async () => {
        const keys = Array.from({ length: 200 }, (_, i) => `s${i}`);
        const commits = keys.map((key) =>
          commitOf(key, 0, {
            entries: [entryOf(1, key)],
            accepted: [{ id: key, digest: "d" }],
            taken: [{ id: key, turn: key }],
          }),
        );
        const verdicts = await Promise.all(commits.map((commit) => journal().commit(commit)));
        expect(new Set(verdicts)).toEqual(new Set(["done"]));
        await reopen();
        for (const key of keys) {
          expect(await journal().load(key)).toMatchObject({ version: 1 });
          expect(await journal().turn(key)).toHaveLength(1);
          expect(await journal().input(key)).toMatchObject({ status: "taken" });
        }
      });

      test("from the same version: exactly one is done", async () => {
        const all = Array.from({ length: 20 }, (_, i) => journal().commit(commitOf("a", 0, { at: i })));
        expect((await Promise.all(all)).toSorted()).toEqual(["done", ...Array.from({ length: 19 }, () => "stale")]);
        expect(await journal().load("a")).toMatchObject({ version: 1 });
      });

      test("with the same input: exactly one is done", async () => {
        const accepted = [{ id: "in", digest: "d" }];
        const all = Array.from({ length: 20 }, (_, i) => journal().commit(commitOf(`s${i}`, 0, { accepted })));
        const verdicts = await Promise.all(all);
        expect(verdicts.toSorted()).toEqual(["done", ...Array.from({ length: 19 }, () => "duplicate")]);
        const owner = `s${verdicts.indexOf("done")}`;
        expect(await journal().input("in")).toMatchObject({ session: owner });
        for (let i = 0; i < 20; i++) expect((await journal().load(`s${i}`)) !== null).toBe(`s${i}` === owner);
      });

      test("one that is refused takes no other with it", async () => {
        await journal().commit(commitOf("old", 0, { accepted: [{ id: "in", digest: "d" }] }));
        const verdicts = await Promise.all([
          journal().commit(commitOf("a", 0)),
          journal().commit(commitOf("old", 0)),
          journal().commit(commitOf("b", 0, { accepted: [{ id: "in", digest: "d" }] })),
          journal().commit(commitOf("c", 0, { node: "0" })),
          journal().commit(commitOf("d", 0)),
        ]);
        expect(verdicts).toEqual(["done", "stale", "duplicate", "fenced", "done"]);
        expect(await journal().load("d")).toMatchObject({ version: 1 });
      });

      test("a read sees every commit that was asked for before it", async () => {
        void journal().commit(commitOf("a", 0));
        void journal().commit(commitOf("a", 1));
        expect(await journal().load("a")).toMatchObject({ version: 2 });
      });
    });

    describe("entries", () => {
      test("come in order, page by page", async () => {
        await journal().commit(commitOf("a", 0, { entries: entriesOf(1, 4, "t1") }));
        await journal().commit(commitOf("a", 1, { entries: entriesOf(5, 7, "t2") }));
        await journal().commit(commitOf("b", 0, { entries: entriesOf(1, 3, "t3") }));
        expect(seqs(await journal().entries("a", 0, 3))).toEqual([1, 2, 3]);
        expect(seqs(await journal().entries("a", 3, 3))).toEqual([4, 5, 6]);
        expect(seqs(await journal().entries("a", 6, 3))).toEqual([7]);
        expect(seqs(await journal().entries("a", 7, 3))).toEqual([]);
        expect(seqs(await journal().entries("a", 99, 3))).toEqual([]);
        expect(await journal().entries("nobody", 0, 3)).toEqual([]);
      });

      test("make a page of bounded length, however large they are, and never an empty one while there are any", async () => {
        const text = (mb: number) => "x".repeat(mb * 1_000_000);
        const large = [1.5, 1.5, 1.5, 9, 9, 0.1].map((mb, i) => entryOf(i + 1, "t", text(mb)));
        await journal().commit(commitOf("a", 0, { entries: large }));
        expect(seqs(await journal().entries("a", 0, 9))).toEqual([1, 2]);
        expect(seqs(await journal().entries("a", 0, 1))).toEqual([1]);
        expect(seqs(await journal().entries("a", 2, 9))).toEqual([3]);
        expect(await journal().entries("a", 3, 9)).toEqual([large[3]]);
        expect(seqs(await journal().entries("a", 4, 9))).toEqual([5]);
        expect(seqs(await journal().entries("a", 5, 9))).toEqual([6]);
        expect(await journal().entries("a", 6, 9)).toEqual([]);
        expect(await wholeJournal(journal(), "a")).toEqual(large);
        expect(seqs(await journal().turn("t"))).toHaveLength(6);
      });

      test("of one turn are found by its id, also when another's lie between", async () => {
        const entries = [entryOf(1, "t1"), entryOf(2, "t2"), entryOf(3, "t1")];
        await journal().commit(commitOf("a", 0, { entries }));
        await journal().commit(commitOf("a", 1, { entries: [entryOf(4, "t1")] }));
        expect(seqs(await journal().turn("t1"))).toEqual([1, 3, 4]);
        expect(await journal().turn("t2")).toEqual([entryOf(2, "t2")]);
        expect(await journal().turn("nobody")).toEqual([]);
      });
    });

    describe("an input", () => {
      const accepted = [{ id: "in", digest: "d" }];

      test("waits, is given to a turn, and stays known", async () => {
        expect(await journal().input("in")).toBeNull();
        await journal().commit(commitOf("a", 0, { accepted, at: 5 }));
        const row = { id: "in", session: "a", digest: "d", at: 5 };
        expect(await journal().input("in")).toEqual({ ...row, status: "waiting", turn: null });
        await journal().commit(commitOf("a", 1, { taken: [{ id: "in", turn: "other" }], at: 6 }));
        expect(await journal().input("in")).toEqual({ ...row, status: "taken", turn: "other" });
      });

      test("can be accepted and taken in one commit", async () => {
        await journal().commit(commitOf("a", 0, { accepted, taken: [{ id: "in", turn: "in" }] }));
        expect(await journal().input("in")).toMatchObject({ status: "taken", turn: "in" });
      });

      test("can be withdrawn", async () => {
        await journal().commit(commitOf("a", 0, { accepted }));
        await journal().commit(commitOf("a", 1, { taken: [{ id: "in", turn: null }] }));
        expect(await journal().input("in")).toMatchObject({ status: "withdrawn", turn: null });
        expect(await journal().commit(commitOf("a", 2, { accepted }))).toBe("duplicate");
      });
    });

    describe("lists", () => {
      test("the children of a session", async () => {
        await journal().commit(commitOf("mother", 0));
        await journal().commit(commitOf("b", 0, { parent: "mother" }));
        await journal().commit(commitOf("a", 0, { parent: "mother" }));
        await journal().commit(commitOf("c", 0, { parent: "b" }));
        await journal().commit(commitOf("b", 1, { parent: "mother" }));
        expect(await journal().children("mother")).toEqual(["b", "a"]);
        expect(await journal().children("c")).toEqual([]);
      });
    });
  });
}
