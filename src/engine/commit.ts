// One commit: which inputs it takes and who is told of it, and what became of it where the store's answer was lost.
import { StoreFault } from "../core/errors.ts";
import type { Commit, CommitVerdict } from "../core/store.ts";
import type { World } from "./world.ts";

/** What the machine made of an event. */
type NextRow = Pick<Commit, "session" | "node" | "version" | "state" | "active" | "entries" | "parent" | "at">;
/** Of a message that is accepted with it. */
type Accept = { accepted?: Commit["accepted"][number]; title?: string };

/** Looks at a commit whose fate is unknown before its sender is told so. */
const LOOKS = 3;

/** `unknown`: its fate could not be found out. */
export function createCommit(
  { store: { journal }, announce }: Pick<World, "store" | "announce">,
  pause: (attempt: number) => Promise<void>,
  unknown: (session: string) => void,
) {
  return async (made: NextRow, { accepted, title = "" }: Accept): Promise<CommitVerdict> => {
    const taken = made.entries.flatMap((entry): Commit["taken"] => {
      if (entry.kind === "began" || entry.kind === "joined") return [{ id: entry.input, turn: entry.turn }];
      return entry.kind === "withdrawn" ? [{ id: entry.input, turn: null }] : [];
    });
    const announced = (made.parent === null && announce ? announce : []).flatMap((to) =>
      made.entries.flatMap((e) => (e.kind === "ended" || e.kind === "withdrawn" ? [{ to, turn: e.turn }] : [])),
    );
    try {
      return await journal.commit({ ...made, accepted: accepted ? [accepted] : [], taken, title, announced });
    } catch (error) {
      if (!(error instanceof StoreFault) || error.landed === "no") throw error;
      return await look(made, error);
    }
  };

  /** If the next version is ours, it is this one. */
  async function look({ session, node, version }: NextRow, fault: StoreFault): Promise<CommitVerdict> {
    for (let attempt = 0; attempt < LOOKS; attempt++) {
      try {
        const row = await journal.load(session);
        if (row?.version === version + 1 && row.writer === node) return "done";
        if ((row?.version ?? 0) === version) throw new StoreFault("no", fault.message, { cause: fault });
        return "stale";
      } catch (error) {
        if (!(error instanceof StoreFault)) throw error;
        if (error.cause === fault) throw error;
        await pause(attempt);
      }
    }
    unknown(session);
    throw fault;
  }
}
