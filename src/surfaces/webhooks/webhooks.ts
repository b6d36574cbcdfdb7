// Tells the ends of runs to whoever is configured to hear of them. What is to be told was stored in the commit that ended
// the run, and goes away only once it is told: nothing is lost in a crash, and what is told twice has the same id.
//
// A line is what one target is to hear of one session: in order, the next one only when this one is told or given up.
import { messageOf } from "../../core/errors.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";
import type { Announcement } from "../../core/store.ts";
import { within } from "../../core/wait.ts";
import { openPost, type Post } from "../../platform/post.ts";
import { backoff, type DeliveryVerdict, letterOf, verdictOf } from "./payload.ts";

type Options = Ambient & {
  runtime: Pick<Runtime, "announcements" | "run">;
  targets: readonly { url: string; secret: string }[];
  random: Random;
  post?: Post;
  /** How often all that waits is looked at: somebody may have revived one, and a commit can land without our hearing of it. */
  lookMs?: number;
};
export type Webhooks = ReturnType<typeof createWebhooks>;

const AT_ONCE = 8;
/** One target that hangs leaves room for the others. */
const AT_ONCE_TO_ONE = 4;
const LOOK_MS = 10_000;
/** Between two tries when the store is in trouble. */
const STORE_MS = 1_000;
const PAGE = 500;
/** Kept in memory, a few hundred bytes each; the rest waits in the store. */
const MOST = 50_000;

export function createWebhooks(options: Options) {
  const { runtime, targets, clock, random, log, post = openPost(), lookMs = LOOK_MS } = options;
  const secrets = new Map(targets.map(({ url, secret }) => [url, secret]));
  const lines = new Map<string, Announcement[]>();
  /** The ids of all that is in a line. */
  const known = new Set<number>();
  /** The lines of which one is being told just now, and to whom. */
  const flights = new Map<string, string>();
  const landed: { line: string; id: number; over: boolean }[] = [];
  const leaving = new AbortController();
  let alarm = new AbortController();
  let closing = false;
  let seen = 0;
  let lookAt = 0;
  let working = Promise.resolve();
  const wake = () => alarm.abort("more"); // with a reason: without one, each makes an exception and its stack

  async function work(): Promise<void> {
    await tried("unread", dropStrangers);
    while (secrets.size > 0 && !leaving.signal.aborted) {
      alarm = new AbortController();
      const wait = await advance();
      if (closing && flights.size === 0) return;
      await clock.sleep(wait, alarm.signal);
    }
  }

  /** Starts what is due. Returns how long there is nothing else to do. */
  async function advance(): Promise<number> {
    sweep();
    const readable = await tried("unread", read);
    const now = clock.now();
    let wait = readable ? lookAt - now : STORE_MS;
    for (const [line, [head]] of lines) {
      if (!head || flights.has(line)) continue;
      if (head.due > now) wait = Math.min(wait, head.due - now);
      else if (hasRoom(head.to)) fly(line, head);
    }
    return Math.max(0, wait);
  }

  /** Takes out what is over. Only here: what is being read meanwhile must not come in a second time. */
  function sweep() {
    for (const { line, id, over } of landed.splice(0)) {
      flights.delete(line);
      if (!over) continue;
      known.delete(id);
      const rest = (lines.get(line) ?? []).filter((row) => row.id !== id);
      lines.delete(line);
      if (rest.length) lines.set(line, rest); // behind the others: a long line does not hold them up
    }
  }

  async function read(): Promise<void> {
    const now = clock.now();
    if (now >= lookAt || lookAt - now > lookMs) {
      seen = 0;
      lookAt = now + lookMs;
    }
    for await (const row of rows({ dead: false, after: seen })) {
      if (known.size >= MOST) return;
      if (!secrets.has(row.to)) await dropStranger(row);
      else if (!known.has(row.id)) queue(row);
      seen = row.id;
    }
  }

  async function* rows({ dead, after }: { dead: boolean; after: number }): AsyncGenerator<Announcement> {
    for (let page: Announcement[] = [], from = after; ; from = page.at(-1)?.id ?? from) {
      page = await runtime.announcements.list({ dead, after: from, limit: PAGE });
      yield* page;
      if (page.length < PAGE) return;
    }
  }

  function queue(row: Announcement) {
    known.add(row.id);
    const name = JSON.stringify([row.to, row.session]);
    const line = lines.get(name) ?? [];
    const place = line.findIndex(({ id }) => id > row.id); // found, if it was revived
    line.splice(place < 0 ? line.length : place, 0, { ...row });
    lines.set(name, line);
  }

  const hasRoom = (to: string) =>
    flights.size < AT_ONCE && [...flights.values()].filter((other) => other === to).length < AT_ONCE_TO_ONE;

  function fly(line: string, row: Announcement) {
    flights.set(line, row.to);
    void tell(row).then((over) => {
      landed.push({ line, id: row.id, over });
      wake();
    });
  }

  /** True: it is over with this one, told or given up. Never throws. */
  async function tell(row: Announcement): Promise<boolean> {
    const verdict = await attempt(row);
    if (verdict === null) return false;
    const next = typeof verdict === "string" ? null : after(row, verdict);
    while (!(await tried("unkept", () => runtime.announcements.update(row.id, next)))) {
      if (leaving.signal.aborted) return false;
      await clock.sleep(STORE_MS, leaving.signal);
    }
    report(row, verdict, next);
    Object.assign(row, next);
    return next === null || next.dead;
  }

  /** Null: it was not tried, or we left before an answer came. It is tried again, under the same id. */
  async function attempt(row: Announcement): Promise<DeliveryVerdict | "gone" | null> {
    const { signal } = leaving;
    try {
      const run = await runtime.run(row.turn);
      if (!run) return "gone";
      const letter = letterOf(row, run, { secret: secrets.get(row.to) ?? "", now: clock.now() });
      return await post.send(row.to, { ...letter, signal }).then(verdictOf, (error: unknown) => {
        return signal.aborted ? null : { error: messageOf(error), final: false, retryAfter: null };
      });
    } catch (error) {
      log("warn", "webhooks.unread", { error: messageOf(error) });
      row.due = clock.now() + STORE_MS;
      return null;
    }
  }

  function after(row: Announcement, { error, final, retryAfter }: Exclude<DeliveryVerdict, "told">) {
    const now = clock.now();
    const attempts = row.attempts + 1;
    const wait = final ? null : backoff(attempts, { retryAfter, now, random });
    return { attempts, due: now + (wait ?? 0), error, dead: wait === null };
  }

  function report(row: Announcement, verdict: DeliveryVerdict | "gone", next: ReturnType<typeof after> | null) {
    const about = { delivery: row.id, to: nameOf(row.to), run: row.turn };
    if (verdict === "gone") return log("warn", "webhook.dropped", { ...about, why: "its run was deleted" });
    if (!next) return log("debug", "webhook.told", about);
    const { attempts, error, due } = next;
    if (next.dead) log("error", "webhook.dead", { ...about, attempts, error });
    else log("warn", "webhook.failed", { ...about, attempts, error, againInMs: due - clock.now() });
  }

  async function dropStrangers(): Promise<void> {
    for (const dead of [true, false])
      for await (const row of rows({ dead, after: 0 })) if (!secrets.has(row.to)) await dropStranger(row);
  }

  async function dropStranger({ id, to, turn }: Announcement): Promise<void> {
    await runtime.announcements.update(id, null);
    const why = "its target is not configured any more";
    log("warn", "webhook.dropped", { delivery: id, to: nameOf(to), run: turn, why });
  }

  /** False: the store could not do it. */
  async function tried(event: "unread" | "unkept", work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      log("warn", `webhooks.${event}`, { error: messageOf(error) });
      return false;
    }
  }

  return {
    observe(_session: string, entries: readonly Entry[]): void {
      if (entries.some(({ kind }) => kind === "ended" || kind === "withdrawn")) wake();
    },
    start() {
      working = work();
    },
    /** Tells what is due, and waits for what is under way, at most so long. The rest is told after the next start. */
    async close(ms: number): Promise<void> {
      closing = true;
      wake();
      await within(clock, ms, working);
      leaving.abort();
      wake();
      await post.close();
    },
  };
}

/** Without its path and query, which are often a secret. */
const nameOf = (url: string) => (URL.canParse(url) ? new URL(url).origin : "a target without a valid address");
