// What every Store must do. Run on each implementation by store.test.ts.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import type { Commit, SessionSummary, Store } from "../../src/core/ports.ts";
import { type Entry, fresh, type Session, type Turn, type Waiting } from "../../src/core/session.ts";
import { searchContract } from "./search.ts";

/** A commit that is right in itself; `change` says what this test is about. */
export function commitOf(session: string, version: number, change: Partial<Commit> = {}): Commit {
  const entries = change.entries ?? [];
  return {
    session,
    epoch: 1,
    version,
    state: stateOf({ seq: entries.at(-1)?.seq ?? 0 }),
    active: false,
    parent: null,
    at: 1_000,
    accepted: [],
    taken: [],
    ...change,
    entries,
  };
}

export const stateOf = (change: Partial<Session>): Session => ({ ...fresh, ...change });
export const entryOf = (seq: number, turn: string, text = `entry ${seq}`): Entry => {
  return { seq, turn, at: 1_000 + seq, kind: "cut", text };
};
const entriesOf = (from: number, to: number, turn: string) =>
  Array.from({ length: to - from + 1 }, (_, i) => entryOf(from + i, turn));
const waiting = (id: string, seq: number): Waiting => ({ id, mode: "queue", reply: "pull", seq });
const seqs = (entries: Entry[]) => entries.map((entry) => entry.seq);

/** `place` makes an empty place; each call of what it returns opens that same place. */
export function storeContract(name: string, place: () => () => Promise<Store>) {
  describe(name, () => {
    let open: () => Promise<Store>;
    let store: Store;
    beforeEach(async () => {
      open = place();
      store = await open();
      expect(await store.claim()).toBe(1);
    });
    afterEach(() => store.close());
    async function reopen() {
      await store.close();
      store = await open();
    }

    describe("a commit", () => {
      test("is what load returns, with the next version", async () => {
        expect(await store.load("a")).toBeNull();
        const state = stateOf({ seq: 1, step: 4, inbox: [waiting("in", 1)] });
        expect(await store.commit(commitOf("a", 0, { state, entries: [entryOf(1, "t")], parent: "p" }))).toBe("done");
        expect(await store.load("a")).toEqual({
          session: "a",
          epoch: 1,
          version: 1,
          state,
          parent: "p",
          createdAt: 1_000,
          updatedAt: 1_000,
        });
      });

      test("of a later version replaces the state and keeps when it was created", async () => {
        await store.commit(commitOf("a", 0));
        expect(await store.commit(commitOf("a", 1, { state: stateOf({ step: 9 }), at: 2_000 }))).toBe("done");
        expect(await store.load("a")).toMatchObject({ version: 2, createdAt: 1_000, updatedAt: 2_000 });
        expect((await store.load("a"))?.state.step).toBe(9);
      });

      test.each([
        ["a version that is past", 0],
        ["a version that is to come", 2],
      ])("from %s is stale and writes nothing", async (_, version) => {
        await store.commit(commitOf("a", 0));
        const before = await store.load("a");
        const change = { entries: [entryOf(1, "t")], accepted: [{ id: "in", digest: "d" }], active: true, at: 9_000 };
        expect(await store.commit(commitOf("a", version, change))).toBe("stale");
        expect(await store.load("a")).toEqual(before);
        expect(await store.entries("a", 0, 10)).toEqual([]);
        expect(await store.input("in")).toBeNull();
        expect(await store.active()).toEqual([]);
      });

      test("of a session that is not there, made from a later version, is stale", async () => {
        expect(await store.commit(commitOf("a", 3))).toBe("stale");
        expect(await store.load("a")).toBeNull();
      });

      test("with an input that exists already is a duplicate and writes nothing", async () => {
        const accepted = [{ id: "in", digest: "first" }];
        await store.commit(commitOf("a", 0, { accepted }));
        const again = {
          accepted: [
            { id: "new", digest: "d" },
            { id: "in", digest: "second" },
          ],
        };
        expect(await store.commit(commitOf("b", 0, { ...again, entries: [entryOf(1, "in")] }))).toBe("duplicate");
        expect(await store.load("b")).toBeNull();
        expect(await store.turn("in")).toEqual([]);
        expect(await store.input("new")).toBeNull();
        expect(await store.input("in")).toMatchObject({ session: "a", digest: "first" });
      });

      test("that accepts the same input twice is a duplicate", async () => {
        const accepted = [
          { id: "in", digest: "d" },
          { id: "in", digest: "d" },
        ];
        expect(await store.commit(commitOf("a", 0, { accepted }))).toBe("duplicate");
        expect(await store.input("in")).toBeNull();
      });

      test("under an older claim is fenced, whatever its version, and writes nothing", async () => {
        await store.commit(commitOf("a", 0));
        expect(await store.claim()).toBe(2);
        expect(await store.commit(commitOf("a", 1, { epoch: 1, entries: [entryOf(1, "t")] }))).toBe("fenced");
        expect(await store.commit(commitOf("a", 7, { epoch: 1 }))).toBe("fenced");
        expect(await store.load("a")).toMatchObject({ version: 1, epoch: 1 });
        expect(await store.entries("a", 0, 10)).toEqual([]);
        expect(await store.commit(commitOf("a", 1, { epoch: 2 }))).toBe("done");
        expect(await store.load("a")).toMatchObject({ version: 2, epoch: 2 });
      });

      test("that uses an entry's number again fails, writes nothing and harms no other", async () => {
        await store.commit(commitOf("a", 0, { entries: [entryOf(1, "t")] }));
        const [wrong, right] = await Promise.allSettled([
          store.commit(
            commitOf("a", 1, { entries: [entryOf(1, "t", "again")], accepted: [{ id: "in", digest: "d" }] }),
          ),
          store.commit(commitOf("b", 0)),
        ]);
        expect(wrong).toMatchObject({ status: "rejected", reason: { name: "StoreFault", landed: "no" } });
        expect(right).toMatchObject({ status: "fulfilled", value: "done" });
        expect(await store.load("a")).toMatchObject({ version: 1 });
        expect(await store.entries("a", 0, 10)).toEqual([entryOf(1, "t")]);
        expect(await store.input("in")).toBeNull();
      });

      test("keeps every character of a text", async () => {
        const text = `quote " back \\ nul \0 lone \ud800 pair \u{1f600} line\n\u2028`;
        await store.commit(commitOf("a", 0, { entries: [entryOf(1, "t", text)] }));
        expect(await store.entries("a", 0, 10)).toEqual([entryOf(1, "t", text)]);
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
        const verdicts = await Promise.all(commits.map((commit) => store.commit(commit)));
        expect(new Set(verdicts)).toEqual(new Set(["done"]));
        await reopen();
        for (const key of keys) {
          expect(await store.load(key)).toMatchObject({ version: 1 });
          expect(await store.turn(key)).toHaveLength(1);
          expect(await store.input(key)).toMatchObject({ status: "taken" });
        }
        expect(await store.check()).toEqual([]);
      });

      test("from the same version: exactly one is done", async () => {
        const all = Array.from({ length: 20 }, (_, i) => store.commit(commitOf("a", 0, { at: i })));
        expect((await Promise.all(all)).toSorted()).toEqual(["done", ...Array.from({ length: 19 }, () => "stale")]);
        expect(await store.load("a")).toMatchObject({ version: 1 });
      });

      test("with the same input: exactly one is done", async () => {
        const accepted = [{ id: "in", digest: "d" }];
        const all = Array.from({ length: 20 }, (_, i) => store.commit(commitOf(`s${i}`, 0, { accepted })));
        const verdicts = await Promise.all(all);
        expect(verdicts.toSorted()).toEqual(["done", ...Array.from({ length: 19 }, () => "duplicate")]);
        const owner = `s${verdicts.indexOf("done")}`;
        expect(await store.input("in")).toMatchObject({ session: owner });
        expect(await store.sessions({ limit: 50 })).toMatchObject([{ session: owner }]);
      });

      test("one that is refused takes no other with it", async () => {
        await store.commit(commitOf("old", 0, { accepted: [{ id: "in", digest: "d" }] }));
        const verdicts = await Promise.all([
          store.commit(commitOf("a", 0)),
          store.commit(commitOf("old", 0)),
          store.commit(commitOf("b", 0, { accepted: [{ id: "in", digest: "d" }] })),
          store.commit(commitOf("c", 0, { epoch: 0 })),
          store.commit(commitOf("d", 0)),
        ]);
        expect(verdicts).toEqual(["done", "stale", "duplicate", "fenced", "done"]);
        expect(await store.load("d")).toMatchObject({ version: 1 });
      });

      test("a read sees every commit that was asked for before it", async () => {
        void store.commit(commitOf("a", 0));
        void store.commit(commitOf("a", 1));
        expect(await store.load("a")).toMatchObject({ version: 2 });
      });

      test("a claim fences what is asked after it, not what was asked before", async () => {
        const before = store.commit(commitOf("a", 0, { epoch: 1 }));
        const claim = store.claim();
        const after = store.commit(commitOf("b", 0, { epoch: 1 }));
        expect(await Promise.all([before, claim, after])).toEqual(["done", 2, "fenced"]);
      });
    });

    describe("entries", () => {
      test("come in order, page by page", async () => {
        await store.commit(commitOf("a", 0, { entries: entriesOf(1, 4, "t1") }));
        await store.commit(commitOf("a", 1, { entries: entriesOf(5, 7, "t2") }));
        await store.commit(commitOf("b", 0, { entries: entriesOf(1, 3, "t3") }));
        expect(seqs(await store.entries("a", 0, 3))).toEqual([1, 2, 3]);
        expect(seqs(await store.entries("a", 3, 3))).toEqual([4, 5, 6]);
        expect(seqs(await store.entries("a", 6, 3))).toEqual([7]);
        expect(seqs(await store.entries("a", 7, 3))).toEqual([]);
        expect(seqs(await store.entries("a", 99, 3))).toEqual([]);
        expect(await store.entries("nobody", 0, 3)).toEqual([]);
      });

      test("of one turn are found by its id, also when another's lie between", async () => {
        const entries = [entryOf(1, "t1"), entryOf(2, "t2"), entryOf(3, "t1")];
        await store.commit(commitOf("a", 0, { entries }));
        await store.commit(commitOf("a", 1, { entries: [entryOf(4, "t1")] }));
        expect(seqs(await store.turn("t1"))).toEqual([1, 3, 4]);
        expect(await store.turn("t2")).toEqual([entryOf(2, "t2")]);
        expect(await store.turn("nobody")).toEqual([]);
      });
    });

    describe("an input", () => {
      const accepted = [{ id: "in", digest: "d" }];

      test("waits, is given to a turn, and stays known", async () => {
        expect(await store.input("in")).toBeNull();
        await store.commit(commitOf("a", 0, { accepted, at: 5 }));
        const row = { id: "in", session: "a", digest: "d", at: 5 };
        expect(await store.input("in")).toEqual({ ...row, status: "waiting", turn: null });
        await store.commit(commitOf("a", 1, { taken: [{ id: "in", turn: "other" }], at: 6 }));
        expect(await store.input("in")).toEqual({ ...row, status: "taken", turn: "other" });
      });

      test("can be accepted and taken in one commit", async () => {
        await store.commit(commitOf("a", 0, { accepted, taken: [{ id: "in", turn: "in" }] }));
        expect(await store.input("in")).toMatchObject({ status: "taken", turn: "in" });
      });

      test("can be withdrawn", async () => {
        await store.commit(commitOf("a", 0, { accepted }));
        await store.commit(commitOf("a", 1, { taken: [{ id: "in", turn: null }] }));
        expect(await store.input("in")).toMatchObject({ status: "withdrawn", turn: null });
        expect(await store.commit(commitOf("a", 2, { accepted }))).toBe("duplicate");
      });
    });

    describe("lists", () => {
      test("active sessions, oldest change first", async () => {
        await store.commit(commitOf("a", 0, { active: true, at: 30 }));
        await store.commit(commitOf("b", 0, { active: true, at: 10 }));
        await store.commit(commitOf("c", 0, { active: false, at: 5 }));
        await store.commit(commitOf("d", 0, { active: true, at: 20 }));
        expect(await store.active()).toEqual([
          { session: "b", updatedAt: 10 },
          { session: "d", updatedAt: 20 },
          { session: "a", updatedAt: 30 },
        ]);
        await store.commit(commitOf("b", 1, { active: true, at: 40 }));
        await store.commit(commitOf("d", 1, { active: false, at: 50 }));
        await store.commit(commitOf("c", 1, { active: true, at: 35 }));
        expect((await store.active()).map(({ session }) => session)).toEqual(["a", "c", "b"]);
      });

      test("the children of a session", async () => {
        await store.commit(commitOf("mother", 0));
        await store.commit(commitOf("b", 0, { parent: "mother" }));
        await store.commit(commitOf("a", 0, { parent: "mother" }));
        await store.commit(commitOf("c", 0, { parent: "b" }));
        await store.commit(commitOf("b", 1, { parent: "mother" }));
        expect(await store.children("mother")).toEqual(["b", "a"]);
        expect(await store.children("c")).toEqual([]);
      });

      test("sessions in which a yes still holds", async () => {
        await store.commit(commitOf("b", 0, { state: stateOf({ grants: ["call_1"] }) }));
        await store.commit(commitOf("a", 0, { state: stateOf({ grants: ["call_2", "call_3"] }) }));
        await store.commit(commitOf("c", 0));
        expect(await store.granted()).toEqual(["a", "b"]);
        await store.commit(commitOf("a", 1));
        expect(await store.granted()).toEqual(["b"]);
      });

      test("sessions, newest change first, page by page", async () => {
        for (let i = 1; i <= 5; i++) await store.commit(commitOf(`s${i}`, 0, { at: i * 10 }));
        await store.commit(commitOf("s2", 1, { at: 60, active: true, entries: entriesOf(1, 3, "t") }));
        const page = await store.sessions({ limit: 3 });
        expect(page).toEqual([
          { session: "s2", title: "", parent: null, active: true, entries: 3, createdAt: 20, updatedAt: 60 },
          { session: "s5", title: "", parent: null, active: false, entries: 0, createdAt: 50, updatedAt: 50 },
          { session: "s4", title: "", parent: null, active: false, entries: 0, createdAt: 40, updatedAt: 40 },
        ]);
        const after = page.at(-1);
        const rest = await store.sessions({ limit: 3, ...(after && { after }) });
        expect(rest.map(({ session }) => session)).toEqual(["s3", "s1"]);
      });

      test("sessions that changed at the same moment, each on one page only", async () => {
        for (const key of ["b", "d", "a", "c"]) await store.commit(commitOf(key, 0, { at: 7 }));
        const seen: string[] = [];
        for (let after: SessionSummary | undefined; ; ) {
          const page = await store.sessions({ limit: 1, ...(after && { after }) });
          after = page.at(-1);
          if (!after) break;
          seen.push(after.session);
        }
        expect(seen).toEqual(["d", "c", "b", "a"]);
      });

      test("sessions by their title, and without those that another one made", async () => {
        await store.commit(commitOf("a", 0, { title: "Plan the Garden", at: 1 }));
        await store.commit(commitOf("b", 0, { title: "a garden's child", parent: "a", at: 2 }));
        await store.commit(commitOf("c", 0, { at: 3 }));
        const keys = async (page: { top?: boolean; titled?: string }) =>
          (await store.sessions({ limit: 9, ...page })).map(({ session }) => session);
        expect(await keys({ titled: "gARden" })).toEqual(["b", "a"]);
        expect(await keys({ top: true })).toEqual(["c", "a"]);
        expect(await keys({ top: true, titled: "garden" })).toEqual(["a"]);
      });

      test("sessions by the beginning of their key, and those at work", async () => {
        await store.commit(commitOf("a:x", 0, { at: 1, active: true }));
        await store.commit(commitOf("a:y", 0, { at: 2 }));
        await store.commit(commitOf("a:x/child", 0, { at: 3, parent: "a:x", active: true }));
        await store.commit(commitOf("a_x", 0, { at: 4 }));
        await store.commit(commitOf("a:😀", 0, { at: 5 }));
        const keys = async (page: Omit<Parameters<Store["sessions"]>[0], "limit">, limit = 9) =>
          (await store.sessions({ limit, ...page })).map(({ session }) => session);
        expect(await keys({ prefix: "a:" })).toEqual(["a:😀", "a:x/child", "a:y", "a:x"]);
        expect(await keys({ prefix: "a:x" })).toEqual(["a:x/child", "a:x"]);
        expect(await keys({ prefix: "a:", top: true }, 2)).toEqual(["a:😀", "a:y"]);
        expect(await keys({ active: true })).toEqual(["a:x/child", "a:x"]);
        expect(await keys({ prefix: "a:x", active: true, top: true })).toEqual(["a:x"]);
        expect(await keys({ prefix: "%" })).toEqual([]);
      });
    });

    describe("a title", () => {
      test("is given with the first change, and later only by name", async () => {
        await store.commit(commitOf("a", 0, { title: "first" }));
        await store.commit(commitOf("a", 1, { title: "second" }));
        expect((await store.summary("a"))?.title).toBe("first");
        expect(await store.retitle("a", "third")).toBe(true);
        await reopen();
        expect((await store.summary("a"))?.title).toBe("third");
        expect(await store.retitle("b", "x")).toBe(false);
        expect(await store.summary("b")).toBeNull();
      });
    });

    describe("forget", () => {
      test("takes a session with its entries and inputs, if nobody has changed it meanwhile", async () => {
        const full = { entries: [entryOf(1, "t")], accepted: [{ id: "in", digest: "d" }] };
        await store.commit(commitOf("a", 0, { ...full, taken: [{ id: "in", turn: "t" }], active: true }));
        const which = { session: "a", epoch: 1, version: 1 };
        expect(await store.forget({ ...which, version: 0 })).toBe("stale");
        expect(await store.forget({ ...which, version: 2 })).toBe("stale");
        expect((await store.turn("t")).length).toBe(1);
        expect(await store.forget(which)).toBe("done");
        expect([await store.load("a"), await store.turn("t"), await store.input("in")]).toEqual([null, [], null]);
        expect(await store.forget(which)).toBe("stale");
        expect(await store.commit(commitOf("a", 0, full))).toBe("done");
      });

      test("is for the newest claim only", async () => {
        await store.commit(commitOf("a", 0));
        await store.claim();
        expect(await store.forget({ session: "a", epoch: 1, version: 1 })).toBe("fenced");
        expect(await store.load("a")).not.toBeNull();
      });
    });

    describe("a note", () => {
      test("is what was last written under its name, until it is erased, also by the next process", async () => {
        const { notes } = store;
        expect(await notes.get("a/1")).toBeUndefined();
        await notes.set("a/1", { x: [1, null, "ä"] });
        await notes.set("a/2", 2);
        await notes.set("a/1", "new");
        await notes.set("b", true);
        await reopen();
        expect((await store.notes.list("a/")).map(({ key, value }) => [key, value])).toEqual([
          ["a/1", "new"],
          ["a/2", 2],
        ]);
        await store.notes.set("a/1", undefined);
        expect([await store.notes.get("a/1"), await store.notes.get("b")]).toEqual([undefined, true]);
      });
    });

    describe("an announcement", () => {
      const turns = async (dead: boolean) =>
        (await store.announcements({ dead, after: 0, limit: 9 })).map(({ turn }) => turn);

      test("is made with its commit, in order, or not at all", async () => {
        await store.commit(commitOf("a", 0, { announced: [{ to: "x", turn: "t1" }], at: 5 }));
        await store.commit(commitOf("a", 0, { announced: [{ to: "x", turn: "stale" }] }));
        await store.commit(commitOf("b", 0, { announced: [{ to: "x", turn: "t2" }] }));
        await reopen();
        const [first, second] = await store.announcements({ dead: false, after: 0, limit: 9 });
        const made = { to: "x", session: "a", turn: "t1", at: 5, attempts: 0, due: 0, error: "", dead: false };
        expect(first).toMatchObject(made);
        expect(second?.turn).toBe("t2");
        expect(await store.announcements({ dead: false, after: first?.id ?? 0, limit: 1 })).toEqual([second]);
      });

      test("waits until it is told, or is dead until it is revived", async () => {
        await store.commit(commitOf("a", 0, { announced: ["t1", "t2"].map((turn) => ({ to: "x", turn })) }));
        const [one, two] = await store.announcements({ dead: false, after: 0, limit: 9 });
        await store.announced(one?.id ?? 0, { attempts: 8, due: 0, error: "500", dead: true });
        await store.announced(two?.id ?? 0, { attempts: 1, due: 99, error: "503", dead: false });
        expect([await turns(false), await turns(true)]).toEqual([["t2"], ["t1"]]);
        await reopen();
        const [kept] = await store.announcements({ dead: false, after: 0, limit: 9 });
        expect(kept).toMatchObject({ attempts: 1, due: 99, error: "503" });
        await store.announced(two?.id ?? 0, null);
        await store.announced(one?.id ?? 0, { attempts: 0, due: 0, error: "", dead: false });
        expect([await turns(false), await turns(true)]).toEqual([["t1"], []]);
      });
    });

    describe("search", () => searchContract(() => store, reopen));

    describe("prune", () => {
      test("forgets what is old, idle and under the prefix, with its entries and inputs; nothing else", async () => {
        const full = (key: string) => ({
          entries: [entryOf(1, `turn ${key}`)],
          accepted: [{ id: `in ${key}`, digest: "d" }],
          taken: [{ id: `in ${key}`, turn: `turn ${key}` }],
        });
        await store.commit(commitOf("api:old", 0, { ...full("old"), at: 10 }));
        const turn: Turn = {
          id: "t",
          reply: "pull",
          phase: { at: "thinking" },
          thoughts: 0,
          tight: false,
          recoveries: 0,
        };
        const runs = { active: true, at: 10, state: stateOf({ seq: 1, turn }) };
        await store.commit(commitOf("api:active", 0, { ...full("active"), ...runs }));
        const waits = { active: true, at: 10, state: stateOf({ seq: 1, inbox: [waiting("in waits", 1)] }) };
        await store.commit(commitOf("api:waits", 0, { ...full("waits"), taken: [], ...waits }));
        // Its memory has not been told of it yet.
        await store.commit(commitOf("api:unsaved", 0, { ...full("unsaved"), at: 10, active: true }));
        await store.commit(commitOf("api:new", 0, { ...full("new"), at: 100 }));
        await store.commit(commitOf("apj:old", 0, { ...full("apj"), at: 10 }));
        await store.commit(commitOf("ap", 0, { ...full("ap"), at: 10 }));
        expect(await store.prune("api:", 100)).toBe(2);
        expect(await store.load("api:old")).toBeNull();
        expect(await store.load("api:unsaved")).toBeNull();
        expect(await store.entries("api:old", 0, 10)).toEqual([]);
        expect(await store.turn("turn old")).toEqual([]);
        expect(await store.input("in old")).toBeNull();
        for (const key of ["active", "waits", "new", "apj", "ap"]) {
          expect(await store.turn(`turn ${key}`)).toHaveLength(1);
          expect(await store.input(`in ${key}`)).not.toBeNull();
        }
        expect(await store.check()).toEqual([]);
        expect(await store.prune("api:", 100)).toBe(0);
      });

      test("forgets hundreds, and a session that was forgotten can begin again", async () => {
        const all = Array.from({ length: 450 }, (_, i) => store.commit(commitOf(`s${i}`, 0)));
        await Promise.all(all);
        expect(await store.prune("", 5_000)).toBe(450);
        expect(await store.sessions({ limit: 10 })).toEqual([]);
        expect(await store.commit(commitOf("s1", 0, { entries: [entryOf(1, "t")] }))).toBe("done");
      });

      test("takes a prefix as it is written", async () => {
        for (const key of ["a%b", "a_b", "axb", "A%b"]) await store.commit(commitOf(key, 0));
        expect(await store.prune("a%", 5_000)).toBe(1);
        expect((await store.sessions({ limit: 10 })).map(({ session }) => session)).not.toContain("a%b");
      });
    });

    describe("a claim", () => {
      test("rises every time, also after the store was opened again", async () => {
        expect(await store.epoch()).toBe(1);
        expect(await store.claim()).toBe(2);
        await reopen();
        expect(await store.epoch()).toBe(2);
        expect(await Promise.all([store.claim(), store.claim()])).toEqual([3, 4]);
        expect(await store.epoch()).toBe(4);
      });
    });

    describe("check", () => {
      test("finds nothing in what is right", async () => {
        const state = stateOf({ seq: 1, inbox: [waiting("in", 1)] });
        const accepted = [{ id: "in", digest: "d" }];
        await store.commit(commitOf("a", 0, { state, accepted, entries: [entryOf(1, "in")] }));
        expect(await store.check()).toEqual([]);
      });

      test("names a session whose entries have a gap", async () => {
        await store.commit(
          commitOf("a", 0, { state: stateOf({ seq: 3 }), entries: [entryOf(1, "t"), entryOf(3, "t")] }),
        );
        expect(await store.check()).toEqual([expect.stringContaining("session a")]);
      });

      test("names an input that waits in no inbox, and one in an inbox that does not wait", async () => {
        await store.commit(commitOf("a", 0, { accepted: [{ id: "lost", digest: "d" }] }));
        await store.commit(commitOf("b", 0, { state: stateOf({ inbox: [waiting("ghost", 1)] }) }));
        const wrong = (await store.check()).toSorted();
        expect(wrong).toEqual([expect.stringContaining("lost"), expect.stringContaining("ghost")]);
      });
    });

    describe("close", () => {
      test("finishes what was asked before; what is asked later did not happen; twice is once", async () => {
        const asked = Array.from({ length: 50 }, (_, i) => store.commit(commitOf(`s${i}`, 0)));
        const closed = store.close();
        await expect(store.commit(commitOf("late", 0))).rejects.toThrow(StoreFault);
        await expect(store.load("s1")).rejects.toMatchObject({ landed: "no" });
        await Promise.all([closed, store.close()]);
        expect(new Set(await Promise.all(asked))).toEqual(new Set(["done"]));
        await reopen();
        expect(await store.sessions({ limit: 100 })).toHaveLength(50);
        expect(await store.load("late")).toBeNull();
      });
    });
  });
}
