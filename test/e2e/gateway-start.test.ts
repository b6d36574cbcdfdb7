// A gateway that cannot start says why, and leaves with a code that its service manager understands: it never stays with an
// open port and nothing behind it.
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startApi } from "../fakes/api.ts";
import { configure, llm, openGateway, place, useProgram } from "../fakes/program.ts";

const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
useProgram({ env: { API_SERVER_KEY: KEY } });

async function gateway() {
  const { hermes, url } = await openGateway();
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  const ask = async (method: string, path: string, body?: unknown): Promise<Record<string, unknown>> =>
    JSON.parse(
      await (
        await fetch(`${url}${path}`, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
      ).text(),
    );
  return { hermes, ask };
}

describe("a gateway that is told to leave", () => {
  it("leaves within a second though its memory hangs, and the memory is told after the next start", async () => {
    const heard: string[] = [];
    let answers = false;
    const memory = createServer((request, response) => {
      heard.push(request.url ?? "");
      if (answers) response.writeHead(200, { "Content-Type": "application/json" }).end("{}");
    });
    await new Promise<void>((resolve) => void memory.listen(0, "127.0.0.1", resolve));
    const { port } = memory.address() as AddressInfo;
    configure(`memory: {provider: [http], recall_timeout: 0, http: {url: "http://127.0.0.1:${port}"}}`);
    const { hermes, ask } = await gateway();
    const { run_id: run } = await ask("POST", "/v1/runs", { input: "hello" });
    await expect.poll(() => ask("GET", `/v1/runs/${String(run)}`)).toMatchObject({ status: "completed" });
    await expect.poll(() => heard.length).toBeGreaterThan(0);
    const began = performance.now();
    hermes.kill("SIGTERM");
    expect(await hermes.exit).toBe(0);
    expect(performance.now() - began).toBeLessThan(1_500); // a second, and what a busy machine adds
    answers = true;
    await gateway();
    await expect.poll(() => heard.join(), { timeout: 10_000 }).toContain("/turns");
    memory.closeAllConnections();
    memory.close();
  });
});

describe("a gateway that starts on a full disk", () => {
  it("says so and ends with a code that asks for another start; with space again it takes up what was left", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const first = await gateway();
    const { run_id: run } = await first.ask("POST", "/v1/runs", { input: "x".repeat(100_000) });
    await (await llm.nextRequest()).holding;
    first.hermes.kill("SIGKILL");
    await first.hermes.exit;
    expect(statSync(join(place.home, "hermes.db-wal")).size).toBeGreaterThan(100_000);

    // Everything but the end of that file can be written: the port is open when the engine finds out.
    const full = place.startWithFullDisk(["gateway", "--port", "0"], 64);
    expect(await full.exit).toBe(1);
    expect(full.stderr()).toMatch(/^hermes: the disk that holds .*hermes\.db failed/m);
    expect(full.stdout()).not.toContain("ready");

    llm.script({ text: "whole" });
    const again = await gateway();
    await expect
      .poll(() => again.ask("GET", `/v1/runs/${String(run)}`), { interval: 20, timeout: 10_000 })
      .toMatchObject({ status: "completed", output: "whole" });
  });

  it("is no matter of its configuration, even where nothing was ever written (not 78)", async () => {
    mkdirSync(place.home, { recursive: true, mode: 0o700 });
    const full = place.startWithFullDisk(["gateway", "--port", "0"], 2);
    expect(await full.exit).toBe(1);
    expect(full.stderr()).toMatch(/^hermes: the disk that holds /m);
  });
});

it("a gateway that cannot note where it serves ends, and frees its port", async () => {
  mkdirSync(join(place.home, "gateway.json"), { recursive: true, mode: 0o700 });
  const hermes = place.start(["gateway", "--port", "0"]);
  expect(await hermes.exit).toBe(1);
  expect(hermes.stderr()).toMatch(/^hermes: .*gateway\.json/m);
});

it("a gateway whose policy cannot be read ends with 78, though its store is open by then", async () => {
  mkdirSync(place.home, { recursive: true, mode: 0o700 });
  writeFileSync(join(place.home, "policy.yaml"), "not: [a policy\n");
  const hermes = place.start(["gateway", "--port", "0"]);
  expect(await hermes.exit).toBe(78);
  expect(hermes.stderr()).toMatch(/^hermes: .*policy\.yaml:2: /m);
});

it("/health says ok once every route answers, and not before", async () => {
  const api = await startApi({ opened: false });
  const health = () => api.json("GET", "/health", undefined, { Authorization: "" });
  expect((await api.json("GET", "/v1/models")).status).toBe(503);
  const starting = await health();
  expect([starting.status, starting.headers.get("Retry-After")]).toEqual([503, "1"]);
  expect(starting.body).toMatchObject({ status: "starting" });
  await api.api.opened();
  expect(await health()).toMatchObject({ status: 200, body: { status: "ok" } });
  expect((await api.json("GET", "/v1/models")).status).toBe(200);
  await api.close();
});
