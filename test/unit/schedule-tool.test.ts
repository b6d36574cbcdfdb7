// The agent's `schedule` tool over the real scheduler and engine.
import { afterEach, describe, expect, it } from "vitest";
import type { Tool } from "../../src/core/ports.ts";
import { createScheduler, type Scheduler } from "../../src/schedule/scheduler.ts";
import { createSchedule } from "../../src/tools/schedule.ts";
import { bootEngine, calm, handClock, scriptedModel } from "../fakes/scripted.ts";

const MINUTE = 60_000;
const CHAT = "agent:main:telegram:dm:999";
const OTHER = "agent:main:telegram:dm:1000";
const TERMINAL = "agent:main:terminal:dm:abc";

const opened: Scheduler[] = [];
afterEach(async () => {
  for (const scheduler of opened.splice(0)) await scheduler.close();
});

async function world() {
  const clock = handClock();
  clock.set(Date.parse("2026-01-05T08:00:00Z") - clock.now());
  const model = scriptedModel();
  let scheduler: Scheduler | null = null;
  const tool: Tool = createSchedule({ jobs: () => scheduler ?? fail(), clock });
  const observe: Scheduler["observe"] = (session, entries) => scheduler?.observe(session, entries);
  const booted = await bootEngine({ clock, model, tools: [tool], observe });
  const { engine } = booted;
  const delivers = (session: string) => session.startsWith("agent:main:telegram:");
  const made = createScheduler({ runtime: engine, notes: engine.notes, clock, log: () => {}, delivers });
  scheduler = made;
  opened.push(made);
  made.start();
  let calls = 0;
  return {
    ...booted,
    clock,
    model,
    scheduler: made,
    tool,
    /** As the engine uses it: judged, then run. A refusal is a result as well. */
    async use(session: string, args: Record<string, unknown>, call = `call-${calls++}`) {
      const gate = await tool.judge(args, session);
      if (gate.gate === "refuse") return { ok: false, text: gate.result };
      return tool.run(args, { session, turn: "turn", call, signal: new AbortController().signal });
    },
    jobs: () => made.list(),
    ids: async () => (await made.list()).map(({ id }) => id) as [string, string],
  };
}
const fail = (): never => {
  throw new Error("The scheduler is not there yet.");
};

describe("add", () => {
  it("in a chat makes a job whose answers come there, and says when it is next", async () => {
    const { use, jobs } = await world();
    const args = { action: "add", text: "Look at the news", cron: "0 9 * * 1-5", zone: "Europe/Berlin" };
    const { ok, text } = await use(`${CHAT}#2`, args);
    const [job] = await jobs();
    expect(job).toMatchObject({ route: CHAT, createdBy: CHAT, unattended: "deny", catchUp: "once" });
    expect([ok, text]).toEqual([
      true,
      `Added.\n${job?.id}: Look at the news (0 9 * * 1-5; next 2026-01-06 09:00 Europe/Berlin; delivered to the chat)`,
    ]);
  });

  it("elsewhere, or where that is wanted, makes one whose answers are only kept", async () => {
    const { use, jobs } = await world();
    await use(TERMINAL, { action: "add", text: "x", in: "1h" });
    await use(CHAT, { action: "add", text: "x", in: "2h", deliver: "nowhere", missed: "skip" });
    expect(await jobs()).toMatchObject([
      { route: null, createdBy: TERMINAL },
      { route: null, catchUp: "skip" },
    ]);
    expect(await use(TERMINAL, { action: "add", text: "x", in: "1h", deliver: "here" })).toMatchObject({ ok: false });
    expect(await jobs()).toHaveLength(2);
  });

  it("is one job when it is run again after a crash", async () => {
    const { use, jobs } = await world();
    const args = { action: "add", text: "x", in: "1h" };
    const first = await use(CHAT, args, "the same call");
    expect(await use(CHAT, args, "the same call")).toEqual(first);
    expect(await jobs()).toHaveLength(1);
  });

  it.each([
    ["no time", { text: "x" }, /exactly one of cron, at, in and every/],
    ["no text", { in: "1h" }, /text is missing/],
    ["too long a text", { text: "x".repeat(10_001), in: "1h" }, /text: /],
    ["seconds", { text: "x", cron: "* * * * * *" }, /five parts/],
    ["somebody else's chat", { text: "x", in: "1h", route: OTHER }, /route/],
    ["leave to do everything", { text: "x", in: "1h", unattended: "allow" }, /unattended/],
  ])("with %s is refused, and says what to do", async (_, args, why) => {
    const { use, jobs } = await world();
    const { ok, text } = await use(CHAT, { action: "add", ...args });
    expect([ok, await jobs()]).toEqual([false, []]);
    expect(text).toMatch(/^Not (added|run): /);
    expect(text).toMatch(why);
  });
});

describe("a conversation", () => {
  it("sees and changes its own jobs only; the terminal sees all", async () => {
    const { use, ids } = await world();
    await use(CHAT, { action: "add", text: "mine", in: "1h" });
    await use(OTHER, { action: "add", text: "theirs", in: "2h" });
    const [mine, theirs] = await ids();
    const seen = async (session: string) => (await use(session, { action: "list" })).text;
    expect(await seen(CHAT)).toMatch(/^It is 2026-01-05 .*\n[0-9a-f]{12}: mine \(once; .*\)$/);
    expect(await seen(`${CHAT}#3/child/turn.call.0`)).toMatch(/mine/);
    expect(await seen(OTHER)).not.toMatch(/mine/);
    expect((await seen(TERMINAL)).split("\n")).toHaveLength(3);
    for (const action of ["remove", "pause", "resume", "run"])
      expect(await use(CHAT, { action, id: theirs })).toEqual({
        ok: false,
        text: `There is no job ${theirs} in this conversation. The action list shows them.`,
      });
    expect(await use(CHAT, { action: "remove", id: mine })).toMatchObject({ ok: true });
    expect(await ids()).toEqual([theirs]);
  });

  it("can pause, resume and run a job, and is told why not", async () => {
    const { use, jobs, ids, engine } = await world();
    await use(CHAT, { action: "add", text: "x", cron: "0 9 * * *" });
    const [id] = await ids();
    await use(CHAT, { action: "pause", id });
    expect((await use(CHAT, { action: "list" })).text).toMatch(/; paused; /);
    expect(await use(CHAT, { action: "resume", id })).toMatchObject({ ok: true });
    expect(await jobs()).toMatchObject([{ enabled: true }]);
    expect(await use(CHAT, { action: "run", id }, "once")).toMatchObject({ ok: true });
    expect(await use(CHAT, { action: "run", id }, "once")).toMatchObject({ ok: true });
    expect((await engine.status(`agent:main:schedule:${id}`)).inbox).toEqual([]);
    await use(CHAT, { action: "run", id });
    expect((await use(CHAT, { action: "run", id })).text).toMatch(/another one waits already/);
    expect((await use(CHAT, { action: "pause" })).text).toMatch(/id is missing/);
    expect((await use(CHAT, { action: "list" })).ok).toBe(true);
  });

  it("is told that there is nothing", async () => {
    const { use } = await world();
    expect((await use(CHAT, { action: "list" })).text).toMatch(/^It is .* There are no jobs\.$/);
  });
});

describe("a scheduled turn", () => {
  it("cannot multiply itself, nor can its children; it can end its job", async () => {
    const { use, ids, clock, model, journal } = await world();
    await use(CHAT, { action: "add", text: "watch the build", cron: "*/5 * * * *", deliver: "nowhere" });
    await use(CHAT, { action: "add", text: "something else", in: "9h" });
    const [job, other] = await ids();
    const session = `agent:main:schedule:${job}`;
    await clock.pass(5 * MINUTE);
    const asked = await model.next();
    asked.answer("", { tool: "schedule", args: { action: "add", text: "more of me", cron: "* * * * *" } });
    const again = await model.next();
    expect(again.request.messages.at(-1)).toMatchObject({ text: expect.stringMatching(/makes no jobs/) as string });
    for (const who of [session, `${session}/child/turn.call.0`])
      for (const action of ["add", "resume", "run"])
        expect(await use(who, { action, id: job, text: "x", in: "1m" })).toMatchObject({ ok: false });
    expect(await use(session, { action: "remove", id: other })).toMatchObject({ ok: false });
    again.answer("", { tool: "schedule", args: { action: "remove", id: job } });
    (await model.next()).answer("The build is green.");
    await calm();
    expect(await ids()).toEqual([other]);
    expect(journal(session).at(-1)).toMatchObject({ kind: "ended", outcome: "completed" });
  });
});
