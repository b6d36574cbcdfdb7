// Viewers that read slowly cost what they are sent, not what there is: the engine on a real store, over real sockets.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { KEY, startApi, type TestApi } from "../fakes/api.ts";
import { type Frame, look } from "../streams/viewer.ts";

const MB = 1_000_000;
const ANSWER = "0123456789abcdef".repeat((8 * MB) / 16);
const VIEWERS = 80;
/** Frames, their copies and what the runtime keeps for a connection. */
const MOST = 100 * MB;
/** With what is waste already. */
const MOST_AT_ONCE = 800 * MB;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

let dir = "";
let api: TestApi;
let close: () => Promise<void>;
const readers: Socket[] = [];
/** The server's ends. */
const ends: Socket[] = [];
const add = (message: unknown) => void ends.push((message as { socket: Socket }).socket);
beforeEach(async () => {
  subscribe("net.server.socket", add);
  dir = mkdtempSync(join(tmpdir(), "hermes-viewers-"));
  const store = await openSqlite({ file: join(dir, "hermes.db") });
  api = await startApi({ between: () => store, settings: { maxRuns: 100 } });
  close = () => store.close();
});
afterEach(async () => {
  unsubscribe("net.server.socket", add);
  ends.splice(0);
  for (const reader of readers.splice(0)) reader.destroy();
  await api.close();
  await close();
  rmSync(dir, { recursive: true });
});

/** One that asks and does not read. */
async function lazy(path: string): Promise<void> {
  const { port } = new URL(api.url);
  const reader = connect(Number(port), "127.0.0.1");
  readers.push(reader);
  reader.on("error", () => {});
  reader.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
  await once(reader, "readable"); // it has begun; nothing is taken
}

/** Until nothing more goes out to any of them. */
async function stuck(): Promise<void> {
  const waiting = () => ends.filter((end) => end.writableNeedDrain).length;
  await expect.poll(waiting, { interval: 50, timeout: 20_000 }).toBe(VIEWERS);
}

function held(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const peak = () => process.resourceUsage().maxRSS * 1_024;

const EVENTS = [
  ["a run", (id: string) => `/v1/runs/${id}/events`],
  ["a session", () => "/api/sessions/s/events"],
] as const;

it.each(EVENTS)("80 who come late to %s with an answer of 8 MB, and do not read it, cost little", async (_, pathOf) => {
  const id = await api.run({ input: "x", session_id: "s" });
  (await api.model.next()).answer(ANSWER);
  await api.ended("s", id);
  const before = held();
  const highest = peak();
  await Promise.all(Array.from({ length: VIEWERS }, () => lazy(pathOf(id))));
  await stuck();
  expect(held() - before).toBeLessThan(MOST);
  expect(peak() - highest).toBeLessThan(MOST_AT_ONCE);
});

it.each(EVENTS)("80 who watch %s while it says 8 MB, and do not read it, cost little", async (_, pathOf) => {
  const id = await api.run({ input: "x", session_id: "s" });
  const asked = await api.model.next();
  const before = held();
  const highest = peak();
  await Promise.all(Array.from({ length: VIEWERS }, () => lazy(pathOf(id))));
  asked.answer(ANSWER);
  await api.ended("s", id);
  await stuck();
  expect(held() - before).toBeLessThan(MOST);
  expect(peak() - highest).toBeLessThan(MOST_AT_ONCE);
});

it("a long text comes in deltas of at most 64 kB, live and afterwards", async () => {
  const id = await api.run({ input: "x", session_id: "s" });
  const asked = await api.model.next();
  const live = look(api.url, id, "", Number.POSITIVE_INFINITY);
  asked.say(ANSWER.slice(0, MB));
  asked.answer(ANSWER.slice(MB));
  await api.ended("s", id);
  const later = await look(api.url, id, "", Number.POSITIVE_INFINITY);
  for (const { frames } of [await live, later]) {
    const deltas = frames.flatMap(({ data }: Frame) => (typeof data["delta"] === "string" ? [data["delta"]] : []));
    expect(Math.max(...deltas.map((delta) => delta.length))).toBeLessThanOrEqual(65_536);
    expect(deltas.join("") === ANSWER).toBe(true);
  }
});
