import { createLocalState } from "../../src/tools/local-state.ts";
import { ownerHere } from "../../src/tools/shell/exec.ts";
import { asStore, createMemoryStore } from "./memory-store.ts";

/** Of a process that has its store for itself. */
export const localStateIn = (home: string) =>
  createLocalState({
    notes: asStore(createMemoryStore()).notes,
    log: () => {},
    home,
    life: ownerHere(home),
    cluster: null,
  });
