// The webhook channel of `hermes gateway` as a real process: a program that is a chat.
import { createHmac } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";
import { type Receiver, startReceiver } from "../fakes/receiver.ts";

const SECRET = "a-secret-that-nobody-may-see";
const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
let llm: FakeLlm;
let receiver: Receiver;
let place: Place;
beforeEach(async () => {
  [llm, receiver] = await Promise.all([startFakeLlm(), startReceiver({ answer: 200 })]);
  place = makePlace({ ...llm.env, API_SERVER_KEY: KEY });
});
afterEach(async () => {
  place.clear();
  await Promise.all([llm.close(), receiver.close()]);
  expect(llm.violations).toEqual([]);
});

async function gateway(yaml: string) {
  place.configure(yaml);
  const { url } = await place.startGateway();
  return (body: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/channels/webhook`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body,
    });
}
const signed = (body: string, seconds = 0) => {
  const timestamp = String(Math.floor(Date.now() / 1_000) + seconds);
  const signature = createHmac("sha256", SECRET).update(`${timestamp}.${body}`).digest("hex");
  return { "X-Hermes-Timestamp": timestamp, "X-Hermes-Signature": `sha256=${signature}` };
};
const message = (id: string, text: string) =>
  JSON.stringify({ id, chat: "ci", user: { id: "*", name: "Build" }, text, kind: "dm" });
/** Of the next message that is posted back. */
const answer = async () => JSON.parse((await receiver.next()).body) as { chat: string; event: string; text: string };

it("without a secret there is no webhook channel", async () => {
  const post = await gateway("");
  const body = message("1", "hello");
  const { status } = await post(body, { ...signed(body), Authorization: `Bearer ${KEY}` });
  expect(status).toBe(404);
  expect(llm.requests).toEqual([]);
});

it("a signed message is answered by a signed post; nobody is asked, nobody is an admin, nothing forged gets in", async () => {
  llm.script([
    { text: "Looking." },
    { calls: [{ name: "terminal", args: { command: "touch forbidden.txt" } }] },
    { text: "I was not allowed to." },
  ]);
  const post = await gateway(
    `gateway: {webhook: {secret: ${SECRET}, url: "${receiver.url}"}}\nterminal: {sandbox: off}\n`,
  );
  const first = message("1", "the build is red");
  expect((await post(first)).status).toBe(401);
  expect((await post(first, signed(`${first} `))).status).toBe(401);
  expect((await post(first, signed(first, -301))).status).toBe(401);
  expect((await post("x".repeat(10_000_001))).status).toBe(413); // before anybody asks whether it is signed
  const once = signed(first);
  expect((await post(first, once)).status).toBe(202);
  expect((await post(first, once)).status).toBe(409);
  expect((await post(first, signed(first, 1))).status).toBe(202); // the same message, not the same request
  expect(await answer()).toMatchObject({ chat: "ci", event: "message", text: "Looking." });

  const restart = message("2", "/restart");
  expect((await post(restart, signed(restart))).status).toBe(202);
  expect((await answer()).text).toBe("Only an admin may do that.");

  const second = message("3", "touch it");
  await post(second, signed(second));
  for (let said = await answer(); said.text !== "I was not allowed to."; said = await answer());
  expect(existsSync(join(place.dir, "forbidden.txt"))).toBe(false);
  expect(llm.requests.at(-1)?.raw).toContain(
    "Denied: approval needed, but this run is non-interactive. Use --yolo or an allow rule.",
  );
  expect(llm.requests).toHaveLength(3);
});
