// The ends of runs, told to a real receiver: once, in order, signed, through failures and restarts.
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import type { Log } from "../../src/core/ports.ts";
import type { Announcement, Store } from "../../src/core/store.ts";
import { openPost } from "../../src/platform/post.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { backoff } from "../../src/surfaces/webhooks/payload.ts";
import { createWebhooks, type Webhooks } from "../../src/surfaces/webhooks/webhooks.ts";
import { startApi } from "../fakes/api.ts";
import { type Letter, type Receiver, startReceiver } from "../fakes/receiver.ts";
import { type BootOptions, bootEngine, calm, type HandClock, handClock, scriptedModel } from "../fakes/scripted.ts";

const SECRET = "a-secret-that-nobody-may-see";
const SECOND = 1_000;

const opened: { close(): Promise<void> | void }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

async function receiver(options?: { answer?: number }): Promise<Receiver> {
  const made = await startReceiver(options);
  opened.push(made);
  return made;
}

type WorldOptions = Pick<BootOptions, "disk" | "between"> & { clock?: HandClock; limitMs?: number; start?: boolean };

/** A process that tells these targets. Its clock stands still until the test lets time pass. */
async function world(urls: string[], { clock = handClock(), limitMs, start = true, ...boot }: WorldOptions = {}) {
  const model = scriptedModel();
  const logs: { event: string; fields: Record<string, unknown> }[] = [];
  const waiting = new Set<() => void>();
  const log: Log = (_level, event, fields = {}) => {
    logs.push({ event, fields });
    for (const look of waiting) look();
  };
  let webhooks: Webhooks | null = null;
  const observe: BootOptions["observe"] = (session, entries) => webhooks?.observe(session, entries);
  const booted = await bootEngine({ ...boot, model, clock, announce: urls, observe });
  webhooks = createWebhooks({
    runtime: booted.engine,
    targets: urls.map((url) => ({ url, secret: SECRET })),
    clock,
    random: () => 0,
    log,
    ...(limitMs !== undefined && { post: openPost({ limitMs }) }),
  });
  const made = webhooks;
  const close = async () => {
    const closed = made.close(0);
    await clock.pass(0);
    await closed;
  };
  opened.push({ close });
  if (start) made.start();
  return {
    ...booted,
    webhooks: made,
    model,
    clock,
    logs,
    /** So many lines of this kind are in the log. */
    logged: (event: string, count = 1) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (logs.filter((line) => line.event === event).length < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    /** A turn from its beginning to its end. */
    async run(session: string, text = "hello"): Promise<string> {
      const { id } = await booted.send(session, text);
      (await model.next()).answer(`You said ${text}`);
      await booted.ended(session, id);
      return id;
    },
    waiting: () => booted.engine.announcements.list({ dead: false, after: 0, limit: 100 }),
    dead: () => booted.engine.announcements.list({ dead: true, after: 0, limit: 100 }),
    async kill() {
      booted.kill();
      await close();
    },
  };
}

const runOf = (letter: Letter) => (JSON.parse(letter.body) as { run_id: string }).run_id;
const deliveryOf = ({ headers }: Letter) => headers["x-hermes-delivery"];

describe("what is told", () => {
  it("is a run's end as JSON, under a signature that its receiver can verify", async () => {
    const there = await receiver();
    const { run, clock, logged, waiting } = await world([`${there.url}/hook?room=1`]);
    const id = await run("agent:main:telegram:dm:999", "hello");
    const letter = await there.next();
    const { headers, body } = letter;
    letter.answer(204);

    expect(letter.path).toBe("/hook?room=1");
    const at = clock.now() / SECOND;
    expect(JSON.parse(body)).toEqual({
      event: "run.completed",
      run_id: id,
      session_id: "agent:main:telegram:dm:999",
      status: "completed",
      output: "You said hello",
      usage: { input_tokens: 2, output_tokens: 1, total_tokens: 3 },
      created_at: at,
      updated_at: at,
    });
    expect(headers).toMatchObject({
      "content-type": "application/json; charset=utf-8",
      "x-hermes-event": "run.completed",
      "x-hermes-delivery": "1",
      "x-hermes-timestamp": String(Math.floor(at)),
    });
    const signed = createHmac("sha256", SECRET)
      .update(`${String(headers["x-hermes-timestamp"])}.${body}`)
      .digest("hex");
    expect(headers["x-hermes-signature"]).toBe(`sha256=${signed}`);

    await logged("webhook.told");
    expect(await waiting()).toEqual([]);
  });

  it.each([
    ["run.failed", "failed"],
    ["run.cancelled", "stopped"],
    ["run.interrupted", "interrupted"],
    ["run.cancelled", "withdrawn"],
  ])("is %s for a run that was %s", async (event, how) => {
    const there = await receiver({ answer: 200 });
    const { engine, model, send } = await world([there.url]);
    const { id: first } = await send("s", "one");
    const { id: second } = await send("s", "two");
    const call = await model.next();
    if (how === "failed") call.fault("no such key", "auth");
    if (how === "stopped") await engine.stop({ session: "s", turn: first });
    if (how === "interrupted") await send("s", "three", { mode: "interrupt" });
    if (how === "withdrawn") await engine.withdraw("s", second);
    const letter = await there.next();
    expect(letter.headers["x-hermes-event"]).toBe(event);
    const told = JSON.parse(letter.body) as Record<string, unknown>;
    expect(told).toMatchObject({ event, run_id: how === "withdrawn" ? second : first, status: event.slice(4) });
    expect("error" in told).toBe(how === "failed");
    expect("output" in told).toBe(false);
  });

  it("goes to every target, each under a delivery id of its own", async () => {
    const [one, two] = [await receiver({ answer: 200 }), await receiver({ answer: 200 })];
    const { run, logged } = await world([one.url, two.url]);
    const id = await run("s");
    await logged("webhook.told", 2);
    expect([one, two].map(({ all }) => all.map(runOf))).toEqual([[id], [id]]);
    expect(deliveryOf(one.all[0] as Letter)).not.toBe(deliveryOf(two.all[0] as Letter));
  });
});

describe("order", () => {
  it("is kept for a session while its first letter fails, and other sessions do not wait", async () => {
    const there = await receiver();
    const { run, clock, logged } = await world([there.url]);
    const first = await run("a", "one");
    (await there.next()).answer(503);
    await logged("webhook.failed");
    const second = await run("a", "two");
    const other = await run("b", "three");

    const beside = await there.next();
    expect(runOf(beside)).toBe(other);
    beside.answer();
    await clock.pass(SECOND);
    const again = await there.next();
    expect(runOf(again)).toBe(first);
    again.answer(500);
    await logged("webhook.failed", 2);
    await clock.pass(5 * SECOND);
    (await there.next()).answer();
    const last = await there.next();
    expect(runOf(last)).toBe(second);
    last.answer();
    await logged("webhook.told", 3);
    expect(there.all.map(runOf)).toEqual([first, other, first, first, second]);
  });

  it("goes on behind a letter that is given up", async () => {
    const there = await receiver();
    const { run, dead, logged } = await world([there.url]);
    const first = await run("a", "one");
    const second = await run("a", "two");
    (await there.next()).answer(410);
    const next = await there.next();
    expect(runOf(next)).toBe(second);
    next.answer();
    await logged("webhook.told");
    expect(await dead()).toMatchObject([{ turn: first, attempts: 1, error: "answered 410", dead: true }]);
  });

  it("is kept through any mix of refusals, lost answers and successes, and every letter arrives", async () => {
    const there = await receiver();
    const { run, clock, waiting, dead, logs } = await world([there.url]);
    const told = new Map<string, string[]>();
    const tries = new Map<string, number>();
    let over = false;
    const answering = (async () => {
      for (;;) {
        const letter = await there.next();
        if (over) return letter.answer();
        const delivery = String(deliveryOf(letter));
        const { session_id: session, run_id } = JSON.parse(letter.body) as { session_id: string; run_id: string };
        const attempt = (tries.get(delivery) ?? 0) + 1;
        tries.set(delivery, attempt);
        told.set(session, [...(told.get(session) ?? []), run_id]);
        if (attempt > Number(delivery) % 4) letter.answer();
        else if (attempt % 2) letter.answer(503);
        else letter.cut();
      }
    })();
    const runs = new Map<string, string[]>();
    for (let n = 0; n < 40; n++) {
      const session = `session ${n % 7}`;
      runs.set(session, [...(runs.get(session) ?? []), await run(session)]);
    }
    while ((await waiting()).length) await clock.pass(SECOND);
    over = true;
    await run("last");
    await answering;
    expect(await dead()).toEqual([]);
    expect(logs.filter(({ event }) => event === "webhook.failed")).toHaveLength(60);
    for (const [session, ids] of runs) {
      const heard = told.get(session) ?? [];
      expect(heard.filter((id, place) => id !== heard[place - 1])).toEqual(ids);
    }
  });

  it("has at most 4 letters to a target under way, and one that hangs does not hold up another", async () => {
    const [hangs, answers] = [await receiver(), await receiver({ answer: 200 })];
    const { run, logged } = await world([hangs.url, answers.url]);
    for (let n = 0; n < 10; n++) await run(`session ${n}`);
    await logged("webhook.told", 10);
    expect(answers.all).toHaveLength(10);
    expect(hangs.all).toHaveLength(4);
    for (let n = 0; n < 10; n++) (await hangs.next()).answer();
    await logged("webhook.told", 20);
    expect(new Set(hangs.all.map(runOf))).toEqual(new Set(answers.all.map(runOf)));
  });
});

describe("a receiver in trouble", () => {
  it.each([400, 401, 404, 410, 422])("that answers %i is not asked again", async (status) => {
    const there = await receiver({ answer: status });
    const { run, clock, dead, waiting, logged } = await world([there.url]);
    await run("s");
    await logged("webhook.dead");
    await clock.pass(3_600 * SECOND);
    expect(there.all).toHaveLength(1);
    expect(await waiting()).toEqual([]);
    expect(await dead()).toMatchObject([{ attempts: 1, error: `answered ${status}` }]);
  });

  it.each([302, 408, 409, 425, 429, 500, 503])("that answers %i is asked again", async (status) => {
    const elsewhere = await receiver({ answer: 200 });
    const there = await receiver();
    const { run, clock, logged } = await world([there.url]);
    await run("s");
    const first = await there.next();
    first.answer(status, { Location: elsewhere.url });
    await logged("webhook.failed");
    await clock.pass(SECOND);
    const second = await there.next();
    expect(deliveryOf(second)).toBe(deliveryOf(first));
    second.answer();
    await logged("webhook.told");
    expect(elsewhere.all).toEqual([]);
  });

  it("is asked seven times, ever later, then not any more", async () => {
    const there = await receiver({ answer: 500 });
    const { run, clock, dead, waiting, logged } = await world([there.url]);
    await run("s");
    const waits: number[] = [];
    for (let attempt = 1; attempt < 7; attempt++) {
      await logged("webhook.failed", attempt);
      const [row] = await waiting();
      waits.push(((row as Announcement).due - clock.now()) / SECOND);
      await clock.pass((row as Announcement).due - clock.now());
    }
    await logged("webhook.dead");
    expect(waits).toEqual([1, 5, 30, 120, 600, 3600]);
    expect(there.all).toHaveLength(7);
    expect(new Set(there.all.map(deliveryOf)).size).toBe(1);
    expect(await dead()).toMatchObject([{ attempts: 7, error: "answered 500", dead: true }]);
  });

  it("says itself when to come again", async () => {
    const there = await receiver();
    const { run, clock, logged, waiting } = await world([there.url]);
    await run("s");
    (await there.next()).answer(503, { "Retry-After": "90" });
    await logged("webhook.failed");
    expect(await waiting()).toMatchObject([{ attempts: 1, due: clock.now() + 90 * SECOND }]);
  });

  it("that reads the letter and loses its answer gets a second copy under the same id", async () => {
    const there = await receiver();
    const { run, clock, logged, waiting } = await world([there.url]);
    const id = await run("s");
    const first = await there.next();
    first.cut();
    await logged("webhook.failed");
    expect(await waiting()).toMatchObject([{ error: "no answer (UND_ERR_SOCKET)" }]);
    await clock.pass(SECOND);
    const copy = await there.next();
    expect([runOf(first), runOf(copy)]).toEqual([id, id]);
    expect(copy.body).toBe(first.body);
    expect(deliveryOf(copy)).toBe(deliveryOf(first));
    copy.answer();
    await logged("webhook.told");
  });

  it("that hangs is left at the limit", async () => {
    const there = await receiver();
    const { run, logged, waiting } = await world([there.url], { limitMs: 500 });
    await run("s");
    const letter = await there.next();
    await letter.left;
    await logged("webhook.failed");
    expect(await waiting()).toMatchObject([{ attempts: 1, error: "no answer within 0.5 s" }]);
  });

  it("that is not there at all is tried again later", async () => {
    const there = await startReceiver();
    await there.close();
    const { run, logged, waiting } = await world([there.url]);
    await run("s");
    await logged("webhook.failed");
    expect(await waiting()).toMatchObject([{ attempts: 1, error: "no answer (ECONNREFUSED)" }]);
  });
});

describe("the wait before another try", () => {
  const waitFor = (retryAfter: string | null, { attempts = 1, random = 0, now = Date.UTC(2026, 0, 1) } = {}) =>
    backoff(attempts, { retryAfter, now, random: () => random });

  it("has jitter, which only makes it longer", () => {
    expect(waitFor(null, { random: 0.999 })).toBeCloseTo(1_250, -1);
    expect(waitFor("60", { random: 0.5 })).toBe(67_500);
  });

  it.each([
    ["120", 120_000],
    ["Thu, 01 Jan 2026 00:02:00 GMT", 120_000],
    ["0", 1_000],
    ["1000000000", 3_600_000],
    ["Thu, 01 Jan 1970 00:00:00 GMT", 1_000],
    ["soon", 1_000],
    ["-5", 1_000],
  ])("obeys Retry-After: %s, from a second to an hour", (retryAfter, ms) => {
    expect(waitFor(retryAfter)).toBe(ms);
  });
});

describe("a restart", () => {
  it("goes on where the dead process was, without trying at once what is to wait", async () => {
    const there = await receiver();
    const before = await world([there.url]);
    const id = await before.run("s");
    (await there.next()).answer(503);
    await before.logged("webhook.failed");
    await before.clock.pass(SECOND);
    (await there.next()).answer(503);
    await before.logged("webhook.failed", 2);
    await before.kill();

    const { clock, waiting, logged } = await world([there.url], { disk: before.disk, clock: before.clock });
    await calm();
    expect(there.all).toHaveLength(2);
    expect(await waiting()).toMatchObject([{ attempts: 2, due: clock.now() + 5 * SECOND }]);
    await clock.pass(5 * SECOND);
    const letter = await there.next();
    expect([runOf(letter), deliveryOf(letter)]).toEqual([id, "1"]);
    letter.answer();
    await logged("webhook.told");
    expect(await waiting()).toEqual([]);
  });

  it("tells what ended when nobody was there to tell it, from a real file", async () => {
    const dir = mkdtempSync(join(tmpdir(), "hermes-webhooks-"));
    opened.push({ close: () => rmSync(dir, { recursive: true }) });
    const file = join(dir, "hermes.db");
    const there = await receiver();
    const first = await openSqlite({ file });
    const before = await world([there.url], { between: () => first, start: false });
    const ids = [await before.run("a"), await before.run("a"), await before.run("b")];
    await before.engine.drain(0);
    await first.close();

    const second = await openSqlite({ file });
    opened.push(second);
    const { logged, waiting } = await world([there.url], { between: () => second });
    for (let n = 0; n < 3; n++) (await there.next()).answer();
    await logged("webhook.told", 3);
    expect(there.all.map(runOf).toSorted()).toEqual(ids.toSorted());
    expect(there.all.map(runOf).filter((id) => id !== ids[2])).toEqual(ids.slice(0, 2));
    expect(await waiting()).toEqual([]);
  });

  it("drops what was for a target that is not configured any more, also the dead, and says so", async () => {
    const there = await receiver({ answer: 400 });
    const before = await world([there.url]);
    await before.run("s");
    await before.logged("webhook.dead");
    await before.kill();
    const between = await world([`${there.url}/secret-path`], { disk: before.disk, start: false });
    await between.run("s");
    await between.kill();

    const { logs, logged, waiting, dead } = await world([], { disk: before.disk });
    await logged("webhook.dropped", 2);
    expect([...(await waiting()), ...(await dead())]).toEqual([]);
    expect(logs.map(({ fields }) => fields)).toMatchObject([{ to: there.url }, { to: there.url }]);
    expect(there.all).toHaveLength(1);
  });

  it("drops a letter whose run was deleted meanwhile", async () => {
    const there = await receiver();
    const { run, engine, clock, logged, waiting } = await world([there.url]);
    await run("s");
    (await there.next()).answer(503);
    await logged("webhook.failed");
    expect(await engine.forget("s")).toBe("forgotten");
    await clock.pass(SECOND);
    await logged("webhook.dropped");
    expect(await waiting()).toEqual([]);
  });
});

describe("the store in trouble", () => {
  it("costs no attempt, and what was told is not told again once it is back", async () => {
    const there = await receiver({ answer: 200 });
    const before = await world([there.url], { start: false });
    await before.run("s");
    await before.kill();

    const down = { turn: true, announced: true };
    const fails = async () => {
      throw new StoreFault("no", "disk full");
    };
    const between = (store: Store): Store => ({
      ...store,
      journal: { ...store.journal, turn: (id) => (down.turn ? fails() : store.journal.turn(id)) },
      announcements: {
        ...store.announcements,
        update: (id, next) => (down.announced ? fails() : store.announcements.update(id, next)),
      },
    });
    const { clock, logs, logged, waiting } = await world([there.url], { disk: before.disk, between });
    await logged("webhooks.unread");
    await calm();
    expect(logs).toHaveLength(1); // it waits before it looks again
    expect(there.all).toEqual([]);
    down.turn = false;
    await clock.pass(SECOND);
    await logged("webhooks.unkept");
    expect(await waiting()).toMatchObject([{ attempts: 0 }]);
    down.announced = false;
    await clock.pass(SECOND);
    await logged("webhook.told");
    expect(there.all).toHaveLength(1);
    expect(await waiting()).toEqual([]);
  });
});

describe("the end", () => {
  it("is bounded, though a receiver hangs; the letter comes again with the next start", async () => {
    const there = await receiver();
    const before = await world([there.url]);
    const id = await before.run("s");
    const first = await there.next();
    const closed = before.webhooks.close(500);
    await before.clock.pass(500);
    await closed;
    await first.left;
    expect(await before.waiting()).toMatchObject([{ attempts: 0, dead: false }]);

    await before.kill();
    const { logged } = await world([there.url], { disk: before.disk });
    const again = await there.next();
    expect([runOf(again), deliveryOf(again)]).toEqual([id, deliveryOf(first)]);
    again.answer();
    await logged("webhook.told");
  });

  it("tells what is due before it comes, and does not wait for what is not", async () => {
    const there = await receiver();
    const { run, webhooks, logged, waiting } = await world([there.url]);
    const failing = await run("a");
    (await there.next()).answer(503);
    await logged("webhook.failed");
    const due = await run("b");
    const closed = webhooks.close(60 * SECOND);
    const letter = await there.next();
    expect(runOf(letter)).toBe(due);
    letter.answer();
    await closed;
    expect(await waiting()).toMatchObject([{ turn: failing }]);
  });

  it("comes at once where nothing was started", async () => {
    const { webhooks } = await world(["http://127.0.0.1:1"], { start: false });
    await webhooks.close(60 * SECOND);
  });
});

it("never shows a secret: not in the log, not in an error, not with a target's path", async () => {
  const there = await receiver();
  const { run, clock, logs, logged, waiting, dead } = await world([`${there.url}/path-of-mine?token=of-mine`]);
  await run("s");
  (await there.next()).cut();
  await logged("webhook.failed");
  const failing = await waiting();
  await clock.pass(SECOND);
  (await there.next()).answer(400);
  await logged("webhook.dead");
  const errors = [...failing, ...(await dead())].map(({ error }) => error);
  expect(errors).toEqual(["no answer (UND_ERR_SOCKET)", "answered 400"]);
  expect(JSON.stringify(logs)).not.toMatch(/of-mine|that-nobody-may-see/);
  expect(JSON.stringify(logs)).toContain(there.url);
});

describe("dead letters over HTTP", () => {
  const TO = "https://user:password@hooks.example/path?token=1";

  async function api(count: number) {
    const made = await startApi({ announce: [TO] });
    opened.push(made);
    for (let n = 0; n < count; n++) {
      const id = await made.run({ input: "hello", session_id: "s" });
      (await made.model.next()).answer("hi");
      await made.ended("s", id);
      await made.engine.announcements.update(n + 1, { attempts: 7, due: 5_000, error: "answered 500", dead: true });
    }
    return made;
  }

  it("are listed page by page, without the secrets of an address", async () => {
    const { json } = await api(3);
    type Page = { data: { id: number }[]; has_more: boolean };
    const { status, body } = await json<Page>("GET", "/api/webhooks/dead?limit=2");
    expect(status).toBe(200);
    expect(body).toMatchObject({ object: "list", has_more: true, data: [{ id: 1 }, { id: 2 }] });
    expect(body.data[0]).toMatchObject({
      object: "hermes.webhook.delivery",
      url: "https://hooks.example/path",
      run_id: expect.stringMatching(/^run_/),
      session_id: "s",
      attempts: 7,
      error: "answered 500",
      failed_at: 5,
    });
    const rest = await json<Page>("GET", "/api/webhooks/dead?after=2");
    expect(rest.body).toMatchObject({ has_more: false, data: [{ id: 3 }] });
    expect((await json("GET", "/api/webhooks/dead?limit=many")).status).toBe(400);
  });

  it("can be revived, and are then told by whoever runs", async () => {
    const { json, engine } = await api(1);
    const { status, body } = await json("POST", "/api/webhooks/dead/1/retry");
    expect([status, body["status"]]).toEqual([200, "waiting"]);
    expect(await engine.announcements.list({ dead: false, after: 0, limit: 9 })).toMatchObject([
      { id: 1, attempts: 0, due: 0, dead: false },
    ]);
    expect((await json("POST", "/api/webhooks/dead/1/retry")).status).toBe(404);
  });

  it("can be forgotten", async () => {
    const { json, engine } = await api(1);
    expect(await json("DELETE", "/api/webhooks/dead/1")).toMatchObject({ status: 200, body: { id: 1, deleted: true } });
    expect(await engine.announcements.list({ dead: true, after: 0, limit: 9 })).toEqual([]);
    expect((await json("DELETE", "/api/webhooks/dead/1")).status).toBe(404);
    expect((await json("DELETE", "/api/webhooks/dead/x")).status).toBe(404);
  });

  it("that is revived is sent again within seconds, in its place", async () => {
    const there = await receiver();
    const { run, clock, engine, logged } = await world([there.url]);
    const first = await run("s");
    (await there.next()).answer(400);
    await logged("webhook.dead");
    const second = await run("s");
    (await there.next()).answer(503, { "Retry-After": "3600" });
    await logged("webhook.failed");
    await engine.announcements.update(1, { attempts: 0, due: 0, error: "", dead: false });
    await clock.pass(10 * SECOND);
    const revived = await there.next();
    expect([runOf(revived), deliveryOf(revived)]).toEqual([first, "1"]);
    revived.answer();
    await logged("webhook.told");
    await clock.pass(3_600 * SECOND);
    expect(runOf(await there.next())).toBe(second);
  });
});
