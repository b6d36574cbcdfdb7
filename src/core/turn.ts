// One session: a durable inbox and at most one turn. Pure: no clock, no randomness, no I/O.
//
// T1  An input is in the inbox, or in exactly one turn, or withdrawn. Nothing else takes one out.         (I1, I4)
// T2  A result carries the step (or key) it belongs to; one that comes late changes nothing.             (I6, I7)
// T3  A turn ends only when nothing it started can still act: `stopping` waits for every key to settle.  (I5, I11)
// T4  Ending a turn and beginning the next is one transition: no gap an input can fall into.             (I10)
// T5  What should be in flight is derived from the state (`work`), so a restart needs no second opinion. (I19)
// T6  Every call has exactly one result, written no later than the commit that leaves `acting`.          (I13)
// T7  A call is `running` in a commit before it runs; one that a crash caught running is not run again
//     unless its tool may be repeated.                                                                   (I14)
// T8  A question is decided once: by the first answer that finds it `asking`.                            (I15)
// T9  An attempt at recovery is counted in the commit before it is made.                                 (I19)
// T10 Where nobody can be asked, a question is decided in the commit that asks it: it never waits.       (I16)

import { stoppedText } from "./run.ts";
import type {
  Applied,
  Ask,
  Call,
  CallOutcome,
  CallStatus,
  Effect,
  Event,
  Fact,
  Mode,
  NewEntry,
  Outcome,
  Phase,
  Proposal,
  Rules,
  Session,
  Turn,
  Unattended,
  Waiting,
} from "./session.ts";

/** The whole behaviour. The same session comes back when the event is late or void: nothing to record, nothing to do. */
export function transition(before: Session, event: Event, rules: Rules): [Session, NewEntry[]] {
  const entries: NewEntry[] = [];
  const note = (turn: string, fact: Fact) => {
    entries.push({ seq: before.seq + entries.length + 1, turn, ...fact });
    return before.seq + entries.length;
  };
  const after = reduce(before, event, { rules, note });
  return [entries.length ? { ...after, seq: before.seq + entries.length } : after, entries];
}

/** The work a state wants in flight now (T5). */
export function work(s: Session, rules: Rules): Effect[] {
  const memory = unsaved(s, rules).map((by): Effect => {
    const after = s.remembered[by] ?? 0;
    return { key: `remember:${by}:${after}`, do: "remember", by, after };
  });
  return s.turn ? [...turnWork(s, s.turn, rules), ...memory] : memory;
}

/** A turn, or an input that is to become one. */
export const hasWork = ({ turn, inbox, parked }: Session): boolean => turn !== null || (inbox.length > 0 && !parked);

/** Memories that have not been told of all turns yet. */
export const unsaved = (s: Session, rules: Rules): string[] =>
  rules.memory.filter((by) => (s.remembered[by] ?? s.ended) < s.ended);

function turnWork(
  s: Session,
  { id: turn, phase, thoughts, recoveries, tight, breaks = 0, model, task }: Turn,
  rules: Rules,
): Effect[] {
  const { step } = s;
  switch (phase.at) {
    case "thinking":
      return [
        {
          key: `think:${step}`,
          do: "think",
          turn,
          step,
          final: thoughts >= rules.iterations,
          tight,
          breaks,
          ...(model && { model }),
        },
      ];
    case "compacting":
      return [
        { key: `compact:${step}`, do: "compact", turn, step, asked: task === "compress", ...(model && { model }) },
      ];
    case "acting":
      return phase.calls.flatMap((call): Effect[] => {
        if (call.status === "running") return [{ key: `act:${call.id}`, do: "act", turn, step, call: call.id }];
        if (call.status === "asking" && call.ask)
          return [{ key: `ask:${call.id}`, do: "ask", turn, call: call.id, until: call.ask.until }];
        return [];
      });
    case "replying":
      return [{ key: `deliver:${turn}`, do: "deliver", turn, step, from: phase.from, again: recoveries > 0 }];
    case "stopping":
      return [];
  }
}

type TransitionContext = {
  rules: Rules;
  /** Writes a fact of a turn into the journal and returns the number of its entry. */
  note: (turn: string, fact: Fact) => number;
};

function reduce(s: Session, e: Event, cx: TransitionContext): Session {
  if ("step" in e && e.step !== s.step) return s; // T2
  const turn = s.turn;
  const phase = turn?.phase;
  switch (e.type) {
    case "arrived": {
      const applied = apply(s, e.input.mode);
      const seq = cx.note(e.input.id, { kind: "accepted", input: e.input, applied });
      const mode = applied === "began" ? "queue" : applied;
      const { id, reply } = e.input;
      const input = { id, mode, reply, seq, ...givenTo(e.input) };
      const waiting = enqueue({ ...s, parked: false }, input);
      return applied === "interrupt" && turn && phase && busy(phase)
        ? stop(waiting, turn, "interrupted", e.input.id, e, cx)
        : begin(waiting, cx);
    }
    case "stopped":
      if (turn?.id === e.turn && phase && busy(phase)) return stop(s, turn, "cancelled", "", e, cx);
      return withdraw(s, e.turn, cx); // a stop before the start (I8); an answer that exists is delivered
    case "withdrawn":
      return withdraw(s, e.input, cx);
    case "moved": {
      const from = s.inbox.findIndex((waiting) => waiting.id === e.input);
      const to = Math.max(0, Math.min(e.to, s.inbox.length - 1));
      const [input] = s.inbox.slice(from);
      if (from < 0 || !input || from === to) return s;
      cx.note(e.input, { kind: "moved", input: e.input, to });
      return { ...s, inbox: s.inbox.toSpliced(from, 1).toSpliced(to, 0, input) };
    }
    case "settled": {
      if (!turn || phase?.at !== "stopping" || !phase.alive.includes(e.key)) return s;
      if (e.abandoned) cx.note(turn.id, { kind: "abandoned", key: e.key });
      const alive = phase.alive.filter((key) => key !== e.key);
      if (alive.length) return { ...s, turn: { ...turn, phase: { ...phase, alive } } };
      return end(s, turn, phase.outcome, cx); // T3
    }
    case "thought": {
      if (!turn || phase?.at !== "thinking") return s;
      const calls = e.calls.map((proposal, i): Call => accepted(proposal, callId(turn.id, s.step, i)));
      // An answer is progress: what it took to make it does not count against its delivery.
      const recoveries = calls.length ? turn.recoveries : 0;
      const usedUp = turn.thoughts >= cx.rules.iterations;
      const endedBy = e.endedBy ?? (usedUp ? "iterations" : undefined);
      const thought = { ...turn, thoughts: turn.thoughts + 1, tight: false, recoveries, breaks: 0 };
      const from = cx.note(turn.id, {
        kind: "thought",
        text: e.text,
        ...(e.reasoning && { reasoning: e.reasoning }),
        calls: e.calls.map((proposal, i) => ({
          id: calls[i]?.id ?? "",
          tool: proposal.tool,
          args: proposal.args,
          ...(proposal.gate === "run" && proposal.about && { about: proposal.about }),
        })),
        usage: e.usage,
        model: e.model,
        ...(e.replay && { replay: e.replay }),
        ...(e.refused && { refused: e.refused }),
        ...(endedBy && { endedBy }),
        ...(e.recalled && { recalled: e.recalled }),
        ...(e.timing && { timing: e.timing }),
      });
      e.calls.forEach((proposal, i) => {
        const call = calls[i]?.id ?? "";
        if (proposal.gate === "refuse")
          cx.note(turn.id, { kind: "acted", call, outcome: "error", text: proposal.result });
      });
      if (calls.length && usedUp) {
        finishCalls(turn.id, calls, "skipped", "Not run: this turn has used up its model calls.", cx);
        return conclude(s, thought, "completed", from, cx);
      }
      if (calls.length) {
        e.calls.forEach((proposal, i) => {
          if (proposal.gate === "ask") cx.note(turn.id, { kind: "asked", call: calls[i]?.id ?? "", ask: proposal.ask });
        });
        return act({ ...s, step: s.step + 1 }, thought, decideUnattended(turn, calls, cx), cx);
      }
      // Who steers joins between tools. An answer is whole as it is: what comes while it is made is the next turn.
      return conclude(s, thought, "completed", from, cx);
    }
    case "acted": {
      if (!turn || phase?.at !== "acting") return s;
      const call = phase.calls.find((c) => c.id === e.call && c.status === "running");
      if (!call) return s;
      const { outcome, text, images } = e;
      cx.note(turn.id, { kind: "acted", call: e.call, outcome, text, ...(images && { images }) });
      return act(s, { ...turn, recoveries: 0 }, change(phase.calls, call, "done"), cx);
    }
    case "decided": {
      if (!turn || phase?.at !== "acting") return s;
      const call = phase.calls.find((c) => c.id === e.call && c.status === "asking"); // T8
      if (!call) return s;
      const status = decide(turn.id, call, e, e.text, cx);
      const grants = status === "waiting" && e.scope === "session" ? [...s.grants, call.id] : s.grants;
      return act({ ...s, grants }, turn, change(phase.calls, call, status), cx);
    }
    case "revoked":
      if (!s.grants.includes(e.call)) return s;
      cx.note("", { kind: "revoked", call: e.call, by: e.by });
      return { ...s, grants: s.grants.filter((call) => call !== e.call) };
    case "crowded":
      if (!turn || phase?.at !== "thinking" || turn.tight) return s;
      if (e.retract) cx.note(turn.id, { kind: "retracted", reason: e.retract });
      return { ...s, step: s.step + 1, turn: { ...turn, phase: { at: "compacting" } } };
    case "broke":
      if (!turn || phase?.at !== "thinking") return s;
      cx.note(turn.id, { kind: "retracted", reason: e.reason });
      return { ...s, step: s.step + 1, turn: { ...turn, breaks: (turn.breaks ?? 0) + 1 } };
    case "compacted": {
      if (!turn || phase?.at !== "compacting") return s;
      const from = cx.note(turn.id, { kind: "compacted", summary: e.summary, upTo: e.upTo });
      if (turn.task === "compress") return conclude(s, turn, "completed", from, cx);
      return think(s, { ...turn, tight: true }, cx);
    }
    case "failed": {
      if (!turn || (phase?.at !== "thinking" && phase?.at !== "compacting")) return s;
      if (e.said) cx.note(turn.id, { kind: "cut", text: e.said });
      const from = cx.note(turn.id, { kind: "failed", reason: e.reason, ...(e.tries && { tries: e.tries }) });
      return conclude(s, turn, "failed", from, cx);
    }
    case "delivered":
      if (!turn || phase?.at !== "replying") return s;
      cx.note(turn.id, { kind: "delivered", how: e.how });
      return end(s, turn, phase.outcome, cx);
    case "remembered":
      if (s.remembered[e.by] !== e.after || e.upTo <= e.after) return s;
      return { ...s, remembered: { ...s.remembered, [e.by]: e.upTo } };
    case "forked":
      if (s.seq) return s; // only a session that has nothing yet can begin like this
      cx.note("", { kind: "forked", from: e.from, upTo: e.upTo, messages: e.messages });
      return { ...s }; // an entry is a change, though nothing else is
    case "restarted": {
      const { barred = [] } = e;
      const allowed = barred.reduce((state, input) => withdraw(state, input, cx), s);
      if (turn && barred.includes(turn.id)) return bar(allowed, turn, cx);
      return turn ? recover(allowed, turn, e, cx) : begin(allowed, cx);
    }
  }
}

type Recovery = Pick<Extract<Event, { type: "restarted" }>, "resume" | "planned">;

/** What each phase does after a crash. */
function recover(s: Session, turn: Turn, how: Recovery, cx: TransitionContext): Session {
  const { phase } = turn;
  const { resume, planned = false } = how;
  if (phase.at === "stopping") return end(s, turn, phase.outcome, cx);
  // One that only waits for a person lost nothing, and one that was given up in order is no crash.
  const idle = phase.at === "acting" && !phase.calls.some((c) => c.status === "running");
  const attempt = turn.recoveries + (idle || planned ? 0 : 1);
  cx.note(turn.id, { kind: "restarted", attempt });
  const again = { ...s, step: s.step + 1 }; // what the dead process had in flight is void
  const counted = { ...turn, recoveries: attempt }; // T9

  if (attempt > cx.rules.recoveries) {
    if (phase.at === "acting") lose(turn.id, phase.calls, cx);
    cx.note(turn.id, { kind: "parked" });
    const parked = { ...again, parked: true };
    if (phase.at === "replying") return end(parked, turn, phase.outcome, cx);
    const reason = `This turn was given up: the process ended ${cx.rules.recoveries} times while it was being resumed. Say something to go on.`;
    return conclude(parked, counted, "failed", cx.note(turn.id, { kind: "failed", reason }), cx);
  }
  switch (phase.at) {
    case "replying": // under the same delivery key
      return { ...again, turn: counted };
    case "thinking":
    case "compacting":
      return resume ? { ...again, turn: counted } : end(again, turn, "interrupted", cx);
    case "acting": {
      const crashed = phase.calls.filter((c) => c.status === "running" && !(c.repeatable && resume));
      const calls = phase.calls.map((c): Call => (crashed.includes(c) ? { ...c, status: "done" } : c));
      lose(turn.id, resume ? crashed : phase.calls, cx); // T7
      return resume ? act(again, counted, calls, cx) : end(again, turn, "interrupted", cx);
    }
  }
}

/** The answer is sent to nobody: the person who asked may not talk to the agent any more. */
function bar(s: Session, turn: Turn, cx: TransitionContext): Session {
  const { phase } = turn;
  if (phase.at === "acting") lose(turn.id, phase.calls, cx);
  return end(s, turn, "outcome" in phase ? phase.outcome : "interrupted", cx);
}

const busy = (phase: Phase) => phase.at !== "replying" && phase.at !== "stopping";

/** What a mode comes to in this state. An interrupt that finds nothing to stop is next all the same (I10). */
function apply(s: Session, mode: Mode): Applied {
  if (!s.turn && !s.inbox.length) return "began";
  // A summary that is being made is not thrown away: the message is next behind it, or joins the turn that it is made for.
  if (mode === "interrupt" && s.turn?.phase.at === "compacting") return s.turn.task ? "queue" : "steer";
  if (mode === "interrupt") return "interrupt";
  return mode === "steer" && s.turn && busy(s.turn.phase) ? "steer" : "queue";
}

/** An interrupting input is next. One that was to be next because it interrupted goes back among those that interrupted
 *  before: they keep their order, and so do all others (I4). */
function enqueue(s: Session, input: Waiting): Session {
  const [first, ...rest] = s.inbox;
  if (input.mode !== "interrupt" || !first) return { ...s, inbox: [...s.inbox, input] };
  if (first.mode !== "interrupt") return { ...s, inbox: [input, ...s.inbox] };
  const at = rest.findIndex((w) => w.mode !== "interrupt" || w.seq > first.seq);
  return { ...s, inbox: [input, ...rest.toSpliced(at < 0 ? rest.length : at, 0, first)] };
}

function withdraw(s: Session, input: string, cx: TransitionContext): Session {
  if (!s.inbox.some((w) => w.id === input)) return s;
  cx.note(input, { kind: "withdrawn", input });
  return { ...s, inbox: s.inbox.filter((w) => w.id !== input) };
}

/** Unique over all sessions, so that an answer never reaches another one's question (I25). A turn's id is a hash: half of
 *  it is enough, and a call's id stays short enough for every provider. */
const callId = (turn: string, step: number, index: number): string =>
  `call_${turn.replace(/^run_/, "").slice(0, 16)}_${step}_${index}`;

function accepted({ tool, repeatable, alone = false, ...judged }: Proposal, id: string): Call {
  const call = { id, tool, repeatable, alone };
  if (judged.gate === "refuse") return { ...call, status: "done" };
  if (judged.gate === "run") return { ...call, status: "waiting" };
  return { ...call, status: "asking", ask: { kind: judged.ask.kind, until: judged.ask.until } };
}

type DecidedCall = Pick<Extract<Event, { type: "decided" }>, "allow" | "text" | "by" | "scope">;

/** What becomes of the call. After an answer to a question, or a no, the call does not run and `result` is its result. */
function decide(
  turn: string,
  call: Call,
  decision: DecidedCall,
  result: string,
  cx: TransitionContext,
): "waiting" | "done" {
  const { allow, text, by, scope } = decision;
  cx.note(turn, { kind: "decided", call: call.id, allow, text, by, scope });
  if (allow && call.ask?.kind === "approval") return "waiting";
  cx.note(turn, { kind: "acted", call: call.id, outcome: allow ? "ok" : "denied", text: result });
  return "done";
}

/** Decides what was just asked, if nobody can be asked (T10). An approval is as the turn's input says, a question is a no. */
function decideUnattended({ id, unattended }: Turn, calls: Call[], cx: TransitionContext): Call[] {
  if (!unattended) return calls;
  return calls.map((call) => {
    if (call.status !== "asking" || isForClient(call, unattended)) return call;
    const allow = unattended === "allow" && call.ask?.kind === "approval";
    const text = allow
      ? "this run is non-interactive, and approvals are granted in it."
      : NOT_ASKED[call.ask?.kind === "question" ? "question" : "approval"];
    const decision = { allow, text, by: "unattended", scope: "once" } as const;
    return { ...call, status: decide(id, call, decision, `Denied: ${text}`, cx) };
  });
}

/** The call waits for its client: for a result, or for an approval. */
const isForClient = ({ ask }: Call, unattended: Unattended) =>
  ask?.kind === "client" || (unattended === "client" && ask?.kind === "approval");

/** Shown to people, and the result that the model gets. */
const NOT_ASKED: Record<Exclude<Ask["kind"], "client">, string> = {
  approval: "approval needed, but this run is non-interactive. Use --yolo or an allow rule.",
  question: "this run is non-interactive, so nobody can answer.",
};

const change = (calls: Call[], one: Call, status: CallStatus) => calls.map((c) => (c === one ? { ...c, status } : c));

/** Starts the calls that may start now. When every call has its result, the model is called again. */
function act(s: Session, turn: Turn, before: Call[], cx: TransitionContext): Session {
  const calls: Call[] = [];
  for (const call of before) {
    const others = [...calls, ...before.slice(calls.length + 1)].filter((c) => c.status === "running");
    const room = others.length < (call.alone ? 1 : cx.rules.parallel) && !others.some((c) => c.alone);
    const starts = call.status === "waiting" && room;
    if (starts) cx.note(turn.id, { kind: "started", call: call.id });
    calls.push(starts ? { ...call, status: "running" } : call);
  }
  if (calls.every((c) => c.status === "done")) return think(s, turn, cx);
  return { ...s, turn: { ...turn, phase: { at: "acting", calls } } };
}

/** Gives a result to every call that has none (T6). */
function finishCalls(
  turn: string,
  calls: Call[],
  outcome: CallOutcome,
  text: string | ((call: Call) => string),
  cx: TransitionContext,
) {
  for (const call of calls) {
    if (call.status === "done") continue;
    cx.note(turn, { kind: "acted", call: call.id, outcome, text: typeof text === "string" ? text : text(call) });
  }
}

/** A crash caught the running ones in the act; the others never began. */
function lose(turn: string, calls: Call[], cx: TransitionContext) {
  const running = calls.filter((c) => c.status === "running");
  const unknown = "Outcome unknown: the process ended while this ran. Look before you do it again.";
  finishCalls(turn, running, "unknown", unknown, cx);
  const others = calls.filter((c) => c.status !== "running");
  finishCalls(turn, others, "cancelled", "Not run: the process ended before this began.", cx);
}

/** Begins the next model call. Steers join the turn here. */
function think(s: Session, turn: Turn, cx: TransitionContext): Session {
  for (const w of s.inbox) if (w.mode === "steer") cx.note(turn.id, { kind: "joined", input: w.id });
  const inbox = s.inbox.filter((w) => w.mode !== "steer");
  return { ...s, step: s.step + 1, inbox, turn: { ...turn, phase: { at: "thinking" } } };
}

type CutOff = Pick<Extract<Event, { type: "stopped" }>, "said" | "printed">;

/** Nothing is wanted any more; the turn ends when what was in flight is dead (T3), at once if nothing was. */
function stop(s: Session, turn: Turn, outcome: Outcome, by: string, live: CutOff, cx: TransitionContext): Session {
  const { said, printed = {} } = live;
  if (said) cx.note(turn.id, { kind: "cut", text: said });
  if (turn.phase.at === "acting")
    finishCalls(turn.id, turn.phase.calls, "cancelled", ({ id }) => stoppedText(printed[id]), cx);
  cx.note(turn.id, { kind: "stopping", outcome, by });
  const alive = turnWork(s, turn, cx.rules).map((effect) => effect.key);
  if (!alive.length) return end(s, turn, outcome, cx);
  return { ...s, step: s.step + 1, turn: { ...turn, phase: { at: "stopping", outcome, alive } } };
}

/** With `pull` the answer is there once this is committed; with `push` it must be sent to a chat. */
function conclude(s: Session, turn: Turn, outcome: Outcome, from: number, cx: TransitionContext): Session {
  if (turn.reply === "pull") return end(s, turn, outcome, cx);
  return { ...s, step: s.step + 1, turn: { ...turn, phase: { at: "replying", outcome, from } } };
}

function end(s: Session, turn: Turn, outcome: Outcome, cx: TransitionContext): Session {
  const ended = cx.note(turn.id, { kind: "ended", outcome });
  const remembered = { ...s.remembered };
  for (const by of cx.rules.memory) remembered[by] ??= s.ended; // one that is new here begins with this turn
  const inbox = s.inbox.map((w): Waiting => (w.mode === "steer" ? { ...w, mode: "queue" } : w)); // what it would steer is over
  return begin({ ...s, step: s.step + 1, inbox, turn: null, ended, remembered }, cx); // T4
}

function begin(s: Session, cx: TransitionContext): Session {
  const [first, ...inbox] = s.inbox;
  if (s.turn || s.parked || !first || cx.rules.leaving) return s;
  cx.note(first.id, { kind: "began", input: first.id });
  const { id, reply, task } = first;
  const phase: Phase = { at: task === "compress" ? "compacting" : "thinking" };
  const turn: Turn = { id, reply, ...givenTo(first), phase, thoughts: 0, tight: false, recoveries: 0 };
  return { ...s, step: s.step + 1, inbox, turn };
}

/** What an input brings into the turn that it begins. */
const givenTo = ({ model, task, unattended }: Pick<Waiting, "model" | "task" | "unattended">) => ({
  ...(model && { model }),
  ...(task && { task }),
  ...(unattended && { unattended }),
});
