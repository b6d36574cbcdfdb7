// What a terminal does with a runtime, done with one here and with one at the other end of a wire: the same comes of it.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createRemoteRuntime } from "../../src/client/remote.ts";
import type { HermesError } from "../../src/client/wire.ts";
import { Refusal } from "../../src/core/errors.ts";
import { entriesOf } from "../../src/core/pages.ts";
import type { Gate } from "../../src/core/ports.ts";
import type { AcceptRequest, Runtime, Update } from "../../src/core/runtime.ts";
import type { Entry } from "../../src/core/session.ts";
import { KEY, type StartOptions, startApi, type TestApi } from "../fakes/api.ts";
import { startProxy } from "../fakes/proxy.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});
async function start(options: StartOptions = {}): Promise<TestApi> {
  const api = await startApi(options);
  closing.push(api.close);
  return api;
}
const remote = ({ url }: { url: string }, log?: Parameters<typeof createRemoteRuntime>[0]["log"]) =>
  createRemoteRuntime({ url, key: KEY, ...(log && { log }) });

const ask: Gate = { gate: "ask", kind: "approval", text: "Run it?", choices: ["once", "deny"], timeoutMs: 60_000 };
let keys = 0;
const input = (session: string, text: string, more: Partial<AcceptRequest> = {}): AcceptRequest => ({
  session,
  source: "terminal",
  key: `key-${keys++}`,
  text,
  mode: "queue",
  reply: "pull",
  ...more,
});
const caught = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => error as Refusal | HermesError,
  );
/** Reads on until an entry of this kind. */
async function until(updates: AsyncGenerator<Update>, kind: Entry["kind"], into: Update[] = []): Promise<Update[]> {
  for (;;) {
    const { value, done } = await updates.next();
    if (done) throw new Error(`The stream ended before ${kind}.`);
    into.push(value);
    if ("entry" in value && value.entry.kind === kind) return into;
  }
}
const entriesIn = (updates: Update[]) => updates.flatMap((update) => ("entry" in update ? [update.entry] : []));
const textIn = (updates: Update[]) => updates.map((update) => ("delta" in update ? update.delta : "")).join("");

describe.each<[string, (api: TestApi) => Runtime]>([
  ["here", ({ engine }) => engine],
  ["elsewhere", (api) => remote(api)],
])("a runtime %s", (_, runtimeOf) => {
  async function open(options: StartOptions = {}) {
    const api = await start(options);
    return { api, runtime: runtimeOf(api) };
  }
  async function talk(api: TestApi, runtime: Runtime, session: string, text: string, reply: string) {
    const { id } = await runtime.accept(input(session, text));
    (await api.model.next()).answer(reply);
    await api.ended(session, id);
    return id;
  }

  it("accepts, says what became of it, and takes the same key once", async () => {
    const { api, runtime } = await open();
    const first = input("s", "one");
    const receipt = await runtime.accept(first);
    expect(receipt).toEqual({ id: receipt.id, session: "s", applied: "began", replayed: false, cursor: "0" });
    expect(await runtime.accept(first)).toEqual({ ...receipt, replayed: true });
    await api.model.next();
    expect(await runtime.accept(input("s", "two"))).toMatchObject({ applied: "queue", cursor: "2" });
    expect(await runtime.accept(input("s", "three", { mode: "interrupt" }))).toMatchObject({ applied: "interrupt" });
    const { session: _, ...alone } = input("", "alone");
    const { id, session } = await runtime.accept(alone);
    expect(session).toBe(id);
  });

  it("keeps who said it, that nobody can be asked, pictures, model, reasoning and instructions", async () => {
    const { api, runtime } = await open();
    const given = {
      by: "ann",
      attended: true,
      unattended: "allow" as const,
      images: [{ mime: "image/png", data: "AAAA" }],
      model: "m",
      instructions: "be brief",
      options: { effort: "high" as const },
    };
    await runtime.accept(input("s", "look", given));
    expect((await api.entry("s", "accepted")).input).toMatchObject({ text: "look", ...given });
  });

  it.each<[string, string, Partial<AcceptRequest>]>([
    ["empty_text", "there is nothing in it", { text: " " }],
    ["text_too_long", "it is too long", { text: "x".repeat(1_000_001) }],
    ["invalid_key", "its key is none", { key: "a\nb" }],
    ["invalid_session", "its session is none", { session: "" }],
    ["invalid_session", "its session has two lines", { session: "a\nb" }],
    ["run_not_accepting_steer", "the run is not there", { mode: "steer", into: "run_x" }],
  ])("refuses with %s when %s", async (code, _why, wrong) => {
    const { api, runtime } = await open();
    const refusal = await caught(runtime.accept(input("s", "hi", wrong)));
    expect(refusal).toBeInstanceOf(Refusal);
    expect(refusal).toMatchObject({ name: "Refusal", code });
    expect(refusal?.message).not.toMatch(/^input: /);
    expect(api.disk.catalog.sessions({ limit: 1 })).toEqual([]);
  });

  it("refuses a key that was used for something else, and more than waits", async () => {
    const { api, runtime } = await open({ limits: { inbox: 1 } });
    await runtime.accept(input("s", "one", { key: "k" }));
    await api.model.next();
    expect(await caught(runtime.accept(input("s", "other", { key: "k" })))).toMatchObject({
      code: "idempotency_key_conflict",
    });
    await runtime.accept(input("s", "two"));
    expect(await caught(runtime.accept(input("s", "three")))).toMatchObject({ code: "inbox_full" });
  });

  it("is followed from before the first word, with live text, to the end of a turn and on", async () => {
    const { api, runtime } = await open();
    const leave = new AbortController();
    const updates = runtime.follow("new", "0", leave.signal);
    const began = until(updates, "began");
    await runtime.accept(input("new", "hello"));
    const seen = await began;
    const asked = await api.model.next();
    asked.say("Grü");
    const { value: piece } = await updates.next();
    expect(piece).toEqual({ cursor: "2.3", delta: "Grü" });
    seen.push(piece);
    asked.answer("ße 🙂");
    await until(updates, "ended", seen);
    await talk(api, runtime, "new", "again", "ok");
    await until(updates, "ended", seen);
    expect(entriesIn(seen)).toEqual(api.journal("new"));
    expect(textIn(seen)).toBe("Grüße 🙂ok");
    const waiting = updates.next();
    leave.abort();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  it("is followed from any place with exactly the rest", async () => {
    const { api, runtime } = await open();
    await talk(api, runtime, "s", "one", "eins");
    const leave = new AbortController();
    const all = await until(runtime.follow("s", "", leave.signal), "ended");
    for (const [index, { cursor }] of all.slice(0, -1).entries())
      expect(await until(runtime.follow("s", cursor, leave.signal), "ended")).toEqual(all.slice(index + 1));
    leave.abort();
  });

  it("shows notices and what the model thinks, live", async () => {
    const { api, runtime } = await open();
    const leave = new AbortController();
    const updates = runtime.follow("s", "", leave.signal);
    await runtime.accept(input("s", "hello"));
    await until(updates, "began");
    (await api.model.next()).reason("hmm");
    expect((await updates.next()).value).toMatchObject({ reasoning: "hmm" });
    leave.abort();
    await updates.return(undefined);
  });

  it("stops a turn, and what was not begun yet", async () => {
    const { api, runtime } = await open();
    const { id } = await runtime.accept(input("s", "one"));
    const asked = await api.model.next();
    const { id: second } = await runtime.accept(input("s", "two"));
    expect(await runtime.stop({ session: "s", turn: second })).toBe("withdrawn");
    expect(await runtime.stop({ session: "s", turn: id })).toBe("stopping");
    expect(asked.signal.aborted).toBe(true);
    expect(await api.ended("s", id)).toBe("cancelled");
    expect(await runtime.stop({ session: "s", turn: id, scope: "tree" })).toBe("over");
    expect(await runtime.stop({ session: "none", turn: "" })).toBe("over");
  });

  it("answers a question once", async () => {
    const tool = scriptedTool("shell", { gate: ask });
    const { api, runtime } = await open({ tools: [tool] });
    await runtime.accept(input("s", "do it"));
    (await api.model.next()).answer("", { tool: "shell", args: {} });
    const { call } = await api.entry("s", "asked");
    expect((await runtime.status("s")).asking).toMatchObject([{ call, kind: "approval", text: "Run it?" }]);
    const answer = { session: "s", call, allow: false, text: "not now", by: "terminal" };
    expect(await runtime.answer(answer)).toBe(true);
    expect(await runtime.answer({ ...answer, allow: true })).toBe(false);
    expect(await api.entry("s", "decided")).toMatchObject({ allow: false, text: "not now", by: "terminal" });
  });

  it("takes back and moves what waits, and tells what it does", async () => {
    const { api, runtime } = await open();
    expect(await runtime.status("s")).toEqual({
      session: "s",
      said: 0,
      turn: null,
      inbox: [],
      asking: [],
      parked: false,
      since: "0",
      held: false,
      unsaved: [],
      background: [],
    });
    const { id } = await runtime.accept(input("s", "one"));
    await api.model.next();
    const { id: two } = await runtime.accept(input("s", "two"));
    const { id: three } = await runtime.accept(input("s", "three"));
    expect(await runtime.move("s", three, 0)).toBe(true);
    expect(await runtime.move("s", three, 0)).toBe(false);
    const status = await runtime.status("s");
    expect(status).toMatchObject({ turn: { id, phase: "thinking", thoughts: 0 }, inbox: [{ id: three }, { id: two }] });
    expect(await runtime.withdraw("s", two)).toBe(true);
    expect(await runtime.withdraw("s", two)).toBe(false);
    expect(await runtime.whereabouts(two)).toEqual({ at: "withdrawn" });
    expect(await runtime.whereabouts(three)).toEqual({ at: "queued" });
    expect(await runtime.whereabouts(id)).toEqual({ at: "taken", turn: id });
    expect(await runtime.whereabouts("none")).toBeNull();
    expect(await runtime.load()).toMatchObject({ turns: 1, held: 0, waiting: 1, oldestWaitingAt: expect.any(Number) });
  });

  it("lists, names, reads, forks and forgets sessions", async () => {
    const { api, runtime } = await open();
    for (const session of ["a", "b", "ü/c"]) await talk(api, runtime, session, `talk of ${session}`, "zebra");
    await api.send("child", "inner", { parent: "a" });
    const all = await api.engine.sessions({ limit: 10 });
    expect(await runtime.sessions({ limit: 10 })).toEqual(all);
    expect(await runtime.sessions({ limit: 2 })).toEqual(all.slice(0, 2));
    const prefix = all[0]?.session ?? "";
    expect(await runtime.sessions({ limit: 10, prefix })).toEqual(await api.engine.sessions({ limit: 10, prefix }));
    expect(await runtime.sessions({ limit: 10, active: true })).toEqual(all.filter(({ active }) => active));
    const [first] = all;
    if (first) expect(await runtime.sessions({ limit: 10, after: first })).toEqual(all.slice(1));
    const top = await runtime.sessions({ limit: 10, top: true });
    expect(top.map(({ session }) => session).toSorted()).toEqual(["a", "b", "ü/c"]);
    expect((await runtime.sessions({ limit: 10, titled: "OF B" })).map(({ session }) => session)).toEqual(["b"]);
    expect(await runtime.sessions({ limit: 10, titled: "zebra" })).toEqual([]);
    expect(await runtime.summary("ü/c")).toEqual(await api.engine.summary("ü/c"));
    expect(await runtime.summary("none")).toBeNull();

    expect(await runtime.retitle("a", "Better")).toBe(true);
    expect(await runtime.retitle("none", "Better")).toBe(false);
    expect(await runtime.summary("a")).toMatchObject({ title: "Better" });

    expect(await runtime.create({ session: "made", title: "Made" })).toBe("created");
    expect(await runtime.create({ session: "made", title: "" })).toBe("taken");
    expect(await runtime.fork({ from: "b", session: "fork", title: "Fork" })).toBe("forked");
    expect(await runtime.fork({ from: "b", session: "a", title: "Fork" })).toBe("taken");
    expect(await runtime.fork({ from: "none", session: "x", title: "Fork" })).toBe("unknown");
    expect(await runtime.fork({ from: "b", through: "run_x", session: "x", title: "Fork" })).toBe("unknown");
    expect(await runtime.entries("fork", 0, 10)).toMatchObject([{ kind: "forked", from: "b" }]);

    expect(await runtime.restoreFiles({ session: "b" })).toMatchObject(await api.engine.restoreFiles({ session: "b" }));
    expect(await runtime.fileChanges({ session: "b", all: true })).toEqual(
      await api.engine.fileChanges({ session: "b", all: true }),
    );
    expect(await runtime.forget("child")).toBe("busy");
    expect(await runtime.forget("fork")).toBe("forgotten");
    expect(await runtime.forget("fork")).toBe("unknown");
  });

  it("reads runs, journals, and what was said", async () => {
    const { api, runtime } = await open();
    const id = await talk(api, runtime, "s", "about the zebra", "it runs");
    expect(await runtime.run(id)).toMatchObject({
      id,
      session: "s",
      status: "completed",
      output: "it runs",
      asking: [],
    });
    expect(await runtime.run("none")).toBeNull();
    expect(await runtime.turn(id)).toEqual(api.journal("s"));
    expect(await runtime.entries("s", 1, 2)).toEqual(api.journal("s").slice(1, 3));
    expect(await runtime.search("zebra", { limit: 5 })).toMatchObject([
      { session: "s", turn: id, text: "about the zebra" },
    ]);
    expect(await runtime.search("zebra", { session: "other", limit: 5 })).toEqual([]);
  });
});

describe("at the other end of a wire", () => {
  it("long lists and journals come whole", async () => {
    const api = await start();
    const runtime = remote(api);
    for (let i = 0; i < 450; i++) await api.engine.create({ session: `s${i}`, title: `number ${i}` });
    const all = await api.engine.sessions({ limit: 1_000 });
    expect(await runtime.sessions({ limit: 1_000 })).toEqual(all);
    expect(await runtime.sessions({ limit: 401 })).toEqual(all.slice(0, 401));
    expect(await runtime.sessions({ limit: 1_000, titled: "number 4" })).toEqual(
      await api.engine.sessions({ limit: 1_000, titled: "number 4" }),
    );
    const { id } = await api.send("s0", "hello");
    await api.model.next();
    const { id: waiting } = await api.send("s0", "one");
    await api.send("s0", "two");
    for (let i = 0; i < 1_200; i++) await api.engine.move("s0", waiting, (i + 1) % 2);
    expect(await entriesOf(runtime, "s0")).toEqual(api.journal("s0"));
    expect(await entriesOf(runtime, "s0", 3, 1_103)).toEqual(api.journal("s0").slice(3, 1_103));
    await api.engine.stop({ session: "s0", turn: id });
  });

  it("what cannot be sent is said, not dropped", async () => {
    const runtime = remote(await start());
    for (const more of [{ reply: "push" as const }, { parent: "p" }, { history: [] }, { admit: () => {} }])
      await expect(runtime.accept(input("s", "hi", more))).rejects.toThrow(/is not over HTTP/);
    await expect(runtime.announcements.list({ dead: false, after: 0, limit: 1 })).rejects.toThrow(/is not over HTTP/);
    await expect(runtime.announcements.update(1, null)).rejects.toThrow(/is not over HTTP/);
    await expect(runtime.notes.get("x")).rejects.toThrow(/is not over HTTP/);
    expect(() => runtime.idOf("terminal", "x")).toThrow(/is not over HTTP/);
  });

  it("a wrong key is an error, also of the stream", async () => {
    const api = await start();
    const runtime = createRemoteRuntime({ url: api.url, key: "wrong-key-0123456789-abcdefghij" });
    expect(await caught(runtime.status("s"))).toMatchObject({ name: "HermesError", status: 401 });
    const following = runtime.follow("s", "", new AbortController().signal).next();
    expect(await caught(following)).toMatchObject({ name: "HermesError", status: 401 });
  });

  it("a server that drains refuses by that name, and is known to", async () => {
    const api = await start();
    const runtime = remote(api);
    await runtime.accept(input("s", "hello"));
    await api.model.next();
    expect(runtime.draining()).toBe(false);
    const drained = api.engine.drain(60_000);
    expect(await caught(runtime.accept(input("other", "hello")))).toMatchObject({ name: "Refusal", code: "draining" });
    expect(runtime.draining()).toBe(true);
    expect(await runtime.accept(input("s", "and this", { mode: "interrupt" }))).toMatchObject({ applied: "queue" });
    const fresh = remote(api);
    expect(fresh.draining()).toBe(false);
    await fresh.load();
    expect(fresh.draining()).toBe(true);
    const { turn } = await runtime.status("s");
    expect(await runtime.stop({ session: "s", turn: turn?.id ?? "" })).toBe("stopping");
    await drained;
  });

  it("a stream goes on through cuts and a killed server, and a word said meanwhile is said once", async () => {
    const proxy = await startProxy();
    closing.push(proxy.close);
    const server = { names: [proxy.host] };
    const first = await startApi({ server });
    proxy.to(first.url);
    const logged: string[] = [];
    const runtime = remote(proxy, (_level, event) => logged.push(event));
    const leave = new AbortController();
    const seen: Update[] = [];
    const updates = runtime.follow("s", "", leave.signal);
    await runtime.accept(input("s", "hello"));
    await until(updates, "began", seen);
    const asked = await first.model.next();
    asked.say("Hel");
    seen.push((await updates.next()).value);
    proxy.cut();
    asked.say("lo");
    const notices: string[] = [];
    for (let text = ""; text !== "lo"; ) {
      const { value } = await updates.next();
      if ("notice" in value) notices.push(value.notice);
      else seen.push(value);
      text = "delta" in value ? value.delta : "";
    }
    expect(notices).toEqual(["The connection to the server is broken; trying again.", ""]);
    expect(logged).toEqual(["remote.broken"]);

    proxy.to(null);
    proxy.cut();
    await Promise.resolve(first.kill());
    const next = updates.next(); // tells that the wire is broken
    const waiting = runtime.accept(input("s", "are you there?"));
    const second = await start({ server, disk: first.disk });
    proxy.to(second.url);
    expect(await waiting).toMatchObject({ applied: "queue" });
    expect((await next).value).toMatchObject({ notice: expect.stringContaining("broken") });
    (await second.model.next()).answer("Hello!");
    (await second.model.next()).answer("I am.");
    await until(updates, "ended", seen);
    await until(updates, "ended", seen);
    expect(entriesIn(seen)).toEqual(second.journal("s"));
    expect(seen.some((update) => "reset" in update)).toBe(true);
    expect(second.journal("s").filter(({ kind }) => kind === "accepted")).toHaveLength(2);
    leave.abort();
    await updates.return(undefined);
  });

  it("an answer that was lost on its way is asked for again, and the input is in once", async () => {
    const proxy = await startProxy();
    closing.push(proxy.close);
    const api = await start({ server: { names: [proxy.host] } });
    proxy.to(api.url);
    proxy.cutAfter(100); // inside the head of the answer
    const receipt = await remote(proxy).accept(input("s", "hello"));
    expect(receipt).toMatchObject({ session: "s", applied: "began", replayed: true });
    expect(proxy.count()).toBe(2);
    expect(api.journal("s").filter(({ kind }) => kind === "accepted")).toHaveLength(1);
  });

  it("a server that hangs up is a refusal to try again, once it was tried for some seconds", async () => {
    let count = 0;
    const rude = createServer((request) => {
      count++;
      request.socket.destroy();
    });
    await new Promise<void>((resolve) => rude.listen(0, "127.0.0.1", resolve));
    closing.push(() => new Promise((resolve) => rude.close(resolve)));
    const url = `http://127.0.0.1:${(rude.address() as AddressInfo).port}`;
    const refusal = await caught(remote({ url }).accept(input("s", "hello")));
    expect(refusal).toMatchObject({ name: "Refusal", code: "store_unavailable" });
    expect(refusal?.message).toContain(`Cannot reach ${url}`);
    expect(count).toBe(5);
    expect(await caught(remote({ url }).withdraw("s", "x"))).toMatchObject({ code: "store_unavailable" });
    expect(count).toBe(6); // twice could say that it was too late
  });
});
