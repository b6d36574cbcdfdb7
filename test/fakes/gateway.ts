// The gateway over the real engine, a store in memory and chats in memory: the model lies on a desk until a test answers it,
// time passes when the test says so, and the next process on the same disk is one call away.
import { randomBytes } from "node:crypto";
import type { Channel, Tool } from "../../src/core/ports.ts";
import type { Mode } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { openJobs } from "../../src/schedule/jobs.ts";
import type { Lists } from "../../src/surfaces/gateway/access.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../../src/surfaces/gateway/gateway.ts";
import { ANNA, BEN, createLocalChat, type LocalChat } from "./chat/local.ts";
import type { MemoryStore } from "./memory-store.ts";
import {
  type Asked,
  type Booted,
  type BootOptions,
  bootEngine,
  calm,
  type Desk,
  type HandClock,
  handClock,
  scriptedModel,
} from "./scripted.ts";

export const ANNAS = "agent:main:telegram:dm:999";

type Options = Pick<BootOptions, "limits" | "rules" | "between" | "node"> & {
  /** What a process before this one left. */
  disk?: MemoryStore;
  clock?: HandClock;
  chats?: LocalChat[];
  tools?: Tool[];
  lists?: Partial<Lists>;
  busyMode?: Mode;
  /** By platform. */
  busyModes?: Readonly<Record<string, Mode>>;
  progress?: ReturnType<GatewayOptions["progress"]>;
  unattended?: GatewayOptions["unattended"];
  approvers?: GatewayOptions["approvers"];
  sharedGroups?: boolean;
  files?: string;
  /** It dies at the so-maniest of: before and after each write to the disk, and each call to a platform. */
  dieAt?: number;
};

export type TestGateway = Booted & {
  gateway: Gateway;
  model: Desk<Asked>;
  clock: HandClock;
  /** The first of the chats. */
  chat: LocalChat;
  /** How often a restart was asked for, and how often that was news. */
  restarts: boolean[];
  /** Moments passed in which it could have died, and whether it has. */
  moments(): number;
  dead(): boolean;
  /** Leaves in good order, as far as a chat sees it. */
  leave(why: "shutdown" | "restart", drainMs?: number): Promise<{ left: string[] }>;
  /** The next process, on the same disk and the same platforms. */
  next(more?: Options): Promise<TestGateway>;
};

let keys = 0;

export async function bootGateway(options: Options = {}): Promise<TestGateway> {
  const { clock = handClock(), tools = [], lists = {}, busyMode = "interrupt", progress = "all" } = options;
  const { sharedGroups = false, files = "/nonexistent", dieAt = Number.POSITIVE_INFINITY } = options;
  const chats = options.chats ?? [createLocalChat({ clock })];
  const [chat] = chats;
  if (!chat) throw new Error("There is no chat.");
  const model = scriptedModel();
  const opened = Promise.withResolvers<Channel>();
  let moments = 0;
  let dead = false;
  const kill = () => {
    dead = true;
    booted?.kill();
    for (const one of connections) one.kill();
  };
  const tick = () => {
    if (!dead && ++moments === dieAt) kill();
  };
  const connections = chats.map((one) => one.connect(tick));
  const { between = (store: Store) => store, limits, rules } = options;
  const restarts: boolean[] = [];
  const logs: Booted["logs"] = []; // of the gateway
  let made: Gateway | undefined;
  let booted: Booted | undefined;
  booted = await bootEngine({
    clock,
    model,
    tools,
    limits: { text: 1_000_000, ...limits },
    ...(rules && { rules }),
    ...(options.node && { node: options.node }),
    ...(options.disk && { disk: options.disk }),
    between: (store) => fragile(between(store), tick),
    channel: { send: async (reply, signal) => (await opened.promise).send(reply, signal) },
    observe: (session, entries) => made?.observe(session, entries),
    // As the program does: the gateway is there before anything that was left is taken up.
    made: (engine) => {
      made = createGateway({
        runtime: engine,
        ...(options.node && { local: engine, node: engine.node }),
        chats: connections,
        clock,
        log: (level, event, fields = {}) => logs.push({ level, event, fields }),
        newKey: () => `key${++keys}`,
        randomBytes,
        lists: () => ({ allowed: [ANNA.id, BEN.id], admins: [], ...lists }),
        approvers: options.approvers ?? "asker",
        busyMode: (platform) => options.busyModes?.[platform] ?? busyMode,
        unattended: (platform) => options.unattended?.(platform),
        model: "demo:one",
        models: async () => ({ names: ["demo:one", "demo:two"] }),
        costOf: () => null,
        window: 1_000,
        jobs: () => openJobs({ notes: engine.notes, clock, log: () => {} }),
        skills: async () => "brew-tea  How to make tea.",
        left: () => {},
        progress: () => progress,
        hears: (_, { addressed }) => addressed,
        strangers: "pair",
        files,
        transcribe: null,
        sharedGroups,
        requestRestart: () => {
          restarts.push(!restarts.length);
          return restarts.length === 1;
        },
      });
      opened.resolve(made.channel);
    },
  });
  const { engine } = booted;
  if (!made) throw new Error("There is no gateway.");
  const gateway: Gateway = made;
  const starting = gateway.start();
  await (Number.isFinite(dieAt) ? calm() : starting);

  return {
    ...booted,
    logs,
    gateway,
    model,
    clock,
    chat,
    restarts,
    moments: () => moments,
    dead: () => dead,
    kill,
    async leave(why, drainMs = 60_000) {
      const drained = engine.drain(drainMs);
      await gateway.announceLeaving(why);
      const left = await drained;
      await gateway.stopHearing();
      await gateway.close();
      return left;
    },
    next: (more = {}) =>
      bootGateway({ ...options, dieAt: Number.POSITIVE_INFINITY, disk: booted.disk, clock, chats, ...more }),
  };
}

function fragile(store: Store, tick: () => void): Store {
  const { notes, journal } = store;
  return {
    ...store,
    journal: {
      ...journal,
      async commit(change) {
        tick();
        const verdict = await journal.commit(change);
        tick();
        return verdict;
      },
    },
    notes: {
      get: (key) => notes.get(key),
      list: (prefix) => notes.list(prefix),
      async set(key, value) {
        tick();
        await notes.set(key, value);
        tick();
      },
      async swap(key, from, to) {
        tick();
        const swapped = await notes.swap(key, from, to);
        tick();
        return swapped;
      },
    },
  };
}
