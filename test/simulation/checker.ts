// The invariants, checked on every entry as it lands and on the whole at the end. It knows the contract, not the
// machine: what it needs of the past it keeps itself.
import type { Applied, Ask, Entry, Unattended } from "../../src/core/session.ts";
import type { Commit } from "../../src/core/store.ts";
import type { Message } from "../../src/core/transcript.ts";

/** What a model says that cannot be reached. */
export const NO_ROUTE = "no route";

export class Violation extends Error {
  override readonly name = "Violation";
  readonly invariant: string;
  constructor(invariant: string, what: string) {
    super(`${invariant}: ${what}`);
    this.invariant = invariant;
  }
}

/** The first one since it was last taken: the code under test may catch what is thrown in its midst. */
let found: Violation | null = null;
export function takeViolation(): Violation | null {
  const violation = found;
  found = null;
  return violation;
}

export function must(holds: boolean, invariant: string, what: () => string): void {
  if (holds) return;
  const violation = new Violation(invariant, what());
  found ??= violation;
  throw violation;
}

const NOTE = "[System note: Your previous turn was interrupted";
const SUMMARY = "[Summary of the conversation";

type CallSeen = {
  asked: Ask["kind"] | null;
  allowed: boolean;
  decided: boolean;
  started: boolean;
  done: boolean;
  turn: string;
};
type Waits = { id: string; applied: Applied; seq: number };
type SessionSeen = {
  seq: number;
  queue: Waits[];
  live: string | null;
  /** `stopping` was written for the live turn. */
  stopping: Entry | null;
  calls: Map<string, CallSeen>;
  ended: string[];
  attempts: number;
  /** The live turn has given its answer. */
  answered: boolean;
  /** How the last turn ended that was somebody's message. */
  before: { outcome: string; stopped: boolean } | null;
  /** The entry up to which a summary stands for the conversation. */
  summarised: number;
  /** How often the words of the answer in the making were taken back. */
  retracted: number;
};

/** Three for streams that broke, one for a conversation that turned out too long. */
const MOST_RETRACTED = 4;

export function createChecker(inboxLimit: number, recoveries: number) {
  const sessions = new Map<string, SessionSeen>();
  const accepted = new Map<string, string>();
  const texts = new Map<string, string>();
  const taken = new Map<string, string>();
  const withdrawn = new Set<string>();
  /** Turns that somebody waits for. */
  const attended = new Set<string>();
  /** Turns in which nobody can be asked. */
  const unattended = new Map<string, Unattended>();
  const outcome = new Map<string, string>();
  const abandoned = new Set<string>();
  /** Filled by the client before it asks. */
  const stopAsked = new Set<string>();
  const withdrawAsked = new Set<string>();
  /** Sessions that a node has given up in order, since they were last taken up. */
  const handedOver = new Set<string>();
  /** Sessions that were deleted, and began anew with two messages. */
  const anew = new Set<string>();

  function seen(session: string): SessionSeen {
    const known = sessions.get(session);
    if (known) return known;
    const empty = {
      seq: 0,
      queue: [],
      live: null,
      stopping: null,
      calls: new Map(),
      ended: [],
      attempts: 0,
      answered: false,
      before: null,
      summarised: 0,
      retracted: 0,
    };
    sessions.set(session, empty);
    return empty;
  }

  /** A commit is about to land. */
  function landing(commit: Commit) {
    must(commit.state.inbox.length <= inboxLimit, "I23", () => `${commit.state.inbox.length} inputs wait`);
    const s = seen(commit.session);
    for (const entry of commit.entries) take(commit.session, s, entry);
    must(s.seq === commit.state.seq, "I20", () => `state says ${commit.state.seq}, the journal ends at ${s.seq}`);
    must((commit.state.turn?.id ?? null) === s.live, "I6", () => `turn ${commit.state.turn?.id}, journal ${s.live}`);
    for (const [id, c] of s.calls) {
      const waits = c.asked && !c.decided && !c.done;
      must(
        !waits || isForClient(c) || !unattended.has(c.turn),
        "I16",
        () => `${id} waits for a person, and nobody can be asked in ${c.turn}`,
      );
    }
    const waiting = commit.state.inbox.map((w) => w.id).join();
    must(
      waiting === s.queue.map((w) => w.id).join(),
      "I4",
      () => `inbox ${waiting} is not in the order of the journal`,
    );
  }

  /** It waits for the result or the yes of its turn's client, whoever else can be asked. */
  const isForClient = ({ asked, turn }: Pick<CallSeen, "asked" | "turn">) =>
    asked === "client" || (asked === "approval" && unattended.get(turn) === "client");

  function take(session: string, s: SessionSeen, e: Entry) {
    must(e.seq === s.seq + 1, "I20", () => `entry ${e.seq} after ${s.seq}`);
    s.seq = e.seq;
    const own = () => must(s.live === e.turn, "I6", () => `${e.kind} of ${e.turn} while ${s.live} is live`);
    const call = (id: string): CallSeen => {
      const c = s.calls.get(id);
      must(c !== undefined && c.turn === e.turn, "I13", () => `${e.kind} for an unknown call ${id}`);
      return c as CallSeen;
    };
    switch (e.kind) {
      case "accepted": {
        must(!accepted.has(e.input.id), "I3", () => `${e.input.id} accepted twice`);
        accepted.set(e.input.id, session);
        if (!e.input.task) texts.set(e.input.id, e.input.text);
        if (e.input.attended) attended.add(e.input.id);
        if (e.input.unattended) unattended.set(e.input.id, e.input.unattended);
        const waiting = { id: e.input.id, applied: e.applied, seq: e.seq };
        if (e.applied === "interrupt") interrupt(s.queue, waiting);
        else s.queue.push(waiting);
        break;
      }
      case "withdrawn": {
        must(withdrawAsked.has(e.input) || stopAsked.has(e.input), "I1", () => `${e.input} withdrawn by nobody`);
        const at = s.queue.findIndex((w) => w.id === e.input);
        must(at >= 0, "I1", () => `${e.input} withdrawn but not waiting`);
        s.queue.splice(at, 1);
        withdrawn.add(e.input);
        break;
      }
      case "moved": {
        const at = s.queue.findIndex((w) => w.id === e.input);
        must(at >= 0, "I4", () => `${e.input} moved but not waiting`);
        s.queue.splice(e.to, 0, ...s.queue.splice(at, 1));
        break;
      }
      case "began":
        must(s.live === null, "I5", () => `${e.turn} begins while ${s.live} is live`);
        must(
          s.queue[0]?.id === e.input && e.turn === e.input,
          "I4",
          () => `${e.input} begins before ${s.queue[0]?.id}`,
        );
        s.queue.shift();
        taken.set(e.input, e.turn);
        s.live = e.turn;
        s.answered = false;
        s.attempts = 0;
        break;
      case "joined": {
        own();
        const at = s.queue.findIndex((w) => w.id === e.input);
        must(s.queue[at]?.applied === "steer", "I1", () => `${e.input} joined ${e.turn} without being a steer`);
        must(!s.stopping, "I7", () => `${e.input} joined a turn that was stopped`);
        must(!s.answered, "§4", () => `${e.input} joined ${e.turn} behind its answer`);
        s.queue.splice(at, 1);
        taken.set(e.input, e.turn);
        break;
      }
      case "thought":
        own();
        must(!s.stopping, "I11", () => `${e.turn} thought after it was stopped`);
        for (const c of s.calls.values())
          must(c.done, "I13", () => "a model was asked before every call had its result");
        for (const { id } of e.calls) {
          must(!s.calls.has(id), "I13", () => `call ${id} twice`);
          s.calls.set(id, { asked: null, allowed: false, decided: false, started: false, done: false, turn: e.turn });
        }
        if (!e.calls.length) s.attempts = 0; // progress
        s.answered = !e.calls.length;
        s.retracted = 0;
        break;
      case "asked":
        call(e.call).asked = e.ask.kind;
        break;
      case "decided":
        must(!call(e.call).decided && !call(e.call).done, "I15", () => `${e.call} decided twice`);
        {
          // Of the input that began the turn, whoever joined it since.
          const policy = isForClient(call(e.call)) ? undefined : unattended.get(e.turn);
          const yes = policy === "allow" && call(e.call).asked === "approval";
          must((policy === undefined) === (e.by !== "unattended"), "I16", () => `${e.call} is decided by ${e.by}`);
          must(policy === undefined || e.allow === yes, "I16", () => `${e.call} is ${e.allow} where nobody is there`);
        }
        call(e.call).decided = true;
        call(e.call).allowed = e.allow;
        break;
      case "started":
        must(!s.stopping, "I11", () => `${e.call} started after a stop`);
        must(call(e.call).asked !== "client", "I14", () => `${e.call} is the client's to run`);
        must(!call(e.call).started && !call(e.call).done, "I14", () => `${e.call} started twice`);
        must(call(e.call).asked === null || call(e.call).allowed, "I16", () => `${e.call} started without a grant`);
        call(e.call).started = true;
        break;
      case "acted":
        own();
        must(!call(e.call).done, "I13", () => `${e.call} has two results`);
        call(e.call).done = true;
        if (call(e.call).started && (e.outcome === "ok" || e.outcome === "error")) s.attempts = 0; // progress
        break;
      case "retracted":
        own();
        s.retracted++;
        must(s.retracted <= MOST_RETRACTED, "I23", () => `${e.turn} is begun again for time ${s.retracted}`);
        break;
      case "failed":
        own();
        must(attended.has(e.turn) || e.reason !== NO_ROUTE, "§7", () => `${e.turn} gives up, and nobody waits`);
        break;
      case "stopping":
        own();
        must(!s.stopping, "I9", () => `${e.turn} stopped twice`);
        if (e.outcome === "cancelled") must(stopAsked.has(e.turn), "I7", () => `${e.turn} cancelled by nobody`);
        else
          must(
            s.queue.some((w) => w.id === e.by && w.applied === "interrupt"),
            "I7",
            () => `by ${e.by}?`,
          );
        s.stopping = e;
        break;
      case "abandoned":
        own();
        abandoned.add(`${session}/${e.key}`);
        break;
      case "compacted":
        own();
        must(e.upTo < e.seq && (e.upTo === 0 || e.upTo > s.summarised), "§8", () => `a summary up to ${e.upTo}`);
        s.summarised = Math.max(s.summarised, e.upTo);
        break;
      case "restarted":
        own();
        {
          const open = [...s.calls.values()].filter((c) => !c.done);
          const waits = open.length > 0 && !open.some((c) => c.started); // only for a person: nothing was lost
          s.attempts += Number(!waits && !handedOver.has(session));
        }
        must(e.attempt === s.attempts, "I19", () => `attempt ${e.attempt} is number ${s.attempts}`);
        // One more than allowed gives the turn up, one more still gives up telling its user so.
        must(e.attempt <= recoveries + 2, "I19", () => `attempt ${e.attempt} of ${recoveries}`);
        break;
      case "ended": {
        own();
        for (const [id, c] of s.calls) must(c.done, "I13", () => `${e.turn} ended without a result for ${id}`);
        const wanted = s.stopping?.kind === "stopping" ? s.stopping.outcome : e.outcome;
        must(e.outcome === wanted, "I6", () => `${e.turn} was to be ${wanted} and is ${e.outcome}`);
        must(e.outcome !== "cancelled" || s.stopping !== null, "I7", () => `${e.turn} was born cancelled`);
        if (texts.has(e.turn)) s.before = { outcome: e.outcome, stopped: s.stopping !== null };
        s.live = null;
        s.stopping = null;
        s.retracted = 0;
        s.calls.clear();
        s.ended.push(e.turn);
        outcome.set(e.turn, e.outcome);
        break;
      }
      case "forked":
      case "revoked":
      case "cut":
      case "parked":
      case "delivered":
        own();
        break;
      default:
        e satisfies never;
    }
  }

  /** What a model is shown of how the turn before this one ended. */
  function shown(session: string, turn: string, messages: readonly Message[]) {
    const { before } = seen(session);
    const text = texts.get(turn);
    const at = text === undefined ? -1 : messages.findLastIndex((m) => m.role === "user" && m.text.endsWith(text));
    messages.forEach((message, i) => {
      if (!message.text.startsWith(NOTE)) return;
      must(i === at, "§6", () => `${turn} is told again of results that another one read`);
      must(before?.stopped === false, "§6", () => `${turn} is told to finish what was stopped`);
    });
    const past = messages.filter(({ role }) => role === "user").length - 2;
    must(
      past <= 0 || !anew.has(session),
      "I25",
      () => `${turn} is shown ${past} messages from before ${session} was deleted`,
    );
    const previous = messages[at - 1];
    if (before && before.outcome !== "completed" && previous?.role === "user")
      must(previous.text.startsWith(SUMMARY), "§6", () => `${turn} does not see that the turn before it had no answer`);
  }

  return {
    landing,
    forgotten(session: string) {
      sessions.delete(session);
      anew.add(session);
    },
    shown,
    stopAsked,
    withdrawAsked,
    handedOver,
    accepted,
    texts,
    taken,
    withdrawn,
    attended,
    outcome,
    abandoned,
    call: (session: string, id: string) => sessions.get(session)?.calls.get(id),
    clientCalls: (session: string) =>
      [...(sessions.get(session)?.calls ?? [])].flatMap(([call, { asked, done }]) =>
        asked === "client" && !done ? [{ call }] : [],
      ),
    /** Whether some call of it waits for somebody. */
    asks: (session: string) =>
      sessions
        .get(session)
        ?.calls.values()
        .some(({ asked, decided, done }) => asked && !decided && !done) ?? false,
    live: (session: string) => sessions.get(session)?.live ?? null,
    stopping: (session: string) => sessions.get(session)?.stopping ?? null,
    ended: (session: string) => sessions.get(session)?.ended ?? [],
    waiting: (session: string) => sessions.get(session)?.queue.length ?? 0,
  };
}
export type Checker = ReturnType<typeof createChecker>;

/** The newest is next; the one that was, for the same reason, is again among those that interrupted before it. */
function interrupt(queue: Waits[], newest: Waits): void {
  const [first] = queue;
  if (first?.applied === "interrupt") {
    queue.shift();
    const behind = queue.findIndex(({ applied, seq }) => applied !== "interrupt" || seq > first.seq);
    queue.splice(behind < 0 ? queue.length : behind, 0, first);
  }
  queue.unshift(newest);
}

/** What a strict provider says of a request: each call has one result right behind it, roles take turns sensibly. */
export function validate(messages: readonly Message[], session: string): void {
  must(
    messages.length > 0 && messages.at(-1)?.role !== "assistant",
    "I13",
    () => "a request must end with user or tool",
  );
  let open: string[] = [];
  const used = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool") {
      must(open.includes(message.call), "I13", () => `a result for ${message.call}, which is not open`);
      open = open.filter((id) => id !== message.call);
      continue;
    }
    must(open.length === 0, "I13", () => `no result for ${open.join()}`);
    const others = [...message.text.matchAll(/<(s\d)>/g)].some(([, tag]) => tag !== session);
    must(!others, "I25", () => `${session} sees ${message.text}`);
    if (message.role !== "assistant") continue;
    must(message.text !== "" || message.calls.length > 0, "I13", () => "an empty assistant message");
    for (const { id } of message.calls) {
      must(!used.has(id), "I13", () => `call id ${id} used twice`);
      used.add(id);
    }
    open = message.calls.map((c) => c.id);
  }
  must(open.length === 0, "I13", () => `no result for ${open.join()}`);
}
