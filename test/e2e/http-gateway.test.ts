// `hermes gateway` as a real process with a model provider beside it: it serves, leaves in good order, and is killed.
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { frames } from "../fakes/api.ts";
import { configure, llm, openGateway, place, useProgram } from "../fakes/program.ts";
import { judge } from "../streams/judge.ts";
import type { Frame } from "../streams/viewer.ts";

const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
useProgram({ env: { API_SERVER_KEY: KEY } });

type Answer = { status: number; headers: Headers; body: Record<string, unknown> };

/** Ready when this returns. */
async function gateway(env: NodeJS.ProcessEnv = {}) {
  const { hermes, url } = await openGateway(env);
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  const ask = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) };
  };
  /** Its frames, as they come. */
  async function* events(id: string, after = ""): AsyncGenerator<Frame> {
    const response = await fetch(`${url}/v1/runs/${id}/events`, { headers: { ...headers, "Last-Event-ID": after } });
    for await (const { id: place, data } of frames(response)) if (data) yield { id: place, data: JSON.parse(data) };
  }
  return {
    hermes,
    url,
    ask,
    events,
    run: async (body: Record<string, unknown>) => String((await ask("POST", "/v1/runs", body)).body["run_id"]),
    /** Up to and with the first of this kind; what the reader has of it by then. */
    async until(id: string, event: string, after = ""): Promise<Frame[]> {
      const seen: Frame[] = [];
      for await (const frame of events(id, after)) {
        seen.push(frame);
        if (frame.data.event === event) return seen;
      }
      throw new Error(`The stream ended without ${event}: ${seen.map(({ data }) => data.event).join()}`);
    },
  };
}
const status = async (served: { ask(method: string, path: string): Promise<Answer> }, id: string) =>
  (await served.ask("GET", `/v1/runs/${id}`)).body["status"];

describe("hermes gateway", () => {
  it("says on one line where it is ready, and serves a run to its end", async () => {
    llm.script({ text: ["Hello ", "there"] });
    const served = await gateway();
    expect(served.hermes.stdout()).toMatch(/^hermes gateway ready on http:\/\/127\.0\.0\.1:[1-9]\d*\n$/);
    const id = await served.run({ input: "hello" });
    const seen = await served.until(id, "run.completed");
    expect(seen.at(-1)?.data).toMatchObject({ output: "Hello there", usage: { total_tokens: 120 } });
    expect((await served.ask("GET", `/v1/runs/${id}`)).body).toMatchObject({
      status: "completed",
      output: "Hello there",
      model: expect.stringContaining("fake-model"),
    });
    served.hermes.kill("SIGTERM");
    expect(await served.hermes.exit).toBe(0);
  });

  it.each(["SIGINT", "SIGHUP"] as const)("leaves on %s as well, with 0", async (signal) => {
    const { hermes } = await gateway();
    hermes.kill(signal);
    expect(await hermes.exit).toBe(0);
  });

  it("does not start on a port that is in use (exit 78) and says so", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    const hermes = place.start(["gateway", "--port", String(port)]);
    expect(await hermes.exit).toBe(78);
    expect(hermes.stderr()).toMatch(new RegExp(`Port ${port} .*in use`));
    expect(hermes.stdout()).not.toContain("ready");
    taken.close();
  });

  it("does not start beside another one on the same home, and leaves that one alone", async () => {
    const release = Promise.withResolvers<void>();
    llm.script({ text: "done", hold: release.promise });
    const served = await gateway();
    const id = await served.run({ input: "x" });
    await llm.nextRequest();
    const second = place.start(["gateway", "--port", "0"]);
    expect(await second.exit).not.toBe(0);
    expect(second.stderr()).toMatch(/in use|another|already/i);
    expect(second.stdout()).not.toContain("ready");
    release.resolve();
    expect((await served.until(id, "run.completed")).at(-1)?.data["output"]).toBe("done");
  });

  it.each([
    [["--port", "abc"], 78, /port/],
    [["--port", "70000"], 78, /port/],
    [["--port", "-1"], 78, /port/],
    [["--nope"], 2, /--nope/],
    [["--port"], 2, /port/],
    [["--host", "not an address"], 78, /host/],
  ])("with %j does not start", async (flags, code, says) => {
    const hermes = place.start(["gateway", ...flags]);
    expect(await hermes.exit).toBe(code);
    expect(hermes.stderr()).toMatch(says);
    expect(hermes.stdout()).not.toContain("ready");
  });
});

describe("SIGTERM", () => {
  it("lets the running turn finish, takes nothing new (503), and ends with 0", async () => {
    const release = Promise.withResolvers<void>();
    llm.script({ text: "finished all the same", hold: release.promise });
    const served = await gateway();
    const id = await served.run({ input: "x" });
    await (await llm.nextRequest()).holding;
    served.hermes.kill("SIGTERM");
    await served.hermes.prints(/gateway\.leaving/);
    const refused = await served.ask("POST", "/v1/runs", { input: "y" });
    expect([refused.status, refused.headers.get("Retry-After")]).toEqual([503, "1"]);
    expect(refused.body).toMatchObject({ error: { code: "gateway_draining" } });
    expect(await status(served, id)).toBe("running");
    release.resolve();
    expect(await served.hermes.exit).toBe(0);
    expect(llm.requests).toHaveLength(1);
    expect(llm.requests[0]?.ending).toBe("completed");
    const again = await gateway();
    expect((await again.ask("GET", `/v1/runs/${id}`)).body).toMatchObject({
      status: "completed",
      output: "finished all the same",
    });
    expect((await again.ask("GET", "/api/sessions")).body["data"] ?? []).toHaveLength(1);
  });

  it("lets go of what does not finish in time; it goes on at the next start", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const served = await gateway({ HERMES_RESTART_DRAIN_TIMEOUT: "0.2" });
    const id = await served.run({ input: "x" });
    await (await llm.nextRequest()).holding;
    served.hermes.kill("SIGTERM");
    expect(await served.hermes.exit).toBe(0);
    llm.script({ text: "whole" });
    const again = await gateway();
    expect((await again.until(id, "run.completed")).at(-1)?.data["output"]).toBe("whole");
  });

  it("twice ends it within a second and loses nothing that was accepted", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const served = await gateway();
    const first = await served.run({ input: "one", session_id: "s" });
    await (await llm.nextRequest()).holding;
    const second = await served.run({ input: "two", session_id: "s", mode: "queue" });
    served.hermes.kill("SIGTERM");
    await served.hermes.prints(/gateway\.leaving/);
    const asked = performance.now();
    served.hermes.kill("SIGTERM");
    await served.hermes.exit;
    expect(performance.now() - asked).toBeLessThan(1_000);
    llm.script([{ text: "answer one" }, { text: "answer two" }]);
    const again = await gateway();
    expect((await again.until(first, "run.completed")).at(-1)?.data["output"]).toBe("answer one");
    expect((await again.until(second, "run.completed")).at(-1)?.data["output"]).toBe("answer two");
  });

  it("tells viewers to come back, not that it is over", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const served = await gateway({ HERMES_RESTART_DRAIN_TIMEOUT: "0.2" });
    const id = await served.run({ input: "x" });
    await (await llm.nextRequest()).holding;
    const response = await fetch(`${served.url}/v1/runs/${id}/events`, { headers: { Authorization: `Bearer ${KEY}` } });
    served.hermes.kill("SIGTERM");
    const text = await response.text();
    expect(text).toMatch(/\nretry: \d+\n: leaving/);
    expect(text).not.toContain("stream closed");
    expect(await served.hermes.exit).toBe(0);
  });
});

describe("kill -9 in the middle of a run", () => {
  it("is survived: the run goes on by itself, and the same stream goes on across it", async () => {
    llm.script({ text: ["I was ", "about to"], fault: { silence: "text" } });
    const served = await gateway();
    const id = await served.run({ input: "x" });
    const before = await served.until(id, "message.delta");
    served.hermes.kill("SIGKILL");
    await served.hermes.exit;
    llm.script({ text: "I have said it" });
    const again = await gateway();
    const after = await again.until(id, "run.completed", before.at(-1)?.id);
    expect(after.map(({ data }) => data.event)).toContain("message.reset");
    const full: Frame[] = [];
    for await (const frame of again.events(id)) full.push(frame);
    expect(full.at(-1)?.data["output"]).toBe("I have said it");
    judge(id, [...before, ...after], full);
  });

  it("and starts that are refused after it do not use up its attempts, nor ask a model", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const served = await gateway();
    const id = await served.run({ input: "x" });
    await (await llm.nextRequest()).holding;
    served.hermes.kill("SIGKILL");
    await served.hermes.exit;
    for (let n = 0; n < 4; n++) {
      const refused = place.start(["gateway", "--host", "0.0.0.0", "--port", "0"], { API_SERVER_KEY: "" });
      expect(await refused.exit).toBe(78);
    }
    expect(llm.requests).toHaveLength(1);
    llm.script({ text: "whole" });
    const again = await gateway();
    expect((await again.until(id, "run.completed")).at(-1)?.data["output"]).toBe("whole");
  });

  it("counts what it left under the cap, whatever session it is in, until it is over", async () => {
    configure("gateway: {api_server: {max_concurrent_runs: 1}}\n");
    llm.script({ text: "so far", fault: { silence: "text" } });
    const served = await gateway();
    const id = await served.run({ input: "x", session_id: "named" });
    await (await llm.nextRequest()).holding;
    served.hermes.kill("SIGKILL");
    await served.hermes.exit;
    const release = Promise.withResolvers<void>();
    llm.script({ text: "whole", hold: release.promise });
    const again = await gateway();
    await (await llm.nextRequest()).holding;
    expect((await again.ask("POST", "/v1/runs", { input: "y" })).status).toBe(429);
    release.resolve();
    await again.until(id, "run.completed");
    expect((await again.ask("POST", "/v1/runs", { input: "y" })).status).toBe(202);
  });

  it("frees the place of a run that had gone on in another run's session", async () => {
    configure("gateway: {api_server: {max_concurrent_runs: 1}}\n");
    llm.script([{ text: "one" }, { text: "so far", fault: { silence: "text" } }]);
    const served = await gateway();
    const first = await served.run({ input: "one" });
    await served.until(first, "run.completed");
    const second = await served.run({ input: "two", session_id: first });
    await llm.nextRequest();
    await (await llm.nextRequest()).holding;
    served.hermes.kill("SIGKILL");
    await served.hermes.exit;
    llm.script({ text: "two" });
    const again = await gateway();
    await again.until(second, "run.completed");
    expect((await again.ask("POST", "/v1/runs", { input: "three" })).status).toBe(202);
  });
});

describe("a stop of a run whose tool has a tree of processes", () => {
  const SLEEP = `sleep ${300 + (process.pid % 1000) / 1000}`;
  const sleeping = () =>
    readdirSync("/proc").filter((pid) => {
      try {
        return (
          /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim() === SLEEP
        );
      } catch {
        return false; // it has just ended
      }
    }).length;

  it("is cancelled only when all of them are dead, and nothing more is asked of the model", async () => {
    configure("approvals: {mode: off}\nterminal: {sandbox: off}\n");
    const command = `trap '' TERM; (setsid ${SLEEP} &) ; ${SLEEP} & ${SLEEP}; ${SLEEP}`;
    llm.script({ calls: [{ name: "terminal", args: { command } }] });
    const served = await gateway();
    const id = await served.run({ input: "x" });
    await served.until(id, "tool.started");
    await expect.poll(sleeping, { interval: 10, timeout: 10_000 }).toBe(3);
    const watching = served.until(id, "run.cancelled");
    const { status: code, body } = await served.ask("POST", `/v1/runs/${id}/stop`);
    expect([code, body]).toEqual([200, { run_id: id, status: "stopping" }]);
    const seen = await watching;
    expect(sleeping()).toBe(0);
    expect(seen.map(({ data }) => data.event).slice(-2)).toEqual(["run.stopping", "run.cancelled"]);
    expect(await status(served, id)).toBe("cancelled");
    expect(llm.requests).toHaveLength(1);
  });
});
