// The pure machine, table by table; then T1–T10 of its header over random histories.
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Ask,
  type CallOutcome,
  type Effect,
  type Event,
  fresh,
  type Mode,
  type NewEntry,
  type Proposal,
  type Reply,
  type Rules,
  type Session,
  type Unattended,
} from "../../src/core/session.ts";
import { transition, unsaved, work } from "../../src/core/turn.ts";

const RULES: Rules = { iterations: 3, recoveries: 3, parallel: 2, memory: ["notes"] };
const ONE_BY_ONE = { ...RULES, parallel: 1 };

// ── Telling a story ───────────────────────────────────────────────────────────────────────────────────

type Happening = Event | ((s: Session) => Event);

function tell(from: Session, happenings: Happening[], rules = RULES): [Session, NewEntry[]] {
  let s = from;
  const all: NewEntry[] = [];
  for (const happening of happenings) {
    const [next, entries] = transition(s, typeof happening === "function" ? happening(s) : happening, rules);
    s = next;
    all.push(...entries);
  }
  return [s, all];
}
const after = (from: Session, ...happenings: Happening[]) => tell(from, happenings)[0];
const facts = (from: Session, ...happenings: Happening[]) => tell(from, happenings)[1].map(brief);
const keys = (s: Session, rules = RULES) => work(s, rules).map((effect) => effect.key);
const waiting = (s: Session) => s.inbox.map(({ id, mode }) => `${id} ${mode}`);

const arrived = (
  id: string,
  mode: Mode = "queue",
  reply: Reply = "pull",
  said = "",
  unattended: Unattended | null = null,
): Event => ({
  type: "arrived",
  input: { id, text: `§${id}`, mode, reply, ...(unattended && { unattended }) },
  said,
});
const unattended = (id: string, by: Unattended, mode: Mode = "queue") => arrived(id, mode, "pull", "", by);
const stopped = (turn: string, said = ""): Event => ({ type: "stopped", turn, said });
const withdrawn = (input: string): Event => ({ type: "withdrawn", input });
const moved = (input: string, to: number): Event => ({ type: "moved", input, to });
const settled = (key: string, abandoned = false): Event => ({ type: "settled", key, abandoned });
const restarted = (resume = true): Event => ({ type: "restarted", resume });
const decided = (call: string, allow: boolean, text = ""): Event => ({
  type: "decided",
  call,
  allow,
  text,
  by: "me",
  scope: "once",
});
const remembered = (after: number, upTo: number): Event => ({ type: "remembered", by: "notes", after, upTo });
const thought =
  (...calls: Proposal[]): Happening =>
  ({ step }) => ({
    type: "thought",
    step,
    text: "§answer",
    reasoning: "",
    model: "m",
    calls,
    usage: { input: 1, output: 1 },
  });
const acted =
  (call: string, outcome: CallOutcome = "ok"): Happening =>
  ({ step }) => ({ type: "acted", step, call, outcome, text: "§result" });
const failed =
  (said = ""): Happening =>
  ({ step }) => ({ type: "failed", step, reason: "§reason", said });
const delivered: Happening = ({ step }) => ({ type: "delivered", step, how: "sent" });

const ASK: Ask = { kind: "approval", text: "§may I?", choices: ["§yes"], until: 9_000 };
const runs = (more: { repeatable?: boolean; alone?: boolean } = {}): Proposal => ({
  tool: "tool",
  args: "§args",
  repeatable: false,
  ...more,
  gate: "run",
});
const asks = (kind: Ask["kind"] = "approval"): Proposal => ({ ...runs(), gate: "ask", ask: { ...ASK, kind } });
const refused: Proposal = { ...runs(), gate: "refuse", result: "§no" };

/** An entry in a few words: its kind, whom it is about, how it ended. */
function brief(e: NewEntry): string {
  switch (e.kind) {
    case "accepted":
      return `accepted ${e.input.id} ${e.applied}`;
    case "forked":
      return `forked ${e.from} ${e.upTo}`;
    case "began":
    case "withdrawn":
      return `${e.kind} ${e.input}`;
    case "joined":
      return `joined ${e.input} ${e.turn}`;
    case "moved":
      return `moved ${e.input} ${e.to}`;
    case "asked":
    case "started":
    case "revoked":
      return `${e.kind} ${e.call}`;
    case "decided":
      return `decided ${e.call} ${e.allow}`;
    case "acted":
      return `acted ${e.call} ${e.outcome}`;
    case "cut":
      return `cut ${e.text}`;
    case "stopping":
      return `stopping ${e.turn} ${e.outcome}${e.by && ` by ${e.by}`}`;
    case "abandoned":
      return `abandoned ${e.key}`;
    case "restarted":
      return `restarted ${e.attempt}`;
    case "delivered":
      return `delivered ${e.how}`;
    case "ended":
      return `ended ${e.turn} ${e.outcome}`;
    case "thought":
    case "compacted":
    case "failed":
    case "retracted":
    case "parked":
      return `${e.kind} ${e.turn}`;
  }
}

const thinking = after(fresh, arrived("a"));
const acting = after(thinking, thought(runs()));
const asking = after(thinking, thought(asks()));
const replying = after(fresh, arrived("a", "queue", "push"), thought());
const stopping = after(thinking, stopped("a"));
const done = after(thinking, thought());
const PHASES = { fresh, thinking, acting, replying, stopping, done };
type Name = keyof typeof PHASES;

// ── Tables ────────────────────────────────────────────────────────────────────────────────────────────

describe("an input comes", () => {
  it.each<[Name, Mode, string[], string[], string[]]>([
    ["fresh", "interrupt", ["accepted m began", "began m"], [], ["think:1"]],
    ["fresh", "queue", ["accepted m began", "began m"], [], ["think:1"]],
    ["fresh", "steer", ["accepted m began", "began m"], [], ["think:1"]],
    ["done", "interrupt", ["accepted m began", "began m"], [], ["think:3", "remember:notes:0"]],
    ["done", "queue", ["accepted m began", "began m"], [], ["think:3", "remember:notes:0"]],
    ["done", "steer", ["accepted m began", "began m"], [], ["think:3", "remember:notes:0"]],
    ["thinking", "interrupt", ["accepted m interrupt", "stopping a interrupted by m"], ["m interrupt"], []],
    ["thinking", "queue", ["accepted m queue"], ["m queue"], ["think:1"]],
    ["thinking", "steer", ["accepted m steer"], ["m steer"], ["think:1"]],
    [
      "acting",
      "interrupt",
      ["accepted m interrupt", "acted call_a_1_0 cancelled", "stopping a interrupted by m"],
      ["m interrupt"],
      [],
    ],
    ["acting", "queue", ["accepted m queue"], ["m queue"], ["act:call_a_1_0"]],
    ["acting", "steer", ["accepted m steer"], ["m steer"], ["act:call_a_1_0"]],
    ["replying", "interrupt", ["accepted m interrupt"], ["m interrupt"], ["deliver:a"]],
    ["replying", "queue", ["accepted m queue"], ["m queue"], ["deliver:a"]],
    ["replying", "steer", ["accepted m queue"], ["m queue"], ["deliver:a"]],
    ["stopping", "interrupt", ["accepted m interrupt"], ["m interrupt"], []],
    ["stopping", "queue", ["accepted m queue"], ["m queue"], []],
    ["stopping", "steer", ["accepted m queue"], ["m queue"], []],
  ])("%s + %s", (phase, mode, journal, inbox, wanted) => {
    const [s, entries] = tell(PHASES[phase], [arrived("m", mode)]);
    expect(entries.map(brief)).toEqual(journal);
    expect(waiting(s)).toEqual(inbox);
    expect(keys(s)).toEqual(wanted);
  });

  it("that interrupts goes ahead of those that wait, also of one that interrupted before", () => {
    const s = after(thinking, arrived("q1"), arrived("s1", "steer"), arrived("i1", "interrupt"), arrived("q2"));
    expect(waiting(after(s, arrived("i2", "interrupt")))).toEqual([
      "i2 interrupt",
      "i1 interrupt",
      "q1 queue",
      "s1 steer",
      "q2 queue",
    ]);
  });

  it("that interrupts goes first; those that interrupted before it follow in their order", () => {
    const ids = (s: Session) => s.inbox.map(({ id }) => id);
    const s = after(stopping, ...["i1", "i2", "i3"].map((id) => arrived(id, "interrupt")));
    expect(ids(s)).toEqual(["i3", "i1", "i2"]);
    const next = after(s, settled("think:1"));
    expect(next.turn?.id).toBe("i3");
    expect(facts(next, arrived("i4", "interrupt"))).toEqual(["accepted i4 interrupt", "stopping i3 interrupted by i4"]);
    expect(ids(after(next, arrived("i4", "interrupt")))).toEqual(["i4", "i1", "i2"]);
  });

  it("that interrupts is the next turn in the very commit that ends the old one", () => {
    const s = after(thinking, arrived("q"), arrived("m", "interrupt"));
    expect(facts(s, settled("think:1"))).toEqual(["ended a interrupted", "began m"]);
  });

  it("that interrupts keeps what the model had said, as cut", () => {
    expect(facts(thinking, arrived("m", "interrupt", "pull", "half a"))).toEqual([
      "accepted m interrupt",
      "cut half a",
      "stopping a interrupted by m",
    ]);
  });
});

describe("a stop", () => {
  it.each<[Name, string[]]>([
    ["thinking", ["stopping a cancelled"]],
    ["acting", ["acted call_a_1_0 cancelled", "stopping a cancelled"]],
    ["replying", []],
    ["stopping", []],
    ["done", []],
    ["fresh", []],
  ])("of a turn that is %s", (phase, journal) => {
    const before = PHASES[phase];
    const [s, entries] = tell(before, [stopped("a")]);
    expect(entries.map(brief)).toEqual(journal);
    expect(s === before).toBe(journal.length === 0);
  });

  it("ends the turn only when everything that was in flight is dead", () => {
    const two = after(thinking, thought(runs(), runs()), stopped("a"));
    expect(keys(two)).toEqual([]);
    expect(two.turn?.phase).toEqual({
      at: "stopping",
      outcome: "cancelled",
      alive: ["act:call_a_1_0", "act:call_a_1_1"],
    });
    const one = after(two, settled("act:call_a_1_1"));
    expect(one.turn?.phase).toMatchObject({ alive: ["act:call_a_1_0"] });
    expect(facts(one, settled("act:call_a_1_0"))).toEqual(["ended a cancelled"]);
  });

  it("waits for a question's clock too, and gives its call a result", () => {
    expect(facts(asking, stopped("a"))).toEqual(["acted call_a_1_0 cancelled", "stopping a cancelled"]);
    expect(after(asking, stopped("a")).turn?.phase).toMatchObject({ alive: ["ask:call_a_1_0"] });
  });

  it("says what was given up on", () => {
    expect(facts(stopping, settled("think:1", true))).toEqual(["abandoned think:1", "ended a cancelled"]);
  });

  it("keeps what the model had said, as cut", () => {
    expect(facts(thinking, stopped("a", "half a"))).toEqual(["cut half a", "stopping a cancelled"]);
  });

  it("before the start withdraws the input: it never runs, also not after a restart", () => {
    const s = after(thinking, arrived("m"));
    expect(facts(s, stopped("m"))).toEqual(["withdrawn m"]);
    expect(facts(s, stopped("m"), restarted(), thought())).toEqual([
      "withdrawn m",
      "restarted 1",
      "thought a",
      "ended a completed",
    ]);
  });

  it("for another turn leaves this one alone", () => {
    for (const s of [thinking, acting, replying, stopping]) expect(after(s, stopped("b"))).toBe(s);
  });

  it("a second time, or by an interrupt as well, changes nothing of how it ends", () => {
    expect(after(stopping, stopped("a"))).toBe(stopping);
    expect(facts(stopping, arrived("m", "interrupt"), settled("think:1"))).toEqual([
      "accepted m interrupt",
      "ended a cancelled",
      "began m",
    ]);
  });

  it("that comes after the end does not touch the next turn", () => {
    const next = after(thinking, arrived("b"), thought());
    expect(next.turn?.id).toBe("b");
    expect(after(next, stopped("a"))).toBe(next);
  });
});

describe("a restart", () => {
  const crashed = (calls: Proposal[], rules = RULES) => tell(thinking, [thought(...calls)], rules)[0];
  const repeatable = runs({ repeatable: true });

  it.each<[string, Session, string[], string[]]>([
    ["while thinking: thinks again", thinking, [], ["think:2"]],
    ["in a repeatable call: runs it again", crashed([repeatable]), [], ["act:call_a_1_0"]],
    ["in any other call: outcome unknown", acting, ["acted call_a_1_0 unknown"], ["think:4"]],
    ["in both", crashed([runs(), repeatable]), ["acted call_a_1_0 unknown"], ["act:call_a_1_1"]],
    ["while asking: asks on", asking, [], ["ask:call_a_1_0"]],
    [
      "with a call that waited: starts it",
      crashed([runs(), runs()], ONE_BY_ONE),
      ["acted call_a_1_0 unknown", "started call_a_1_1"],
      ["act:call_a_1_1"],
    ],
    [
      "with a call that waited behind a repeatable one: it waits on",
      crashed([repeatable, runs()], ONE_BY_ONE),
      [],
      ["act:call_a_1_0"],
    ],
    ["while replying: sends again", replying, [], ["deliver:a"]],
  ])("%s, counted before", (_, before, journal, wanted) => {
    const [s, entries] = tell(before, [restarted(true)], ONE_BY_ONE);
    const attempt = before === asking ? 0 : 1; // one that only waits for a person lost nothing
    expect(entries.map(brief)).toEqual([`restarted ${attempt}`, ...journal]);
    expect(s.turn?.recoveries).toBe(attempt);
    expect(keys(s, ONE_BY_ONE)).toEqual(wanted);
  });

  it.each<[string, Session, string[]]>([
    ["while thinking", thinking, []],
    ["in a repeatable call", crashed([repeatable]), ["acted call_a_1_0 unknown"]],
    ["in any other call", acting, ["acted call_a_1_0 unknown"]],
    ["while asking", asking, ["acted call_a_1_0 cancelled"]],
    [
      "with a call that waited",
      crashed([runs(), runs()], ONE_BY_ONE),
      ["acted call_a_1_0 unknown", "acted call_a_1_1 cancelled"],
    ],
  ])("%s, resume off: every call has its result and the turn is interrupted", (_, before, journal) => {
    const attempt = before === asking ? 0 : 1;
    expect(facts(before, restarted(false))).toEqual([`restarted ${attempt}`, ...journal, "ended a interrupted"]);
  });

  it("with resume off still delivers an answer that exists", () => {
    expect(keys(after(replying, restarted(false)))).toEqual(["deliver:a"]);
  });

  it.each<[string, Session, string[]]>([
    ["while thinking", thinking, ["ended a interrupted"]],
    ["in a call", crashed([repeatable]), ["acted call_a_1_0 unknown", "ended a interrupted"]],
    ["while replying", replying, ["ended a completed"]],
  ])("%s, of somebody who may not talk any more: the turn ends, and nobody is sent an answer", (_, before, journal) => {
    const barred: Event = { type: "restarted", resume: true, barred: ["a", "c"] };
    const queued = after(before, arrived("b"), arrived("c"), arrived("d", "steer"));
    const [s, entries] = tell(queued, [barred]);
    expect(entries.map(brief)).toEqual(["withdrawn c", ...journal, "began b"]);
    expect([s.turn?.id, waiting(s)]).toEqual(["b", ["d queue"]]);
  });

  it("with waiting messages of somebody who may not talk any more: the turn goes on without them", () => {
    const queued = after(thinking, arrived("b"), arrived("c"));
    const s = after(queued, { type: "restarted", resume: true, barred: ["b"] });
    expect([s.turn?.id, keys(s), waiting(s)]).toEqual(["a", ["think:2"], ["c queue"]]);
  });

  it.each([true, false])("while stopping: the dead are dead, the turn ends as it was to (resume %s)", (resume) => {
    expect(facts(stopping, restarted(resume))).toEqual(["ended a cancelled"]);
    expect(facts(thinking, arrived("m", "interrupt"), restarted(resume))).toEqual([
      "accepted m interrupt",
      "stopping a interrupted by m",
      "ended a interrupted",
      "began m",
    ]);
  });

  it("of a session without a turn is nothing", () => {
    for (const s of [fresh, done]) expect(after(s, restarted())).toBe(s);
  });

  it("marks the second copy of a reply", () => {
    const again = (s: Session) => work(s, RULES).map((e) => e.do === "deliver" && e.again);
    expect(again(replying)).toEqual([false]);
    expect(again(after(replying, restarted()))).toEqual([true]);
  });

  it("voids what the dead process still says", () => {
    for (const [before, late] of [
      [thinking, thought()],
      [crashed([repeatable]), acted("call_a_1_0")],
      [replying, delivered],
    ] as const) {
      const s = after(before, restarted());
      const event = typeof late === "function" ? late(before) : late;
      expect(after(s, event)).toBe(s);
    }
  });

  it("is forgiven when a tool has finished", () => {
    const twice = after(crashed([repeatable]), restarted(), restarted());
    expect(twice.turn?.recoveries).toBe(2);
    expect(after(twice, acted("call_a_1_0")).turn?.recoveries).toBe(0);
  });
});

describe("a crash loop", () => {
  const again = [restarted(), restarted(), restarted()];

  it.each<[string, Session, string[]]>([
    ["thinking", thinking, ["failed a", "ended a failed"]],
    ["acting", after(thinking, thought(runs({ repeatable: true }))), ["failed a", "ended a failed"]],
    ["replying", replying, ["ended a completed"]],
  ])("of a turn that is %s parks the session after the third attempt", (_, before, journal) => {
    const s = after(before, ...again);
    expect(s.parked).toBe(false);
    const [parked, entries] = tell(s, [restarted()]);
    expect(entries.map(brief).filter((fact) => !fact.startsWith("acted"))).toEqual([
      "restarted 4",
      "parked a",
      ...journal,
    ]);
    expect(parked).toMatchObject({ parked: true, turn: null });
  });

  it("gives every open call its result first", () => {
    const batch = thought(asks(), runs({ repeatable: true }));
    const given = facts(thinking, restarted(), batch, restarted(), restarted(), restarted());
    expect(given).toEqual(expect.arrayContaining(["acted call_a_2_0 cancelled", "acted call_a_2_1 unknown"]));
  });

  it("is not counted where a turn only waits for a person: nothing was lost", () => {
    const s = after(asking, ...again, restarted(), restarted());
    expect(s).toMatchObject({ parked: false, turn: { recoveries: 0 } });
    expect(keys(s)).toEqual(["ask:call_a_1_0"]);
  });

  it("tells a chat why, once, and gives that up too when it crashes again", () => {
    const [s, entries] = tell(after(fresh, arrived("a", "queue", "push"), ...again), [restarted()]);
    const reason = entries.find((entry) => entry.kind === "failed");
    expect(work(s, RULES)).toEqual([
      { key: "deliver:a", do: "deliver", turn: "a", step: s.step, from: reason?.seq, again: true },
    ]);
    expect(facts(s, restarted())).toEqual(["restarted 5", "parked a", "ended a failed"]);
  });

  it("holds what waits until somebody says something, then goes on in order", () => {
    const parked = after(thinking, arrived("b"), ...again, restarted());
    expect(waiting(parked)).toEqual(["b queue"]);
    expect(keys(parked)).toEqual(["remember:notes:0"]);
    expect(after(parked, restarted())).toBe(parked);
    expect(facts(parked, arrived("c"), thought())).toEqual([
      "accepted c queue",
      "began b",
      "thought b",
      "ended b completed",
      "began c",
    ]);
    expect(after(parked, arrived("c")).parked).toBe(false);
  });

  it("that was woken while it says why goes on right after", () => {
    const telling = after(fresh, arrived("a", "queue", "push"), ...again, restarted(), arrived("b"));
    expect(facts(telling, delivered)).toEqual(["delivered sent", "ended a failed", "began b"]);
  });
});

describe("a batch of calls", () => {
  it("is recorded as started before it is wanted, as many as may run together", () => {
    const [s, entries] = tell(thinking, [thought(runs(), runs(), runs())]);
    expect(entries.map(brief)).toEqual(["thought a", "started call_a_1_0", "started call_a_1_1"]);
    expect(keys(s)).toEqual(["act:call_a_1_0", "act:call_a_1_1"]);
    expect(facts(s, acted("call_a_1_1"))).toEqual(["acted call_a_1_1 ok", "started call_a_1_2"]);
  });

  it("runs one that must be alone alone, in either order", () => {
    const alone = runs({ alone: true });
    const first = after(thinking, thought(alone, runs()));
    expect(keys(first)).toEqual(["act:call_a_1_0"]);
    expect(keys(after(first, acted("call_a_1_0")))).toEqual(["act:call_a_1_1"]);
    const second = after(thinking, thought(runs(), alone));
    expect(keys(second)).toEqual(["act:call_a_1_0"]);
    expect(keys(after(second, acted("call_a_1_0")))).toEqual(["act:call_a_1_1"]);
  });

  it("goes back to the model when every call has its one result", () => {
    const s = after(thinking, thought(runs(), refused, asks()));
    expect(facts(s, acted("call_a_1_0", "error"))).toEqual(["acted call_a_1_0 error"]);
    const answered = after(s, acted("call_a_1_0"), decided("call_a_1_2", false));
    expect(answered.turn).toMatchObject({ phase: { at: "thinking" }, thoughts: 1 });
  });

  it("with a refused call only goes straight back", () => {
    const [s, entries] = tell(thinking, [thought(refused)]);
    expect(entries.map(brief)).toEqual(["thought a", "acted call_a_1_0 error"]);
    expect(keys(s)).toEqual(["think:3"]);
  });

  it("takes a result once, and none of a call that does not run", () => {
    const s = after(thinking, thought(runs(), runs(), runs()));
    const once = after(s, acted("call_a_1_0"));
    expect(after(once, acted("call_a_1_0"))).toBe(once);
    expect(after(s, acted("call_a_1_2"))).toBe(s);
    expect(after(s, acted("nothing"))).toBe(s);
    expect(after(asking, acted("call_a_1_0"))).toBe(asking);
  });
});

describe("the iteration budget", () => {
  const final = (s: Session) => work(s, RULES).map((e) => e.do === "think" && e.final);

  it("withholds the tools from the last call, and only from that", () => {
    let s = thinking;
    const seen: unknown[] = [];
    for (let i = 0; i <= RULES.iterations; i++) {
      seen.push(...final(s));
      s = after(s, thought(refused));
    }
    expect(seen).toEqual([false, false, false, true]);
    expect(s.turn).toBeNull();
  });

  it("skips what the last call wants all the same, and the turn completes", () => {
    const spent = after(thinking, thought(refused), thought(refused), thought(refused));
    expect(facts(spent, thought(runs(), asks()))).toEqual([
      "thought a",
      "acted call_a_7_0 skipped",
      "acted call_a_7_1 skipped",
      "ended a completed",
    ]);
  });

  it("says of the last answer, and of no other, that the turn has used up its calls", () => {
    const [, entries] = tell(thinking, [thought(refused), thought(refused), thought(refused), thought()]);
    expect(entries.flatMap((entry) => (entry.kind === "thought" ? [entry.endedBy] : []))).toEqual([
      undefined,
      undefined,
      undefined,
      "iterations",
    ]);
  });

  it("gives a call of the last one that was refused its result too", () => {
    const spent = after(thinking, thought(refused), thought(refused), thought(refused));
    expect(facts(spent, thought(refused)).filter((fact) => fact.startsWith("acted call_a_7_0"))).toHaveLength(1);
  });
});

describe("a question", () => {
  it("that is allowed runs the call, recorded first", () => {
    const [s, entries] = tell(asking, [decided("call_a_1_0", true)]);
    expect(entries.map(brief)).toEqual(["decided call_a_1_0 true", "started call_a_1_0"]);
    expect(keys(s)).toEqual(["act:call_a_1_0"]);
  });

  it("that is allowed for the session is a grant of the session, until it is revoked", () => {
    const yes: Event = {
      type: "decided",
      call: "call_a_1_0",
      allow: true,
      text: "session",
      by: "me",
      scope: "session",
    };
    const granted = after(asking, yes);
    expect(granted.grants).toEqual(["call_a_1_0"]);
    expect(after(asking, { ...yes, scope: "once" }).grants).toEqual([]);
    expect(after(asking, { ...yes, scope: "always" }).grants).toEqual([]); // a rule in the user's file
    expect(after(asking, { ...yes, allow: false }).grants).toEqual([]);
    const revoked: Event = { type: "revoked", call: "call_a_1_0", by: "me" };
    expect(facts(granted, revoked)).toEqual(["revoked call_a_1_0"]);
    expect(after(granted, revoked).grants).toEqual([]);
    expect(after(asking, revoked)).toBe(asking);
  });

  it("has a name that no question of another turn has", () => {
    const other = after(fresh, arrived("b"), thought(asks()));
    expect(keys(other)).toEqual(["ask:call_b_1_0"]);
    expect(keys(asking)).toEqual(["ask:call_a_1_0"]);
    expect(after(other, decided("call_a_1_0", true))).toBe(other);
  });

  it("that is denied gives its reason to the model, and nothing runs", () => {
    const [s, entries] = tell(asking, [decided("call_a_1_0", false, "§not today")]);
    expect(entries.map(brief)).toEqual(["decided call_a_1_0 false", "acted call_a_1_0 denied"]);
    expect(entries[1]).toMatchObject({ text: "§not today" });
    expect(keys(s)).toEqual(["think:3"]);
  });

  it.each([
    [true, "ok"],
    [false, "denied"],
  ])("for information has its answer for a result (%s)", (allow, outcome) => {
    const s = after(thinking, thought(asks("question")));
    const [next, entries] = tell(s, [decided("call_a_1_0", allow, "§blue")]);
    expect(entries.map(brief)).toEqual([`decided call_a_1_0 ${allow}`, `acted call_a_1_0 ${outcome}`]);
    expect(entries[1]).toMatchObject({ text: "§blue" });
    expect(keys(next)).toEqual(["think:3"]);
  });

  it("is decided once: the first answer wins, whoever comes second", () => {
    const two = after(thinking, thought(asks(), asks()));
    const once = after(two, decided("call_a_1_0", false));
    expect(after(once, decided("call_a_1_0", true))).toBe(once);
    const granted = after(two, decided("call_a_1_0", true));
    expect(after(granted, decided("call_a_1_0", false))).toBe(granted);
  });

  it("that is not there cannot be decided", () => {
    for (const s of [fresh, thinking, acting, replying, stopping, asking, done])
      expect(after(s, decided("call_a_9_9", true))).toBe(s);
    expect(after(acting, decided("call_a_1_0", true))).toBe(acting);
    const over = after(asking, stopped("a"));
    expect(after(over, decided("call_a_1_0", true))).toBe(over);
  });

  it("keeps its granted call waiting for room", () => {
    const s = tell(thinking, [thought(runs(), asks()), decided("call_a_1_1", true)], ONE_BY_ONE)[0];
    expect(keys(s, ONE_BY_ONE)).toEqual(["act:call_a_1_0"]);
    expect(keys(tell(s, [acted("call_a_1_0")], ONE_BY_ONE)[0], ONE_BY_ONE)).toEqual(["act:call_a_1_1"]);
  });
});

describe("a turn in which nobody can be asked", () => {
  it("has what it asks denied in the commit that asks, with the reason for a result", () => {
    const [s, entries] = tell(after(fresh, unattended("a", "deny")), [thought(asks())]);
    expect(entries.map(brief)).toEqual([
      "thought a",
      "asked call_a_1_0",
      "decided call_a_1_0 false",
      "acted call_a_1_0 denied",
    ]);
    expect(entries[2]).toMatchObject({
      by: "unattended",
      text: "approval needed, but this run is non-interactive. Use --yolo or an allow rule.",
      scope: "once",
    });
    expect(entries[3]).toMatchObject({
      text: "Denied: approval needed, but this run is non-interactive. Use --yolo or an allow rule.",
    });
    expect(keys(s)).toEqual(["think:3"]);
  });

  it("has an approval granted where its input says so, once, and a question answered with no all the same", () => {
    const [s, entries] = tell(after(fresh, unattended("a", "allow")), [thought(asks(), asks("question"))]);
    expect(entries.slice(1).map(brief)).toEqual([
      "asked call_a_1_0",
      "asked call_a_1_1",
      "decided call_a_1_0 true",
      "decided call_a_1_1 false",
      "acted call_a_1_1 denied",
      "started call_a_1_0",
    ]);
    expect(s.grants).toEqual([]);
    expect(keys(s)).toEqual(["act:call_a_1_0"]);
  });

  it("is one too if its input had to wait, also through a restart", () => {
    const queued = after(thinking, unattended("b", "deny"), restarted(), thought(), thought(asks()));
    expect(keys(queued)).toContain(`think:${queued.step}`);
  });

  it("stays so when a person steers it, and a turn with a person when an input joins without one", () => {
    const first = after(fresh, unattended("a", "deny"), thought(runs()), arrived("b", "steer"), acted("call_a_1_0"));
    expect(facts(first, thought(asks()))).toContain("acted call_a_3_0 denied");
    const second = after(acting, unattended("b", "allow", "steer"), acted("call_a_1_0"));
    expect(keys(after(second, thought(asks())))).toEqual(["ask:call_a_3_0"]);
  });

  it("begun by a steer that came too late is as that steer says", () => {
    const late = after(thinking, unattended("b", "deny", "steer"), thought());
    expect(facts(late, thought(asks()))).toContain("acted call_b_3_0 denied");
  });

  it("gives a call of its last model call one result", () => {
    const spent = after(fresh, unattended("a", "allow"), thought(refused), thought(refused), thought(refused));
    expect(facts(spent, thought(asks())).filter((fact) => fact.includes("call_a_7_0"))).toEqual([
      "acted call_a_7_0 skipped",
    ]);
  });
});

describe("a steer", () => {
  it("joins after the results of the batch, before the next model call", () => {
    const s = after(acting, arrived("m", "steer"));
    expect(facts(s, acted("call_a_1_0"))).toEqual(["acted call_a_1_0 ok", "joined m a"]);
    expect(after(s, acted("call_a_1_0")).inbox).toEqual([]);
  });

  it("that comes while the answer is made leaves that answer as it is, and begins the next turn, in order", () => {
    const s = after(thinking, arrived("q"), arrived("m", "steer"));
    expect(facts(s, thought())).toEqual(["thought a", "ended a completed", "began q"]);
    expect(waiting(after(s, thought()))).toEqual(["m queue"]);
  });

  it("that comes while the answer is made waits until a chat has that answer", () => {
    const s = after(fresh, arrived("a", "queue", "push"), arrived("m", "steer"));
    expect(facts(s, thought())).toEqual(["thought a"]);
    expect(facts(after(s, thought()), delivered)).toEqual(["delivered sent", "ended a completed", "began m"]);
  });

  it("joins in order, and leaves what is queued where it is", () => {
    const s = after(acting, arrived("q"), arrived("m1", "steer"), arrived("m2", "steer"), acted("call_a_1_0"));
    expect(waiting(s)).toEqual(["q queue"]);
    expect(facts(s, thought())).toEqual(["thought a", "ended a completed", "began q"]);
  });

  it.each<[string, Happening[], string[]]>([
    ["fails", [failed()], ["failed a", "ended a failed", "began m"]],
    ["is stopped", [stopped("a"), settled("think:1")], ["stopping a cancelled", "ended a cancelled", "began m"]],
    ["died", [restarted(false)], ["restarted 1", "ended a interrupted", "began m"]],
  ])("of a turn that %s first begins the next turn", (_, happenings, journal) => {
    expect(facts(after(thinking, arrived("m", "steer")), ...happenings)).toEqual(journal);
  });

  it("of a turn that has spent its budget begins the next turn", () => {
    const spent = after(thinking, thought(refused), thought(refused), thought(refused), arrived("m", "steer"));
    expect(facts(spent, thought(runs())).slice(-2)).toEqual(["ended a completed", "began m"]);
  });

  it("that did not make it queues behind what interrupted", () => {
    const s = after(acting, arrived("m", "steer"), arrived("i", "interrupt"), settled("act:call_a_1_0"));
    expect(s.turn?.id).toBe("i");
    expect(waiting(s)).toEqual(["m queue"]);
  });
});

describe("what waits", () => {
  const three = after(thinking, arrived("b"), arrived("c"), arrived("d"));

  it("can be withdrawn, once", () => {
    const [s, entries] = tell(three, [withdrawn("c")]);
    expect(entries.map(brief)).toEqual(["withdrawn c"]);
    expect(waiting(s)).toEqual(["b queue", "d queue"]);
    expect(after(s, withdrawn("c"))).toBe(s);
  });

  it("cannot be withdrawn once it is in a turn, or if it never came", () => {
    expect(after(three, withdrawn("a"))).toBe(three);
    expect(after(three, withdrawn("z"))).toBe(three);
  });

  it.each([
    ["d", 0, ["d", "b", "c"]],
    ["b", 2, ["c", "d", "b"]],
    ["c", 0, ["c", "b", "d"]],
  ])("can be moved: %s to %d", (input, to, order) => {
    const [s, entries] = tell(three, [moved(input, to)]);
    expect(entries.map(brief)).toEqual([`moved ${input} ${to}`]);
    expect(s.inbox.map((w) => w.id)).toEqual(order);
  });

  it("stays when it is moved to where it is, and what does not wait cannot be moved", () => {
    expect(after(three, moved("c", 1))).toBe(three);
    expect(after(three, moved("a", 0))).toBe(three);
  });

  it("goes in that order", () => {
    expect(facts(three, moved("d", 0), thought(), thought())).toEqual([
      "moved d 0",
      "thought a",
      "ended a completed",
      "began d",
      "thought d",
      "ended d completed",
      "began b",
    ]);
  });
});

describe("an answer", () => {
  it("for one who pulls is there with the commit that ends the turn", () => {
    expect(facts(thinking, thought())).toEqual(["thought a", "ended a completed"]);
  });

  it("for a chat is delivered first", () => {
    expect(facts(replying, delivered)).toEqual(["delivered sent", "ended a completed"]);
    expect(work(replying, RULES)).toEqual([
      { key: "deliver:a", do: "deliver", turn: "a", step: 2, from: 3, again: false },
    ]);
  });

  it("that could not be made is told to a chat, with what had been said kept", () => {
    const s = after(fresh, arrived("a", "queue", "push"));
    expect(facts(s, failed("half a"), delivered)).toEqual([
      "cut half a",
      "failed a",
      "delivered sent",
      "ended a failed",
    ]);
  });
});

describe("what comes late", () => {
  it.each<[Name, Happening[]]>([
    ["fresh", [thought(), acted("call_a_1_0"), failed(), delivered, settled("think:1")]],
    ["thinking", [acted("call_a_1_0"), delivered, settled("think:1")]],
    ["acting", [thought(), failed(), delivered, settled("act:call_a_1_0")]],
    ["replying", [thought(), failed(), acted("call_a_1_0"), settled("deliver:a")]],
    ["stopping", [thought(), failed(), acted("call_a_1_0"), delivered, settled("think:9")]],
    ["done", [thought(), failed(), acted("call_a_1_0"), delivered, settled("think:1")]],
  ])("does not fit a session that is %s: the same object comes back", (phase, happenings) => {
    for (const happening of happenings) expect(after(PHASES[phase], happening)).toBe(PHASES[phase]);
  });

  it("carries another step: the same object comes back", () => {
    for (const [s, event] of [
      [thinking, thought()],
      [thinking, failed()],
      [acting, acted("call_a_1_0")],
      [replying, delivered],
    ] as const) {
      const right = typeof event === "function" ? event(s) : event;
      for (const off of [-1, 1]) expect(after(s, { ...right, step: s.step + off } as Event)).toBe(s);
    }
  });

  it("of an interrupted call does not answer the turn that took over", () => {
    const next = after(thinking, arrived("m", "interrupt"), settled("think:1"));
    const late = thought();
    expect(after(next, typeof late === "function" ? late(thinking) : late)).toBe(next);
    expect(keys(next)).toContain(`think:${next.step}`);
  });
});

describe("memory", () => {
  it("is wanted from the last turn that was written, one at a time, off the turn's path", () => {
    expect(keys(done)).toEqual(["remember:notes:0"]);
    const two = after(done, arrived("b"), thought());
    expect(keys(two)).toEqual(["remember:notes:0"]);
    expect(keys(after(two, remembered(0, done.ended)))).toEqual([`remember:notes:${done.ended}`]);
    expect(keys(after(two, remembered(0, done.ended), remembered(done.ended, two.ended)))).toEqual([]);
  });

  it("moves its mark forward only, and only from where it stands", () => {
    const written = after(done, remembered(0, done.ended));
    expect(written.seq).toBe(done.seq);
    for (const event of [remembered(0, done.ended), remembered(0, 99), remembered(done.ended, 1)])
      expect(after(written, event)).toBe(written);
  });

  it("that nobody wants leaves nothing to write, also not when somebody wants it later", () => {
    const [s] = tell(thinking, [thought()], { ...RULES, memory: [] });
    expect(keys(s)).toEqual([]);
  });

  it("is still wanted after a restart, and while the next turn runs", () => {
    expect(keys(after(done, restarted()))).toEqual(["remember:notes:0"]);
    expect(keys(after(done, arrived("b")))).toEqual(["think:3", "remember:notes:0"]);
  });
});

describe("a state", () => {
  const states = { ...PHASES, asking, steered: after(acting, arrived("m", "steer"), arrived("n", "queue", "push")) };

  it.each(Object.entries(states))("(%s) is plain JSON and holds no text", (_, s) => {
    const json = JSON.stringify(s);
    expect(JSON.parse(json)).toStrictEqual(s);
    expect(json).not.toContain("§");
    expect(s.v).toBe(fresh.v);
  });

  it("numbers its entries densely", () => {
    const [s, entries] = tell(fresh, [arrived("a"), arrived("b"), thought(runs()), acted("call_a_1_0"), thought()]);
    expect(entries.map((entry) => entry.seq)).toEqual(entries.map((_, i) => i + 1));
    expect(s.seq).toBe(entries.length);
  });
});

// ── Random histories ──────────────────────────────────────────────────────────────────────────────────

type Action = { kind: string; pick: number; yes: boolean; mode: Mode; reply: Reply; unattended: Unattended | null };
const action: fc.Arbitrary<Action> = fc.record({
  kind: fc.oneof(
    { weight: 5, arbitrary: fc.constant("arrive") },
    { weight: 9, arbitrary: fc.constant("finish") },
    { weight: 3, arbitrary: fc.constant("die") },
    { weight: 4, arbitrary: fc.constantFrom("stop", "withdraw", "move", "decide") },
    { weight: 1, arbitrary: fc.constantFrom("crash", "late") },
  ),
  pick: fc.nat({ max: 1_000 }),
  yes: fc.boolean(),
  mode: fc.constantFrom<Mode>("interrupt", "queue", "steer"),
  reply: fc.constantFrom<Reply>("pull", "push"),
  unattended: fc.constantFrom<Unattended | null>(null, null, "deny", "allow"),
});
const someRules = fc.record({
  iterations: fc.integer({ min: 1, max: 3 }),
  recoveries: fc.integer({ min: 1, max: 3 }),
  parallel: fc.integer({ min: 1, max: 3 }),
  memory: fc.subarray(["notes", "far"]),
});

describe("whatever happens, in whatever order", () => {
  it("T1–T10 hold, and everything comes to rest", () => {
    fc.assert(
      fc.property(fc.array(action, { minLength: 1, maxLength: 80, size: "max" }), someRules, (actions, rules) => {
        const history = createHistory(rules);
        for (const one of actions) history.act(one);
        history.rest();
      }),
      { numRuns: 600 },
    );
  });
});

const must = (holds: boolean, what: string) => {
  if (!holds) throw new Error(what);
};
const freeze = <T>(value: T): T => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) freeze(part);
  }
  return value;
};
const worksOn = (effect: Effect) => effect.do === "think" || effect.do === "act" || effect.do === "deliver";

/** A journal of its own beside the machine's, and a world that does what the machine wants. */
function createHistory(rules: Rules) {
  let s = freeze(fresh);
  const accepted: string[] = [];
  const taken = new Map<string, string>();
  const gone = new Set<string>();
  const alone = new Set<string>();
  const over = new Set<string>();
  const ends: number[] = [];
  const calls = new Map<string, { done: boolean; started: boolean; decided: boolean; asked: boolean; runs: number }>();
  let flying = new Map<string, Effect>();
  let dying = new Map<string, Effect>();
  let zombies: Effect[] = [];

  function apply(event: Event, by: Effect | null = null): boolean {
    const before = s;
    const [next, entries] = transition(before, event, rules);
    if (next === before) {
      must(entries.length === 0, "a void event has entries");
      return false;
    }
    s = freeze(next);
    entries.forEach((entry, i) => must(entry.seq === before.seq + i + 1, "seq is not dense"));
    must(s.seq === before.seq + entries.length, "the state lost count of its entries");
    must(s.step >= before.step && s.ended >= before.ended, "something fell");
    for (const [by, mark] of Object.entries(before.remembered)) must((s.remembered[by] ?? 0) >= mark, "a mark fell");
    for (const entry of entries) take(entry, event);
    if (by) flying.delete(by.key);
    inspect(before, event);
    reconcile(event.type === "restarted");
    return true;
  }

  function take(e: NewEntry, event: Event) {
    if (e.kind !== "accepted") must(!over.has(e.turn), `${e.kind} of ${e.turn} after its end`); // I6
    const call = "call" in e ? calls.get(e.call) : undefined;
    if ("call" in e) must(call !== undefined && !call.done, `${e.kind} of a call that is not open`); // T6
    switch (e.kind) {
      case "accepted":
        must(!accepted.includes(e.input.id), "accepted twice");
        accepted.push(e.input.id);
        if (e.input.unattended) alone.add(e.input.id);
        break;
      case "began":
      case "joined":
        must(!taken.has(e.input) && !gone.has(e.input), `${e.input} is taken twice`); // T1
        taken.set(e.input, e.turn);
        break;
      case "withdrawn":
        must(event.type === "withdrawn" || event.type === "stopped", `${e.input} is withdrawn by ${event.type}`); // T1
        must(!taken.has(e.input), `${e.input} is withdrawn from a turn`);
        gone.add(e.input);
        break;
      case "thought":
        for (const { id } of e.calls) {
          must(!calls.has(id), "a call id twice");
          calls.set(id, { done: false, started: false, decided: false, asked: false, runs: 0 });
        }
        break;
      case "asked":
        if (call) call.asked = true;
        break;
      case "decided":
        must(call?.asked === true && !call.decided, "decided twice, or unasked"); // T8
        if (call) call.decided = true;
        break;
      case "started":
        must(call?.started === false && (!call.asked || call.decided), "started twice, or without a grant"); // T7
        if (call) call.started = true;
        break;
      case "acted":
        if (call) call.done = true; // T6
        break;
      case "restarted":
        must(s.turn?.id !== e.turn || s.turn.recoveries === e.attempt, "an attempt was not counted"); // T9
        must(s.parked || e.attempt <= rules.recoveries, "not parked");
        must(e.attempt <= rules.recoveries + 2, "an attempt too many");
        break;
      case "ended":
        over.add(e.turn);
        ends.push(e.seq);
        break;
      case "forked":
      case "moved":
      case "compacted":
      case "revoked":
      case "cut":
      case "failed":
      case "retracted":
      case "stopping":
      case "abandoned":
      case "parked":
      case "delivered":
        break;
      default:
        e satisfies never;
    }
  }

  function inspect(before: Session, event: Event) {
    const inbox = s.inbox.map((w) => w.id);
    for (const id of accepted) {
      const places = Number(inbox.includes(id)) + Number(taken.has(id)) + Number(gone.has(id));
      must(places === 1, `${id} is in ${places} places`); // T1
    }
    const interrupts = event.type === "arrived" && event.input.mode === "interrupt" && (before.turn || before.parked);
    if (interrupts) must([s.turn?.id, inbox[0]].includes(event.input.id), "one that interrupts is not next"); // I10
    // It takes the place of one that interrupted before it.
    const [first, ...rest] = before.inbox;
    const old = (interrupts && first?.mode === "interrupt" ? rest : before.inbox).map((w) => w.id);
    const stayed = old.filter((id) => inbox.includes(id));
    const same = event.type === "moved" || inbox.filter((id) => old.includes(id)).join() === stayed.join();
    must(same, "those who wait changed places"); // I4
    must(s.turn !== null || s.parked || s.inbox.length === 0, "an input waits for nothing"); // T4
    const again = JSON.parse(JSON.stringify(s)) as Session;
    must(isDeepStrictEqual(again, s), "the state is not plain JSON");
    must(isDeepStrictEqual(work(again, rules), work(s, rules)), "work is not derived from the state"); // T5
    must(!JSON.stringify(s).includes("§"), "the state holds text");
    const waits = work(s, rules).some((effect) => effect.do === "ask");
    must(!waits || !alone.has(s.turn?.id ?? ""), "nobody is there, and it waits for an answer"); // T10
    if (s.turn?.phase.at !== "acting") for (const c of calls.values()) must(c.done, "a call without a result"); // T6
  }

  function reconcile(crashed: boolean) {
    const wanted = work(s, rules);
    const names = new Set(wanted.map((effect) => effect.key));
    must(names.size === wanted.length, "two pieces of work under one key");
    if (crashed) {
      zombies.push(...flying.values(), ...dying.values());
      flying = new Map();
      dying = new Map();
    }
    for (const [key, effect] of flying)
      if (!names.has(key)) {
        flying.delete(key);
        dying.set(key, effect);
      }
    for (const effect of wanted) {
      if (flying.has(effect.key)) continue;
      flying.set(effect.key, effect);
      if (worksOn(effect)) must(![...dying.values()].some(worksOn), "new work while the old can still act"); // T3
      if (effect.do !== "act") continue;
      const call = calls.get(effect.call);
      must(call?.started === true && !call.done, "a call runs that was not recorded"); // T7
      if (call) call.runs++;
      must(effect.call.endsWith("_0") || call?.runs === 1, "a call that may not be repeated runs again"); // T7
    }
  }

  function result(effect: Effect, { pick, yes }: Pick<Action, "pick" | "yes">): Event {
    switch (effect.do) {
      case "think": {
        if (pick % 7 === 0) return { type: "failed", step: effect.step, reason: "§", said: yes ? "§" : "" };
        // The first of each batch may be repeated.
        const many = Array.from({ length: pick % 4 }, (_, i): Proposal => {
          const kind = (pick + i) % 5;
          if (kind === 0) return refused;
          if (kind === 1) return asks(yes ? "approval" : "question");
          return runs({ repeatable: i === 0, alone: kind === 2 });
        });
        return {
          type: "thought",
          step: effect.step,
          text: "§",
          reasoning: "",
          model: "m",
          calls: many,
          usage: { input: 1, output: 1 },
        };
      }
      case "act":
        return { type: "acted", step: effect.step, call: effect.call, outcome: yes ? "ok" : "error", text: "§" };
      case "ask":
        return { type: "decided", call: effect.call, allow: false, text: "§", by: "timeout", scope: "once" };
      case "compact":
        return { type: "compacted", step: effect.step, summary: "§", upTo: 0 };
      case "deliver":
        return { type: "delivered", step: effect.step, how: yes ? "sent" : "undelivered" };
      case "remember":
        return {
          type: "remembered",
          by: effect.by,
          after: effect.after,
          upTo: ends.find((seq) => seq > effect.after) ?? 0,
        };
    }
  }

  const any = <T>(list: Iterable<T>, pick: number): T | undefined => {
    const all = [...list];
    return all[pick % all.length];
  };

  function die(effect: Effect, { pick, yes }: Pick<Action, "pick" | "yes">) {
    if (yes && effect.do !== "ask") must(!apply(result(effect, { pick, yes })), "a late result changed something"); // T2
    dying.delete(effect.key);
    if (pick % 3 === 0) zombies.push(effect);
    apply({ type: "settled", key: effect.key, abandoned: pick % 3 === 0 });
  }

  function act({ kind, pick, yes, mode, reply, unattended }: Action) {
    const one = any([...accepted, "nobody"], pick) ?? "";
    const effect = any(flying.values(), pick);
    const dead = any(dying.values(), pick);
    const zombie = any(zombies.filter(worksOn), pick);
    const said = yes && s.turn?.phase.at === "thinking" ? "§said" : "";
    if (kind === "arrive") apply(arrived(`m${accepted.length}`, mode, reply, said, unattended));
    if (kind === "stop") {
      const other = s.turn?.id !== one ? s.turn : null;
      apply(stopped(one, said));
      must(!other || s.turn === other, "a stop hit another turn");
    }
    if (kind === "withdraw") apply(withdrawn(one));
    if (kind === "move") apply(moved(one, pick % 5));
    if (kind === "decide") apply(decided(any(calls.keys(), pick) ?? "", yes, "§why"));
    if (kind === "crash") apply({ type: "restarted", resume: yes });
    if (kind === "late" && zombie) must(!apply(result(zombie, { pick, yes })), "the dead changed something"); // T2
    if (kind === "die" && dead) die(dead, { pick, yes });
    if (kind === "finish" && effect) apply(result(effect, { pick, yes }), effect);
  }

  /** Nothing bad happens any more. */
  function rest() {
    for (let i = 0; s.turn || s.inbox.length || unsaved(s, rules).length; i++) {
      must(i < 2_000, "it does not come to rest");
      const [dead] = dying.values();
      const [effect] = flying.values();
      if (s.parked && !s.turn && s.inbox.length) apply(arrived(`m${accepted.length}`));
      else if (dead) die(dead, { pick: 1, yes: false });
      else if (effect) apply(result(effect, { pick: 8, yes: true }), effect);
      else must(false, "it is stuck");
    }
    for (const id of accepted) must(taken.has(id) !== gone.has(id), `${id} was lost`); // T1
    for (const turn of taken.values()) must(over.has(turn), `${turn} never ended`);
  }

  return { act, rest };
}

describe("a message while the conversation is being made shorter", () => {
  const compacted = (s: Session): Event => ({ type: "compacted", step: s.step, summary: "§", upTo: 1 });

  it("joins the turn that needs it, behind the summary", () => {
    const busy = after(fresh, arrived("a"), (s) => ({ type: "crowded", step: s.step }), arrived("b", "interrupt"));
    expect([busy.turn?.phase.at, waiting(busy)]).toEqual(["compacting", ["b steer"]]);
    const done = tell(busy, [compacted])[1].map(({ kind, turn }) => `${kind} ${turn}`);
    expect(done).toEqual(["compacted a", "joined a"]);
  });

  it("waits where only that was asked for, and is next", () => {
    const task: Event = {
      type: "arrived",
      input: { id: "c", text: "", mode: "queue", reply: "pull", task: "compress" },
      said: "",
    };
    const done = tell(after(fresh, task, arrived("b", "interrupt")), [compacted])[1].map(
      ({ kind, turn }) => `${kind} ${turn}`,
    );
    expect(done).toEqual(["compacted c", "ended c", "began b"]);
  });
});
