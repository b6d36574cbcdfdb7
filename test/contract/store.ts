// What the contract suites of the store's ports share. Each suite is a function of how to open the port that it is about, with
// the ports that it needs to fill it; store.test.ts runs all of them on each implementation.
import { afterEach, beforeEach } from "vitest";
import { type Entry, fresh, type Session, type Waiting } from "../../src/core/session.ts";
import { ALONE, type Commit, type Store } from "../../src/core/store.ts";

/** Makes an empty place; each call of what it returns opens that same place. */
export type Place<Port extends keyof Store> = () => () => Promise<Pick<Store, Port | "close">>;

/** For each test, what is opened in a place of its own. */
export function opened<Port extends keyof Store>(place: Place<Port>) {
  let open: ReturnType<Place<Port>>;
  let now: Pick<Store, Port | "close">;
  beforeEach(async () => {
    open = place();
    now = await open();
  });
  afterEach(() => now.close());
  return {
    store: () => now,
    async reopen(): Promise<void> {
      await now.close();
      now = await open();
    },
  };
}

/** Who writes what `commitOf` makes. */
let writer = "1";
export async function joined({ nodes }: Pick<Store, "nodes">): Promise<string> {
  writer = await nodes.join(ALONE);
  return writer;
}

/** A commit that is right in itself; `change` says what this test is about. */
export function commitOf(session: string, version: number, change: Partial<Commit> = {}): Commit {
  const entries = change.entries ?? [];
  return {
    session,
    node: writer,
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
export const entriesOf = (from: number, to: number, turn: string) =>
  Array.from({ length: to - from + 1 }, (_, i) => entryOf(from + i, turn));
export const waiting = (id: string, seq: number): Waiting => ({ id, mode: "queue", reply: "pull", seq });
