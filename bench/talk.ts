// Sessions with a past, made by the real machine, written straight into a file.
import { fresh, type Rules, type Session } from "../src/core/session.ts";
import { transition } from "../src/core/turn.ts";
import type { Bare, rowOf } from "./bare.ts";

const RULES: Rules = { iterations: 90, recoveries: 3, parallel: 8, memory: [] };
const TEXT = "A sentence of the length that people and models write all day long. ";
/** Entries of one turn: two rounds with a tool, then the answer. */
export const PER_TURN = 10;

/** `open`: the last turn waits for its model, as in a process that was killed. */
export function talkOf(session: string, turns: number, open = false): ReturnType<typeof rowOf> {
  const entries: { seq: number; turn: string; at: number; fact: string }[] = [];
  let state: Session = fresh;
  const at = Date.now();
  const happen = (event: Parameters<typeof transition>[1]) => {
    const [after, facts] = transition(state, event, RULES);
    state = after;
    for (const { seq, turn, ...fact } of facts) entries.push({ seq, turn, at, fact: JSON.stringify(fact) });
  };
  const ids = Array.from({ length: turns }, (_, n) => `run_${session}_${n}`);
  for (const [n, id] of ids.entries()) {
    happen({ type: "arrived", input: { id, text: TEXT, mode: "queue", reply: "pull" }, said: "" });
    if (open && n === turns - 1) break;
    for (let round = 0; round < 2; round++) {
      think(TEXT, [{ tool: "read", args: { path: "/tmp/a" }, repeatable: true, gate: "run" }]);
      const phase = state.turn?.phase;
      if (phase?.at !== "acting") throw new Error("the call is not running");
      for (const { id: call } of phase.calls)
        happen({ type: "acted", step: state.step, call, outcome: "ok", text: TEXT.repeat(4) });
    }
    think(TEXT.repeat(3), []);
  }
  function think(text: string, calls: Extract<Parameters<typeof transition>[1], { type: "thought" }>["calls"]) {
    happen({
      type: "thought",
      step: state.step,
      text,
      reasoning: "",
      calls,
      usage: { input: 1_000, output: 100 },
      model: "m",
    });
  }
  return {
    session,
    node: "1",
    version: 0,
    active: state.turn !== null,
    parent: null,
    at,
    state: JSON.stringify(state),
    entries,
    accepted: ids.map((id) => ({ id, digest: "0".repeat(64) })),
    taken: ids.map((id) => ({ id, turn: id })),
  };
}

/** Writes so many sessions; `open` of them with a turn that was under way. Returns how many entries. */
export function build({ db, commit }: Bare, { sessions = 0, turns = 0, open = 0 }): number {
  db.exec("PRAGMA cache_size = -400000; PRAGMA wal_autocheckpoint = 100000");
  const AT_ONCE = 200;
  let entries = 0;
  for (let from = 0; from < sessions; from += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, sessions - from) }, (_, i) => {
      const n = from + i;
      // Ids of real turns are hashes: their index is written all over, not at its end.
      return talkOf(`agent:main:telegram:dm:${(n * 7_919) % sessions}`, turns, n < open);
    });
    commit(some);
    for (const row of some) entries += row.entries.length;
  }
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  return entries;
}
