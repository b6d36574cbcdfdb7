// Updates on their way in: in order for a place, one at a time there, side by side for different places, each until it is
// taken. Telegram forgets what is below an offset, so the offset never moves past one that is not.
import type { Update } from "grammy/types";
import type { Ears, Heard, Place } from "../core/chat.ts";
import { messageOf } from "../core/errors.ts";
import type { Clock, Log, Random } from "../core/ports.ts";
import { albumOf, joined, type Reader, type Told, toldOf } from "./telegram-heard.ts";

type Intake = {
  /** What is known already is left alone. Resolves once all are taken; false: we stopped before. */
  add(updates: readonly Update[]): Promise<boolean>;
  /** The first that is not taken. Undefined: nothing has come yet. */
  offset(): number | undefined;
  /** Telegram has been told of that offset: nothing below it comes again. */
  confirmed(offset: number): void;
  /** Resolves when everything is taken, or given up by `stop`. */
  idle(): Promise<void>;
  /** What is being heard is finished; the rest is let go, and comes again to whoever asks next. */
  stop(): Promise<void>;
};

type Options = {
  clock: Clock;
  log: Log;
  random: Random;
  ears: Ears;
  reader: Reader;
  /** Shows the person for a moment what came of a press. */
  answer(query: string, text: string): void;
};

export function createIntake({ clock, log, random, ears, reader, answer }: Options): Intake {
  const stopping = new AbortController();
  /** The end of what waits in each place. */
  const lanes = new Map<string, Promise<unknown>>();
  const underWay = new Map<number, Promise<boolean>>();
  const untaken = new Set<number>();
  /** Taken, but Telegram may bring it once more: it was on its way before the offset moved. */
  const taken = new Set<number>();
  let last: number | undefined;

  async function add(updates: readonly Update[]): Promise<boolean> {
    const fresh = updates.filter(({ update_id: id }) => !underWay.has(id) && !taken.has(id));
    for (const group of grouped(fresh)) enter(group);
    last = updates.at(-1)?.update_id ?? last;
    await Promise.all(updates.flatMap(({ update_id: id }) => underWay.get(id) ?? []));
    return updates.every(({ update_id: id }) => !untaken.has(id));
  }

  function enter(group: Update[]): void {
    const told = read(group);
    const lane = told ? laneOf(told) : "";
    const before = lanes.get(lane) ?? Promise.resolve();
    const work = told ? before.then(() => untilTaken(told)) : Promise.resolve(true);
    if (told) lanes.set(lane, work);
    const done = work.then((isTaken) => {
      if (lanes.get(lane) === work) lanes.delete(lane);
      for (const { update_id: id } of group) {
        underWay.delete(id);
        if (!isTaken) continue;
        untaken.delete(id);
        taken.add(id);
      }
      return isTaken;
    });
    for (const { update_id: id } of group) {
      underWay.set(id, done);
      untaken.add(id);
    }
  }

  /** One that cannot be read would come for ever. */
  function read(group: Update[]): Told | undefined {
    try {
      const told = group.flatMap((update) => toldOf(update, reader) ?? []);
      const [first, ...rest] = told.flatMap((one): Heard[] => (one.kind === "heard" ? [one.heard] : []));
      return first ? { kind: "heard", heard: joined([first, ...rest]) } : told[0];
    } catch (error) {
      log("error", "chat.unreadable", { platform: "telegram", update: group[0]?.update_id, error: messageOf(error) });
      return undefined;
    }
  }

  async function untilTaken(told: Told): Promise<boolean> {
    for (let attempt = 0; !stopping.signal.aborted; attempt++) {
      try {
        await tell(told);
        return true;
      } catch (error) {
        log("warn", "chat.not_taken", { platform: "telegram", kind: told.kind, attempt, error: messageOf(error) });
      }
      await clock.sleep(pauseOf(attempt, random), stopping.signal);
    }
    return false;
  }

  async function tell(told: Told): Promise<void> {
    if (told.kind === "pressed") answer(told.query, await ears.pressed(told.pressed));
    else await (told.kind === "heard" ? ears.heard(told.heard) : ears.edited(told.heard));
  }

  async function idle(): Promise<void> {
    await Promise.all(underWay.values());
  }

  return {
    add,
    offset: () => (untaken.size > 0 ? Math.min(...untaken) : last === undefined ? undefined : last + 1),
    confirmed: (offset) => {
      for (const id of taken) if (id < offset) taken.delete(id);
    },
    idle,
    stop: () => {
      stopping.abort();
      return idle();
    },
  };
}

/** Of an album what came together; everything else alone. */
function grouped(updates: readonly Update[]): Update[][] {
  const groups: Update[][] = [];
  for (const update of updates) {
    const album = albumOf(update);
    const same = album && groups.find(([first]) => first && albumOf(first) === album);
    if (same) same.push(update);
    else groups.push([update]);
  }
  return groups;
}

function laneOf(told: Told): string {
  const { chat, thread = "" }: Place = told.kind === "pressed" ? told.pressed.place : told.heard.place;
  return `${chat} ${thread}`;
}

const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 60_000;

/** Growing, and not the same for everybody. */
export const pauseOf = (attempt: number, random: Random, first = FIRST_PAUSE, longest = LONGEST_PAUSE): number =>
  Math.min(longest, first * 2 ** Math.min(attempt, 20)) * (0.75 + random() / 2);
