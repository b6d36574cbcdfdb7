// A turn as its client sees it, for every path through it.
import { describe, expect, it } from "vitest";
import { foldRun, type RunStatus } from "../../src/core/run.ts";
import { type Entry, type Event, fresh, type Proposal, type Rules, type Session } from "../../src/core/session.ts";
import { transition } from "../../src/core/turn.ts";

const RULES: Rules = { iterations: 5, recoveries: 1, parallel: 1, memory: [] };
type Happening = Event | ((s: Session) => Event);

/** The entries of the turn `a` after these events, as the real machine writes them, one second apart. */
function entriesOf(happenings: Happening[], of = "a"): Entry[] {
  let s = fresh;
  const all: Entry[] = [];
  happenings.forEach((happening, i) => {
    const [next, entries] = transition(s, typeof happening === "function" ? happening(s) : happening, RULES);
    s = next;
    all.push(...entries.map((entry) => ({ ...entry, at: 1_000 * (i + 1) })));
  });
  return all.filter((entry) => entry.turn === of);
}
const run = (...happenings: Happening[]) => foldRun(entriesOf(happenings));

const comes = (id = "a", mode: "queue" | "interrupt" = "queue", reply: "pull" | "push" = "pull"): Event => ({
  type: "arrived",
  input: { id, text: id, mode, reply },
  said: "",
});
const thought =
  (text: string, ...calls: Proposal[]): Happening =>
  ({ step }) => ({ type: "thought", step, text, reasoning: "", model: "m", calls, usage: { input: 10, output: 5 } });
const acted =
  (call: string): Happening =>
  ({ step }) => ({ type: "acted", step, call, outcome: "ok", text: "" });
const failed =
  (said: string): Happening =>
  ({ step }) => ({ type: "failed", step, reason: "no such model", said });
const delivered: Happening = ({ step }) => ({ type: "delivered", step, how: "sent" });
const decided = (call: string, allow: boolean): Event => ({
  type: "decided",
  call,
  allow,
  text: "",
  by: "me",
  scope: "once",
});
const stopped = (turn = "a", said = ""): Event => ({ type: "stopped", turn, said });
const settled = (key: string): Event => ({ type: "settled", key, abandoned: false });
const restarted = (resume: boolean): Event => ({ type: "restarted", resume });
const runs: Proposal = { tool: "tool", args: {}, repeatable: false, gate: "run" };
const asks: Proposal = {
  ...runs,
  gate: "ask",
  ask: { kind: "approval", text: "?", choices: [], until: 9 },
};

describe("a run that used up its model calls", () => {
  const calls = Array.from({ length: 5 }, (_, i) => [thought("", runs), acted(`call_a_${2 * i + 1}_0`)]).flat();

  it("says so, also where its last answer was only calls that are not run", () => {
    const silent = run(comes(), ...calls, thought("", runs));
    expect(silent).toMatchObject({ status: "completed", endedBy: "iterations" });
    expect(silent?.output).toMatch(/used all of its model calls \(agent\.max_iterations\)/);
    expect(run(comes(), ...calls, thought("so far"))).toMatchObject({ endedBy: "iterations", output: "so far" });
  });
});

describe("the status of a run", () => {
  it.each<[string, RunStatus, Happening[]]>([
    ["waits behind another turn", "queued", [comes("z"), comes()]],
    ["began", "running", [comes()]],
    ["runs a tool", "running", [comes(), thought("", runs)]],
    ["thinks again", "running", [comes(), thought("", runs), acted("call_a_1_0")]],
    ["asks a person", "waiting_for_approval", [comes(), thought("", asks)]],
    ["asks a person two things", "waiting_for_approval", [comes(), thought("", asks, asks)]],
    ["still asks one", "waiting_for_approval", [comes(), thought("", asks, asks), decided("call_a_1_0", false)]],
    ["is allowed", "running", [comes(), thought("", asks), decided("call_a_1_0", true)]],
    ["is denied", "running", [comes(), thought("", asks), decided("call_a_1_0", false)]],
    [
      "asks a second time",
      "waiting_for_approval",
      [comes(), thought("", asks), decided("call_a_1_0", false), thought("", asks)],
    ],
    ["is allowed, and waits for room", "running", [comes(), thought("", runs, asks), decided("call_a_1_1", true)]],
    ["asks on after a restart", "waiting_for_approval", [comes(), thought("", asks), restarted(true)]],
    ["sends its answer", "running", [comes("a", "queue", "push"), thought("hi")]],
    ["answered", "completed", [comes(), thought("hi")]],
    ["answered and sent", "completed", [comes("a", "queue", "push"), thought("hi"), delivered]],
    ["got no answer", "failed", [comes(), failed("")]],
    ["was stopped, and something still lives", "stopping", [comes(), stopped()]],
    ["was stopped while it asked", "stopping", [comes(), thought("", asks), stopped()]],
    ["was stopped", "cancelled", [comes(), stopped(), settled("think:1")]],
    ["was stopped, then the process died", "cancelled", [comes(), stopped(), restarted(true)]],
    ["is being interrupted", "stopping", [comes(), comes("b", "interrupt")]],
    ["was interrupted", "interrupted", [comes(), comes("b", "interrupt"), settled("think:1")]],
    ["died and does not resume", "interrupted", [comes(), restarted(false)]],
    ["died while it asked and does not resume", "interrupted", [comes(), thought("", asks), restarted(false)]],
    ["died and resumes", "running", [comes(), restarted(true)]],
    ["was given up", "failed", [comes(), restarted(true), restarted(true)]],
    ["was withdrawn", "cancelled", [comes("z"), comes(), { type: "withdrawn", input: "a" }]],
    ["was stopped before it began", "cancelled", [comes("z"), comes(), stopped()]],
  ])("that %s is %s", (_, status, happenings) => {
    expect(run(...happenings)?.status).toBe(status);
  });

  it("moves one way and ends in exactly one terminal state", () => {
    const entries = entriesOf([
      comes(),
      thought("", asks),
      decided("call_a_1_0", true),
      acted("call_a_1_0"),
      thought("hi"),
    ]);
    const path = entries.map((_, i) => foldRun(entries.slice(0, i + 1))?.status);
    expect(path.filter((status, i) => status !== path[i - 1])).toEqual([
      "queued",
      "running",
      "waiting_for_approval",
      "running",
      "completed",
    ]);
  });
});

describe("a run", () => {
  it("that is not known is null", () => {
    expect(foldRun([])).toBeNull();
  });

  it("has the last text, the sum of what it used, and its times", () => {
    expect(run(comes(), thought("let me look", runs), acted("call_a_1_0"), thought("done"))).toEqual({
      id: "a",
      status: "completed",
      output: "done",
      error: null,
      usage: { input: 20, output: 10 },
      model: "m",
      asking: [],
      open: [],
      createdAt: 1_000,
      updatedAt: 4_000,
    });
  });

  it("that failed says why, and has what was said until then", () => {
    expect(run(comes(), failed("half"))).toMatchObject({ error: "no such model", output: "half" });
  });

  it("that was stopped has what was said until then", () => {
    expect(run(comes(), stopped("a", "half"))).toMatchObject({ output: "half", error: null });
  });

  it("lists the calls that wait for a person, oldest first, until they are decided", () => {
    const story = [comes(), thought("", asks, runs, asks)];
    expect(run(...story)?.asking).toEqual(["call_a_1_0", "call_a_1_2"]);
    expect(run(...story, decided("call_a_1_0", false))?.asking).toEqual(["call_a_1_2"]);
    expect(run(...story, stopped())?.asking).toEqual([]);
  });

  it("does not list a call that is allowed and waits for room", () => {
    expect(run(comes(), thought("", runs, asks), decided("call_a_1_1", true))?.asking).toEqual([]);
  });
});
