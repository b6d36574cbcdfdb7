// One run: several people talk to several sessions of one directory while the process is killed at random moments
// and started again; then it comes to rest.
import { createRandom, type Random } from "../simulation/scheduler.ts";
import type { Client, Said } from "./client.ts";
import { Died, type Process, start } from "./process.ts";
import type { Round, ToolName } from "./wire.ts";

const SESSIONS = ["s0", "s1", "s2", "s3"];
const MODES = ["interrupt", "queue", "queue", "steer"] as const;
const TOOLS: ToolName[] = ["write", "write", "read", "danger", "hasty", "solo"];
/** What each person still does in the last life. */
const LAST_ACTIONS = 6;

export const stormSessions = SESSIONS;

export async function storm(seed: number, dir: string, client: Client): Promise<{ kills: number }> {
  const random = createRandom(seed);
  const kills = 2 + Math.floor(random() * 3);
  for (let life = 0; life < kills; life++) {
    const process = start(dir, random() < 0.35 ? fateOf(random) : "");
    const people = SESSIONS.map((session) => talk(process, client, createRandom(random() * 2 ** 32), session));
    await untilDead(process, [kill(process, random), ...people]);
  }
  const process = start(dir);
  try {
    await process.ready;
    const people = SESSIONS.map((s) => talk(process, client, createRandom(random() * 2 ** 32), s, LAST_ACTIONS));
    await Promise.all(people);
    await client.rest(process);
  } finally {
    process.end();
    await process.gone;
  }
  return { kills };
}

const fateOf = (random: Random) => `${random() < 0.5 ? "before" : "after"}:${1 + Math.floor(random() * 30)}`;

/** At a moment that depends on nothing: sometimes while it starts, mostly after it has said so many things. */
async function kill(process: Process, random: Random): Promise<void> {
  const early = random() < 0.2;
  const lines = Math.floor(random() * 120);
  const ms = random() * (early ? 150 : 10);
  if (!early) await process.until(() => process.lines() > lines);
  await new Promise((resolve) => setTimeout(resolve, ms));
  process.kill();
}

async function untilDead(process: Process, work: Promise<unknown>[]): Promise<void> {
  try {
    await Promise.all(work);
  } catch (error) {
    if (!(error instanceof Died)) throw error;
  } finally {
    process.kill();
    await process.gone;
  }
}

/** Somebody who does one thing after another, for as long as there is a process to do it with. */
async function talk(process: Process, client: Client, random: Random, session: string, actions = Infinity) {
  await process.ready;
  for (let n = 0; n < actions; n++) await act(process, client, random, session);
}

function act(process: Process, client: Client, random: Random, session: string): Promise<unknown> {
  const mine = client.said.filter((record) => record.request.session === session);
  /** Mostly one of the last. */
  const some = () => mine.at(-1 - Math.floor(random() ** 2 * mine.length));
  const about = (act: (record: Said) => Promise<unknown>) => {
    const record = some();
    return record ? act(record) : lull(process, session);
  };
  if (process.asking.has(session) && random() < 0.4) return answer(process, client, random, session);
  const dice = random();
  if (dice < 0.36) return client.send(process, client.compose(session, message(random, some()?.id)));
  if (dice < 0.42) return about((record) => client.send(process, record));
  if (dice < 0.46) return about((record) => Promise.all([client.send(process, record), client.send(process, record)]));
  if (dice < 0.54) return about((record) => client.stop(process, record));
  if (dice < 0.58) return about((record) => client.withdraw(process, record));
  if (dice < 0.62) return about((record) => client.move(process, record, Math.floor(random() * 3)));
  return lull(process, session);
}

function message(random: Random, recent = "nothing") {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const rounds = Array.from({ length: Math.floor(random() * 3) }, (): Round => {
    return { ms: pick([0, 0, 5, 20]), calls: Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(TOOLS)) };
  });
  const mode = pick(MODES);
  const reply = random() < 0.4 ? "push" : "pull";
  return { mode, reply, rounds, ...(mode === "steer" && random() < 0.3 && { into: recent }) } as const;
}

async function answer(process: Process, client: Client, random: Random, session: string): Promise<void> {
  const [call] = process.asking.get(session) ?? [];
  if (!call) return lull(process, session);
  const first = client.decide(process, session, call, random() < 0.8, "a");
  const second = random() < 0.3 ? client.decide(process, session, call, false, "b") : null;
  await Promise.all([first, second]);
}

/** Until something has happened in the session, if anything will without us. */
function lull(process: Process, session: string): Promise<void> {
  const before = process.lines();
  const idle = () => !process.busy.has(session) || process.asking.has(session);
  return process.until(() => idle() || process.lines() > before);
}
