// What every Nodes must do: in a store for one process, and in one that several processes share.
import { beforeEach, describe, expect, test } from "vitest";
import { ALONE, type Commit, type Nodes, type Store } from "../../src/core/store.ts";
import { commitOf, entryOf, opened, type Place } from "./store.ts";

export function nodesContract(place: Place<"journal" | "nodes">) {
  describe("nodes", () => {
    const { store, reopen } = opened(place);
    const { join, write } = of(store);

    test("one that joins replaces the one before, and is given what that has left, the oldest change first", async () => {
      const first = await join();
      await write(first, "a", 0, { active: true, at: 30 });
      await write(first, "b", 0, { active: true, at: 10 });
      await write(first, "idle", 0, { active: false, at: 5 });
      await write(first, "d", 0, { active: true, at: 20 });
      expect(await store().journal.load("a")).toMatchObject({ owner: first, writer: first });
      expect(await store().nodes.claim(first, 9)).toEqual([]);
      await reopen();
      const second = await join();
      expect(second).not.toBe(first);
      expect(await store().nodes.beat(first)).toBe("gone");
      expect(await store().nodes.beat(second)).toBe("ok");
      expect(await write(first, "a", 1)).toBe("fenced");
      expect(await store().nodes.claim(first, 9)).toEqual([]);
      expect(await store().journal.load("b")).toMatchObject({ owner: null, writer: first });
      expect(await store().nodes.claim(second, 2)).toEqual(["b", "d"]);
      expect(await store().journal.load("b")).toMatchObject({ owner: second, writer: first, version: 1 });
      expect(await store().nodes.ownerOf("b")).toEqual({ node: second, address: "" });
      expect([await store().nodes.ownerOf("a"), await store().nodes.ownerOf("idle")]).toEqual([null, null]);
      expect(await write(second, "b", 1, { active: false })).toBe("done");
      expect(await write(second, "d", 1, { active: true })).toBe("done");
      expect(await store().nodes.claim(second, 9)).toEqual(["a"]);
      expect(await store().journal.load("b")).toMatchObject({ owner: null, writer: second });
      expect((await store().nodes.list()).map(({ id, sessions }) => [id, sessions])).toEqual([[second, 2]]);
      expect(await store().nodes.lease("x", first)).toBe(false);
      expect(await store().nodes.lease("x", second)).toBe(true);
    });

    test("one that was replaced is soon told so, whatever it or another one has committed", async () => {
      const first = await join();
      expect(await write(first, "a", 0)).toBe("done");
      const second = await join();
      expect(await write(second, "b", 0)).toBe("done");
      expect(await store().nodes.beat(first)).toBe("gone");
      await join();
      const told = async () => [await write(second, "b", 1), await store().nodes.beat(second)];
      await expect.poll(told, { timeout: 5_000 }).toEqual(["fenced", "gone"]);
    });

    test("one that leaves is given nothing more", async () => {
      const first = await join();
      await write(first, "a", 0, { active: true });
      const second = await join();
      expect(await store().nodes.drain(second)).toBe(true);
      expect(await store().nodes.beat(second)).toBe("leaving");
      expect(await store().nodes.claim(second, 9)).toEqual([]);
      expect(await store().nodes.drain("nobody")).toBe(false);
    });
  });
}

/** `expire`: ends the lease of a node. */
export function clusterContract(place: Place<"journal" | "catalog" | "nodes">, expire: (id: string) => Promise<void>) {
  describe("nodes of a cluster", () => {
    const { store } = opened(place);
    const { join, write } = of(store);
    const nodes = (): Nodes => store().nodes;
    let one = "";
    let two = "";
    beforeEach(async () => {
      one = await join("http://one");
      two = await join("http://two");
    });

    test("a session with work has one owner, and only that writes; at rest it is anybody's", async () => {
      expect(await write(one, "a", 0, { active: true })).toBe("done");
      expect(await nodes().ownerOf("a")).toEqual({ node: one, address: "http://one" });
      const theirs = { entries: [entryOf(1, "t")], accepted: [{ id: "in", digest: "d" }] };
      expect(await write(two, "a", 1, theirs)).toBe("elsewhere");
      expect(await write(two, "a", 0, theirs)).toBe("elsewhere");
      expect(await store().catalog.forget({ session: "a", node: two, version: 1 })).toBe("elsewhere");
      expect(await store().journal.input("in")).toBeNull();
      expect(await write(one, "a", 1, { active: false })).toBe("done");
      expect(await nodes().ownerOf("a")).toBeNull();
      expect(await write(two, "a", 1, theirs)).toBe("stale");
      expect(await write(two, "a", 2, { ...theirs, active: true })).toBe("done");
      expect(await store().journal.load("a")).toMatchObject({ owner: two, writer: two, version: 3 });
      expect(await write(one, "a", 3)).toBe("elsewhere");
    });

    test("of many that wake one session, or claim it, one gets it", async () => {
      const verdicts = await Promise.all([one, two, one, two].map((node) => write(node, "new", 0, { active: true })));
      expect(verdicts.filter((verdict) => verdict === "done")).toHaveLength(1);
      for (let i = 0; i < 20; i++) await write(one, `s${i}`, 0, { active: true, at: i });
      await nodes().leave(one);
      const three = await join("http://three");
      const claimed = await Promise.all([two, three, two, three].map((node) => nodes().claim(node, 8)));
      const owners = await Promise.all(Array.from({ length: 20 }, (_, i) => store().journal.load(`s${i}`)));
      for (const [i, node] of [two, three, two, three].entries())
        for (const key of claimed[i] ?? [])
          expect(owners.find((row) => row?.session === key)?.owner ?? node).toBe(node);
      expect(new Set(claimed.flat()).size).toBeGreaterThanOrEqual(16);
    });

    test("what was claimed comes again until it is written: the answer may have been lost", async () => {
      await write(one, "a", 0, { active: true });
      await nodes().leave(one);
      expect(await nodes().claim(two, 9)).toEqual(["a"]);
      expect(await nodes().claim(two, 9)).toEqual(["a"]);
      expect(await write(two, "a", 1, { active: true })).toBe("done");
      expect(await nodes().claim(two, 9)).toEqual([]);
    });

    test("one whose lease is over by the store's clock is reaped: it writes, claims and holds nothing any more", async () => {
      await write(one, "a", 0, { active: true });
      expect(await nodes().lease("telegram", one)).toBe(true);
      expect(await nodes().lease("telegram", two)).toBe(false);
      expect(await nodes().reap()).toEqual([]);
      await expire(one);
      expect(await nodes().reap()).toEqual([one]);
      expect(await nodes().reap()).toEqual([]);
      expect(await nodes().beat(one)).toBe("gone");
      expect(await write(one, "a", 1, { active: true })).toBe("fenced");
      expect(await nodes().claim(one, 9)).toEqual([]);
      expect(await nodes().lease("telegram", one)).toBe(false);
      expect(await nodes().lease("telegram", two)).toBe(true);
      expect(await store().journal.load("a")).toMatchObject({ owner: null, writer: one, version: 1 });
      expect(await nodes().claim(two, 9)).toEqual(["a"]);
      expect(await write(two, "a", 1, { active: true })).toBe("done");
      expect(await nodes().list()).toMatchObject([{ id: two, address: "http://two", leaving: false, sessions: 1 }]);
    });

    test("a beat makes the lease longer", async () => {
      await expire(one);
      expect(await nodes().beat(one)).toBe("ok");
      expect(await nodes().reap()).toEqual([]);
    });

    test("a lease that its holder gives back is free; nobody else can give it back", async () => {
      expect(await nodes().lease("x", one)).toBe(true);
      await nodes().release("x", two);
      expect([await nodes().lease("x", two), await nodes().lease("x", one)]).toEqual([false, true]);
      await nodes().release("x", one);
      expect(await nodes().lease("x", two)).toBe(true);
    });

    test("one that leaves is given no lease, and is no longer told that it has one", async () => {
      expect(await nodes().lease("x", one)).toBe(true);
      await nodes().drain(one);
      expect([await nodes().lease("x", one), await nodes().lease("y", one)]).toEqual([false, false]);
      expect(await nodes().lease("x", two)).toBe(false);
      await nodes().release("x", one);
      expect(await nodes().lease("x", two)).toBe(true);
    });

    test("what one hands over is claimed by another, and nothing else of it", async () => {
      await write(one, "a", 0, { active: true });
      await write(one, "b", 0, { active: true });
      expect(await nodes().drain(one)).toBe(true);
      expect(await nodes().beat(one)).toBe("leaving");
      await nodes().handOver(two, ["b"]);
      await nodes().handOver(one, ["a"]);
      expect(await nodes().claim(one, 9)).toEqual([]);
      expect(await nodes().claim(two, 9)).toEqual(["a"]);
      expect(await store().journal.load("a")).toMatchObject({ owner: two, writer: "", version: 1 });
      expect(await write(one, "a", 1, { active: true })).toBe("elsewhere");
      expect(await write(one, "b", 1, { active: true })).toBe("done");
    });

    test("others get a hint when a session is free", async () => {
      await write(one, "a", 0, { active: true });
      const { promise: hinted, resolve } = Promise.withResolvers<void>();
      const stop = nodes().onHint(resolve);
      await nodes().handOver(one, ["a"]);
      await hinted;
      stop();
    });
  });
}

function of(store: () => Pick<Store, "journal" | "nodes">) {
  return {
    join: (address = "") => store().nodes.join(address ? { address, version: "1" } : ALONE),
    write: (node: string, session: string, version: number, change: Partial<Commit> = {}) =>
      store().journal.commit(commitOf(session, version, { node, ...change })),
  };
}
