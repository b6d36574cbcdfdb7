// Updates on their way in. Telegram forgets what is below an offset, so the offset never moves past one that is not taken;
// until then Telegram brings it with every poll, and it is dispatched once.
import type { Update } from "grammy/types";
import type { InboundHandler, InboundMessage, Place } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { openLanes } from "../shared/lanes.ts";
import { recent } from "../shared/recent.ts";
import { albumOf, eventOf, joined, type TelegramEvent, type UpdateReader } from "./inbound.ts";

export type Intake = ReturnType<typeof createIntake>;

type Options = Ambient & {
  random: Random;
  handler: InboundHandler;
  reader: UpdateReader;
  /** Shows the person for a moment what came of a press. */
  answer(query: string, text: string): void;
};

const PLATFORM = "telegram";
/** A poll or a post that was on its way brings again what was taken meanwhile; a batch has a hundred. */
const REMEMBERED = 1_000;

export function createIntake({ clock, log, random, handler, reader, answer }: Options) {
  const lanes = openLanes({ platform: PLATFORM, clock, log, random });
  const underWay = new Map<number, Promise<void>>();
  const untaken = new Set<number>();
  const taken = recent(REMEMBERED);
  let stopped = false;
  let last: number | undefined;

  /** Known updates are skipped. True: all are taken. False: we stopped before that. */
  async function add(updates: readonly Update[]): Promise<boolean> {
    const fresh = updates.filter(({ update_id: id }) => !underWay.has(id) && !taken.has(String(id)));
    for (const group of grouped(fresh)) enter(group);
    last = updates.at(-1)?.update_id ?? last;
    await Promise.all(updates.flatMap(({ update_id: id }) => underWay.get(id) ?? []));
    return updates.every(({ update_id: id }) => !untaken.has(id));
  }

  function enter(group: Update[]): void {
    const ids = group.map(({ update_id: id }) => id);
    const event = read(group);
    const taking = event ? lanes.add(laneOf(event), () => dispatch(event)) : Promise.resolve(true);
    const settled = taking.then((isTaken) => {
      for (const id of ids) {
        underWay.delete(id);
        if (!isTaken) continue;
        untaken.delete(id);
        taken.add(String(id));
      }
    });
    for (const id of ids) {
      untaken.add(id);
      underWay.set(id, settled);
    }
  }

  /** An update that cannot be read is dropped: it would come again for ever. */
  function read(group: Update[]): TelegramEvent | undefined {
    try {
      const events = group.flatMap((update) => eventOf(update, reader) ?? []);
      const [first, ...rest] = events.flatMap((one): InboundMessage[] => (one.kind === "message" ? [one.message] : []));
      return first ? { kind: "message", message: joined([first, ...rest]) } : events[0];
    } catch (error) {
      log("error", "chat.unreadable", { platform: PLATFORM, update: group[0]?.update_id, error: messageOf(error) });
      return undefined;
    }
  }

  async function dispatch(event: TelegramEvent): Promise<void> {
    if (stopped) throw new Error("We take nothing more; Telegram keeps it.");
    if (event.kind === "press") answer(event.query, await handler.onPress(event.press));
    else await (event.kind === "message" ? handler.onMessage(event.message) : handler.onEdit(event.message));
  }

  return {
    add,
    /** The id of the first update that is not taken. Undefined: none has come yet. */
    offset: () => (untaken.size > 0 ? Math.min(...untaken) : last === undefined ? undefined : last + 1),
    /** Resolves when everything is taken. */
    idle: () => Promise.all(underWay.values()),
    /** Updates that are being taken are finished; Telegram gives the others to the next process. */
    stop() {
      stopped = true;
      return lanes.stop();
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

function laneOf(event: TelegramEvent): string {
  const { chat, thread = "" }: Place = event.kind === "press" ? event.press.place : event.message.place;
  return `${chat} ${thread}`;
}
