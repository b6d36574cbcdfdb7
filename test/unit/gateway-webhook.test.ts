// The webhook channel's door: only what is signed over its very bytes, now, and for the first time, is heard.
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createWebhook } from "../../src/chats/webhook/webhook.ts";
import { SendFault } from "../../src/core/chat.ts";
import { listener } from "../contract/chat.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { startReceiver } from "../fakes/receiver.ts";
import { handClock } from "../fakes/scripted.ts";

const SECRET = "a-secret-that-nobody-may-see";
const MESSAGE = { id: "m1", chat: "c1", user: { id: "u1", name: "Build" }, text: "It is red." };

type Signing = { secret?: string; body?: string; signed?: string; at?: number; prefix?: string };

async function door(url?: string, shared = { clock: handClock(), notes: asStore(createMemoryStore()).notes }) {
  const { clock, notes } = shared;
  const chat = createWebhook({ secret: SECRET, url, ...shared, log: () => {} });
  const inbox = listener();
  await chat.start(inbox);
  const post = (message: object, signing: Signing = {}) => {
    const { secret = SECRET, body = JSON.stringify(message), signed = body, prefix = "sha256=" } = signing;
    const timestamp = String(signing.at ?? Math.floor(clock.now() / 1_000));
    const signature = prefix + createHmac("sha256", secret).update(`${timestamp}.${signed}`).digest("hex");
    return chat.receive(Buffer.from(body), { "x-hermes-timestamp": timestamp, "x-hermes-signature": signature });
  };
  return { chat, clock, notes, inbox, post };
}

describe("a webhook", () => {
  it("that is signed is heard", async () => {
    const { inbox, post } = await door();
    expect(await post(MESSAGE)).toMatchObject({ status: 202 });
    expect(inbox.messages).toMatchObject([
      { message: "m1", text: "It is red.", place: { kind: "dm", chat: "c1" }, from: { id: "u1", name: "Build" } },
    ]);
  });

  it.each<[string, Signing]>([
    ["with another secret", { secret: "another-secret" }],
    ["with no secret at all", { secret: "" }],
    [
      "over other bytes that mean the same",
      { body: JSON.stringify(MESSAGE, null, 1), signed: JSON.stringify(MESSAGE) },
    ],
    ["over another text", { signed: JSON.stringify({ ...MESSAGE, text: "It is green." }) }],
    ["in another form", { prefix: "" }],
    ["in a longer form", { prefix: "sha256=sha256=" }],
  ])("signed %s is refused", async (_, signing) => {
    const { inbox, post } = await door();
    expect(await post(MESSAGE, signing)).toMatchObject({ status: 401 });
    expect(inbox.messages).toEqual([]);
  });

  it.each([
    {},
    { "x-hermes-signature": "sha256=00" },
    { "x-hermes-timestamp": "1" },
    { "x-hermes-timestamp": "now", "x-hermes-signature": "sha256=00" },
    { "x-hermes-timestamp": ["1", "2"], "x-hermes-signature": ["a", "b"] },
    { "x-hermes-timestamp": "-1", "x-hermes-signature": "sha256=00" },
  ])("with the headers %j is refused", async (headers) => {
    const { chat, inbox } = await door();
    expect(await chat.receive(Buffer.from(JSON.stringify(MESSAGE)), headers)).toMatchObject({ status: 401 });
    expect(inbox.messages).toEqual([]);
  });

  it.each([
    [-301, 401],
    [301, 401],
    [-299, 202],
    [299, 202],
  ])("signed %d seconds from now is answered with %d", async (seconds, status) => {
    const { clock, post } = await door();
    expect(await post(MESSAGE, { at: Math.floor(clock.now() / 1_000) + seconds })).toMatchObject({ status });
  });

  it("is good once: replayed it is refused, as long as it would be young enough", async () => {
    const { clock, inbox, post } = await door();
    const at = Math.floor(clock.now() / 1_000) + 290;
    await post(MESSAGE, { at });
    for (let minute = 0; minute < 9; minute++) {
      expect(await post(MESSAGE, { at }), `after ${minute} minutes`).toMatchObject({ status: 409 });
      await clock.pass(60_000);
    }
    expect(await post(MESSAGE, { at })).toMatchObject({ status: expect.toBeOneOf([401, 409]) });
    expect(inbox.messages).toHaveLength(1);
  });

  it("is good once for all nodes on a store, and forgotten when it is too old to be replayed", async () => {
    const one = await door();
    const other = await door(undefined, one);
    expect(await one.post(MESSAGE)).toMatchObject({ status: 202 });
    expect(await other.post(MESSAGE)).toMatchObject({ status: 409 });
    expect(other.inbox.messages).toEqual([]);
    await one.clock.pass(600_001);
    await other.post(MESSAGE);
    await expect.poll(() => one.notes.list("")).toHaveLength(1);
  });

  it("is good once also for many who knock at the same moment", async () => {
    const { inbox, post } = await door();
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    const answers = Promise.all([post(MESSAGE), post(MESSAGE), post(MESSAGE)]);
    gate.resolve();
    expect((await answers).map(({ status }) => status)).toEqual([202, 409, 409]);
  });

  it("that could not be taken may come again as it is", async () => {
    const { inbox, post } = await door();
    inbox.take = () => Promise.reject(new Error("disk full"));
    expect(await post(MESSAGE)).toMatchObject({ status: 503 });
    inbox.take = async () => {};
    expect(await post(MESSAGE)).toMatchObject({ status: 202 });
  });

  it.each([
    { ...MESSAGE, id: "" },
    { ...MESSAGE, user: undefined },
    { ...MESSAGE, evil: true },
    { ...MESSAGE, event: "exploded" },
    { ...MESSAGE, attachments: [{ name: "x", mime: "y", data: "not base64!" }] },
  ])("that is signed but makes no sense is refused with a reason: %j", async (message) => {
    const { inbox, post } = await door();
    const { status, body } = await post(message);
    expect([status, JSON.stringify(body).length > 30]).toEqual([400, true]);
    expect(inbox.messages).toEqual([]);
  });

  it("to a door that is closed is told to come again", async () => {
    const { chat, post } = await door();
    await chat.stop();
    expect(await post(MESSAGE)).toMatchObject({ status: 503 });
  });
});

describe("an answer by webhook", () => {
  const never = new AbortController().signal;
  const place = { kind: "dm", chat: "c1" } as const;

  it("is signed over its bytes and carries its key", async () => {
    const receiver = await startReceiver({ answer: 200 });
    const { chat } = await door(receiver.url);
    await chat.send(place, { text: "Fixed." }, "run_1.0", never);
    const { headers, body } = await receiver.next();
    const expected = createHmac("sha256", SECRET)
      .update(`${String(headers["x-hermes-timestamp"])}.${body}`)
      .digest("hex");
    expect(headers["x-hermes-signature"]).toBe(`sha256=${expected}`);
    expect(headers["idempotency-key"]).toBe("run_1.0");
    expect(JSON.parse(body)).toMatchObject({ chat: "c1", event: "message", text: "Fixed." });
    await receiver.close();
  });

  it.each([
    [500, "no"],
    [429, "no"],
    [410, "never"],
  ])("that is answered with %d has landed: %s", async (status, landed) => {
    const receiver = await startReceiver({ answer: status });
    const { chat } = await door(receiver.url);
    const fault: unknown = await chat.send(place, { text: "x" }, "k", never).catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(SendFault);
    expect(fault).toMatchObject({ landed });
    await receiver.close();
  });

  it("that has nowhere to go never lands, and says what to set", async () => {
    const { chat } = await door();
    await expect(chat.send(place, { text: "x" }, "k", never)).rejects.toMatchObject({
      landed: "never",
      message: expect.stringContaining("gateway.webhook.url"),
    });
  });
});
