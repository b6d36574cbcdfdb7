// What every Search must do, over a journal that fills it and a catalog that forgets.
import { beforeEach, describe, expect, test } from "vitest";
import type { Entry } from "../../src/core/session.ts";
import { commitOf, entryOf, joined, opened, type Place } from "./store.ts";

export function searchContract(place: Place<"nodes" | "search" | "journal" | "catalog">) {
  describe("search", () => {
    const { store, reopen } = opened(place);
    const journal = () => store().journal;
    const catalog = () => store().catalog;
    beforeEach(() => joined(store()));

    const say = (session: string, version: number, entries: Entry[], at = 1_000) =>
      journal().commit(commitOf(session, version, { entries, at }));
    const heard = (seq: number, text: string): Entry => {
      const input = { id: `in ${seq}`, text, mode: "queue", reply: "pull" } as const;
      return { seq, turn: "t", at: 1_000 + seq, kind: "accepted", input, applied: "began" };
    };
    const thought = (seq: number, text: string): Entry => {
      const usage = { input: 1, output: 1 };
      return { seq, turn: "t", at: 1_000 + seq, kind: "thought", text, calls: [], usage, model: "m" };
    };
    const found = async (query: string, session?: string, limit = 10) =>
      (await store().search(query, { ...(session !== undefined && { session }), limit })).map(
        (hit) => `${hit.session}/${hit.seq}`,
      );

    test("finds what a person said, a model answered, and what was cut off; where and when", async () => {
      await say("a", 0, [
        heard(1, "where is the blue teapot"),
        thought(2, "On the top shelf."),
        entryOf(3, "t", "And"),
      ]);
      expect(await store().search("teapot", { limit: 5 })).toEqual([
        { session: "a", seq: 1, turn: "t", at: 1_001, text: "where is the blue teapot" },
      ]);
      expect(await found("SHELF")).toEqual(["a/2"]);
      expect(await found("and")).toEqual(["a/3"]);
      expect(await found("elephant")).toEqual([]);
    });

    test("finds what was said since the last search, and nothing twice", async () => {
      await say("a", 0, [heard(1, "first teapot")]);
      expect(await found("teapot")).toEqual(["a/1"]);
      await say("a", 1, [thought(2, "second teapot")]);
      await reopen();
      expect((await found("teapot")).toSorted()).toEqual(["a/1", "a/2"]);
    });

    test("does not find what tools printed, nor what is no message", async () => {
      const task: Entry = { ...heard(2, "teapot"), kind: "accepted", applied: "queue" } as Entry;
      if (task.kind === "accepted") task.input = { ...task.input, task: "compress" };
      const acted: Entry = { seq: 1, turn: "t", at: 1, kind: "acted", call: "c", outcome: "ok", text: "a teapot" };
      await say("a", 0, [acted, task, { seq: 3, turn: "t", at: 1, kind: "failed", reason: "teapot" }]);
      expect(await found("teapot")).toEqual([]);
    });

    test("wants all words, takes any if there is no such entry, and a quoted phrase as one", async () => {
      await say("a", 0, [heard(1, "red kettle"), heard(2, "a kettle that is not green but red"), heard(3, "blue")]);
      expect((await found("kettle green")).toSorted()).toEqual(["a/2"]);
      expect((await found("kettle blue")).toSorted()).toEqual(["a/1", "a/2", "a/3"]);
      expect(await found('"red kettle"')).toEqual(["a/1"]);
    });

    test("gives of equal ones the newest first, and no more than asked for", async () => {
      await say("a", 0, [heard(1, "same words")]);
      await say("b", 0, [heard(2, "same words")]);
      await say("c", 0, [heard(3, "same words")]);
      expect(await found("same words", undefined, 2)).toEqual(["c/3", "b/2"]);
      for (let n = 4; n < 10; n++) await say(`c:${n}`, 0, [heard(n, "same words")]);
      expect(await found("same words", undefined, 2)).toEqual(["c:9/9", "c:8/8"]);
      expect(await found("same words", "c", 3)).toEqual(["c:9/9", "c:8/8", "c:7/7"]);
      expect(await found("same words", "c:4", 3)).toEqual(["c:4/4"]);
    });

    test("stays within a session and those below it: never one whose key only begins alike", async () => {
      for (const key of ["u:1", "u:1:x", "u:12", "u:2", "u"]) await say(key, 0, [heard(1, "secret teapot")]);
      expect((await found("teapot", "u:1")).toSorted()).toEqual(["u:1/1", "u:1:x/1"]);
      expect(await found("teapot", "u:2")).toEqual(["u:2/1"]);
      expect(await found("teapot", "u%")).toEqual([]);
      expect(await found("teapot", "")).toEqual([]);
    });

    test("takes a query as words, never as syntax", async () => {
      await say("a", 0, [heard(1, "teapot AND text")]);
      const queries = [
        '"',
        '""',
        "'",
        "*",
        "a*",
        "^x",
        "teapot AND",
        "OR",
        "NOT teapot",
        "NEAR(a b)",
        "text:teapot",
        "-teapot",
        "(",
        ")",
        "{a b}: c",
        "a + b",
        "\\",
        "\0",
        'teapot"\0"',
        "%_",
        "\ud800",
        "😀",
        ";--",
        " ",
        "",
        "tea\u0301pot",
        "a".repeat(5_000),
        "word ".repeat(5_000),
        '"'.repeat(999),
      ];
      for (const query of queries)
        await expect(store().search(query, { limit: 3 }), JSON.stringify(query)).resolves.toBeInstanceOf(Array);
    });

    test("shows the part of a long text around what was looked for", async () => {
      await say("a", 0, [heard(1, `${"before ".repeat(300)}teapot${" after".repeat(300)}`)]);
      const [hit] = await store().search("teapot", { limit: 1 });
      expect(hit?.text).toMatch(/^….*before teapot after.*…$/);
      expect(hit?.text.length).toBeLessThan(500);
    });

    test("finds nothing of what was forgotten, and what came in its place", async () => {
      await say("old", 0, [heard(1, "teapot")], 10);
      expect(await found("teapot")).toEqual(["old/1"]);
      expect(await catalog().prune("", 100)).toBe(1);
      expect(await found("teapot")).toEqual([]);
      await say("new", 0, [heard(1, "kettle"), heard(2, "teapot")]);
      expect(await found("teapot")).toEqual(["new/2"]);
      expect(await found("kettle")).toEqual(["new/1"]);
    });
  });
}
