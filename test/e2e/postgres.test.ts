// The program on PostgreSQL, as its user has it: one setting.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { makePlace } from "../fakes/hermes.ts";
import { startPostgres, type TestServer } from "../fakes/postgres.ts";
import { llm, openGateway, place, useProgram } from "../fakes/program.ts";

const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
let server: TestServer;
let HERMES_STORE_URL: string;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());
useProgram({ env: { API_SERVER_KEY: KEY } });
beforeEach(async () => {
  HERMES_STORE_URL = (await server.place()).replace("hermes@", "hermes:open-sesame-8Kq2@");
});

async function gateway() {
  const { hermes, url } = await openGateway({ HERMES_STORE_URL });
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  const ask = async (method: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { http: answer.status, ...JSON.parse(await answer.text()) };
  };
  const ends = (run: unknown) =>
    expect.poll(() => ask("GET", `/v1/runs/${String(run)}`), { interval: 20, timeout: 20_000 });
  return { hermes, ask, ends };
}

async function command(args: string[], env: NodeJS.ProcessEnv = { HERMES_STORE_URL }) {
  const hermes = place.start(args, env);
  return { code: await hermes.exit, out: hermes.stdout() + hermes.stderr() };
}

it("a turn goes on after kill -9 and a restart; lists, the doctor and a second gateway find the same store; a copy is whole", async () => {
  llm.script({ text: "so far", fault: { silence: "text" } });
  const first = await gateway();
  const { run_id: run } = await first.ask("POST", "/v1/runs", { input: "plan the garden", session_id: "garden" });
  await (await llm.nextRequest()).holding;
  first.hermes.kill("SIGKILL");
  await first.hermes.exit;

  llm.script({ text: "whole" });
  const again = await gateway();
  await again.ends(run).toMatchObject({ status: "completed", output: "whole" });
  expect(existsSync(join(place.home, "hermes.db"))).toBe(false);

  expect(await command(["sessions", "list", "--json"])).toMatchObject({ code: 0 });
  const doctor = await command(["doctor"]);
  expect(doctor.out).toContain("the database of store.url has no errors");
  expect(doctor.out).not.toContain("open-sesame");
  const elsewhere = makePlace({ HERMES_STORE_URL, OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: "k", LLM_MODEL: "m" });
  const second = elsewhere.start(["gateway", "--port", "0"]);
  expect(await second.exit).toBe(1);
  expect(second.stderr()).toMatch(/^hermes: Another hermes uses PostgreSQL at /m);
  elsewhere.clear();

  again.hermes.kill("SIGTERM");
  expect(await again.hermes.exit).toBe(0);
  const file = join(place.dir, "copy.db");
  expect(await command(["store", "copy", HERMES_STORE_URL, file])).toEqual({
    code: 0,
    out: expect.stringMatching(/^Copied and verified 1 sessions, \d+ entries and \d+ notes\.\n$/m),
  });
  expect((await command(["store", "copy", file, HERMES_STORE_URL])).out).toContain("The target is not empty");
  const empty = await server.place();
  expect(await command(["store", "copy", file, empty])).toMatchObject({ code: 0 });
  HERMES_STORE_URL = empty;
  const moved = await gateway();
  expect(await moved.ask("GET", `/v1/runs/${String(run)}`)).toMatchObject({ status: "completed", output: "whole" });
});

it("while PostgreSQL is away inputs are refused by name, and the turn that runs ends when it is back", async () => {
  llm.script({ text: "so far", fault: { silence: "text" } });
  const { ask, ends } = await gateway();
  const { run_id: run } = await ask("POST", "/v1/runs", { input: "x" });
  const request = await llm.nextRequest();
  await request.holding;
  let refused: Record<string, unknown> = {};
  await server.restart(async () => {
    refused = await ask("POST", "/v1/runs", { input: "y" });
  });
  expect(refused).toMatchObject({ http: 503, error: { code: "store_unavailable" } });
  llm.script({ text: "late" });
  const { run_id: next } = await ask("POST", "/v1/runs", { input: "z" });
  await ends(next).toMatchObject({ status: "completed", output: "late" });
  expect(await ask("POST", `/v1/runs/${String(run)}/stop`)).toMatchObject({ http: 200 });
  await ends(run).toMatchObject({ status: "cancelled" });
});

it("a gateway whose store was taken over accepts nothing more, and ends so that its service manager starts it again", async () => {
  const { hermes, ask } = await gateway();
  await server.sql("DELETE FROM node", HERMES_STORE_URL);
  expect(await ask("POST", "/v1/runs", { input: "x" })).toMatchObject({ http: 503, error: { code: "not_owner" } });
  expect(await hermes.exit).toBe(1);
  expect(await server.sql("SELECT 1 FROM session", HERMES_STORE_URL)).toEqual([]);
});

it("a server that refuses the user is a mistake of the configuration (78), one that does not answer is not", async () => {
  const wrong = HERMES_STORE_URL.replace("/postgres?", "/nowhere?");
  expect(await command(["gateway", "--port", "0"], { HERMES_STORE_URL: wrong })).toEqual({
    code: 78,
    out: expect.stringContaining("does not have the database in store.url"),
  });
  const silent = { HERMES_STORE_URL: "postgres://hermes:open-sesame-8Kq2@127.0.0.1:1/hermes" };
  const { code, out } = await command(["gateway", "--port", "0"], silent);
  expect(code).toBe(1);
  expect(out).toContain("ECONNREFUSED");
  expect(out).not.toContain("open-sesame");
});
