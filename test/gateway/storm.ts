// People in many chats talk at random moments to a gateway that is killed every few seconds, and restarted once by one of
// them. Telegram and the model provider are of this machine and outlive it; what they saw is judged in judge.ts.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "../../src/core/store.ts";
import { ownerPid } from "../../src/store/sqlite/file.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { type FakeTelegram, startFakeTelegram } from "../fakes/chat/telegram.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import type { Reply } from "../fakes/llm/reply.ts";
import { type FakeLlm, type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";
import { createRandom, type Random } from "../simulation/scheduler.ts";
import { judge } from "./judge.ts";

type StormOptions = {
  messages: number;
  chats: number;
  seconds: number;
  seed: number;
  say(line: string): void;
};
/** `said`: every message in its order; commands are not messages. */
export type Talk = { chat: number; mode: "queue" | "interrupt" | "steer"; said: string[]; stops: number };

const MODES = ["queue", "interrupt", "queue", "steer"] as const;
export const FIRST_CHAT = 5_000;
export const REST_MS = 120_000;

export async function storm({ messages, chats, seconds, seed, say }: StormOptions) {
  await using telegram = await startFakeTelegram();
  await using llm = await startFakeLlm();
  llm.script(replier(createRandom(seed + 1)));
  const talks = Array.from({ length: chats }, (_, n): Talk => {
    return { chat: FIRST_CHAT + n, mode: MODES[n % MODES.length] ?? "queue", said: [], stops: 0 };
  });
  const place = makePlace(envOf(llm, telegram, talks));
  place.configure("approvals: {mode: off}\nterminal: {sandbox: off}\n");
  const database = join(place.home, "hermes.db");
  const problems: string[] = [];
  let last: Life | null = null;
  try {
    const first = start(place);
    last = first;
    await first.ready;
    await setModes(telegram, talks);
    const talking = talk({ telegram, talks, messages, seconds, random: createRandom(seed + 2) });
    const fate = { place, database, telegram, seconds, random: createRandom(seed) };
    const { running, kills } = await kill(first, fate, talking, (life) => {
      last = life;
    });
    await running.ready;
    const store = await openSqlite({ file: database, readOnly: true });
    if (!(await atRest(store, telegram))) problems.push(`it is not at rest after ${REST_MS / 1_000} s`);
    signal(running, "SIGTERM");
    await running.gone;
    const judged = await judge({ store, talks, telegram });
    await store.close();
    problems.push(...judged.problems, ...llm.violations, ...telegram.violations);
    const { answered, interrupted, givenUp, copies, refused } = judged;
    say(
      `${messages} messages in ${chats} chats: ${kills} kills and a restart by command; ${answered} turns answered, ` +
        `${interrupted} interrupted or stopped, ${givenUp} given up and told, ${refused} refused while restarting, ` +
        `${copies} marked copies`,
    );
    if (problems.length) say(`kept in ${place.dir}`);
    else place.clear();
    return { passed: messages - Math.min(messages, problems.length), problems };
  } catch (error) {
    if (last && isAlive(last.pid)) process.kill(last.pid, "SIGKILL");
    place.clear();
    throw error;
  }
}

export const envOf = (llm: FakeLlm, telegram: FakeTelegram, talks: readonly Talk[]): NodeJS.ProcessEnv => ({
  ...llm.env,
  ...telegram.env(...talks.map(({ chat }) => chat)),
  HERMES_GATEWAY_BUSY_INPUT_MODE: "queue",
});

/** Everybody says how their messages are to be taken, and sees that it holds. */
export async function setModes(telegram: FakeTelegram, talks: readonly Talk[]): Promise<void> {
  for (const { chat, mode } of talks) telegram.say({ from: person(chat), text: `/busy ${mode}` });
  await telegram.until(() =>
    talks.every(({ chat, mode }) =>
      telegram.sent(chat).some(({ text }) => text === `From now on messages ${mode} while I work.`),
    ),
  );
}

const person = (chat: number) => ({ id: chat, name: `Person ${chat}` });

/** Everybody's messages, at their moments; now and then a stop, an update that comes again, a call that goes wrong. */
export async function talk(people: {
  telegram: FakeTelegram;
  talks: readonly Talk[];
  messages: number;
  seconds: number;
  random: Random;
}): Promise<void> {
  const { telegram, talks, messages, seconds, random } = people;
  const moments = Array.from({ length: messages }, () => random() * seconds * 1_000).toSorted((a, b) => a - b);
  const began = performance.now();
  for (const [n, moment] of moments.entries()) {
    await sleep(Math.max(0, moment - (performance.now() - began)));
    const one = pick(random, talks);
    const from = person(one.chat);
    if (random() < 0.02) {
      one.stops++;
      telegram.say({ from, text: "/stop" });
    }
    const text = `c${one.chat}-${String(n).padStart(5, "0")}`;
    one.said.push(text);
    telegram.say({ from, text });
    if (random() < 0.02) telegram.redeliver(1 + Math.floor(random() * 5));
    if (random() < 0.01) telegram.fault("sendMessage", pick(random, ["lost", "reset", { status: 502 }] as const));
    if (random() < 0.01) telegram.fault("editMessageText", pick(random, ["lost", "reset"] as const));
  }
}

type Life = { pid: number; ready: Promise<void>; gone: Promise<void>; stderr(): string };

function start(place: Place): Life {
  const hermes = place.start(["gateway", "--port", "0"]);
  const ready = hermes.prints(/^hermes gateway ready/m).catch(() => {}); // it was killed before
  return { pid: hermes.pid, ready, gone: hermes.exit.then(() => {}), stderr: hermes.stderr };
}

function signal({ pid, stderr }: Life, name: NodeJS.Signals): void {
  if (!isAlive(pid)) throw new Error(`process ${pid} had ended by itself: ${stderr().slice(-2_000)}`);
  process.kill(pid, name);
}

/** Until nobody talks any more: a kill every few seconds, often while it starts; in the middle a restart by command. */
async function kill(
  first: Life,
  fate: { place: Place; database: string; telegram: FakeTelegram; seconds: number; random: Random },
  talking: Promise<void>,
  lives: (life: Life) => void,
): Promise<{ running: Life; kills: number }> {
  const { place, database, telegram, seconds, random } = fate;
  const began = performance.now();
  let running = first;
  let kills = 0;
  let restarted = false;
  const silent = new AbortController();
  void talking.finally(() => silent.abort());
  while (!silent.signal.aborted || !restarted) {
    await Promise.race([sleep(300 + random() * 3_500), talking]);
    const middle = silent.signal.aborted || performance.now() - began > seconds * 500;
    if (!restarted && middle) {
      await running.ready;
      restarted = true;
      telegram.say({ from: person(FIRST_CHAT), text: "/restart" });
      await running.gone;
      const pid = await nextOwner(database, running.pid);
      running = { pid, ready: Promise.resolve(), gone: untilGone(pid), stderr: () => "" }; // nobody's child
    } else {
      signal(running, "SIGKILL");
      await running.gone;
      kills++;
      running = start(place);
      if (random() < 0.7) await running.ready;
    }
    lives(running);
  }
  await talking;
  return { running, kills };
}

export const pick = <T>(random: Random, all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;

/** Mostly quick; now and then slow enough to be interrupted, with a tool before it, or with more than fits into one message. */
export function replier(random: Random): (request: LlmRequest) => Reply {
  return ({ messages }) => {
    const last = messages.at(-1);
    const asked = messages.findLast(({ role }) => role === "user")?.text ?? "";
    const token = /c\d+-\d+(?![^]*c\d+-\d+)/.exec(asked)?.[0] ?? "nobody";
    const delayMs = random() < 0.15 ? 1_500 : random() * 200;
    if (last?.role === "user" && random() < 0.2)
      return {
        calls: [{ name: "terminal", args: { command: `sleep 0.${Math.floor(random() * 5)}; echo ${token}` } }],
        delayMs,
      };
    if (random() < 0.05) {
      const lines = Array.from(
        { length: 120 },
        (_, n) => `Answer to ${token}, line ${n}, ${"with many words ".repeat(4)}.`,
      );
      return { text: lines.join("\n"), delayMs };
    }
    return { text: `Answer to ${token}.`, delayMs };
  };
}

async function nextOwner(database: string, before: number): Promise<number> {
  for (let look = 0; look < 300; look++) {
    const pid = ownerPid(database);
    if (pid !== null && pid !== before) return pid;
    await sleep(100);
  }
  throw new Error("nobody came after /restart");
}

async function untilGone(pid: number): Promise<void> {
  while (isAlive(pid)) await sleep(20);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Nothing waits, nothing runs, Telegram has nothing left to bring. */
export async function atRest({ catalog }: Pick<Store, "catalog">, telegram: FakeTelegram): Promise<boolean> {
  for (let look = 0; look < REST_MS / 200; look++) {
    if (!telegram.pending().length && !(await catalog.sessions({ active: true, limit: 1 })).length) return true;
    await sleep(200);
  }
  return false;
}
