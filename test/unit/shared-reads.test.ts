import { expect, it } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import { type Entry, fresh } from "../../src/core/session.ts";
import { ALONE, type Journal } from "../../src/core/store.ts";
import { sharingReads } from "../../src/engine/shared-reads.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

/** A store whose reads wait until they are let go, and see what was there when they began. */
function slow() {
  const disk = createMemoryStore();
  const node = disk.nodes.join(ALONE);
  const store = asStore(disk);
  const reads: (() => void)[] = [];
  const turn: Journal["turn"] = async (id) => {
    const seen = await store.journal.turn(id);
    await new Promise<void>((resolve) => reads.push(resolve));
    return seen;
  };
  const shared = sharingReads({ ...store, journal: { ...store.journal, turn } }, () => true).journal;
  const commit = (entry: Entry, version: number) =>
    shared.commit({
      session: "s",
      node,
      version,
      state: { ...fresh, seq: entry.seq },
      active: false,
      parent: null,
      at: 0,
      entries: [entry],
      accepted: [],
      taken: [],
    });
  return { shared, commit, reads, go: () => reads.splice(0).forEach((go) => go()) };
}
const entry = (seq: number): Entry => ({ seq, turn: "t", at: 0, kind: "began", input: "t" });
const settled = () => new Promise((resolve) => setImmediate(resolve));

it("those who ask for a turn at the same time are given one read", async () => {
  const { shared, commit, reads, go } = slow();
  await commit(entry(1), 0);
  const all = Promise.all([shared.turn("t"), shared.turn("t"), shared.turn("t")]);
  await settled();
  expect(reads).toHaveLength(1);
  go();
  const [one, two, three] = await all;
  expect(one).toHaveLength(1);
  expect(two).toBe(one);
  expect(three).toBe(one);
});

it("who asks after a commit is never given what was read before it", async () => {
  const { shared, commit, reads, go } = slow();
  await commit(entry(1), 0);
  const before = shared.turn("t");
  await settled();
  await commit(entry(2), 1);
  const after = shared.turn("t");
  await settled();
  expect(reads).toHaveLength(2);
  go();
  expect(await before).toHaveLength(1);
  expect(await after).toHaveLength(2);
});

it("a read that failed is made again for the next one", async () => {
  const store = asStore(createMemoryStore());
  let fails = 1;
  const turn: Journal["turn"] = (id) => {
    if (fails-- > 0) return Promise.reject(new StoreFault("no", "the disk is gone"));
    return store.journal.turn(id);
  };
  const shared = sharingReads({ ...store, journal: { ...store.journal, turn } }, () => true).journal;
  await expect(shared.turn("t")).rejects.toThrow("the disk is gone");
  expect(await shared.turn("t")).toEqual([]);
});
