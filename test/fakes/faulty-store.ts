// A store whose commits and reads fail, or wait, when a test says so.
import { StoreFault } from "../../src/core/errors.ts";
import type { Commit, Store } from "../../src/core/ports.ts";

export type Trouble = "no" | "unknown, landed" | "unknown, lost";

/** Commits fail as told, and reads too if told so, until it is up again. */
export function faulty() {
  let trouble: Trouble | null = null;
  let unreadable: keyof Store | null = null;
  let gate: { method: keyof Store; open: Promise<void> } | null = null;
  const commit = async (store: Store, change: Commit) => {
    if (!trouble) return store.commit(change);
    if (trouble === "unknown, landed") await store.commit(change);
    throw new StoreFault(trouble === "no" ? "no" : "unknown", "the disk is in trouble");
  };
  return {
    between: (store: Store): Store =>
      new Proxy(store, {
        get: (target, name: keyof Store) => {
          const method = target[name] as (...args: unknown[]) => Promise<unknown>;
          return async (...args: unknown[]) => {
            if (gate?.method === name) await gate.open;
            if (name === "commit") return commit(target, args[0] as Commit);
            if (name === unreadable) throw new StoreFault("no", "the disk cannot be read");
            return method(...args);
          };
        },
      }),
    down: (how: Trouble | null, read: keyof Store | null = null) => {
      trouble = how;
      unreadable = read;
    },
    up: () => {
      trouble = null;
      unreadable = null;
    },
    /** Keeps this method waiting until the returned function is called. */
    hold(method: keyof Store = "commit"): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = { method, open: promise };
      return () => {
        gate = null;
        resolve();
      };
    },
  };
}
