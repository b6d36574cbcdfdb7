// A chat platform in memory. It outlives every process that connects to it: what nobody has taken it brings to the next one,
// as a platform with its own memory does, and what was sent to it stays as it stands.
import {
  type Attachment,
  type Button,
  type Chat,
  type InboundHandler,
  type InboundMessage,
  type OutboundMessage,
  type Person,
  type Place,
  SendFault,
} from "../../../src/core/chat.ts";
import type { Clock } from "../../../src/core/ports.ts";

export const ANNA: Person = { id: "999", name: "Anna" };
export const BEN: Person = { id: "1001", name: "Ben" };
export const dm = (person: Person): Place => ({ kind: "dm", chat: person.id });

type Saying = {
  /** Anna unless named. */
  from?: Person;
  /** Their direct messages unless named. */
  place?: Place;
  /** Its name; a new one unless given. */
  message?: string;
  addressed?: boolean;
  attachments?: Attachment[];
};

/** A message of ours as it stands now. */
type Shown = {
  message: string;
  place: Place;
  text: string;
  buttons: Button[][];
  key: string;
  /** What it was before, oldest first. */
  history: string[];
  removed: boolean;
  at: number;
};

type Doing = "send" | "edit" | "remove";
/** `lost`: it is done, its answer is not heard. `hang`: it waits until released and is done then, wanted or not. */
type Fault = "no" | "never" | "lost" | "hang" | { retryAfter: number };
type Trap = { doing: Doing; fault: Fault; left: number; released: PromiseWithResolvers<void> };

export type LocalChat = {
  platform: string;
  /** The side of one process. Whoever was connected before is dead. `tick`: called before and after whatever it does. */
  connect(tick?: () => void): Chat & { kill(): void };
  /** Resolves with the message's name once it was taken. */
  say(text: string, saying?: Saying): Promise<string>;
  /** Of a message that somebody said. */
  edit(message: string, text: string): Promise<void>;
  remove(message: string): Promise<void>;
  /** It comes once more. */
  redeliver(message: string): Promise<void>;
  /** By its label or data. Resolves with what the person is shown; never, while nobody is connected. */
  press(message: string, label: string, by?: Person): Promise<string>;
  /** In the order in which they came; those of one place, or all. */
  sent(place?: Place): Shown[];
  texts(place?: Place): string[];
  fault(doing: Doing, fault: Fault, times?: number): { release(): void };
  /** While it lasts nothing is reached. */
  outage(on: boolean): void;
  /** How often it was shown that we are at work. */
  typed(): number;
  /** How often something was brought. */
  deliveries: string[];
  /** What a platform would hold against us. */
  violations: string[];
  menu(): string[];
};

const AGAIN_MS = 1_000;
const never = <T>() => new Promise<T>(() => {});
const laneOf = ({ chat, thread = "" }: Place) => `${chat} ${thread}`;

export function createLocalChat(options: {
  platform?: string;
  clock: Clock;
  longest?: number;
  editEveryMs?: number;
  /** A second send under the same key gives the message that is there already. */
  sendsOnce?: boolean;
}): LocalChat {
  const { platform = "telegram", clock, longest = 4_096, editEveryMs = 1_000, sendsOnce = false } = options;
  type Waiting = { name: string; bring(handler: InboundHandler): Promise<void>; taken: PromiseWithResolvers<void> };
  type Connection = { alive: boolean; handler: InboundHandler | null; busy: Set<string>; quiet: Set<() => void> };
  const lanes = new Map<string, Waiting[]>();
  const said = new Map<string, InboundMessage>();
  const shown: Shown[] = [];
  const traps: Trap[] = [];
  const limits = new Map<string, number>();
  const violations: string[] = [];
  const deliveries: string[] = [];
  let connection: Connection | null = null;
  let isOut = false;
  let typed = 0;
  let names = 0;
  let menu: string[] = [];

  // ── People ──────────────────────────────────────────────────────────────────────────────────────────

  function bring(place: Place, name: string, how: (handler: InboundHandler) => Promise<void>): Promise<void> {
    const lane = lanes.get(laneOf(place)) ?? [];
    lanes.set(laneOf(place), lane);
    const taken = Promise.withResolvers<void>();
    lane.push({ name, bring: how, taken });
    if (connection) void pump(connection, laneOf(place));
    return taken.promise;
  }

  async function pump(mine: Connection, lane: string): Promise<void> {
    const waiting = lanes.get(lane) ?? [];
    if (mine.busy.has(lane)) return;
    mine.busy.add(lane);
    for (let [next] = waiting; next && mine.handler; [next] = waiting) {
      deliveries.push(next.name);
      const ok = await next.bring(mine.handler).then(
        () => true,
        () => false,
      );
      if (!mine.alive) return;
      if (ok) {
        waiting.shift();
        next.taken.resolve();
      } else await clock.sleep(AGAIN_MS);
    }
    mine.busy.delete(lane);
    for (const done of mine.quiet) done();
  }

  function heardOf(text: string, { from = ANNA, place = dm(from), message, ...more }: Saying): InboundMessage {
    const name = message ?? `m${++names}`;
    const heard = { message: name, place, from, text, attachments: [], addressed: true, ...more };
    said.set(name, heard);
    return heard;
  }

  function known(message: string): InboundMessage {
    const heard = said.get(message);
    if (!heard) throw new Error(`Nobody said ${message}.`);
    return heard;
  }

  // ── One process ─────────────────────────────────────────────────────────────────────────────────────

  function connect(tick: () => void = () => {}): ReturnType<LocalChat["connect"]> {
    if (connection) connection.alive = false;
    const mine: Connection = { alive: true, handler: null, busy: new Set(), quiet: new Set() };
    connection = mine;

    /** What a dead process does has no effect, and it never hears of it. */
    async function call<T>(doing: Doing, place: Place, signal: AbortSignal, work: () => T): Promise<T> {
      tick();
      if (!mine.alive) return never();
      if (signal.aborted) throw new SendFault("no", "it was no longer wanted");
      if (isOut) throw new SendFault("no", "nobody is there");
      const limit = limits.get(laneOf(place)) ?? 0;
      if (clock.now() < limit) violations.push(`${doing} in ${laneOf(place)} before its limit was over`);
      const trap = traps.find((one) => one.doing === doing && one.left > 0);
      if (trap) trap.left--;
      const result = await (trap ? faulty(trap, place, signal, work) : work());
      tick();
      return mine.alive ? result : never();
    }

    async function faulty<T>({ fault, released }: Trap, place: Place, signal: AbortSignal, work: () => T): Promise<T> {
      switch (fault) {
        case "no":
          throw new SendFault("no", "planted");
        case "never":
          throw new SendFault("never", "planted: nobody lets us write there");
        case "lost":
          work();
          throw new SendFault("unknown", "planted: the answer was lost");
        case "hang": {
          const given = Promise.withResolvers<T>();
          const giveUp = () => given.reject(new SendFault("unknown", "it was no longer wanted"));
          signal.addEventListener("abort", giveUp);
          void released.promise.then(work).then(given.resolve, given.reject);
          return given.promise.finally(() => signal.removeEventListener("abort", giveUp));
        }
        default:
          limits.set(laneOf(place), clock.now() + fault.retryAfter);
          throw new SendFault("no", "planted: too many", fault.retryAfter);
      }
    }

    function check({ text, buttons = [] }: OutboundMessage) {
      if (!text.trim()) violations.push("an empty message");
      if (text.length > longest) violations.push(`a message of ${text.length} characters`);
      for (const { label, data } of buttons.flat())
        if (!label || Buffer.byteLength(data) > 64) violations.push(`a button ${label} with ${data}`);
    }

    function find(message: string): Shown {
      const found = shown.find((one) => one.message === message && !one.removed);
      if (!found) throw new SendFault("never", "there is no such message");
      return found;
    }

    async function stop() {
      mine.handler = null;
      if (mine.busy.size)
        await new Promise<void>((resolve) => {
          mine.quiet.add(() => {
            if (!mine.busy.size) resolve();
          });
        });
    }

    return {
      platform,
      longest,
      editEveryMs,
      async start(handler) {
        if (!mine.alive) return never();
        mine.handler = handler;
        for (const lane of lanes.keys()) void pump(mine, lane);
      },
      stop,
      send: (place, saying, key, signal) =>
        call("send", place, signal, () => {
          check(saying);
          const before = sendsOnce && shown.find((one) => one.key === key);
          if (before) return before.message;
          const message = `b${shown.length + 1}`;
          const { text, buttons = [] } = saying;
          shown.push({ message, place, text, buttons, key, history: [], removed: false, at: clock.now() });
          return message;
        }),
      edit: (place, message, saying, signal) =>
        call("edit", place, signal, () => {
          check(saying);
          const found = find(message);
          if (laneOf(found.place) !== laneOf(place)) violations.push(`an edit of ${message} from another place`);
          if (found.text !== saying.text) found.history.push(found.text);
          found.text = saying.text;
          found.buttons = saying.buttons ?? [];
        }),
      remove: (place, message, signal) =>
        call("remove", place, signal, () => {
          find(message).removed = true;
        }),
      async typing() {
        if (mine.alive) typed++;
      },
      async offer(commands) {
        menu = commands.map(({ name }) => name);
      },
      health: () => ({ platform, connected: mine.handler !== null && !isOut, heardAt: null, error: "" }),
      async close() {
        mine.handler = null;
        mine.alive = false;
      },
      kill() {
        mine.handler = null;
        mine.alive = false;
      },
    };
  }

  return {
    platform,
    connect,
    async say(text, saying = {}) {
      const heard = heardOf(text, saying);
      await bring(heard.place, heard.message, (handler) => handler.onMessage(heard));
      return heard.message;
    },
    edit(message, text) {
      const heard = { ...known(message), text };
      said.set(message, heard);
      return bring(heard.place, message, (handler) => handler.onEdit(heard));
    },
    remove(message) {
      const { place } = known(message);
      return bring(place, message, (handler) => handler.onDelete(place, message));
    },
    redeliver(message) {
      const heard = known(message);
      return bring(heard.place, message, (handler) => handler.onMessage(heard));
    },
    async press(message, label, by = ANNA) {
      const found = shown.find((one) => one.message === message);
      const all = found?.buttons.flat() ?? [];
      const button = all.find((one) => one.label === label || one.data === label) ?? { data: label };
      if (!found) throw new Error(`We have not sent ${message}.`);
      if (!connection?.handler) return never();
      return connection.handler.onPress({ data: button.data, place: found.place, from: by, message });
    },
    sent: (place) => shown.filter((one) => !one.removed && (!place || laneOf(one.place) === laneOf(place))),
    texts: (place) =>
      shown.filter((one) => !one.removed && (!place || laneOf(one.place) === laneOf(place))).map(({ text }) => text),
    fault(doing, fault, times = 1) {
      const trap: Trap = { doing, fault, left: times, released: Promise.withResolvers() };
      traps.push(trap);
      return {
        release() {
          trap.left = 0;
          trap.released.resolve();
        },
      };
    },
    outage(on) {
      isOut = on;
    },
    typed: () => typed,
    deliveries,
    violations,
    menu: () => menu,
  };
}
