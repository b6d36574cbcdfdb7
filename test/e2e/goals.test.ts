// What goes on by itself, as real processes that are killed in the middle of it: a goal, a loop, a child in the
// background, and a pause.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createRemoteRuntime } from "../../src/client/remote.ts";
import type { LlmRequest } from "../fakes/llm/server.ts";
import { llm, openGateway, openTerminal, place, useProgram } from "../fakes/program.ts";

useProgram();

const TALK = "agent:main:terminal:dm:talk";
const POLL = { timeout: 10_000, interval: 30 };
const lastSaid = (request: LlmRequest | undefined) => request?.messages.findLast(({ role }) => role === "user")?.text;

/** A gateway that has started, and what its clients ask it. */
async function gateway() {
  const { hermes, url } = await openGateway();
  const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
  return {
    runtime: createRemoteRuntime({ url, key }),
    async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
      const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
      const answer = await fetch(`${url}${path}`, {
        method,
        headers,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return (await answer.json()) as T;
    },
    async killed() {
      hermes.kill("SIGKILL");
      await hermes.exit;
    },
  };
}
type ShownJob = { id: string; enabled: boolean; goal: { reached: boolean; why: string; used: { turns: number } } };
type Gateway = Awaited<ReturnType<typeof gateway>>;

const said = async ({ runtime }: Gateway, session: string) =>
  (await runtime.entries(session, 0, 1_000)).flatMap((entry) => (entry.kind === "accepted" ? [entry.input.text] : []));

it("a goal that is set in a terminal goes on after a kill in the middle of a step, and has every step once", async () => {
  llm.script([{ text: "Begun." }, { text: "…", hold: new Promise(() => {}) }]);
  const screen = openTerminal(["chat", "--session", "talk"], { cols: 100, rows: 30 });
  await screen.shows("Ctrl+D leaves");
  screen.type("/goal --turns 9 Make the tests pass\r");
  await llm.nextRequest();
  await (await llm.nextRequest()).holding;
  screen.kill("SIGKILL");
  await screen.exit;

  llm.script([{ text: "Further." }, { text: "They pass.\nGOAL: DONE all green" }]);
  const second = await gateway();
  await expect
    .poll(async () => (await second.ask<{ data: ShownJob[] }>("GET", "/api/jobs")).data[0], POLL)
    .toMatchObject({ enabled: false, goal: { reached: true, why: "all green", used: { turns: 3 } } });
  expect(await said(second, TALK)).toEqual([
    "Make the tests pass",
    "Go on with the goal. This is step 2.",
    "Go on with the goal. This is step 3.",
  ]);
  expect(llm.requests).toHaveLength(4);
});

it("a loop whose message was cut by a kill is answered once, is not sent twice, and is stopped for good", async () => {
  llm.script([{ text: "…", hold: new Promise(() => {}) }]);
  const first = await gateway();
  const { id } = await first.ask<ShownJob>("POST", "/api/jobs", { session_id: "build", every: "30m", text: "look" });
  await (await llm.nextRequest()).holding;
  await first.killed();

  llm.script([{ text: "All is well." }]);
  const second = await gateway();
  await expect.poll(async () => (await second.runtime.status("build")).turn, POLL).toBeNull();
  expect(await said(second, "build")).toEqual(["look"]);
  expect(llm.requests.map(lastSaid)).toEqual(["look", "look"]);
  await second.ask("DELETE", `/api/jobs/${id}`);
  expect(await second.ask("GET", "/api/jobs")).toMatchObject({ data: [] });
});

it("a child in the background goes on after a kill, and its end wakes the conversation that it belongs to", async () => {
  const isChild = (request: LlmRequest) => lastSaid(request) === "count the files";
  const args = { tasks: [{ goal: "count the files" }], background: true };
  llm.script((request) => {
    if (isChild(request)) return { text: "…", hold: new Promise(() => {}) };
    return lastSaid(request) === "go" && request.messages.at(-1)?.role === "user"
      ? { calls: [{ name: "delegate_task", args }] }
      : { text: "It works on it." };
  });
  const first = await gateway();
  await first.ask("POST", "/api/sessions/home/messages", { text: "go", mode: "queue" });
  await expect.poll(async () => (await first.runtime.status("home")).turn, POLL).toBeNull();
  expect((await first.runtime.status("home")).background).toMatchObject([{ command: "count the files" }]);
  await expect.poll(() => llm.requests.some(isChild), POLL).toBe(true);
  await first.killed();

  llm.script((request) => ({ text: isChild(request) ? "There are seven." : "Seven files." }));
  const second = await gateway();
  await expect.poll(async () => (await said(second, "home")).length, POLL).toBe(2);
  await expect.poll(async () => (await second.runtime.status("home")).turn, POLL).toBeNull();
  expect((await said(second, "home"))[1]).toContain("There are seven.");
  expect((await second.runtime.status("home")).background).toEqual([]);
});

it("a pause survives a kill: messages are taken and wait, and are answered once somebody resumes", async () => {
  const first = await gateway();
  await first.ask("POST", "/api/pause", { by: "anna" });
  const message = { text: "are you there?", mode: "queue" };
  expect(await first.ask("POST", "/api/sessions/home/messages", message)).toMatchObject({ paused: true });
  await first.killed();

  const second = await gateway();
  expect(await second.ask("GET", "/health/detailed")).toMatchObject({ paused: { by: "anna" }, turns_held: 1 });
  expect(llm.requests).toEqual([]);
  const status = place.start(["gateway", "status"]);
  expect(await status.exit).toBe(0);
  expect(status.stdout()).toContain("Paused by anna");
  await second.ask("DELETE", "/api/pause");
  await expect.poll(async () => (await second.runtime.status("home")).turn, POLL).toBeNull();
  expect(llm.requests.map(lastSaid)).toEqual(["are you there?"]);
});
