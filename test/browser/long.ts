// A conversation of 10,000 entries in a home that no server has used yet.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Entry, fresh } from "../../src/core/session.ts";
import { ALONE } from "../../src/core/store.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import type { Place } from "../fakes/hermes.ts";

export const LONG = "agent:main:terminal:dm:long";
export const TURNS = 2_000; // of five entries each

/** A conversation as long as those of months. */
export async function seedLong({ home }: Pick<Place, "home">): Promise<void> {
  mkdirSync(home, { mode: 0o700 });
  const store = await openSqlite({ file: join(home, "hermes.db") });
  const entries: Entry[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const at = 1_700_000_000_000 + turn * 60_000;
    const id = `run_${turn.toString(16).padStart(32, "0")}`;
    const seq = turn * 5;
    const input = { id, text: `Question number ${turn}`, mode: "queue", reply: "pull" } as const;
    entries.push(
      { seq: seq + 1, turn: id, at, kind: "accepted", input, applied: "began" },
      { seq: seq + 2, turn: id, at, kind: "began", input: id },
      {
        seq: seq + 3,
        turn: id,
        at: at + 900,
        kind: "thought",
        text: `Answer number **${turn}**, with \`code\`.`,
        calls: [],
        usage: { input: 10, output: 5 },
        model: "m",
      },
      { seq: seq + 4, turn: id, at: at + 900, kind: "delivered", how: "sent" },
      { seq: seq + 5, turn: id, at: at + 901, kind: "ended", outcome: "completed" },
    );
  }
  const node = await store.nodes.join(ALONE);
  const state = { ...fresh, seq: entries.length, ended: entries.length };
  const commit = { session: LONG, node, state, active: false, parent: null, at: 1, accepted: [], taken: [] };
  for (let from = 0, version = 0; from < entries.length; from += 1_000, version++)
    await store.journal.commit({ ...commit, version, entries: entries.slice(from, from + 1_000), title: "A long one" });
  await store.close();
}
