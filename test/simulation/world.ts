// The fake world that the real engine and the real effects run in: store, model, tools, channel, memory, each
// with its faults, each with a journal that the invariants are checked against.
import { StoreFault } from "../../src/core/errors.ts";
import type { Channel, Clock, FaultKind, Memory, Model, ModelResult, Tool } from "../../src/core/ports.ts";
import type { Catalog, Journal, Nodes, Store } from "../../src/core/store.ts";
import { hasWork } from "../../src/core/turn.ts";
import { createMemoryStore, throughIo } from "../fakes/memory-store.ts";
import { type Checker, createChecker, must, NO_ROUTE, validate } from "./checker.ts";
import type { Fault, Plan } from "./plan.ts";
import { createRandom, createScheduler, type Owner, type Random, type Scheduler } from "./scheduler.ts";

export const INBOX = 3;
export const GRACE_MS = 500;
export const RECOVERIES = 3;
export const STALE_MS = 5_000;
/** Small, so that conversations outgrow it. */
const CONTEXT = 400;
/** As the design says; what the code believes must not be longer. */
const LEASE_MS = 5_000;
const VALID_MS = 4_000;
const FAULT_RATES = [0.1, 0.2, 0.5];
const OUTAGE_MS = { least: 70_000, most: 400_000 };
/** Where nodes beat all the while: the patience with an outage is the same there. */
const NODE_OUTAGE_MS = { least: 1_000, most: 10_000 };
/** How long somebody who waits is kept waiting for the network, and what the last try and waits in line for a place may take: a turn of a
 *  broken agent holds the only place for 10 s, and there may be five of them. */
const PATIENCE_MS = 120_000 + 90_000;

export type Process = Owner & {
  /** Another one has claimed the store. */
  replaced: boolean;
  draining: boolean;
  /** Until then a drain waits for what cannot be repeated. */
  drainUntil: number;
  /** Where other nodes reach it; empty: it has the store to itself. */
  address: string;
  /** The nodes that it has been. */
  ids: Set<string>;
  /** When it sent the last beat that was answered. */
  beatAt: number;
  /** It cannot reach the store before. */
  cutUntil: number;
  /** It cannot reach other nodes, or be reached, before. */
  partedUntil: number;
  /** When it went on after a pause. */
  wokeAt: number;
  /** Turns that worked here. */
  worked: Set<string>;
  /** The turn that thinks in a session, by what its executor was told, and since when. */
  thinking: Map<string, string>;
  since: Map<string, number>;
  /** Sessions whose model call has said something. */
  spoke: Set<string>;
  /** Endpoints that said no for good to this effect of a session. */
  refused: Map<string, Set<string>>;
  /** The signal of the executor that asks a model for a session. */
  signals: Map<string, AbortSignal>;
};

type Sent = { session: string; turn: string; text: string; again: boolean };
export type World = {
  random: Random;
  scheduler: Scheduler;
  checker: Checker;
  disk: ReturnType<typeof createMemoryStore>;
  /** Until when each node has been promised to be one, by what the store has answered. */
  leases: Map<string, number>;
  /** Whose claim is the newest. */
  owner: Process | null;
  /** How far the wall clock is off. */
  skew: number;
  /** The first endpoint never answers. */
  broken: boolean;
  /** No endpoint can be reached between these times; both 0: they always can. */
  outage: { from: number; until: number };
  /** While there are faults, every answer breaks off. */
  fragile: boolean;
  /** No reply ever gets through. */
  down: boolean;
  /** One memory is never told of anything. */
  gone: boolean;
  /** No thought of the first session ever succeeds. */
  defective: boolean;
  /** What happened is judged: sessions may be deleted. */
  over: boolean;
  deleted: Set<string>;
  trace: ((line: string) => void) | null;
  /** Faults happen while this is true. */
  stormy: boolean;
  sent: Sent[];
  remembered: Map<string, string[]>;
  /** Turns whose stop was answered: nothing of them may start any more. */
  stopped: Set<string>;
  /** A commit of that process has landed. */
  committed(process: Process, session: string): void;
  kill(process: Process): void;
  chance(fault: Fault): boolean;
};

export function createWorld(plan: Plan, runMicrotasks: () => void, trace: World["trace"]): World {
  const random = createRandom(plan.seed ^ 0x5bd1e995);
  const faults = new Set<Fault>(plan.faults);
  const rate = FAULT_RATES[Math.floor(random() * FAULT_RATES.length)] ?? 0;
  const scheduler = createScheduler(random, runMicrotasks, trace);
  const world: World = {
    random,
    scheduler,
    checker: createChecker(INBOX, RECOVERIES),
    disk: createMemoryStore({ shared: plan.nodes !== undefined, now: scheduler.now }),
    leases: new Map(),
    owner: null,
    skew: 0,
    trace,
    broken: faults.has("model.down"),
    outage: { from: 0, until: 0 },
    fragile: faults.has("model.cut") && random() < 0.3,
    down: faults.has("channel.down"),
    gone: faults.has("memory.gone"),
    defective: faults.has("agent.broken"),
    over: false,
    deleted: new Set(),
    stormy: true,
    sent: [],
    remembered: new Map(),
    stopped: new Set(),
    committed: () => {},
    kill: (process) => {
      process.alive = false;
    },
    chance: (fault) => faults.has(fault) && world.stormy && random() < rate,
  };
  if (faults.has("model.outage")) {
    const from = world.scheduler.now() + random() * 5_000;
    const { least, most } = plan.nodes ? NODE_OUTAGE_MS : OUTAGE_MS;
    world.outage = { from, until: from + least + random() * (most - least) };
  }
  return world;
}

export function clockOf(world: World, process: Process): Clock {
  return {
    now: () => world.scheduler.now() + world.skew,
    monotonic: () => world.scheduler.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const done = () => {
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const task = world.scheduler.add(process, "sleep", ms, done);
        const wake = () => {
          world.scheduler.remove(task);
          done();
        };
        signal?.addEventListener("abort", wake);
      }),
  };
}

// ── Store ─────────────────────────────────────────────────────────────────────────────────────────────

export function storeOf(world: World, process: Process): Store {
  const { disk, scheduler, checker, random, trace } = world;

  function io<T>(label: string, work: () => T, slow = 0): Promise<T> {
    return new Promise((resolve, reject) => {
      scheduler.add(process, label, delay(random, 3) + slow, () => {
        if (process.address) trace?.(`  ${label} at ${process.address}`);
        if (world.chance("store.unreadable")) return reject(new StoreFault("no", "unreadable"));
        const away = process.cutUntil - scheduler.now();
        if (away > 0 && random() < 0.5) return reject(new StoreFault("no", "it does not answer"));
        if (away > 0) return void scheduler.add(process, label, away, () => void io(label, work).then(resolve, reject));
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  const ports = throughIo(disk, io);
  const journal: Journal = {
    ...ports.journal,
    // It is read in one task and comes in another: meanwhile it may be no longer so.
    turn: async (id) => {
      const entries = await ports.journal.turn(id);
      await new Promise<void>((come) => void scheduler.add(process, "turn comes", delay(random, 3), come));
      return entries;
    },
    commit: (commit) =>
      new Promise((resolve, reject) => {
        // It lands in one task and its answer comes in another: a kill between the two is "landed but unknown".
        scheduler.add(process, `commit ${commit.session}`, delay(random, 5), () => {
          const away = process.cutUntil - scheduler.now();
          if (away > 0 && random() < 0.5) return reject(new StoreFault("no", "it does not answer"));
          if (away > 0)
            return void scheduler.add(
              process,
              "late commit",
              away,
              () => void journal.commit(commit).then(resolve, reject),
            );
          const crash = world.chance("crash.commit") ? random() : 1;
          if (crash < 0.5) return world.kill(process);
          if (world.chance("store.busy")) return reject(new StoreFault("no", "busy"));
          const unknown = world.chance("store.unknown");
          const lands = !unknown || random() < 0.5;
          const verdict = lands ? disk.journal.commit(commit) : "done";
          if (lands && verdict === "done") {
            must(!process.replaced, "I21", () => `a process that was replaced commits to ${commit.session}`);
            world.committed(process, commit.session);
            for (const entry of commit.entries)
              trace?.(`  ${process.address} ${commit.session} ${JSON.stringify(entry)}`);
            checker.landing(commit);
            checker.handedOver.delete(commit.session);
          }
          if (crash < 1) return world.kill(process);
          scheduler.add(process, "committed", delay(random, 2), () => {
            if (unknown) reject(new StoreFault("unknown", "the answer was lost"));
            else resolve(verdict);
          });
        });
      }),
  };
  const nodes: Nodes = process.address
    ? member()
    : {
        ...ports.nodes,
        join: (about) =>
          io("claim", () => {
            if (world.owner) world.owner.replaced = true;
            world.owner = process;
            return disk.nodes.join(about);
          }),
        beat: (id) => io("epoch", () => disk.nodes.beat(id)),
        claim: (id, most) => io("active", () => disk.nodes.claim(id, most)),
      };
  function member(): Nodes {
    const slowly = () => (world.chance("store.slow") ? delay(random, 8_000) : 0);
    const promised = (id: string) => world.leases.set(id, scheduler.now() + LEASE_MS);
    return {
      ...ports.nodes,
      join: async (about) => {
        const sent = scheduler.now();
        const id = await io("join", () => disk.nodes.join(about));
        promised(id);
        process.ids.add(id);
        process.beatAt = sent;
        return id;
      },
      beat: async (id) => {
        const sent = scheduler.now();
        const heard = await io(
          "beat",
          () => {
            const heard = disk.nodes.beat(id);
            if (heard !== "gone") promised(id);
            return heard;
          },
          slowly(),
        );
        if (heard !== "gone") process.beatAt = sent;
        return heard;
      },
      reap: () =>
        io("reap", () => {
          const dead = disk.nodes.reap();
          for (const id of dead)
            must((world.leases.get(id) ?? 0) <= scheduler.now(), "I21", () => `node ${id} is reaped within its lease`);
          return dead;
        }),
      claim: async (id, most) => {
        const given = await io("claim", () => disk.nodes.claim(id, most), slowly());
        if (world.chance("store.unknown")) throw new StoreFault("unknown", "the answer was lost");
        return given;
      },
      handOver: (id, sessions) =>
        io("hand over", () => {
          for (const session of sessions) if (disk.journal.load(session)?.owner === id) checker.handedOver.add(session);
          disk.nodes.handOver(id, sessions);
        }),
      onHint: (listener) =>
        ports.nodes.onHint(() => {
          if (random() < 0.5) scheduler.add(process, "hint", delay(random, 5), listener); // or it is lost
        }),
    };
  }
  const catalog: Catalog = {
    ...ports.catalog,
    forget: (which) =>
      io("forget", () => {
        const row = disk.journal.load(which.session);
        const idle = !row || row.version !== which.version || !hasWork(row.state);
        must(idle, "I1", () => `${which.session} is deleted with what it has to do`);
        if (!world.over) throw new StoreFault("no", "the disk is full");
        const verdict = disk.catalog.forget(which);
        if (verdict === "done") world.deleted.add(which.session);
        return verdict;
      }),
  };
  return { ...ports, journal, catalog, nodes, close: () => Promise.resolve() };
}

const delay = (random: Random, most: number) => Math.floor(random() * most);
/** Dies after the grace, when its turn may be forgotten and the next one wait, or never. */
const deaf = (random: Random) => (random() < 0.5 ? GRACE_MS * (2 + delay(random, 20)) : 3_600_000);

/** Whether the session is at work in this process, by what is stored. */
export function isOwner({ disk }: World, process: Process, session: string): boolean {
  return !process.address || process.ids.has(disk.journal.load(session)?.owner ?? "");
}

/** Whether this process has lost the session, or cannot know that it has it. */
const isPast = (world: World, process: Process, session: string) =>
  process.replaced ||
  !isOwner(world, process, session) ||
  (process.address !== "" && world.scheduler.now() - process.beatAt >= VALID_MS);

/** Nothing that cannot be taken back begins where the session is not. */
function mustOwn(world: World, process: Process, session: string, what: string) {
  must(!process.replaced, "I21", () => `${what} begins in a process that was replaced`);
  must(isOwner(world, process, session), "I21", () => `${what} begins on a node that does not own ${session}`);
}

/** Nothing is aborted but what belongs to a turn that is being stopped, or to a process that goes. */
export function mayAbort(world: World, process: Process, session: string, turn: string, once = false) {
  const { checker, scheduler } = world;
  const may =
    isPast(world, process, session) ||
    (process.draining && !(once && process.address && scheduler.now() < process.drainUntil)) ||
    checker.live(session) !== turn ||
    checker.stopping(session) !== null ||
    checker.stopAsked.has(turn); // the store may not have taken it yet: it stops all the same
  must(may, "I7", () => `work of ${turn} was aborted, but it is not being stopped`);
}

// ── Model ─────────────────────────────────────────────────────────────────────────────────────────────

export function modelOf(world: World, process: Process, name: "first" | "second"): Model {
  const { random, scheduler, checker } = world;

  return {
    name,
    context: CONTEXT,
    local: false,
    call: ({ session, messages, tools, final }, hear, signal) => {
      const turn = process.thinking.get(session) ?? "";
      const aborted = signal.aborted || process.signals.get(session)?.aborted;
      must(!aborted, "I12", () => "a model is asked on behalf of work that was aborted");
      must(!world.stopped.has(turn), "I11", () => `${turn} asks a model after its stop was answered`);
      must(!process.spoke.has(session), "§7", () => `${turn} asks again behind what a person has seen`);
      must(!process.refused.get(session)?.has(name), "§7", () => `${turn} asks ${name} again after a no`);
      if (process.address) mustOwn(world, process, session, `a model call of ${turn}`);
      validate(messages, session);
      checker.shown(session, turn, messages);
      return new Promise<ModelResult>((resolve) => {
        let over = false;
        let heard = scheduler.now();
        const finish = (result: ModelResult) => {
          over = true;
          signal.removeEventListener("abort", abort);
          resolve(result);
        };
        const abort = () => {
          over = true;
          if (scheduler.now() - heard < STALE_MS) mayAbort(world, process, session, turn);
          const death = world.chance("model.deaf") ? deaf(random) : delay(random, 20);
          // Closing the socket makes a transport error; a careless caller takes it for a network fault.
          const result: ModelResult = world.chance("model.late")
            ? { end: "answer", calls: [], usage: { input: 1, output: 1 } }
            : random() < 0.5
              ? { end: "aborted" }
              : { end: "fault", kind: "network", reason: "socket closed" };
          scheduler.add(process, "model died", death, () => resolve(result));
        };
        signal.addEventListener("abort", abort);

        const fault = (reason: string, kind: FaultKind) => finish({ end: "fault", reason, kind });
        const failing = (reason: string, kind: FaultKind) =>
          void scheduler.add(process, reason, delay(random, 20), () => over || fault(reason, kind));
        const fast = random() < 0.25; // words come in the midst of everything
        let chunks = delay(random, fast ? 12 : 4);
        const next = () => {
          if (over) return;
          if (world.chance("model.hangs")) return;
          if (chunks-- > 0) {
            if (tools.length) process.spoke.add(session); // nobody sees a summary being written
            heard = scheduler.now();
            hear.text(`<${session}>${chunks} `);
            if (world.chance("model.cut") || (world.fragile && world.stormy))
              return fault("reset after text", "incomplete");
            return later();
          }
          finish({
            end: "answer",
            calls: tools.length && !final ? calls(tools.some(({ name }) => name === CLIENTS.name)) : [],
            usage: { input: 1, output: 1 },
          });
        };
        const later = () => void scheduler.add(process, "model", delay(random, fast ? 5 : 60), next);
        const { from, until } = world.outage;
        const now = scheduler.now();
        if (now >= from && now < until) {
          const waited = now - Math.max(from, process.since.get(session) ?? now);
          const attended = checker.attended.has(turn);
          must(!attended || waited < PATIENCE_MS, "§7", () => `${turn} lets somebody wait for ${waited} ms`);
          failing(NO_ROUTE, "network");
        } else if (name === "first" && world.broken) failing("down", "unavailable");
        else if (world.chance("model.fault")) failing("reset", random() < 0.5 ? "network" : "rate_limited");
        else if (world.chance("model.refuses")) {
          process.refused.get(session)?.add(name);
          failing("no", random() < 0.5 ? "auth" : "bad_request");
        } else if (world.chance("model.odd")) failing("too long", "too_long");
        else later();
      });
    },
  };

  function calls(clients: boolean) {
    if (random() < (world.stormy ? 0.45 : 0.85)) return []; // what is left to do is done soon
    if (world.chance("model.odd")) return [{ tool: "nothing", args: {} }, { tool: "read", args: "bad" }, ...many(11)];
    const wanted = many(1 + delay(random, 3));
    return clients ? [...wanted, { tool: CLIENTS.name, args: {} }, { tool: CLIENTS.name, args: {} }] : wanted;
  }
  function many(n: number) {
    const names = ["read", "write", "write", "danger", "question", "solo"];
    return Array.from({ length: n }, () => ({ tool: names[delay(random, names.length)] ?? "read", args: {} }));
  }
}

// ── Tools ─────────────────────────────────────────────────────────────────────────────────────────────

/** A tool that the client of a turn runs. */
export const CLIENTS = { name: "clients", description: "clients", schema: {} };

export function toolsOf(world: World, process: Process, ran: Map<string, number>): Tool[] {
  const { random, scheduler, checker } = world;
  const inTurn = new Map<string, string[]>();

  function tool(name: string, repeatable: boolean, ask: "approval" | "question" | null, alone = false): Tool {
    return {
      name,
      description: name,
      schema: {},
      repeatable,
      alone,
      judge: (args) => {
        if (args === "bad") return { gate: "refuse", result: "bad arguments" };
        if (!ask) return { gate: "run" };
        return { gate: "ask", kind: ask, text: "may I?", choices: ["yes", "no"], timeoutMs: 20_000 };
      },
      run: (_args, { session, turn, call, signal }) => {
        const id = `${session}/${call}`;
        must(!signal.aborted, "I11", () => `${id} starts aborted`);
        must(!world.stopped.has(turn), "I11", () => `${id} of ${turn} starts after its stop was answered`);
        mustOwn(world, process, session, id);
        must(checker.call(session, call)?.started === true, "I14", () => `${id} runs before it was recorded`);
        if (ask) must(checker.call(session, call)?.allowed === true, "I16", () => `${id} runs without a grant`);
        const times = (ran.get(id) ?? 0) + 1;
        ran.set(id, times);
        must(repeatable || times === 1, "I14", () => `${id} ran ${times} times`);
        // One that was given up on in an earlier life of this node may still be dying.
        const place = `${[...process.ids].at(-1) ?? ""} ${turn}`;
        const here = inTurn.get(place) ?? [];
        const lonely = here.length === 0 || !(alone || here.includes("solo"));
        must(lonely, "§8", () => `${name} runs beside ${here.join()}`);
        inTurn.set(place, [...here, name]);
        const over = () =>
          inTurn.set(place, (inTurn.get(place) ?? []).toSpliced((inTurn.get(place) ?? []).indexOf(name), 1));
        return new Promise((resolve, reject) => {
          const abort = () => {
            scheduler.remove(task);
            mayAbort(world, process, session, turn, !repeatable);
            const death = world.chance("tool.deaf") ? deaf(random) : delay(random, 50);
            scheduler.add(process, "tool died", death, () => {
              over();
              resolve({ ok: false, text: "killed" });
            });
          };
          const task = scheduler.add(process, "tool", delay(random, 400), () => {
            signal.removeEventListener("abort", abort);
            over();
            if (world.chance("tool.kills")) return world.kill(process);
            if (world.chance("tool.throws")) return reject(new Error("broken tool"));
            resolve({ ok: !world.chance("tool.fails"), text: `did ${name}` });
          });
          signal.addEventListener("abort", abort);
        });
      },
    };
  }

  return [
    tool("read", true, null),
    tool("write", false, null),
    tool("danger", false, "approval"),
    tool("question", true, "question"),
    tool("solo", false, null, true),
  ];
}

// ── Channel and memory ────────────────────────────────────────────────────────────────────────────────

export function channelOf(world: World, process: Process): Channel {
  const { random, scheduler } = world;
  return {
    send: (reply, signal) =>
      new Promise((resolve, reject) => {
        mustOwn(world, process, reply.session, `the delivery of ${reply.turn}`);
        scheduler.add(process, "send", delay(random, 50), () => {
          if (signal.aborted) return reject(new Error("aborted"));
          if (world.down || world.chance("channel.fails")) return reject(new Error("not sent"));
          world.sent.push({ session: reply.session, turn: reply.turn, text: reply.text, again: reply.again });
          if (world.chance("channel.unsure")) return reject(new Error("sent, or not"));
          scheduler.add(process, "sent", delay(random, 10), () => resolve("sent"));
        });
      }),
  };
}

/** The one that may be gone for good. */
export const GONE = "far";
export const WRITERS = ["notes", GONE];

export function memoryOf(world: World, process: Process): Memory {
  const { random, scheduler } = world;
  return {
    writers: WRITERS,
    recall: () => Promise.resolve(""),
    remember: (writer, turn, key, signal) =>
      new Promise((resolve, reject) => {
        must(!world.deleted.has(turn.session), "I26", () => `${writer} is told of ${turn.session}, which is deleted`);
        const abort = () => {
          scheduler.remove(task);
          reject(new Error("aborted"));
        };
        const hangs = world.chance("memory.hangs") ? 10_000 : 0;
        const task = scheduler.add(process, "remember", hangs + delay(random, 80), () => {
          signal.removeEventListener("abort", abort);
          if (world.chance("memory.fails") || (world.gone && writer === GONE))
            return reject(new Error("memory is broken"));
          must(
            turn.user.includes(`<${turn.session}>`) || turn.user.startsWith("compress"),
            "I25",
            () => `${turn.session} remembers ${turn.user}`,
          );
          const place = `${writer} ${turn.session}`;
          const written = world.remembered.get(place) ?? [];
          // A write that was under way when its process was replaced may land late: the key makes it one.
          if (written.at(-1) !== key && !(isPast(world, process, turn.session) && written.includes(key))) {
            must(!written.includes(key), "I17", () => `${key} is written after a later turn`);
            const expected = world.checker.ended(turn.session)[written.length];
            must(expected === key, "I17", () => `${key} is written where ${expected} is due`);
            world.remembered.set(place, [...written, key]);
          }
          resolve();
        });
        signal.addEventListener("abort", abort);
      }),
  };
}
