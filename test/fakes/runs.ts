// What the tests of /v1/runs share: an API that is closed after each test, and the requests of a client.
import { expect, onTestFinished } from "vitest";
import type { Gate } from "../../src/core/ports.ts";
import { type StartOptions, startApi, type TestApi } from "./api.ts";
import { scriptedTool } from "./scripted.ts";

const opened = new Set<TestApi>();
export async function start(options: StartOptions = {}): Promise<TestApi> {
  const api = await startApi(options);
  opened.add(api);
  onTestFinished(async () => {
    if (opened.delete(api)) await api.close();
  });
  return api;
}
/** `kill -9`. */
export async function kill(api: TestApi): Promise<void> {
  opened.delete(api);
  await api.kill();
}
/** `kill -9`, then a new process on the same disk. */
export async function restart(api: TestApi, options: StartOptions = {}): Promise<TestApi> {
  await kill(api);
  return start({ ...options, disk: api.disk });
}

export type Failure = { error: { message: string; type: string; param: string | null; code: string | null } };
export const post = (api: TestApi, body: unknown, headers?: Record<string, string>) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", "/v1/runs", body, headers);
export const status = async (api: TestApi, id: string) => (await api.json("GET", `/v1/runs/${id}`)).body;
export const approve = (api: TestApi, id: string, body: unknown) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", `/v1/runs/${id}/approval`, body);
export const steer = (api: TestApi, id: string, body: unknown, headers?: Record<string, string>) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", `/v1/runs/${id}/steer`, body, headers);
export const stop = (api: TestApi, id: string) =>
  api.json<Record<string, unknown> & Partial<Failure>>("POST", `/v1/runs/${id}/stop`);
export const codeOf = ({ body }: { body: Partial<Failure> }) => body.error?.code;
/** Ends the run that the model was asked for last. */
export const finish = async (api: TestApi, session: string, id = session, text = "done") => {
  (await api.model.next()).answer(text);
  return api.ended(session, id);
};
export const idem = (key: string) => ({ "Idempotency-Key": key });
export const nothingLeft = (api: TestApi) => {
  expect(api.disk.catalog.sessions({ limit: 10 })).toEqual([]);
  expect(api.model.all).toEqual([]);
};

/** All of the contract's shape of a "no". */
export function isError({ status, body }: { status: number; body: Partial<Failure> }, expected: number, code?: string) {
  expect([status, body]).toEqual([
    expected,
    {
      error: {
        message: expect.stringMatching(/\S/),
        type: expect.any(String),
        param: body.error?.param ?? null,
        code: code ?? body.error?.code ?? null,
      },
    },
  ]);
}

// ── Approval ──────────────────────────────────────────────────────────────────────────────────────────

export function question(timeoutMs = 60_000): Gate {
  return {
    gate: "ask",
    kind: "approval",
    text: "delete it all",
    choices: ["once", "session", "always", "deny"],
    timeoutMs,
  };
}
/** A run with so many questions open, all from one answer. */
export async function asking(count: number, { timeoutMs = 60_000 } = {}) {
  const tool = scriptedTool("danger", { gate: question(timeoutMs) });
  const api = await start({ tools: [tool] });
  const id = await api.run({ input: "x" });
  const calls = Array.from({ length: count }, (_, n) => ({ tool: "danger", args: { command: `rm ${n}` } }));
  (await api.model.next()).answer("", ...calls);
  await api.entry(id, "asked");
  const waiting = (await api.engine.run(id))?.asking ?? [];
  expect(waiting).toHaveLength(count);
  return { api, id, tool, waiting };
}
