// What the ports of the memory store share: the tables.
import type { Entry } from "../../../src/core/session.ts";
import type { Announcement, InputRow, NodeRow, Note, SessionRow, Store } from "../../../src/core/store.ts";

/** A port whose methods return at once. */
export type Sync<T> = T extends (...args: infer A) => Promise<infer R>
  ? (...args: A) => R
  : T extends (...args: never[]) => unknown
    ? T
    : { [K in keyof T]: Sync<T[K]> };
export type SyncPort<K extends keyof Store> = Sync<Store[K]>;

export type Kept = SessionRow & { title: string; active: boolean; entries: Entry[] };

export const createDisk = () => ({
  joined: 0,
  /** Those who may write, in the order in which they joined. */
  nodes: new Map<string, Omit<NodeRow, "sessions">>(),
  /** Who holds it, by name. */
  leases: new Map<string, string>(),
  /** In order of creation, which decides between equal times. */
  sessions: new Map<string, Kept>(),
  turns: new Map<string, Entry[]>(),
  inputs: new Map<string, InputRow>(),
  announcements: new Map<number, Announcement>(),
  announced: 0,
  notes: new Map<string, Note>(),
});
export type Disk = ReturnType<typeof createDisk>;
