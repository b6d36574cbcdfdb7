// Three nodes on one PostgreSQL, as their users have them; then a short one of the storms that `npm run cluster-test` makes at length.
import { createHmac } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { type AddressInfo, createConnection, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type RunEvent } from "../../src/client/client.ts";
import { KEY, SECRET, startCluster, type TestCluster, type TestNode } from "../cluster/nodes.ts";
import { storm } from "../cluster/storm.ts";
import { makePlace } from "../fakes/hermes.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

const HOOK = "a-secret-that-nobody-may-see";
const SOON = { interval: 5, timeout: 20_000 };

describe("any node", () => {
  let llm: FakeLlm;
  let cluster: TestCluster;
  let a: TestNode;
  let b: TestNode;
  let c: TestNode;
  beforeAll(async () => {
    llm = await startFakeLlm();
    cluster = await startCluster(3, llm.env, {
      config: `approvals: {mode: off}\nterminal: {sandbox: off}\ngateway: {webhook: {secret: ${HOOK}}}\n`,
    });
    const [first, second, third] = cluster.nodes;
    if (!first || !second || !third) throw new Error("There are not three nodes.");
    [a, b, c] = [first, second, third];
  }, 60_000);
  afterAll(async () => {
    await cluster.close();
    await llm.close();
    expect(llm.violations).toEqual([]);
  });

  const at = (node: TestNode, method: string, path: string, body?: unknown) =>
    cluster.ask(method, path, body, node.url);
  const clientOf = (node: TestNode) => createClient({ url: node.url, key: KEY });
  const said = (events: readonly RunEvent[]) =>
    events.flatMap((one) => (one.event === "message.delta" ? [one.delta] : []));
  /** The next request to the model after so many. */
  const requestAfter = async (count: number) => {
    await expect.poll(() => llm.requests.length, SOON).toBeGreaterThan(count);
    const request = llm.requests[count];
    if (!request) throw new Error("There is no request.");
    return request;
  };
  const idOf = async (node: TestNode) => String((await at(node, "GET", "/health"))["node"]);

  it("is a door to a session at work on another one: messages, status, live words, stop", async () => {
    llm.script({ text: ["so ", "far"], fault: { silence: "text" } });
    const { run_id: run } = await clientOf(a).start("plan the garden", { session_id: "garden" });
    await (await requestAfter(0)).holding;
    llm.script({ text: "second" });
    const next = await clientOf(b).start("and the shed", {
      session_id: "garden",
      mode: "queue",
      idempotency_key: "shed",
    });
    expect(next).toMatchObject({ mode: "queue", replayed: false });
    expect(
      await clientOf(c).start("and the shed", { session_id: "garden", mode: "queue", idempotency_key: "shed" }),
    ).toEqual({
      ...next,
      replayed: true,
    });
    expect(await at(b, "GET", "/api/sessions/garden")).toMatchObject({
      status: { turn: { id: run }, inbox: [{ id: next.run_id, text: "and the shed" }] },
    });
    const events: RunEvent[] = [];
    const watching = (async () => {
      for await (const event of clientOf(c).events(run)) events.push(event);
    })();
    await expect.poll(() => said(events).join(""), SOON).toBe("so far");
    await clientOf(b).stop(run);
    await watching;
    expect(events.at(-1)).toMatchObject({ event: "run.cancelled" });
    expect(await clientOf(c).wait(next.run_id)).toMatchObject({ status: "completed", output: "second" });
  }, 60_000);

  it("answers a question that a turn on another one asks", async () => {
    llm.script([{ calls: [{ name: "clarify", args: { question: "Which colour?" } }] }, { text: "blue it is" }]);
    const { run_id: run } = await clientOf(a).start("paint it");
    await expect.poll(async () => (await clientOf(b).status(run)).status, SOON).toBe("waiting_for_approval");
    expect(await at(c, "POST", `/v1/runs/${run}/approval`, { answer: "blue" })).toMatchObject({
      http: 200,
      resolved: 1,
    });
    expect(await clientOf(b).wait(run)).toMatchObject({ status: "completed", output: "blue it is" });
  }, 60_000);

  it("goes on with what a drained one has begun, and a stream through it with no gap and no double", async () => {
    llm.script({ text: ["half ", "an answer"], fault: { silence: "text" } });
    const { run_id: run } = await clientOf(b).start("write a poem", { session_id: "poem" });
    const { data } = await at(c, "GET", "/api/nodes");
    expect(data).toHaveLength(3);
    const events: RunEvent[] = [];
    const watching = (async () => {
      for await (const event of clientOf(c).events(run)) events.push(event);
    })();
    await expect.poll(() => said(events).join(""), SOON).toBe("half an answer");
    llm.script({ text: "a whole answer" });
    const hermes = c.place.start(["nodes", "drain", await idOf(b)]);
    expect(await hermes.exit).toBe(0);
    await watching;
    expect(await b.gone()).toBe(0);
    const reset = events.findIndex(({ event }) => event === "message.reset");
    expect(said(events.slice(reset)).join("")).toBe("a whole answer");
    expect(events.at(-1)).toMatchObject({ event: "run.completed", output: "a whole answer" });
    const listed = c.place.start(["nodes"]);
    await listed.exit;
    expect(listed.stdout().trim().split("\n")).toHaveLength(2);
    await b.start();
  }, 60_000);

  it("serves the commands of its home, as a single gateway does", async () => {
    llm.script({ text: "from the node" });
    const ran = a.place.start(["run", "who is there?"]);
    ran.hangUp();
    expect(await ran.exit).toBe(0);
    expect(ran.stdout()).toContain("from the node");
  }, 60_000);

  it("goes on with what a killed one has begun", async () => {
    llm.script({ text: "half", fault: { silence: "text" } });
    const before = llm.requests.length;
    const { run_id: run } = await clientOf(a).start("write a letter", { session_id: "letter" });
    await (await requestAfter(before)).holding;
    llm.script({ text: "a whole letter" });
    a.signal("SIGKILL");
    const began = performance.now();
    await requestAfter(before + 1);
    expect(performance.now() - began).toBeLessThan(4_000); // a lease of 5 s need not end
    expect(await clientOf(b).wait(run)).toMatchObject({ status: "completed", output: "a whole letter" });
    await a.gone();
    await a.start();
  }, 60_000);

  it("leaves a session where its files and background processes are; when that node is killed, the model is told once", async () => {
    const command = "echo $$ > server.pid; exec sleep 300";
    const turn = async (node: TestNode, text: string) => {
      const { run_id } = await clientOf(node).start(text, { session_id: "server" });
      expect(await clientOf(node).wait(run_id)).toMatchObject({ status: "completed" });
      return llm.requests.at(-1)?.raw ?? "";
    };
    llm.script([{ calls: [{ name: "terminal", args: { command, background: true } }] }, { text: "it runs" }]);
    await turn(a, "start the server");
    const pid = readFileSync(join(a.place.dir, "server.pid"), "utf8").trim();

    llm.script([{ calls: [{ name: "process", args: { action: "list" } }] }, { text: "still running" }]);
    expect(await turn(b, "does it run?")).toMatch(/bg_[0-9a-f]{8} · running for/);
    expect(await at(c, "GET", "/api/sessions/server")).toMatchObject({ status: { background: [{ command }] } });

    a.signal("SIGKILL");
    await a.gone();
    await expect.poll(async () => (await at(b, "GET", "/api/nodes"))["data"], SOON).toHaveLength(2);
    llm.script([{ text: "it is gone" }, { text: "yes" }]);
    const told = await turn(b, "and now?");
    expect(told).toMatch(/Background processes of this conversation are gone.*bg_[0-9a-f]{8}: echo/);
    expect(told).toContain("has moved to another machine");
    expect(await turn(c, "are you sure?")).not.toContain("Background processes of this conversation");
    await expect.poll(() => existsSync(`/proc/${pid}`), SOON).toBe(false);
    await a.start();
  }, 60_000);

  it("knows the todo list of a session, and the webhooks that another one has taken", async () => {
    const items = [{ text: "water the plants", status: "pending" }];
    llm.script([{ calls: [{ name: "todo", args: { items } }] }, { text: "noted" }]);
    const first = await clientOf(a).start("note it", { session_id: "list" });
    await clientOf(a).wait(first.run_id);
    llm.script([{ calls: [{ name: "todo", args: {} }] }, { text: "it is there" }]);
    const second = await clientOf(b).start("what is to be done?", { session_id: "list" });
    await clientOf(b).wait(second.run_id);
    expect(llm.requests.at(-1)?.raw).toContain("[ ] water the plants");

    const body = JSON.stringify({ id: "1", chat: "ci", user: { id: "*", name: "Build" }, text: "/status" });
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac("sha256", HOOK).update(`${timestamp}.${body}`).digest("hex");
    const headers = {
      "Content-Type": "application/json",
      "X-Hermes-Timestamp": timestamp,
      "X-Hermes-Signature": `sha256=${signature}`,
    };
    const post = async ({ url }: TestNode) =>
      (await fetch(`${url}/channels/webhook`, { method: "POST", headers, body })).status;
    expect([await post(a), await post(b), await post(c)]).toEqual([202, 409, 409]);
  }, 60_000);

  it("is asked by the others with the secret of the cluster only", async () => {
    const call = (path: string, key: string) =>
      fetch(`${b.url}${path}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: JSON.stringify({ method: "status", args: ["garden"] }),
      });
    expect((await call("/api/cluster/call", KEY)).status).toBe(401);
    expect((await call("/api/cluster/%63all", KEY)).status).toBe(404);
    expect((await call("/api/sessions/garden/stop", SECRET)).status).toBe(401);
    const answer = await call("/api/cluster/call", SECRET);
    expect(await answer.json()).toMatchObject({ result: { session: "garden", turn: null } });
  });
});

it("goes on with what is at work, on the same nodes, when PostgreSQL fails over to its replica", async () => {
  await using llm = await startFakeLlm();
  const cluster = await startCluster(2, llm.env, { server: { replicated: true } });
  try {
    const clients = cluster.nodes.map(({ url }) => createClient({ url, key: KEY }));
    const runs = [];
    for (const client of clients) {
      llm.script({ text: "so far", fault: { silence: "text" } });
      runs.push(await client.start("x"));
      await (await llm.nextRequest()).holding;
    }
    const nodes = () => cluster.postgres.sql("SELECT id FROM node ORDER BY id", cluster.store);
    const before = await nodes();
    await cluster.postgres.failOver();
    const looked = "SELECT 1 FROM node WHERE lease_until > $1::timestamptz + interval '8 seconds'";
    const now = new Date().toISOString();
    const beaten = () => cluster.postgres.sql(looked.replace("$1", `'${now}'`), cluster.store);
    await expect.poll(beaten, SOON).toHaveLength(2); // each has looked around for 3 s
    expect(await nodes()).toEqual(before);
    expect(llm.requests).toHaveLength(2);
    for (const [n, { run_id: run }] of runs.entries()) {
      await clients[1 - n]?.stop(run);
      expect(await clients[n]?.wait(run)).toMatchObject({ status: "cancelled" });
    }
  } finally {
    await cluster.close();
  }
}, 60_000);

it("serves its own sessions and refuses by name those of a node that it does not reach, until it does", async () => {
  await using llm = await startFakeLlm();
  // It takes connections and says nothing, as behind a firewall; later it lets everything through.
  let way: string | null = null;
  const firewall = createServer((near) => {
    if (way !== null) near.pipe(createConnection(Number(new URL(way).port), "127.0.0.1")).pipe(near);
  });
  await new Promise<void>((resolve) => firewall.listen(0, "127.0.0.1", resolve));
  const { port } = firewall.address() as AddressInfo;
  const cluster = await startCluster(2, llm.env, { addresses: [undefined, `http://127.0.0.1:${port}`] });
  try {
    const [a, b] = cluster.nodes;
    if (!a || !b) throw new Error("There are not two nodes.");
    const clientOf = ({ url }: TestNode) => createClient({ url, key: KEY });
    llm.script({ text: "so far", fault: { silence: "text" } });
    const { run_id: run } = await clientOf(b).start("x", { session_id: "far" });
    await (await llm.nextRequest()).holding;
    const health = async () => (await cluster.ask("GET", "/health", undefined, a.url))["peers_unreachable"];
    await expect.poll(health, SOON).toBe(1);
    llm.script({ text: "my own" });
    const own = await clientOf(a).start("y", { session_id: "near" });
    expect(await clientOf(a).wait(own.run_id)).toMatchObject({ output: "my own" });
    expect(await cluster.ask("POST", `/v1/runs/${run}/stop`, {}, a.url)).toMatchObject({
      http: 503,
      error: { code: "store_unavailable", message: expect.stringContaining("does not answer") },
    });
    way = b.url;
    await clientOf(a).stop(run);
    expect(await clientOf(b).wait(run)).toMatchObject({ status: "cancelled" });
    await expect.poll(health, SOON).toBe(0);
  } finally {
    await cluster.close();
    firewall.close();
  }
}, 60_000);

it.each([
  [{ HERMES_CLUSTER_SECRET: SECRET }, /cluster\.secret .* needs store\.url/],
  [{ HERMES_CLUSTER_SECRET: SECRET, HERMES_STORE_URL: "postgres://x@127.0.0.1:1/y" }, /set gateway\.api_server\.key/],
])("a node that lacks something says what: %o", async (env, words) => {
  const place = makePlace(env);
  const hermes = place.start(["gateway", "--port", "0"]);
  expect(await hermes.exit).toBe(78);
  expect(hermes.stderr()).toMatch(words);
  place.clear();
});

it("every message is answered once while nodes are killed, stand still and are drained, and PostgreSQL is restarted", async () => {
  const lines: string[] = [];
  const say = (line: string) => lines.push(line);
  const { problems } = await storm({ seconds: 10, everyMs: 2_500, pauseMs: 6_500, people: 3, seed: 1, say });
  expect(problems, lines.join("\n")).toEqual([]);
}, 180_000);
