// What every Catalog must do, over a journal that fills it.
import { beforeEach, describe, expect, test } from "vitest";
import type { Turn } from "../../src/core/session.ts";
import type { SessionPage, SessionSummary } from "../../src/core/store.ts";
import { commitOf, entriesOf, entryOf, joined, opened, type Place, stateOf, waiting } from "./store.ts";

export function catalogContract(place: Place<"nodes" | "catalog" | "journal">) {
  describe("catalog", () => {
    const { store, reopen } = opened(place);
    const catalog = () => store().catalog;
    const journal = () => store().journal;
    beforeEach(() => joined(store()));

    describe("lists", () => {
      test("sessions in which a yes still holds", async () => {
        await journal().commit(commitOf("b", 0, { state: stateOf({ grants: ["call_1"] }) }));
        await journal().commit(commitOf("a", 0, { state: stateOf({ grants: ["call_2", "call_3"] }) }));
        await journal().commit(commitOf("c", 0));
        expect(await catalog().granted()).toEqual(["a", "b"]);
        await journal().commit(commitOf("a", 1));
        expect(await catalog().granted()).toEqual(["b"]);
      });

      test("sessions, newest change first, page by page", async () => {
        for (let i = 1; i <= 5; i++) await journal().commit(commitOf(`s${i}`, 0, { at: i * 10 }));
        await journal().commit(commitOf("s2", 1, { at: 60, active: true, entries: entriesOf(1, 3, "t") }));
        const page = await catalog().sessions({ limit: 3 });
        expect(page).toEqual([
          { session: "s2", title: "", parent: null, active: true, entries: 3, createdAt: 20, updatedAt: 60 },
          { session: "s5", title: "", parent: null, active: false, entries: 0, createdAt: 50, updatedAt: 50 },
          { session: "s4", title: "", parent: null, active: false, entries: 0, createdAt: 40, updatedAt: 40 },
        ]);
        const after = page.at(-1);
        const rest = await catalog().sessions({ limit: 3, ...(after && { after }) });
        expect(rest.map(({ session }) => session)).toEqual(["s3", "s1"]);
      });

      test("sessions that changed at the same moment, each on one page only", async () => {
        for (const key of ["b", "d", "a", "c"]) await journal().commit(commitOf(key, 0, { at: 7 }));
        const seen: string[] = [];
        for (let after: SessionSummary | undefined; ; ) {
          const page = await catalog().sessions({ limit: 1, ...(after && { after }) });
          after = page.at(-1);
          if (!after) break;
          seen.push(after.session);
        }
        expect(seen).toEqual(["d", "c", "b", "a"]);
      });

      test("sessions by their title, and without those that another one made", async () => {
        await journal().commit(commitOf("a", 0, { title: "Plan the Garden", at: 1 }));
        await journal().commit(commitOf("b", 0, { title: "a garden's child", parent: "a", at: 2 }));
        await journal().commit(commitOf("c", 0, { at: 3 }));
        const keys = async (page: { top?: boolean; titled?: string }) =>
          (await catalog().sessions({ limit: 9, ...page })).map(({ session }) => session);
        expect(await keys({ titled: "gARden" })).toEqual(["b", "a"]);
        expect(await keys({ top: true })).toEqual(["c", "a"]);
        expect(await keys({ top: true, titled: "garden" })).toEqual(["a"]);
      });

      test("sessions by the beginning of their key, and those at work", async () => {
        await journal().commit(commitOf("a:x", 0, { at: 1, active: true }));
        await journal().commit(commitOf("a:y", 0, { at: 2 }));
        await journal().commit(commitOf("a:x/child", 0, { at: 3, parent: "a:x", active: true }));
        await journal().commit(commitOf("a_x", 0, { at: 4 }));
        await journal().commit(commitOf("a:😀", 0, { at: 5 }));
        const keys = async (page: Omit<SessionPage, "limit">, limit = 9) =>
          (await catalog().sessions({ limit, ...page })).map(({ session }) => session);
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
        await journal().commit(commitOf("a", 0, { title: "first" }));
        await journal().commit(commitOf("a", 1, { title: "second" }));
        expect((await catalog().summary("a"))?.title).toBe("first");
        expect(await catalog().retitle("a", "third")).toBe(true);
        await reopen();
        expect((await catalog().summary("a"))?.title).toBe("third");
        expect(await catalog().retitle("b", "x")).toBe(false);
        expect(await catalog().summary("b")).toBeNull();
      });
    });

    describe("forget", () => {
      test("takes a session with its entries and inputs, if nobody has changed it meanwhile", async () => {
        const full = { entries: [entryOf(1, "t")], accepted: [{ id: "in", digest: "d" }] };
        await journal().commit(commitOf("a", 0, { ...full, taken: [{ id: "in", turn: "t" }], active: true }));
        const which = { session: "a", node: commitOf("a", 0).node, version: 1 };
        expect(await catalog().forget({ ...which, version: 0 })).toBe("stale");
        expect(await catalog().forget({ ...which, version: 2 })).toBe("stale");
        expect((await journal().turn("t")).length).toBe(1);
        expect(await catalog().forget(which)).toBe("done");
        expect([await journal().load("a"), await journal().turn("t"), await journal().input("in")]).toEqual([
          null,
          [],
          null,
        ]);
        expect(await catalog().forget(which)).toBe("stale");
        expect(await journal().commit(commitOf("a", 0, full))).toBe("done");
      });

      test("is for the newest node only", async () => {
        await journal().commit(commitOf("a", 0));
        const { node } = commitOf("a", 0);
        await joined(store());
        expect(await catalog().forget({ session: "a", node, version: 1 })).toBe("fenced");
        expect(await journal().load("a")).not.toBeNull();
      });
    });

    describe("prune", () => {
      test("forgets what is old, idle and under the prefix, with its entries and inputs; nothing else", async () => {
        const full = (key: string) => ({
          entries: [entryOf(1, `turn ${key}`)],
          accepted: [{ id: `in ${key}`, digest: "d" }],
          taken: [{ id: `in ${key}`, turn: `turn ${key}` }],
        });
        await journal().commit(commitOf("api:old", 0, { ...full("old"), at: 10 }));
        const turn: Turn = {
          id: "t",
          reply: "pull",
          phase: { at: "thinking" },
          thoughts: 0,
          tight: false,
          recoveries: 0,
        };
        const runs = { active: true, at: 10, state: stateOf({ seq: 1, turn }) };
        await journal().commit(commitOf("api:active", 0, { ...full("active"), ...runs }));
        const waits = { active: true, at: 10, state: stateOf({ seq: 1, inbox: [waiting("in waits", 1)] }) };
        await journal().commit(commitOf("api:waits", 0, { ...full("waits"), taken: [], ...waits }));
        // Its memory has not been told of it yet.
        await journal().commit(commitOf("api:unsaved", 0, { ...full("unsaved"), at: 10, active: true }));
        await journal().commit(commitOf("api:new", 0, { ...full("new"), at: 100 }));
        await journal().commit(commitOf("apj:old", 0, { ...full("apj"), at: 10 }));
        await journal().commit(commitOf("ap", 0, { ...full("ap"), at: 10 }));
        expect(await catalog().prune("api:", 100)).toBe(2);
        expect(await journal().load("api:old")).toBeNull();
        expect(await journal().load("api:unsaved")).toBeNull();
        expect(await journal().entries("api:old", 0, 10)).toEqual([]);
        expect(await journal().turn("turn old")).toEqual([]);
        expect(await journal().input("in old")).toBeNull();
        for (const key of ["active", "waits", "new", "apj", "ap"]) {
          expect(await journal().turn(`turn ${key}`)).toHaveLength(1);
          expect(await journal().input(`in ${key}`)).not.toBeNull();
        }
        expect(await catalog().prune("api:", 100)).toBe(0);
      });

      test("forgets hundreds, and a session that was forgotten can begin again", async () => {
        const all = Array.from({ length: 450 }, (_, i) => journal().commit(commitOf(`s${i}`, 0)));
        await Promise.all(all);
        expect(await catalog().prune("", 5_000)).toBe(450);
        expect(await catalog().sessions({ limit: 10 })).toEqual([]);
        expect(await journal().commit(commitOf("s1", 0, { entries: [entryOf(1, "t")] }))).toBe("done");
      });

      test("takes a prefix as it is written", async () => {
        for (const key of ["a%b", "a_b", "axb", "A%b"]) await journal().commit(commitOf(key, 0));
        expect(await catalog().prune("a%", 5_000)).toBe(1);
        expect((await catalog().sessions({ limit: 10 })).map(({ session }) => session)).not.toContain("a%b");
      });
    });
  });
}
