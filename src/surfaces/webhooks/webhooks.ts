// Tells the ends of runs to whoever is configured to hear of them. What is to be told was stored in the commit that ended
// the run, and goes away only once it is told: nothing is lost in a crash, and what is told twice has the same id.
//
// A line is what one target is to hear of one session: in order, the next one only when this one is told or given up.
import { messageOf } from "../../core/errors.ts";
import type { Announcement, Clock, Log, Random } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";
import { openPost, type Post } from "../../platform/post.ts";
import { backoff, letterOf, type Verdict, verdictOf } from "./letter.ts";

type Options = {
  runtime: Pick<Runtime, "announcements" | "announced" | "run">;
  targets: readonly { url: string; secret: string }[];
  clock: Clock;
  random: Random;
  log: Log;
  post?: Post;
};
export type Webhooks = {
  observe(session: string, entries: readonly Entry[]): void;
  start(): void;
  /** Tells what is due, and waits for what is under way, at most so long. The rest is told after the next start. */
  close(ms: number): Promise<void>;
};

type Waiting = Announcement & { flying: boolean; over: boolean };
type Flight = { to: string; cut: AbortController; landed: Promise<void> };

/** Half of them is the most for one target: one that hangs leaves room for the others. */
const AT_ONCE = 8;
/** Looks at everything that waits: what somebody revived, and what no commit told us of. */
const LOOK_MS = 10_000;
const PAGE = 500;
/** Kept in memory, a few hundred bytes each; the rest waits in the store. */
const MOST = 50_000;
const STORE_MS = 1_000;

export function createWebhooks({ runtime, targets, clock, random, log, post = openPost() }: Options): Webhooks {
  const secrets = new Map(targets.map(({ url, secret }) => [url, secret]));
  const lines = new Map<string, Waiting[]>();
  const known = new Set<number>();
  const flights = new Set<Flight>();
  const cut = new AbortController();
  let alarm = new AbortController();
  let closing = false;
  let seen = 0;
  let lookAt = 0;
  let working = Promise.resolve();
  const wake = () => alarm.abort();

  async function work(): Promise<void> {
    await dropStrangers();
    while (secrets.size && !cut.signal.aborted) {
      alarm = new AbortController();
      const wait = await advance();
      if (closing && !flights.size) return;
      await clock.sleep(wait, alarm.signal);
    }
  }

  /** Starts what is due. Returns how long there is nothing else to do. */
  async function advance(): Promise<number> {
    sweep();
    const readable = await tried("unread", read);
    const now = clock.now();
    let wait = readable ? lookAt - now : STORE_MS;
    for (const [head] of lines.values()) {
      if (!head || head.flying) continue;
      if (head.due > now) wait = Math.min(wait, head.due - now);
      else if (hasRoom(head.to)) fly(head);
    }
    return Math.max(0, wait);
  }

  /** Takes out what is over. Only here: what is being read meanwhile must not come in a second time. */
  function sweep() {
    for (const [key, line] of [...lines]) {
      const [head] = line;
      if (!head?.over) continue;
      known.delete(head.id);
      lines.delete(key);
      if (line.length > 1) lines.set(key, line.slice(1)); // behind the others: a long line does not hold them up
    }
  }

  async function read(): Promise<void> {
    const now = clock.now();
    if (now >= lookAt || lookAt - now > LOOK_MS) {
      seen = 0;
      lookAt = now + LOOK_MS;
    }
    for (let more = true; more && known.size < MOST; ) {
      const page = await runtime.announcements({ dead: false, after: seen, limit: PAGE });
      for (const row of page) {
        if (!secrets.has(row.to)) await drop(row, "it is not configured any more");
        else if (!known.has(row.id)) queue(row);
        seen = row.id;
      }
      more = page.length === PAGE;
    }
  }

  function queue(row: Announcement) {
    known.add(row.id);
    const key = JSON.stringify([row.to, row.session]);
    const line = lines.get(key) ?? [];
    const before = line.findIndex((one) => one.id > row.id && !one.flying); // one that was revived
    line.splice(before < 0 ? line.length : before, 0, { ...row, flying: false, over: false });
    lines.set(key, line);
  }

  function hasRoom(to: string): boolean {
    const same = [...flights].filter((flight) => flight.to === to).length;
    return flights.size < AT_ONCE && same < AT_ONCE / 2;
  }

  function fly(row: Waiting) {
    row.flying = true;
    const flight: Flight = { to: row.to, cut: new AbortController(), landed: Promise.resolve() };
    flights.add(flight);
    flight.landed = tell(row, flight.cut.signal).finally(() => {
      row.flying = false;
      flights.delete(flight);
      wake();
    });
  }

  async function tell(row: Waiting, signal: AbortSignal): Promise<void> {
    const verdict = await attempt(row, signal);
    if (verdict === null) return; // we are leaving: told after the next start, under the same id
    const next = verdict === "told" ? null : after(row, verdict);
    const kept = () => runtime.announced(row.id, next);
    while (!(await tried("unkept", kept)) && !cut.signal.aborted) await clock.sleep(STORE_MS, cut.signal);
    report(row, next);
    Object.assign(row, next);
    row.over = next === null || next.dead;
  }

  async function attempt(row: Waiting, signal: AbortSignal): Promise<Verdict | null> {
    try {
      const run = await runtime.run(row.turn);
      if (!run) return { error: "its run was deleted before it could be told", final: true, retryAfter: null };
      const letter = letterOf(row, run, { secret: secrets.get(row.to) ?? "", now: clock.now() });
      return verdictOf(await post.send(row.to, { ...letter, signal }));
    } catch (error) {
      return signal.aborted ? null : { error: messageOf(error), final: false, retryAfter: null };
    }
  }

  function after(row: Waiting, { error, final, retryAfter }: Exclude<Verdict, "told">) {
    const now = clock.now();
    const attempts = row.attempts + 1;
    const wait = final ? null : backoff(attempts, { retryAfter, now, random });
    return { attempts, due: now + (wait ?? 0), error, dead: wait === null };
  }

  function report(row: Waiting, next: ReturnType<typeof after> | null) {
    const about = { delivery: row.id, to: nameOf(row.to), run: row.turn };
    if (!next) return log("debug", "webhook.told", about);
    const { attempts, error, dead, due } = next;
    if (dead) log("error", "webhook.dead", { ...about, attempts, error });
    else log("warn", "webhook.failed", { ...about, attempts, error, againInMs: due - clock.now() });
  }

  /** Nobody can tell or revive what was meant for a target that is gone. */
  async function dropStrangers(): Promise<void> {
    await tried("unread", async () => {
      for (const dead of [true, false])
        for (let page: Announcement[] = [], from = 0; from === 0 || page.length === PAGE; from = page.at(-1)?.id ?? 1) {
          page = await runtime.announcements({ dead, after: from, limit: PAGE });
          for (const row of page) if (!secrets.has(row.to)) await drop(row, "it is not configured any more");
        }
    });
  }

  async function drop(row: Announcement, why: string): Promise<void> {
    await runtime.announced(row.id, null);
    log("warn", "webhook.dropped", { delivery: row.id, to: nameOf(row.to), run: row.turn, why });
  }

  /** False: the store could not do it. */
  async function tried(what: string, work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      log("warn", `webhooks.${what}`, { error: messageOf(error) });
      return false;
    }
  }

  return {
    observe(_session, entries) {
      if (entries.some(({ kind }) => kind === "ended" || kind === "withdrawn")) wake();
    },
    start() {
      working = work();
    },
    async close(ms) {
      closing = true;
      wake();
      const done = new AbortController();
      void working.then(() => done.abort());
      await clock.sleep(ms, done.signal);
      cut.abort();
      wake();
      for (const flight of flights) flight.cut.abort();
      await post.close();
    },
  };
}

/** A path or a query is often a secret of its own. */
const nameOf = (url: string) => (URL.canParse(url) ? new URL(url).origin : "a target without a valid address");
