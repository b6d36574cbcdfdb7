// The typed client against the real API, over wires that break.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createClient, HermesError, type RunEvent } from "../../src/client/client.ts";
import type { Gate } from "../../src/core/ports.ts";
import { KEY, type StartOptions, startApi, type TestApi } from "../fakes/api.ts";
import { type Proxy, startProxy } from "../fakes/proxy.ts";
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
async function wired(options: StartOptions = {}): Promise<{ api: TestApi; proxy: Proxy }> {
  const proxy = await startProxy();
  closing.push(proxy.close);
  const api = await start({ ...options, server: { names: [proxy.host] } });
  proxy.to(api.url);
  return { api, proxy };
}
const clientOf = ({ url }: { url: string }, key = KEY) => createClient({ url, key });

const ask: Gate = { gate: "ask", kind: "approval", text: "Run it?", choices: ["once", "deny"], timeoutMs: 60_000 };
const collect = async (events: AsyncIterable<RunEvent>) => Array.fromAsync(events);
/** Reads on until an event like this; the rest can be read on from the same generator. */
async function until(events: AsyncGenerator<RunEvent>, name: RunEvent["event"], into: RunEvent[] = []) {
  for (;;) {
    const { value, done } = await events.next();
    if (done) throw new Error(`The events ended without ${name}.`);
    into.push(value);
    if (value.event === name) return value;
  }
}
/** When a piece of text left the server is not part of the story. */
const timeless = (events: RunEvent[]) =>
  events.map((event) => (event.event === "message.delta" ? { ...event, timestamp: 0 } : event));
/** However the text came in pieces; what was taken back was not said. */
function story(events: RunEvent[]) {
  const told: Omit<RunEvent, "id">[] = [];
  let text = "";
  for (const { id: _, ...event } of events) {
    if (event.event === "message.delta") text += event.delta;
    else if (event.event === "message.reset") text = "";
    else {
      if (text) told.push({ event: "message.delta", run_id: event.run_id, timestamp: 0, delta: text } as RunEvent);
      text = "";
      told.push(event);
    }
  }
  return told;
}
const caught = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => error as HermesError,
  );

describe("a client", () => {
  it("starts a run, watches it and has its end", async () => {
    const api = await start();
    const client = clientOf(api);
    const started = await client.start("hello", { session_id: "s", instructions: "be brief", session_key: "ann" });
    expect(started).toEqual({
      run_id: expect.stringMatching(/^run_/),
      status: "started",
      replayed: false,
      session_id: "s",
      mode: "began",
    });
    const watching = collect(client.events(started.run_id));
    const waiting = client.wait(started.run_id);
    const asked = await api.model.next();
    expect(asked.request.system).toContain("be brief");
    asked.answer("Grüße 🙂");
    const events = await watching;
    expect(events.map(({ event }) => event)).toEqual(["run.started", "message.delta", "run.completed"]);
    const usage = { input_tokens: 2, output_tokens: 1, total_tokens: 3 };
    expect(events.at(-1)).toMatchObject({ event: "run.completed", output: "Grüße 🙂", usage });
    expect(await waiting).toMatchObject({ object: "hermes.run", status: "completed", output: "Grüße 🙂", usage });
    expect(await client.status(started.run_id)).toEqual(await waiting);
  });

  it("sends messages with pictures, and the same key twice is one run", async () => {
    const api = await start();
    const client = clientOf(api);
    const url = "data:image/png;base64,AAAA";
    const input = [
      { role: "user" as const, content: "before" },
      { role: "assistant" as const, content: "yes" },
      { role: "user" as const, content: [{ type: "image_url" as const, image_url: { url } }] },
    ];
    const first = await client.start(input, { idempotency_key: "k" });
    const again = await client.start(input, { idempotency_key: "k" });
    expect([again.run_id, again.replayed]).toEqual([first.run_id, true]);
    expect((await api.model.next()).request.messages).toHaveLength(3);
    expect(api.model.all).toHaveLength(1);
  });

  it("starts again what has a key when its answer was lost, and has one run", async () => {
    const { api, proxy } = await wired();
    proxy.cutAfter(100); // inside the head of the answer
    const { run_id, replayed } = await clientOf(proxy).start("hello", { idempotency_key: "k" });
    expect([replayed, proxy.count()]).toEqual([true, 2]);
    expect(api.disk.catalog.sessions({ limit: 10 }).map(({ session }) => session)).toEqual([run_id]);
  });

  it("does not start again what has none: it could run twice", async () => {
    const { proxy } = await wired();
    proxy.cutAfter(100);
    expect(await caught(clientOf(proxy).start("hello"))).toMatchObject({ status: 0, code: "unreachable" });
    expect(proxy.count()).toBe(1);
  });

  it("approves, with a choice that is decided once", async () => {
    const tool = scriptedTool("shell", { gate: ask });
    const api = await start({ tools: [tool] });
    const client = clientOf(api);
    const { run_id } = await client.start("do it");
    const events = client.events(run_id);
    (await api.model.next()).answer("", { tool: "shell", args: { command: "ls -l" } });
    const request = await until(events, "approval.request");
    if (request.event !== "approval.request") throw new Error("unreachable");
    expect(request).toMatchObject({ kind: "approval", tool: "shell", command: "ls -l", choices: ["once", "deny"] });
    expect(await client.approve(run_id, "once", { request_id: request.request_id })).toEqual({
      object: "hermes.run.approval_response",
      run_id,
      choice: "once",
      resolved: 1,
    });
    expect(await caught(client.approve(run_id, "deny"))).toMatchObject({ status: 409, code: "approval_not_pending" });
    (await tool.next()).done("files");
    (await api.model.next()).answer("done");
    const rest = await collect(events);
    expect(rest.map(({ event }) => event)).toEqual([
      "approval.responded",
      "tool.started",
      "tool.completed",
      "message.delta",
      "run.completed",
    ]);
  });

  it("steers, and stops", async () => {
    const tool = scriptedTool("shell");
    const api = await start({ tools: [tool] });
    const client = clientOf(api);
    const { run_id } = await client.start("do it");
    (await api.model.next()).answer("", { tool: "shell", args: {} });
    const running = await tool.next();
    expect(await client.steer(run_id, "and quickly")).toMatchObject({ run_id, status: "accepted", replayed: false });
    running.done("ok");
    const asked = await api.model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({ role: "user", text: "and quickly" });
    expect(await client.stop(run_id)).toEqual({ run_id, status: "stopping" });
    expect(await client.wait(run_id)).toMatchObject({ status: "cancelled" });
    expect(await caught(client.stop(run_id))).toMatchObject({ status: 404, code: "run_not_found" });
  });

  it("throws what the server says no with", async () => {
    const api = await start();
    const unkeyed = clientOf(api, "wrong-key-0123456789-abcdefghij");
    const client = clientOf(api);
    const error = await caught(client.start(""));
    expect(error).toBeInstanceOf(HermesError);
    expect(error).toMatchObject({ name: "HermesError", status: 400, param: "input" });
    expect(error?.message).toMatch(/input: must/);
    expect(await caught(client.start("hi", { provider: "none" }))).toMatchObject({ code: "provider_not_configured" });
    expect(await caught(unkeyed.status("run_x"))).toMatchObject({ status: 401, code: "invalid_api_key" });
    expect(await caught(collect(unkeyed.events("run_x")))).toMatchObject({ status: 401 });
    expect(await caught(collect(client.events("run_x")))).toMatchObject({ status: 404, code: "run_not_found" });
    const { run_id } = await client.start("hi");
    const gone = await caught(collect(client.events(run_id, { after: "99" })));
    expect(gone).toMatchObject({ status: 410, code: "event_id_unknown" });
  });

  it("says that a server cannot be reached, or is none of ours", async () => {
    const nowhere = await startProxy();
    closing.push(nowhere.close);
    const error = await caught(clientOf(nowhere).start("hi"));
    expect(error).toMatchObject({ status: 0, code: "unreachable" });
    expect(error?.message).toContain(`Cannot reach ${nowhere.url}: `);
    const other = await serve(
      (_, response) => void response.writeHead(200, { "Content-Type": "text/html" }).end("<p>"),
    );
    expect(await caught(clientOf(other).status("run_x"))).toMatchObject({ code: "no_json" });
    expect(await caught(collect(clientOf(other).events("run_x")))).toMatchObject({ code: "no_events" });
  });

  it("does not follow a redirect with its key", async () => {
    const keys: unknown[] = [];
    const other = await serve((request, response) => {
      keys.push(request.headers.authorization);
      response.end("{}");
    });
    const first = await serve((_, response) => void response.writeHead(307, { Location: `${other.url}/` }).end());
    expect(await caught(clientOf(first).start("hi"))).toBeInstanceOf(HermesError);
    expect(keys).toEqual([]);
  });
});

describe("events", () => {
  /** A finished run with all kinds of events. */
  async function finishedRun(api: TestApi, tool: ReturnType<typeof scriptedTool>): Promise<string> {
    const id = await api.run({ input: "do it", session_id: "s" });
    (await api.model.next()).answer("Ich schaue nach… 🔎", { tool: "shell", args: { command: "ls" } });
    await api.engine.answer({
      session: "s",
      call: (await api.entry("s", "asked")).call,
      allow: true,
      text: "once",
      by: "",
    });
    (await tool.next()).done("files");
    (await api.model.next()).answer(`Fertig: ${"漢字🙂".repeat(20)}`);
    await api.ended("s", id);
    return id;
  }

  it("are the same however the connection is cut: after any number of bytes", async () => {
    const proxies = await Promise.all(Array.from({ length: 64 }, startProxy));
    closing.push(() => Promise.all(proxies.map((proxy) => proxy.close())));
    const tool = scriptedTool("shell", { gate: ask });
    const api = await start({ tools: [tool], server: { names: proxies.map(({ host }) => host) } });
    const id = await finishedRun(api, tool);
    const whole = timeless(await collect(clientOf(api).events(id)));
    expect(whole).toHaveLength(8);
    const body = await (await api.call("GET", `/v1/runs/${id}/events`)).text();
    const length = Buffer.byteLength(body) + 600; // with its head
    const cut = await Promise.all(
      proxies.map(async (proxy, index) => {
        proxy.to(api.url);
        proxy.cutAfter(1 + Math.floor((length * index) / proxies.length), 1_000, 1_200);
        const events = timeless(await collect(clientOf(proxy).events(id)));
        return { events, connections: proxy.count() };
      }),
    );
    for (const { events } of cut) expect(events).toEqual(whole);
    expect(cut.filter(({ connections }) => connections > 2).length).toBeGreaterThan(40);
  });

  it("come each once from wherever one goes on", async () => {
    const tool = scriptedTool("shell", { gate: ask });
    const api = await start({ tools: [tool] });
    const id = await finishedRun(api, tool);
    const whole = timeless(await collect(clientOf(api).events(id)));
    for (const [index, { id: after }] of whole.entries())
      expect(timeless(await collect(clientOf(api).events(id, { after })))).toEqual(whole.slice(index + 1));
  });

  it("go on while the run lives and the wire is cut again and again", async () => {
    const { api, proxy } = await wired();
    const id = await api.run({ input: "count", session_id: "s" });
    const asked = await api.model.next();
    const whole = collect(clientOf(api).events(id));
    const seen: RunEvent[] = [];
    const events = clientOf(proxy).events(id);
    await until(events, "run.started", seen);
    for (const piece of ["eins ", "zwei ", "drei 🙂 "]) {
      asked.say(piece);
      await until(events, "message.delta", seen);
      proxy.cut();
    }
    asked.answer("vier");
    for await (const event of events) seen.push(event);
    expect(story(seen)).toEqual(story(await whole));
    expect(seen.at(-1)).toMatchObject({ event: "run.completed", output: "eins zwei drei 🙂 vier" });
    expect(proxy.count()).toBeGreaterThan(3);
  });

  it("go on after the server was killed and started again on the same disk", async () => {
    const proxy = await startProxy();
    closing.push(proxy.close);
    const server = { names: [proxy.host] };
    const tool = scriptedTool("look", { repeatable: true });
    const first = await startApi({ tools: [tool], server });
    proxy.to(first.url);
    const client = clientOf(proxy);
    const { run_id } = await client.start("do it", { session_id: "s" });
    (await first.model.next()).answer("First. ", { tool: "look", args: {} });
    (await tool.next()).done("seen");
    (await first.model.next()).say("half an ans");
    const seen: RunEvent[] = [];
    const events = client.events(run_id);
    await until(events, "tool.completed", seen);
    await until(events, "message.delta", seen);
    const waiting = client.wait(run_id);

    proxy.to(null);
    proxy.cut();
    await Promise.resolve(first.kill());
    const next = events.next();
    const second = await start({ tools: [tool], server, disk: first.disk });
    proxy.to(second.url);
    (await second.model.next()).answer("Done.");
    seen.push((await next).value);
    for await (const event of events) seen.push(event);

    expect(seen.map(({ event }) => event)).toContain("message.reset");
    const uncut = await collect(clientOf(second).events(run_id));
    expect(story(seen)).toEqual(story(uncut));
    expect(await waiting).toMatchObject({ status: "completed", output: "Done." });
  });

  it("go on after the server left in good order and came back", async () => {
    const proxy = await startProxy();
    closing.push(proxy.close);
    const server = { names: [proxy.host] };
    const first = await startApi({ server });
    proxy.to(first.url);
    const { run_id } = await clientOf(proxy).start("do it");
    await first.model.next();
    const watching = collect(clientOf(proxy).events(run_id));
    await first.entry(run_id, "began");
    await first.close();
    const second = await start({ server, disk: first.disk });
    proxy.to(second.url);
    (await second.model.next()).answer("Done.");
    const events = await watching;
    expect(story(events)).toEqual(story(await collect(clientOf(second).events(run_id))));
    expect(events.at(-1)).toMatchObject({ event: "run.completed", output: "Done." });
  });

  it("end without stopping the run when their signal aborts, or nobody reads on", async () => {
    const { api, proxy } = await wired();
    const client = clientOf(proxy);
    const { run_id } = await client.start("do it");
    const asked = await api.model.next();
    const leave = new AbortController();
    const seen: string[] = [];
    for await (const { event } of client.events(run_id, { signal: leave.signal })) {
      seen.push(event);
      leave.abort();
    }
    for await (const { event } of client.events(run_id)) {
      seen.push(event);
      break;
    }
    expect(seen).toEqual(["run.started", "run.started"]);
    const waiting = client.wait(run_id, { signal: AbortSignal.abort(new Error("enough")) });
    await expect(waiting).rejects.toThrow("enough");
    expect(asked.signal.aborted).toBe(false);
    asked.answer("done");
    expect(await client.wait(run_id)).toMatchObject({ status: "completed" });
  });
});

describe("a wire that misbehaves", () => {
  const HEAD = { "Content-Type": "text/event-stream" };
  const frame = (id: number, event: string) => `id: ${id}\ndata: {"event":"${event}","run_id":"r","timestamp":1}\n\n`;

  it("is waited for as long as the server asks, and asked for the rest", async () => {
    const asked: { at: number; after: string | undefined }[] = [];
    const server = await serve((request, response) => {
      asked.push({ at: performance.now(), after: request.headers["last-event-id"]?.toString() });
      response.writeHead(200, HEAD);
      if (asked.length === 1) response.end(`${frame(1, "run.started")}retry: 400\n: leaving\n\n`);
      else response.end(frame(2, "run.cancelled"));
    });
    const events = await collect(clientOf(server).events("r"));
    expect(events.map(({ event }) => event)).toEqual(["run.started", "run.cancelled"]);
    expect(asked.map(({ after }) => after)).toEqual([undefined, "1"]);
    expect((asked[1]?.at ?? 0) - (asked[0]?.at ?? 0)).toBeGreaterThan(390);
  });

  it("is left alone for longer each time, and its 5xx and 429 are no answer", async () => {
    const at: number[] = [];
    const server = await serve((_, response) => {
      at.push(performance.now());
      const status = [502, 429, 503][at.length - 1];
      if (status) response.writeHead(status).end();
      else response.writeHead(200, HEAD).end(frame(1, "run.completed"));
    });
    expect(await collect(clientOf(server).events("r"))).toHaveLength(1);
    for (const [index, time] of at.slice(1).entries()) expect(time - (at[index] ?? 0)).toBeGreaterThan(240);
    expect(at).toHaveLength(4);
  });

  it("that falls silent is given up and taken up again", async () => {
    const closed = Promise.withResolvers<void>();
    let count = 0;
    const server = await serve((request, response) => {
      response.writeHead(200, HEAD);
      response.write(frame(++count, count === 1 ? "run.started" : "run.failed"));
      if (count === 1) request.on("close", closed.resolve);
    });
    const client = createClient({ url: server.url, key: KEY, silenceMs: 200 });
    const events = await collect(client.events("r"));
    expect(events.map(({ event }) => event)).toEqual(["run.started", "run.failed"]);
    await closed.promise;
  });

  it("is not called silent while whoever reads takes their time", async () => {
    let count = 0;
    const server = await serve((_, response) => {
      count++;
      response.writeHead(200, HEAD).end(`${frame(1, "run.started")}${frame(2, "run.completed")}`);
    });
    const client = createClient({ url: server.url, key: KEY, silenceMs: 50 });
    const events = client.events("r");
    await events.next();
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect((await events.next()).value?.event).toBe("run.completed");
    expect(count).toBe(1);
  });

  it("is not asked again for what a run that is over never had", async () => {
    const asked: string[] = [];
    const server = await serve((request, response) => {
      asked.push(request.url ?? "");
      if (request.url?.endsWith("/events")) response.writeHead(200, HEAD).end(": stream closed\n\n");
      else response.end(JSON.stringify({ status: "completed" }));
    });
    expect(await collect(clientOf(server).events("r", { after: "9" }))).toEqual([]);
    expect(asked).toEqual(["/v1/runs/r/events", "/v1/runs/r"]);
  });
});

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<{ url: string }> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
