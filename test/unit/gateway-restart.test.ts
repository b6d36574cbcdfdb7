// Drain and restart as a chat sees them. The names in brackets are those of the seed's own tests.
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createLifecycle, leaveTo, startAgain } from "../../src/surfaces/gateway/lifecycle.ts";
import { BEN, dm } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway } from "../fakes/gateway.ts";
import { calm, handClock, scriptedTool } from "../fakes/scripted.ts";

const QUEUED = "⏳ Gateway is restarting. Your message is queued for the next turn.";
const use = (tool: string) => ({ tool, args: {} });
const group = { kind: "group", chat: "chat1" } as const;

describe("/restart", () => {
  // [test_restart_command_while_busy_requests_drain_without_interrupt]
  it("while busy drains and does not interrupt", async () => {
    const { chat, model, restarts } = await bootGateway();
    await chat.say("work");
    const call = await model.next();
    await chat.say("/restart");
    await calm();
    expect(chat.texts()).toEqual(["⏳ Draining 1 active agent(s) before restart..."]);
    expect(restarts).toEqual([true]);
    expect(call.signal.aborted).toBe(false);
  });

  it("counts every turn that runs", async () => {
    const { chat, model } = await bootGateway();
    await chat.say("work");
    await chat.say("work too", { from: BEN });
    await model.next();
    await model.next();
    await chat.say("/restart");
    await calm();
    expect(chat.texts(dm({ id: "999", name: "" }))).toEqual(["⏳ Draining 2 active agent(s) before restart..."]);
  });

  it("asked for twice restarts once", async () => {
    const { chat, restarts } = await bootGateway();
    await chat.say("/restart");
    await chat.say("/restart");
    await calm();
    expect(chat.texts()).toEqual(["♻️ Restarting gateway...", "⏳ A restart is already under way."]);
    expect(restarts).toEqual([true, false]);
  });

  it("is answered by the next process, once, where it was asked for", async () => {
    const before = await bootGateway();
    await before.chat.say("/restart", { from: BEN });
    await before.leave("restart");
    const after = await before.next();
    await calm();
    expect(after.chat.texts(dm(BEN)).at(-1)).toBe("♻️ Gateway is back.");
    await after.leave("shutdown");
    const later = await after.next();
    await calm();
    expect(later.chat.texts(dm(BEN)).filter((text) => text.includes("is back"))).toHaveLength(1);
  });

  it("that the platform brings again after the restart restarts nothing", async () => {
    const before = await bootGateway();
    const message = await before.chat.say("/restart");
    await before.leave("restart");
    const after = await before.next();
    await after.chat.redeliver(message);
    await calm();
    expect(after.restarts).toEqual([]);
  });

  it("is only for admins where there are any", async () => {
    const { chat, restarts } = await bootGateway({ lists: { admins: [BEN.id] } });
    await chat.say("/restart");
    await calm();
    expect(chat.texts()).toEqual(["Only an admin may do that."]);
    expect(restarts).toEqual([]);
    await chat.say("/restart", { from: BEN });
    expect(restarts).toEqual([true]);
  });

  it("gets its answer out before the process leaves", async () => {
    const running = await bootGateway();
    const { chat } = running;
    chat.fault("send", { retryAfter: 2_000 });
    await chat.say("/restart");
    const left = running.leave("restart");
    await running.clock.pass(3_000);
    await left;
    expect(chat.texts()).toEqual(["♻️ Restarting gateway..."]);
  });
});

describe("while it drains", () => {
  // [test_drain_queue_mode_queues_follow_up_without_interrupt]
  it.each(["queue", "steer", "interrupt"] as const)(
    "a follow-up in %s mode is stored for the next turn and interrupts nothing",
    async (busyMode) => {
      const running = await bootGateway({ busyMode });
      const { chat, model, engine } = running;
      await chat.say("work");
      const call = await model.next();
      const drained = engine.drain(60_000);
      await chat.say("follow up");
      await calm();
      expect(chat.texts()).toEqual([QUEUED]);
      expect(QUEUED).toContain("queued for the next turn");
      expect(call.signal.aborted).toBe(false);
      expect((await engine.status(ANNAS)).inbox).toMatchObject([{ mode: "queue", text: "follow up" }]);

      call.answer("done in peace");
      await calm();
      await running.clock.pass(60_000);
      expect(await drained).toEqual({ left: [] });
      const after = await running.next();
      const next = await after.model.next();
      expect(next.request.messages.at(-1)).toMatchObject({ text: "follow up" });
      next.answer("the follow-up's answer");
      await calm();
      expect(chat.texts()).toEqual([QUEUED, "done in peace", "the follow-up's answer"]);
    },
  );

  // [test_draining_rejects_new_session_messages]
  it("a new session is refused, and nothing of it is stored", async () => {
    const { chat, model, engine } = await bootGateway();
    await chat.say("work");
    await model.next();
    void engine.drain(60_000);
    await chat.say("hello", { from: BEN });
    await calm();
    expect(chat.texts(dm(BEN))).toEqual(["⏳ Gateway is restarting and is not accepting new work right now."]);
    expect(await engine.summary("agent:main:telegram:dm:1001")).toBeNull();
  });

  it("what was refused stays refused when the platform brings it again, and is told once", async () => {
    const before = await bootGateway();
    const { chat, model, engine } = before;
    await chat.say("work");
    await model.next();
    void engine.drain(60_000);
    const message = await chat.say("hello", { from: BEN });
    await chat.redeliver(message);
    before.kill();
    const after = await before.next();
    await chat.redeliver(message);
    await calm();
    expect(chat.texts(dm(BEN))).toHaveLength(1);
    expect(await after.engine.summary("agent:main:telegram:dm:1001")).toBeNull();
  });

  it("a command that would begin work is refused in the same words", async () => {
    const { chat, model, engine } = await bootGateway();
    await chat.say("work");
    await model.next();
    void engine.drain(60_000);
    await chat.say("/background look it up");
    await chat.say("/status");
    await calm();
    expect(chat.texts()[0]).toBe("⏳ Gateway is restarting and is not accepting new work right now.");
    expect(chat.texts()[1]).toContain("Working (thinking");
  });
});

describe("the last words of a gateway", () => {
  async function withTurns(options: Parameters<typeof bootGateway>[0] = {}) {
    const running = await bootGateway(options);
    await running.chat.say("work");
    await running.model.next();
    return running;
  }

  // [test_shutdown_notification_sent_to_active_sessions]
  it("say that it is shutting down, where a turn runs", async () => {
    const { gateway, chat } = await withTurns();
    await gateway.announceLeaving("shutdown");
    expect(chat.sent()).toMatchObject([
      { place: { kind: "dm", chat: "999" }, text: expect.stringContaining("shutting down") },
    ]);
    expect(chat.texts()[0]).toContain("interrupted");
  });

  // [test_shutdown_notification_says_restarting_when_restart_requested]
  it("say that it is restarting and what will resume", async () => {
    const { gateway, chat } = await withTurns();
    await gateway.announceLeaving("restart");
    expect(chat.texts()).toEqual([expect.stringMatching(/restarting.*resume/is)]);
  });

  // [test_shutdown_notification_deduplicates_per_chat]
  it("are said once in a chat with many turns", async () => {
    const { gateway, chat, model } = await bootGateway();
    await chat.say("one", { place: group });
    await chat.say("two", { place: group, from: BEN });
    await model.next();
    await model.next();
    await gateway.announceLeaving("shutdown");
    expect(chat.sent()).toMatchObject([{ place: group }]);
  });

  // [test_shutdown_notification_skipped_when_no_active_agents]
  it("are not said when nothing runs", async () => {
    const { gateway, chat, model } = await bootGateway();
    await chat.say("hello");
    (await model.next()).answer("hi");
    await calm();
    await gateway.announceLeaving("shutdown");
    expect(chat.texts()).toEqual(["hi"]);
  });

  // [test_shutdown_notification_ignores_pending_sentinels]
  it("are not said to a turn that has not started", async () => {
    const { gateway, chat } = await withTurns({ limits: { turns: 1 } });
    await chat.say("waits for room", { from: BEN });
    await gateway.announceLeaving("shutdown");
    expect(chat.sent()).toMatchObject([{ place: { chat: "999" } }]);
  });

  // [test_shutdown_notification_send_failure_does_not_block]
  it.each(["never", "lost", "no", "hang"] as const)("block nothing when they cannot be sent (%s)", async (fault) => {
    const { gateway, chat, clock } = await withTurns();
    chat.fault("send", fault, 10);
    const announced = gateway.announceLeaving("shutdown");
    await clock.pass(5_000);
    await announced;
  });
});

describe("after the restart", () => {
  it("a turn that the drain could not wait for goes on by itself, in the same message", async () => {
    const slow = scriptedTool("download", { repeatable: true, deaf: true });
    const before = await bootGateway({ tools: [slow] });
    const { chat, clock } = before;
    await chat.say("fetch it");
    (await before.model.next()).answer("", use("download"));
    await slow.next();
    await clock.pass(1_000);
    expect(chat.texts()).toEqual(["⚙️ download"]);
    const left = before.leave("restart", 10_000);
    await clock.pass(20_000);
    expect((await left).left).toHaveLength(1);

    const after = await before.next();
    (await slow.next()).done("bytes");
    (await after.model.next()).answer("Here it is.");
    await calm();
    expect(chat.texts()).toEqual(["Here it is.", expect.stringContaining("restarting")]);
  });

  it("a turn that does not go on by itself leaves its results for the next message, with a note to the model", async () => {
    const tool = scriptedTool("build");
    const before = await bootGateway({ tools: [tool], limits: { resumeWithinMs: 0 } });
    const { chat, clock } = before;
    await chat.say("build it");
    (await before.model.next()).answer("", use("build"));
    await tool.next();
    before.kill();

    const after = await before.next();
    await chat.say("well?");
    const { request } = await after.model.next();
    expect(request.messages.at(-1)?.text).toMatch(/^\[System note: Your previous turn was interrupted.*\n\nwell\?$/s);
    const stored = after.journal(ANNAS).filter((entry) => entry.kind === "accepted");
    expect(stored.map((entry) => entry.kind === "accepted" && entry.input.text)).toEqual(["build it", "well?"]);
    await clock.pass(5_000);
  });

  it("a new conversation gets no such note", async () => {
    const tool = scriptedTool("build");
    const before = await bootGateway({ tools: [tool], limits: { resumeWithinMs: 0 } });
    await before.chat.say("build it");
    (await before.model.next()).answer("", use("build"));
    await tool.next();
    before.kill();
    const after = await before.next();
    await after.chat.say("/new");
    await after.chat.say("hello");
    expect((await after.model.next()).request.messages).toEqual([{ role: "user", text: "hello" }]);
  });

  it("what was only noted for a while is forgotten after two days, and nothing else", async () => {
    const before = await bootGateway();
    const kept = ["paired/telegram/1", "busy/x", "talk/x", "route/agent:main:schedule:job", "ask/t", "asked/s/c"];
    const old = ["did/telegram/1", "out/run_1", "edit/telegram/1", "tries/telegram/1", "refused/telegram/1"];
    for (const key of [...kept, ...old, "route/agent:main:background:x"]) before.disk.notes.set(key, { x: 1 });
    before.kill();
    const aged = (at: number) => (store: Store) => ({
      ...store,
      notes: {
        ...store.notes,
        list: async (prefix: string) => (await store.notes.list(prefix)).map((n) => ({ ...n, at })),
      },
    });
    const days = (n: number) => before.clock.now() - n * 86_400_000;
    await (await before.next({ between: aged(days(1.9)) })).gateway.tidy();
    expect(before.disk.notes.list("")).toHaveLength(kept.length + old.length + 1);
    await (await before.next({ between: aged(days(2.1)) })).gateway.tidy();
    expect(before.disk.notes.list("").map(({ key }) => key)).toEqual(kept.toSorted());
  });

  it("an answer that took three crashes to make is delivered all the same when there is a fourth", async () => {
    let running = await bootGateway({ rules: { recoveries: 3 } });
    const { chat } = running;
    await chat.say("hard question");
    for (let crash = 0; crash < 3; crash++) {
      running.kill();
      running = await running.next();
    }
    chat.outage(true);
    (await running.model.next()).answer("42");
    await running.clock.pass(1_000);
    running.kill();
    chat.outage(false);
    await running.next();
    await calm();
    expect(chat.texts()).toEqual(["42"]);
  });

  it("a session that crashed too often is parked, and its person is told", async () => {
    let running = await bootGateway({ rules: { recoveries: 2 } });
    const { chat } = running;
    await chat.say("poison");
    await running.model.next();
    for (let crash = 0; crash < 3; crash++) {
      running.kill();
      running = await running.next();
      await calm();
    }
    expect(chat.texts()).toEqual([expect.stringContaining("given up")]);
    await chat.say("go on");
    expect((await running.model.next()).request.messages.at(-1)?.text).toContain("go on");
  });

  it("a turn that does not go on by itself says so, in its message or in one of its own", async () => {
    for (const progress of ["all", "off"] as const) {
      const tool = scriptedTool("build");
      const before = await bootGateway({ tools: [tool], progress, limits: { resumeWithinMs: 0 } });
      await before.chat.say("build it");
      (await before.model.next()).answer("", use("build"));
      await tool.next();
      await before.clock.pass(1_000);
      before.kill();
      await before.next();
      await calm();
      expect(before.chat.texts()).toEqual([
        expect.stringMatching(
          progress === "all"
            ? /^✗ build\n\n⚠️ I was restarted in the middle/
            : /^⚠️ I was restarted in the middle of this.*Send a message to continue\.$/,
        ),
      ]);
    }
  });

  it("what a message showed when its turn was stopped just before the end says so", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const tool = scriptedTool("build");
      const clock = handClock();
      const dying = await bootGateway({ tools: [tool], clock, dieAt });
      void dying.chat.say("build it");
      await calm();
      dying.model.all[0]?.answer("", use("build"));
      await clock.pass(1_000);
      if (tool.all.length) void dying.chat.say("/stop");
      await clock.pass(1_000);
      const died = dying.dead();
      const noted = dying.disk.notes.list("live/").length > 0; // or nobody can know which message it was
      const after = await dying.next();
      await clock.pass(1_000);
      const { turn } = await after.engine.status(ANNAS);
      if (!turn && noted)
        for (const text of after.chat.texts().filter((one) => one.includes("build")))
          expect(text, `died at ${dieAt}`).not.toMatch(/^⚙️ build$/);
      if (!died) break;
    }
  });
});

describe("the process", () => {
  // [test_request_restart_is_idempotent]
  it("is asked to restart once: true, then false", async () => {
    const { requestRestart, asked } = createLifecycle(() => {}, new EventEmitter());
    expect(requestRestart({ turn: "run_1" })).toBe(true);
    expect(requestRestart({ turn: null })).toBe(false);
    expect(await asked).toEqual({ why: "restart", turn: "run_1" });
  });

  it("takes SIGTERM, SIGINT and SIGHUP for a stop, SIGUSR2 for a restart", async () => {
    for (const [signal, why] of Object.entries({ SIGTERM: "shutdown", SIGHUP: "shutdown", SIGUSR2: "restart" })) {
      const signals = new EventEmitter();
      const { asked, requestRestart } = createLifecycle(() => {}, signals);
      signals.emit(signal);
      expect(await asked).toEqual({ why, turn: null });
      expect(requestRestart({ turn: null })).toBe(false);
    }
  });

  it("exits with 0 when it was stopped, with 75 when its service manager is to start it again", () => {
    expect(leaveTo("shutdown", {}, ["false"])).toBe(0);
    expect(leaveTo("restart", { INVOCATION_ID: "abc" }, ["false"])).toBe(75);
  });

  it("that is wedged is ended from outside its event loop", async () => {
    const deadline = fileURLToPath(new URL("../../src/platform/deadline.ts", import.meta.url));
    const script = `import { setDeadline } from ${JSON.stringify(deadline)}; setDeadline(300); for (;;);`;
    const wedged = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
    const [, signal] = await once(wedged, "exit");
    expect(signal).toBe("SIGKILL");
  });

  it("that leaves in time is not", async () => {
    const deadline = fileURLToPath(new URL("../../src/platform/deadline.ts", import.meta.url));
    const script = `import { setDeadline } from ${JSON.stringify(deadline)}; setDeadline(60_000); setDeadline(1)(); setTimeout(() => {}, 200);`;
    const leaving = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
    const [code] = await once(leaving, "exit");
    expect(code).toBe(0);
  });

  // [test_launch_detached_restart_command_uses_setsid]
  describe("that starts itself again", () => {
    const started: number[] = [];
    afterEach(() => {
      for (const pid of started.splice(0)) if (isAlive(pid)) process.kill(-pid, "SIGKILL");
    });

    it("leaves a helper in a session of its own, with no terminal, that waits for our pid and no longer than it must", () => {
      const pid = startAgain(process.pid, ["/bin/true", "gateway"], { PATH: process.env["PATH"] });
      started.push(pid);
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
      const [, , group, session, terminal] = stat;
      expect([group, session, terminal]).toEqual([String(pid), String(pid), "0"]);
      expect(["0", "1", "2"].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))).toEqual(Array(3).fill("/dev/null"));
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      expect(command).toContain(`kill -0 ${process.pid}`);
      expect(command).toContain("gateway restart");
      expect(command).toMatch(/-gt \d+ \] && exit 1/);
      expect(isAlive(pid)).toBe(true);
    });

    it("starts its command when that pid is gone, and not before", async () => {
      const dir = mkdtempSync(join(tmpdir(), "hermes-again-"));
      const before = spawn("/bin/sh", ["-c", "read x"], { stdio: ["pipe", "ignore", "ignore"] });
      const file = join(dir, "started");
      started.push(startAgain(before.pid ?? 0, ["/bin/sh", "-c", `kill -0 ${before.pid}; echo $? > '${file}'`], {}));
      before.stdin.end();
      await expect.poll(() => existsSync(file) && readFileSync(file, "utf8"), { timeout: 10_000 }).toBe("1\n");
      rmSync(dir, { recursive: true });
    });
  });
});

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
