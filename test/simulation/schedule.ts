// One schedule: the real engine and effects in the fake world, driven by a plan, killed, replaced and drained on
// the way; then the faults stop and everything must come to rest.
import { messageOf, Refusal } from "../../src/core/errors.ts";
import type { AcceptRequest } from "../../src/core/runtime.ts";
import { boot, type Running } from "./boot.ts";
import { must, takeViolation, Violation } from "./checker.ts";
import type { Action, Plan } from "./plan.ts";
import type { Owner } from "./scheduler.ts";
import { createViewer, type Viewer } from "./viewer.ts";
import * as fake from "./world.ts";

export type Result = { hash: number; steps: number; turns: number; kills: number; violation: Violation | null };

const DRAIN_MS = 2_000;
const MOST_STEPS = 20_000;
/** I24: simulated time in which everything comes to rest once faults have stopped. */
const REST_MS = 60_000;
/** Faults stop by then: where a store fails most of the time, no process may get through its start for minutes. */
const STORM_MS = 30_000;
const UNDELIVERED_MS = 30_000;
/** The longest wait before a change that the store could not take is tried again. */
const STORE_WAIT_MS = 5_000;
/** What a store in trouble may make of a moment. */
const HELD_UP_MS = 45_000;
/** I26: in which a session that is at rest answers for itself. */
const MOMENT_MS = 1_000;
/** The same where its node may have changed. */
const MOVE_MS = 3_000;
const DOWN_MS = 1_800_000;
/** The longest pause of a node, or time without the store. */
const MOST_AWAY_MS = 12_000;
/** What a node that leaves may take to say so. */
const LEAVE_MS = 1_000;
/** In which a node that wakes has noticed. */
const AWAKE_MS = 50;
/** Memory may be in the longest of its waits when the faults stop. */
const MEMORY_REST_MS = 300_000;
/** The same where nodes beat all the while, which costs. */
const NODE_REST_MS = 2_000;

export function runSchedule(plan: Plan, runMicrotasks: () => void, trace: fake.World["trace"] = null): Result {
  const world = fake.createWorld(plan, runMicrotasks, trace);
  const { scheduler, checker, random } = world;
  const client: Owner = { alive: true, paused: false };
  const ran = new Map<string, number>();
  const keys = Array.from({ length: plan.sessions }, (_, i) => `s${i}`);
  /** Everything that was ever said, with its receipt once it was acknowledged. */
  const said: { request: AcceptRequest; id: string | null; first: boolean }[] = [];
  const decided = new Map<string, number>();
  const viewers: Viewer[] = keys.map((session) => createViewer(session, world));
  /** How long a session has been held up in all. */
  const starved = new Map<string, number>();
  let holding = false;
  let pauses = 0;
  const addresses = Array.from({ length: plan.nodes ?? 1 }, (_, n) => (plan.nodes ? `http://n${n}` : ""));
  const at = (address: string) => processes.find((one) => one.address === address);
  const bootAt = (address: string): Running =>
    boot(world, plan, { keys, ran, starved, holds: (self) => holding && self === process && !plan.nodes, at }, address);
  const processes: Running[] = [];
  processes.push(...addresses.map(bootAt));
  /** The one that is talked to. */
  let process = processes[0] as Running;
  let calmSince = 0;
  let kills = 0;
  let steps = 0;

  function restart(old = process) {
    kills++;
    for (const viewer of viewers) viewer.cut(old);
    const next = bootAt(old.address);
    processes[processes.indexOf(old)] = next;
    if (process === old) process = next;
  }

  const isUp = (one: Running) => one.alive && one.started && !one.paused;

  /** Whoever a load balancer would send this to. */
  function choose(pick: number) {
    const up = processes.filter(isUp);
    process = up[Math.floor(pick * 997) % up.length] ?? process;
  }

  /** Two nodes never work on one session. */
  world.committed = (writer, session) => {
    for (const other of processes)
      if (other !== writer && other.alive && !other.paused && scheduler.now() > other.wokeAt + AWAKE_MS)
        for (const flight of other.flying.values())
          must(
            flight.session !== session || flight.signal.aborted,
            "I21",
            () => `${flight.turn} of ${session} is at work on ${other.address}, and ${writer.address} has it`,
          );
  };

  // ── The client ────────────────────────────────────────────────────────────────────────────────────

  function say(request: AcceptRequest) {
    const record = said.find((s) => s.request === request) ?? { request, id: null, first: false };
    if (!said.includes(record)) said.push(record);
    const self = process;
    const { draining } = self;
    self.asked++;
    void self.runtime
      .accept(request)
      .finally(() => self.asked--)
      .then(
        (receipt) => {
          must(checker.accepted.has(receipt.id), "I2", () => `${receipt.id} is acknowledged but not stored`);
          must(record.id === null || record.id === receipt.id, "I3", () => `${record.id} became ${receipt.id}`);
          must(receipt.replayed || !record.first, "I3", () => `${receipt.id} was accepted again`);
          record.first ||= !receipt.replayed;
          must(
            !draining || plan.nodes !== undefined || receipt.replayed || receipt.applied !== "interrupt",
            "I18",
            () => "a drain interrupts",
          );
          must(receipt.session === request.session, "I25", () => `${receipt.id} went to ${receipt.session}`);
          record.id = receipt.id;
        },
        (error) => {
          if (!(error instanceof Refusal)) must(false, "I23", () => `accept failed without a name: ${error}`);
        },
      );
  }

  function act(action: Action) {
    const { runtime } = process;
    const session = keys[action.session] ?? "s0";
    const choose = <T>(list: T[]): T | undefined => list[Math.floor(action.pick * list.length)];
    const names = said.flatMap((s) => (s.id && s.request.session === session ? [s.id] : []));
    switch (action.do) {
      case "say": {
        const reply = action.push ? "push" : "pull";
        const n = said.length;
        const attended = action.pick < 0.5;
        const text = `<${session}>${n}`;
        const request = { session, source: "test", key: `${n}`, text, mode: action.mode, reply, attended } as const;
        return say({ ...request, ...nobody(action) });
      }
      case "redeliver": {
        const again = choose(said);
        return again && say(again.request);
      }
      case "steer": {
        const into = checker.live(session);
        const key = `steer ${said.length}`;
        if (!into) return;
        const request = { session, source: "test", key, text: `<${session}>${key}`, into } as const;
        return say({ ...request, mode: "steer", reply: "pull", ...nobody(action) });
      }
      case "compress": {
        const key = `compress ${said.length}`;
        return say({ session, source: "test", key, text: key, mode: "queue", reply: "pull", task: "compress" });
      }
      case "stop": {
        const live = checker.live(session);
        const turn = action.pick < 0.75 && live ? live : choose(names);
        if (!turn) return;
        checker.stopAsked.add(turn);
        return void runtime.stop({ session, turn, scope: action.pick < 0.25 ? "tree" : "turn" }).then(
          (how) => {
            const over = checker.outcome.has(turn) || checker.withdrawn.has(turn);
            if (how === "stopping" && !over)
              must(checker.stopping(session) !== null, "I2", () => `${turn} is not stopping`);
            const live = checker.live(session) === turn && !checker.stopping(session);
            if (how === "over") must(!live, "I8", () => `${turn} is said to be over, but is at work`);
            if (how === "over")
              must(over || checker.taken.has(turn), "I8", () => `${turn} is said to be over, but waits`);
            if (how === "stopping" || how === "withdrawn") world.stopped.add(turn);
          },
          () => {},
        );
      }
      case "answer":
        return answer(session, action.pick);
      case "withdraw": {
        const input = choose(names);
        if (!input) return;
        checker.withdrawAsked.add(input);
        return void runtime.withdraw(session, input).catch(() => {});
      }
      case "move": {
        const input = choose(names);
        return input && void runtime.move(session, input, Math.floor(action.pick * 3)).catch(() => {});
      }
      case "forget": {
        const self = process;
        self.asked++;
        return void runtime
          .forget(session)
          .finally(() => self.asked--)
          .catch((error: unknown) => {
            if (!(error instanceof Refusal))
              must(false, "I23", () => `deleting failed without a name: ${messageOf(error)}`);
          });
      }
      case "watch":
        return viewers[action.session]?.turnOver(process);
      case "jump":
        world.skew += action.pick < 0.5 ? -3_600_000 : 3_600_000;
        return;
      case "kill":
        return world.kill(process);
      case "freeze":
        return freeze(process, action.pick);
      case "cut":
        process.cutUntil = Math.max(process.cutUntil, awayUntil(action)); // what waits for its end was told when that is
        return;
      case "part":
        process.partedUntil = awayUntil(action);
        return;
      case "replace": {
        const old = process;
        if (plan.nodes) return freeze(old, action.pick);
        if (!old.started) return world.kill(old); // it has not claimed anything yet
        old.paused = true;
        restart();
        // Some time later the old one wakes up and goes on as if nothing had happened.
        return void scheduler.add(client, "wake", Math.floor(action.pick * 500), () => {
          if (process !== old) old.paused = false;
        });
      }
      case "pause":
        return pause(action.pick < 0.5);
      case "drain": {
        if (process.draining || !process.started) return;
        process.draining = true;
        process.drainUntil = scheduler.now() + DRAIN_MS;
        const began = scheduler.now();
        const self = process;
        return void self.engine.drain(DRAIN_MS).then(() => {
          const took = scheduler.now() - began;
          const most = DRAIN_MS * 2 + fake.GRACE_MS + (plan.nodes ? LEAVE_MS : 1);
          must(took <= most || self.wokeAt > began, "I18", () => `the drain took ${took} ms`);
          world.kill(self);
        });
      }
    }
  }

  const awayUntil = ({ pick }: Action) => scheduler.now() + Math.floor(pick * MOST_AWAY_MS);

  function freeze(one: Running, pick: number) {
    one.paused = true;
    scheduler.add(client, "wake", Math.floor(pick * MOST_AWAY_MS), () => {
      one.paused = false;
      one.wokeAt = scheduler.now();
    });
  }

  /** What is known of it: nothing, while it is being changed. */
  function pause(on: boolean) {
    const self = process;
    const change = ++pauses;
    holding = false;
    void (on ? self.engine.pause("a") : self.engine.resume()).then(
      () => {
        holding = on && self === process && change === pauses;
      },
      () => {}, // the store is in trouble
    );
  }

  function answer(session: string, pick: number) {
    const { runtime } = process;
    void runtime.status(session).then(
      ({ asking }) => {
        // A client finds its calls in the answer that it got; people are not shown them.
        for (const { call } of [...asking, ...checker.clientCalls(session)]) {
          const id = `${session}/${call}`;
          const take = (won: boolean) => {
            decided.set(id, (decided.get(id) ?? 0) + Number(won));
            must((decided.get(id) ?? 0) <= 1, "I15", () => `${id} was decided twice`);
          };
          const yes = { session, call, allow: pick < 0.8, text: "go on", by: "a" };
          void runtime.answer(yes).then(take, () => {});
          if (pick > 0.5) void runtime.answer({ ...yes, allow: false, text: "no", by: "b" }).then(take, () => {});
        }
      },
      () => {},
    );
  }

  // ── The run ───────────────────────────────────────────────────────────────────────────────────────

  function runUntil(done: () => boolean, until: number): boolean {
    while (!done()) {
      for (const one of processes) if (!one.alive) restart(one);
      if (++steps > MOST_STEPS * processes.length) throw new Violation("I24", "the schedule does not end");
      const held = heldUp();
      const before = scheduler.now();
      if (!scheduler.step(until)) return done();
      for (const session of held) {
        const ms = (starved.get(session) ?? 0) + scheduler.now() - before;
        starved.set(session, ms);
        must(ms <= HELD_UP_MS, "I23", () => `${session} is held up for ${ms} ms, though a place was given back`);
      }
      const violation = takeViolation();
      if (violation) throw violation;
      for (const { flying } of processes) {
        if (flying.size <= plan.room) continue;
        const working = new Set(flying.values().flatMap((f) => (f.signal.aborted || f.placeless ? [] : [f.session])));
        must(working.size <= plan.room, "I23", () => `${working.size} turns in flight, room for ${plan.room}`);
      }
    }
    return true;
  }

  /** Sessions that cannot begin to work, while another waits without its place and there would be room for them. */
  function heldUp(): string[] {
    if (plan.nodes || pauses || !process.started || process.draining) return NOBODY;
    if (!process.flying.values().some((flight) => flight.placeless)) return NOBODY;
    const placeless = new Set(process.flying.values().flatMap((f) => (f.placeless ? [f.session] : [])));
    const begun = (session: string) => process.worked.has(checker.live(session) ?? "");
    if (keys.filter((session) => begun(session) && !placeless.has(session)).length >= plan.room) return NOBODY;
    return keys.filter((session) => {
      const phase = begun(session) ? undefined : world.disk.journal.load(session)?.state.turn?.phase.at;
      return phase === "thinking" || phase === "compacting";
    });
  }

  function storm() {
    let left = plan.actions.length;
    const end = scheduler.now() + STORM_MS;
    const attempt = (action: Action, delay: number) =>
      void scheduler.add(client, action.do, delay, () => {
        if (scheduler.now() > end) world.stormy = false;
        if (plan.nodes) choose(action.pick);
        if (plan.nodes && !isUp(process)) return attempt(action, 20);
        if (!process.started && action.do !== "kill" && action.do !== "replace") return attempt(action, 20);
        left--;
        act(action);
      });
    for (const action of plan.actions) attempt(action, action.at);
    runUntil(() => left === 0, Number.POSITIVE_INFINITY);
  }

  function calm() {
    world.stormy = false;
    const isHere = (one: Running) => !one.paused && Math.max(one.cutUntil, one.partedUntil) <= scheduler.now();
    if (plan.nodes) runUntil(() => processes.every(isHere), scheduler.now() + MOST_AWAY_MS);
    calmSince = scheduler.now();
    for (const one of processes) {
      if (one.draining) world.kill(one);
      if (!one.alive) restart(one);
    }
    let asked = false;
    const resting = () =>
      asked &&
      processes.every((one) => one.asked === 0) &&
      keys.every((session) => !checker.live(session) && !checker.waiting(session));
    const nudge = () => {
      if (world.deleted.size) return;
      scheduler.add(client, "nudge", 1_000, nudge);
      if (plan.nodes) choose(0);
      if (!process.started) return;
      if (!asked) for (const record of said) if (!record.id) say(record.request); // a client that never heard asks again
      asked = true;
      if (pauses && !resting()) pause(false); // one that was asked for earlier may come after it
      for (const session of keys) {
        if (checker.asks(session)) answer(session, 0);
        if (!checker.live(session) && checker.waiting(session)) act({ ...NUDGE, session: keys.indexOf(session) }); // parked
      }
    };
    nudge();
    // A dead channel takes its whole patience for each reply, a dead endpoint or a defect for each thought.
    const slow = Number(world.down) + Number(world.broken) + Number(world.defective);
    const patience = slow * said.length * UNDELIVERED_MS;
    const well = Math.max(scheduler.now(), world.outage.until);
    const rested = runUntil(resting, well + REST_MS * processes.length + patience + alone());
    must(rested, "I24", () => keys.map((s) => `${s}: ${checker.live(s)} +${checker.waiting(s)}`).join(", "));
    const told = (s: string, by: string) => world.remembered.get(`${by} ${s}`)?.length ?? 0;
    const writers = fake.WRITERS.filter((by) => !(world.gone && by === fake.GONE));
    const saved = () => keys.every((s) => writers.every((by) => told(s, by) === checker.ended(s).length));
    must(runUntil(saved, scheduler.now() + MEMORY_REST_MS), "I17", () => "what was to be remembered never was");
  }

  /** Where the other endpoint is given up (it has said no for good, an outage or empty summaries have used up its tries), the dead one
   *  is waited for as long as the table says. */
  const alone = () => (world.broken ? DOWN_MS : 0);

  function afterwards() {
    for (const { id, request } of said) {
      if (!id) continue;
      const once = Number(checker.taken.has(id)) + Number(checker.withdrawn.has(id));
      must(once === 1, "I1", () => `${id} (${request.text}) is in ${once} places`);
      if (world.stopped.has(id) && checker.taken.get(id) === id)
        must(
          checker.outcome.get(id) === "cancelled" || checker.outcome.get(id) === "interrupted",
          "I9",
          () => `${id} is ${checker.outcome.get(id)}`,
        );
    }
    const texts = new Set<string>();
    for (const [id, text] of checker.texts) {
      must(!texts.has(text), "I3", () => `${id} (${text}) was accepted before, under another name`);
      texts.add(text);
    }
    const copies = new Set<string>();
    const unmarked = new Set<string>();
    for (const sent of world.sent) {
      must(
        sent.text === "" || !sent.text.includes("<") || sent.text.includes(`<${sent.session}>`),
        "I25",
        () => `${sent.session} got ${sent.text}`,
      );
      must(checker.accepted.get(sent.turn) === sent.session, "I22", () => `${sent.turn} was sent to ${sent.session}`);
      must(sent.again || !unmarked.has(sent.turn), "I22", () => `${sent.turn} was sent twice, unmarked`);
      if (!sent.again) unmarked.add(sent.turn);
      copies.add(sent.turn);
    }
    for (const session of keys) {
      for (const entry of world.disk.all(session))
        if (entry.kind === "delivered" && entry.how === "sent")
          must(copies.has(entry.turn), "I22", () => `${entry.turn} is said to be delivered`);
    }
    for (const viewer of viewers) viewer.finish(process);
    runUntil(() => viewers.every((viewer) => viewer.complete()), scheduler.now() + REST_MS);
    for (const viewer of viewers) viewer.check();
  }

  /** Every cause has ended: every session can be read, takes a message and answers it, and can be deleted (I26). */
  function wellAgain() {
    const { runtime } = process;
    world.outage = { from: 0, until: 0 };
    runUntil(() => false, calmSince + STORE_WAIT_MS);
    const newest = keys.map((session) => {
      now(`${session} cannot be read`, () => runtime.status(session));
      mustAnswer(other(), session, "last");
      return mustAnswer(process, session, "very last");
    });
    world.over = true;
    for (const viewer of viewers) viewer.leave();
    for (const session of keys) {
      const became = now(`${session} cannot be deleted`, () => runtime.forget(session));
      must(became === "forgotten", "I26", () => `${session} cannot be deleted: ${became}`);
    }
    runUntil(() => false, scheduler.now() + (plan.nodes ? NODE_REST_MS : MEMORY_REST_MS)); // nobody asks for them any more
    for (const id of newest) for (const one of processes.filter(isUp)) mustBeGone(one, id);
    for (const session of keys) beginAnew(session);
  }

  const other = () => processes.find((one) => isUp(one) && one !== process) ?? process;

  /** The input that it takes and answers. */
  function mustAnswer(through: Running, session: string, name: string): string {
    const say = { session, source: "test", key: `${name} ${session}`, text: `<${session}>${name}` };
    const request = { ...say, mode: "queue", reply: "pull" } as const;
    const { id } = now(`${session} takes no message`, () => through.runtime.accept(request));
    // A model that asks five questions in a row waits 20 s for each.
    const patience = 3 * REST_MS + UNDELIVERED_MS + alone();
    const answered = runUntil(() => checker.outcome.has(id), scheduler.now() + patience);
    must(answered, "I26", () => `${session} does not answer`);
    if (plan.nodes) runUntil(() => !world.disk.journal.load(session)?.owner, scheduler.now() + MOVE_MS);
    return id;
  }

  function mustBeGone({ runtime, address }: Running, id: string) {
    const run = now(`${id} cannot be looked for`, () => runtime.run(id));
    must(run === null, "I25", () => `${id} is shown at ${address}, though its session was deleted`);
  }

  /** Nobody knows anything any more of a session that was deleted, wherever it was (I25). */
  function beginAnew(session: string) {
    checker.forgotten(session);
    world.deleted.delete(session);
    for (const by of fake.WRITERS) world.remembered.delete(`${by} ${session}`);
    mustAnswer(process, session, "anew");
    const viewer = createViewer(session, world);
    viewer.turnOver(other());
    runUntil(viewer.complete, scheduler.now() + REST_MS);
    viewer.check();
    viewer.leave();
    mustAnswer(other(), session, "again");
  }

  /** What it resolves to, within a moment. */
  function now<T>(otherwise: string, ask: () => Promise<T>): T {
    const said: ({ value: T } | { error: unknown })[] = [];
    scheduler.add(client, "ask", 0, () => {
      void ask().then(
        (value) => said.push({ value }),
        (error: unknown) => said.push({ error }),
      );
    });
    runUntil(() => said.length > 0, scheduler.now() + (plan.nodes ? MOVE_MS : MOMENT_MS));
    const [first] = said;
    if (first && "value" in first) return first.value;
    throw new Violation("I26", `${otherwise}: ${first ? messageOf(first.error) : "it is stuck"}`);
  }

  let violation: Violation | null = null;
  takeViolation();
  try {
    storm();
    calm();
    afterwards();
    if (!plan.brief) wellAgain();
    violation = takeViolation();
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    violation = takeViolation() ?? error;
  }
  const turns = keys.reduce((n, session) => n + checker.ended(session).length, 0);
  return { hash: (scheduler.hash() ^ Math.floor(random() * 2 ** 31)) >>> 0, steps, turns, kills, violation };
}

const NOBODY: string[] = [];
const NUDGE: Action = { at: 0, do: "say", session: 0, mode: "queue", push: false, pick: 0 };

/** In two of five inputs nobody can be asked; one of five comes from a client that has a tool, and can be asked. */
function nobody({ pick }: Action): Pick<AcceptRequest, "unattended" | "tools"> {
  const fifth = Math.floor(pick * 25) % 5;
  const tools = Math.floor(pick * 125) % 5 === 0 ? { tools: [fake.CLIENTS] } : {};
  return { ...(fifth < 3 && { unattended: UNATTENDED[fifth] }), ...tools };
}
const UNATTENDED = ["deny", "allow", "client"] as const;
