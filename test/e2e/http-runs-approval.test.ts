// The runs API on a real socket: approvals.
import { describe, expect, it } from "vitest";
import type { Gate } from "../../src/core/ports.ts";
import { eventsOf } from "../fakes/api.ts";
import {
  approve,
  asking,
  codeOf,
  type Failure,
  finish,
  isError,
  kill,
  question,
  restart,
  start,
  status,
  stop,
} from "../fakes/runs.ts";
import { scriptedTool } from "../fakes/scripted.ts";

describe("an approval", () => {
  it.each(["once", "session", "always", "approve", "approved", "allow"])("%s lets it run", async (choice) => {
    const { api, id, tool } = await asking(1);
    const meant = ["session", "always"].includes(choice) ? choice : "once";
    const { status: code, body } = await approve(api, id, { choice });
    expect([code, body]).toEqual([
      200,
      { object: "hermes.run.approval_response", run_id: id, choice: meant, resolved: 1 },
    ]);
    (await tool.next()).done("deleted");
    expect(await finish(api, id)).toBe("completed");
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    expect(events.find(({ event }) => event === "approval.responded")).toMatchObject({ choice: meant, resolved: 1 });
  });

  it("deny does not let it run, and the model is told why", async () => {
    const { api, id, tool } = await asking(1);
    expect((await approve(api, id, { choice: "deny", reason: "not on a Friday" })).body).toMatchObject({ resolved: 1 });
    const asked = await api.model.next();
    expect(asked.request.messages.at(-1)).toMatchObject({ role: "tool", outcome: "denied", text: "not on a Friday" });
    asked.answer("as you wish");
    await api.ended(id, id);
    expect(tool.all).toEqual([]);
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    expect(events.map(({ event }) => event)).not.toContain("tool.started");
    expect(events.find(({ event }) => event === "approval.responded")).toMatchObject({ choice: "deny" });
  });

  it("is asked for with the exact command, its id, choices and a deadline on the wall clock", async () => {
    const { api, id, waiting } = await asking(1);
    await stop(api, id);
    await api.ended(id, id);
    const events = await eventsOf(await api.call("GET", `/v1/runs/${id}/events`));
    const request = events.find(({ event }) => event === "approval.request");
    expect(request).toMatchObject({
      command: "rm 0",
      description: "delete it all",
      choices: ["once", "session", "always", "deny"],
      request_id: waiting[0],
      run_id: id,
    });
    const left = Number(request?.["expires_at"]) - Date.now() / 1_000;
    expect(left).toBeGreaterThan(30);
    expect(left).toBeLessThanOrEqual(60);
  });

  it("without a request_id is for the oldest", async () => {
    const { api, id, tool, waiting } = await asking(3);
    await approve(api, id, { choice: "once" });
    expect((await tool.next()).args).toEqual({ command: "rm 0" });
    expect((await api.engine.run(id))?.asking).toEqual(waiting.slice(1));
    expect(await status(api, id)).toMatchObject({
      status: "waiting_for_approval",
      approval: { request_id: waiting[1] },
    });
  });

  it("with a request_id is for that one", async () => {
    const { api, id, tool, waiting } = await asking(3);
    await approve(api, id, { choice: "once", request_id: waiting[2] });
    expect((await tool.next()).args).toEqual({ command: "rm 2" });
    expect((await api.engine.run(id))?.asking).toEqual(waiting.slice(0, 2));
  });

  it("with a request_id that does not wait changes nothing", async () => {
    const { api, id, tool, waiting } = await asking(1);
    isError(await approve(api, id, { choice: "once", request_id: "call_9_9" }), 409, "approval_not_pending");
    isError(await approve(api, id, { choice: "once", request_id: "call_9_9", all: true }), 409, "approval_not_pending");
    expect((await api.engine.run(id))?.asking).toEqual(waiting);
    expect(tool.all).toEqual([]);
  });

  it("with the request_id of another run answers neither", async () => {
    const tool = scriptedTool("danger", { gate: question() });
    const api = await start({ tools: [tool] });
    const asks = async (input: string) => {
      const id = await api.run({ input });
      (await api.model.next()).answer("", { tool: "danger", args: { command: `rm ${input}` } });
      await api.entry(id, "asked");
      return { id, call: (await api.engine.run(id))?.asking[0] ?? "" };
    };
    const [first, second] = [await asks("one"), await asks("two")];
    expect(first.call).not.toBe(second.call);
    isError(await approve(api, second.id, { choice: "once", request_id: first.call }), 409, "approval_not_pending");
    expect(tool.all).toEqual([]);
    await approve(api, second.id, { choice: "once", request_id: second.call });
    expect((await tool.next()).args).toEqual({ command: "rm two" });
    expect((await api.engine.run(first.id))?.asking).toEqual([first.call]);
  });

  it("with a choice that is not offered is refused: nothing is kept that was not said", async () => {
    const tool = scriptedTool("danger", { gate: { ...question(), choices: ["once", "deny"] } as Gate });
    const api = await start({ tools: [tool] });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "danger", args: {} });
    await api.entry(id, "asked");
    for (const choice of ["session", "always"])
      isError(await approve(api, id, { choice }), 400, "invalid_approval_choice");
    expect(await approve(api, id, { choice: "once" })).toMatchObject({ status: 200 });
  });

  it.each([{ all: true }, { resolve_all: true }])("with %j is for all", async (all) => {
    const { api, id, tool } = await asking(3);
    expect((await approve(api, id, { choice: "once", ...all })).body).toMatchObject({ resolved: 3 });
    for (const n of [0, 1, 2]) expect((await tool.next()).args).toEqual({ command: `rm ${n}` });
  });

  it.each([{ all: "false" }, { all: "true" }, { all: 1 }, { all: null }, { all: [true] }, { resolve_all: "yes" }])(
    "with %j is for one: only true is true",
    async (all) => {
      const { api, id } = await asking(2);
      expect((await approve(api, id, { choice: "once", ...all })).body).toMatchObject({ resolved: 1 });
      expect((await api.engine.run(id))?.asking).toHaveLength(1);
    },
  );

  it.each([
    {},
    { choice: "" },
    { choice: "maybe" },
    { choice: 1 },
    { choice: true },
    { choice: null },
    { choice: "y".repeat(60) },
  ])("that is no choice is refused: %j", async (body) => {
    const { api, id, waiting } = await asking(1);
    isError(await approve(api, id, body), 400, "invalid_approval_choice");
    expect((await api.engine.run(id))?.asking).toEqual(waiting);
  });

  it("is no consent when it has words but no choice", async () => {
    const { api, id, waiting, tool } = await asking(1);
    isError(await approve(api, id, { answer: "no" }), 400, "invalid_approval_choice");
    expect((await api.engine.run(id))?.asking).toEqual(waiting);
    expect(tool.all).toEqual([]);
  });

  it("of an unknown run is 404", async () => {
    const api = await start();
    isError(await approve(api, "run_nonexistent", { choice: "once" }), 404, "run_not_found");
  });

  it("is decided once: of many at the same time one wins, and the others get 409", async () => {
    const { api, id, tool, waiting } = await asking(1);
    const choices = Array.from({ length: 12 }, (_, n) => (n % 2 ? "deny" : "once"));
    const answers = await Promise.all(
      choices.map((choice) => approve(api, id, { choice, ...(choice === "deny" && { request_id: waiting[0] }) })),
    );
    const won = answers.filter(({ status: code }) => code === 200);
    expect(won).toHaveLength(1);
    expect(answers.filter((answer) => codeOf(answer) === "approval_not_pending")).toHaveLength(11);
    const decided = api.journal(id).find(({ kind }) => kind === "decided");
    expect(decided).toMatchObject({ allow: won[0]?.body["choice"] === "once" });
    expect(api.journal(id).filter(({ kind }) => kind === "started")).toHaveLength(
      won[0]?.body["choice"] === "once" ? 1 : 0,
    );
    expect(tool.all.length).toBeLessThanOrEqual(1);
  });

  it("that two give for all at once answers each question once", async () => {
    const { api, id } = await asking(4);
    const answers = await Promise.all([1, 2, 3].map(() => approve(api, id, { choice: "once", all: true })));
    const resolved = answers.map(({ body }) => Number(body["resolved"] ?? 0));
    expect(resolved.reduce((a, b) => a + b, 0)).toBe(4);
    expect(api.journal(id).filter(({ kind }) => kind === "decided")).toHaveLength(4);
  });

  it("can be given after a restart", async () => {
    const { api, id } = await asking(2);
    const tool = scriptedTool("danger", { gate: question() });
    const again = await restart(api, { tools: [tool] });
    expect(await status(again, id)).toMatchObject({ status: "waiting_for_approval" });
    expect((await approve(again, id, { choice: "once" })).body).toMatchObject({ resolved: 1 });
    const first = await tool.next();
    expect(first.args).toEqual({ command: "rm 0" });
    expect((await approve(again, id, { choice: "deny" })).body).toMatchObject({ resolved: 1 });
    first.done("deleted");
    expect(await finish(again, id)).toBe("completed");
  });

  it("that nobody gives in time is a no", async () => {
    const { api, id, tool } = await asking(1, { timeoutMs: 40 });
    const decided = await api.entry(id, "decided");
    expect(decided).toMatchObject({ allow: false, by: "timeout" });
    isError(await approve(api, id, { choice: "once" }), 409, "approval_not_pending");
    await finish(api, id);
    expect(tool.all).toEqual([]);
  });

  it("whose time was over while nobody ran is a no after the restart", async () => {
    const { api, id } = await asking(1, { timeoutMs: 150 });
    await kill(api);
    const asked = api.journal(id).find((entry) => entry.kind === "asked");
    await expect.poll(() => Date.now()).toBeGreaterThan(asked?.kind === "asked" ? asked.ask.until : 0);
    const tool = scriptedTool("danger", { gate: question() });
    const again = await start({ disk: api.disk, tools: [tool] });
    isErrorOneOf(await approve(again, id, { choice: "once" }));
    expect(await again.entry(id, "decided")).toMatchObject({ allow: false, by: "timeout" });
    await finish(again, id);
    expect(tool.all).toEqual([]);
  });

  it("of a run that was stopped is 409, and nothing runs", async () => {
    const { api, id, tool } = await asking(1);
    await stop(api, id);
    await api.ended(id, id);
    isError(await approve(api, id, { choice: "once" }), 409, "approval_not_active");
    expect(tool.all).toEqual([]);
  });

  it("of one session does not answer another's", async () => {
    const tool = scriptedTool("danger", { gate: question() });
    const api = await start({ tools: [tool] });
    const ids = [await api.run({ input: "a" }), await api.run({ input: "b" })];
    for (const _ of ids) (await api.model.next()).answer("", { tool: "danger", args: {} });
    for (const id of ids) await api.entry(id, "asked");
    await approve(api, String(ids[0]), { choice: "once", all: true });
    expect(await status(api, String(ids[1]))).toMatchObject({ status: "waiting_for_approval" });
  });
});

function isErrorOneOf(answer: { status: number; body: Partial<Failure> }) {
  expect(answer.status).toBe(409);
  expect(["approval_not_pending", "approval_not_active"]).toContain(codeOf(answer));
}
