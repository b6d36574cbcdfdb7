// A store whose commits and reads fail, or wait, when a test says so.
import { StoreFault } from "../../src/core/errors.ts";
import type { Catalog, Commit, Journal, Nodes, Store } from "../../src/core/store.ts";

export type Trouble = "no" | "unknown, landed" | "unknown, lost";
type Method = keyof Journal | keyof Catalog | keyof Nodes;

/** Commits fail as told, and reads too if told so, until it is up again. */
export function faulty() {
  let trouble: Trouble | null = null;
  let unreadable: Method | null = null;
  let gate: { method: Method; open: Promise<void> } | null = null;
  const commit = async (journal: Journal, change: Commit) => {
    if (!trouble) return journal.commit(change);
    if (trouble === "unknown, landed") await journal.commit(change);
    throw new StoreFault(trouble === "no" ? "no" : "unknown", "the disk is in trouble");
  };
  const between = <Port extends Journal | Catalog | Nodes>(port: Port): Port =>
    new Proxy(port, {
      get: (target, name: Method) => {
        const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
        return async (...args: unknown[]) => {
          if (gate?.method === name) await gate.open;
          if (name === unreadable) throw new StoreFault("no", "the disk cannot be read");
          return method(...args);
        };
      },
    });
  return {
    between: (store: Store): Store => ({
      ...store,
      journal: between({ ...store.journal, commit: (change) => commit(store.journal, change) }),
      catalog: between(store.catalog),
      nodes: between(store.nodes),
    }),
    down: (how: Trouble | null, read: Method | null = null) => {
      trouble = how;
      unreadable = read;
    },
    up: () => {
      trouble = null;
      unreadable = null;
    },
    /** Keeps this method waiting until the returned function is called. */
    hold(method: Method = "commit"): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = { method, open: promise };
      return () => {
        gate = null;
        resolve();
      };
    },
  };
}
