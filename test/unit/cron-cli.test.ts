// hermes cron: over the notes of a home where nothing runs, and over HTTP where a gateway does.
import { afterEach, describe, expect, it } from "vitest";
import { createRemoteJobs } from "../../src/client/jobs.ts";
import { createWire } from "../../src/client/wire.ts";
import type { Runtime } from "../../src/core/runtime.ts";
import { clock } from "../../src/platform/clock.ts";
import { openJobs } from "../../src/schedule/jobs.ts";
import { createScheduler, type Scheduler } from "../../src/schedule/scheduler.ts";
import {
  type AddFlags,
  addJob,
  type CronJobs,
  changeJob,
  createJob,
  editJob,
  jobStatus,
  listJobs,
  runJob,
} from "../../src/surfaces/cli/cron.ts";
import { jobRoutes } from "../../src/surfaces/http/runtime/jobs.ts";
import { KEY, startApi, type TestApi } from "../fakes/api.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

const CHAT = "agent:main:telegram:dm:999";
const delivers = (session: string) => session === CHAT;
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

/** A gateway as far as jobs go, on a real socket. */
async function gateway(): Promise<TestApi & { scheduler: Scheduler }> {
  let scheduler: Scheduler | null = null;
  const onlooker = (runtime: Runtime) => {
    const made = createScheduler({ runtime, notes: runtime.notes, clock, log: () => {}, delivers });
    scheduler = made;
    return { observe: made.observe, routes: jobRoutes(made) };
  };
  const api = await startApi({ onlooker });
  opened.push(api);
  const made = scheduler as Scheduler | null;
  if (!made) throw new Error("There is no scheduler.");
  opened.push(made);
  made.start();
  return { ...api, scheduler: made };
}

const overNotes = (): Promise<CronJobs> =>
  Promise.resolve(openJobs({ notes: asStore(createMemoryStore()).notes, clock, log: () => {}, delivers }));
const remoteJobs = ({ url }: { url: string }, key = KEY) => createRemoteJobs(createWire({ url, key, patient: false }));
const overHttp = async (): Promise<CronJobs> => remoteJobs(await gateway());

/** A shell: what was printed, what was complained about, and the exit code. */
function shell(jobs: CronJobs) {
  const said = { out: "", err: "" };
  const options = {
    jobs,
    print: (text: string) => {
      said.out += text;
    },
    complain: (line: string) => {
      said.err += `${line}\n`;
    },
  };
  const ran = async (command: () => Promise<number>) => {
    Object.assign(said, { out: "", err: "" });
    return { code: await command(), ...said };
  };
  return {
    add: (text: string, flags: AddFlags) => ran(() => addJob(options, text, flags)),
    list: (json = false) => ran(() => listJobs(options, json)),
    status: () => ran(() => jobStatus(options)),
    change: (verb: "remove" | "pause" | "resume", id: string) => ran(() => changeJob(options, verb, id)),
    run: (id: string) => ran(() => runJob(options, id)),
    ids: async () => (await jobs.list()).map(({ id }) => id) as [string, string],
  };
}

describe.each([
  ["where nothing runs", overNotes],
  ["over the gateway", overHttp],
])("hermes cron, %s", (_, open) => {
  it("adds a job with all that can be said of it", async () => {
    const jobs = await open();
    const { add } = shell(jobs);
    const flags = { cron: "0 9 * * 1-5", zone: "Europe/Berlin", to: "telegram:dm:999", name: "News", model: "big" };
    const { code, out } = await add("Look at the news", { ...flags, allow: true, skipMissed: true });
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^Added [0-9a-f]{12}: News, next \d{4}-\d\d-\d\d \d\d:\d\d\n$/),
    ]);
    const [job] = await jobs.list();
    expect(job).toEqual({
      id: out.slice(6, 18),
      name: "News",
      text: "Look at the news",
      when: { cron: "0 9 * * 1-5", zone: "Europe/Berlin" },
      session: null,
      heartbeat: false,
      goal: null,
      route: CHAT,
      model: "big",
      unattended: "allow",
      catchUp: "skip",
      enabled: true,
      createdBy: expect.stringMatching(/^(cli|api)$/) as string,
      createdAt: expect.any(Number) as number,
      lastSlot: null,
      nextAt: expect.any(Number) as number,
    });
    expect(job?.nextAt).toBeGreaterThan(Date.now());
    expect(Math.abs((job?.createdAt ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it("lists jobs for people, what is next first, and for programs", async () => {
    const jobs = await open();
    const { add, list, change, ids } = shell(jobs);
    expect((await list()).out).toBe("There are no jobs. Add one with: hermes cron add\n");
    expect((await list(true)).out).toBe("");
    await add("Every year", { cron: "0 9 29 2 *", zone: "UTC" });
    await add("Soon", { in: "20m" });
    const [soon, yearly] = await ids();
    await change("pause", soon);
    const rows = (await list()).out.split("\n");
    expect(rows).toEqual([
      expect.stringMatching(new RegExp(`^${yearly}  \\d{4}-02-29 \\d\\d:\\d\\d  0 9 29 2 \\* UTC  Every year$`)),
      expect.stringMatching(new RegExp(`^${soon}  paused            once            Soon$`)),
      "",
    ]);
    const { out } = await list(true);
    expect(
      out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(await jobs.list());
  });

  it("says whether jobs run, and which one is next", async () => {
    const { add, status } = shell(await open());
    expect((await status()).out).toMatch(
      /^0 job\(s\) are active\. (The gateway runs them\.|No gateway runs, so none will run\.)/,
    );
    await add("water the plants", { in: "2h" });
    expect((await status()).out).toMatch(
      /^1 job\(s\) are active\. [^\n]*\nThe next is [0-9a-f]{12}: water the plants, \d{4}-/,
    );
  });

  it("shows nothing that a terminal would obey", async () => {
    const { add, list } = shell(await open());
    await add("x", { in: "20m", name: "a\u001b]52;c;AAAA\u0007b\u202Ec" });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect((await list()).out).not.toMatch(/[\u0000-\u0009\u001b\u202e]/);
  });

  it("pauses, resumes and removes", async () => {
    const jobs = await open();
    const { add, change, ids } = shell(jobs);
    await add("News", { cron: "0 9 * * *" });
    const [id] = await ids();
    expect(await change("pause", id)).toEqual({ code: 0, out: `Paused ${id}: News\n`, err: "" });
    expect(await jobs.list()).toMatchObject([{ enabled: false }]);
    expect(await change("resume", id)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Resumed .*: News, next \d{4}-/) as string,
    });
    expect(await change("remove", id)).toEqual({ code: 0, out: `Removed ${id}: News\n`, err: "" });
    expect(await jobs.list()).toEqual([]);
  });

  it("says what is wrong and exits with 1", async () => {
    const { add, change, list } = shell(await open());
    expect(await add("x", {})).toEqual({
      code: 1,
      out: "",
      err: "Say when with exactly one of cron, at, in and every.\n",
    });
    expect((await add("x", { cron: "9 o'clock" })).err).toMatch(/is not a cron expression.*minute, hour, day/);
    expect((await add("x", { in: "1h", to: "irc:dm:1" })).err).toMatch(/agent:main:irc:dm:1.*not a chat/);
    expect((await add("x".repeat(10_001), { in: "1h" })).code).toBe(1);
    expect(await change("remove", "nope")).toEqual({ code: 1, out: "", err: 'There is no job "nope".\n' });
    expect((await list()).out).toMatch(/no jobs/);
  });
});

describe("hermes cron run", () => {
  it("begins a turn at the gateway, and no third one while two are not done", async () => {
    const api = await gateway();
    const { add, run, ids } = shell(remoteJobs(api));
    await add("Look at the news", { cron: "0 9 29 2 *" });
    const [id] = await ids();
    const { code, out } = await run(id);
    const turn = out.replace("Started ", "").trim();
    expect(code).toBe(0);
    expect((await api.model.next()).request.messages).toEqual([{ role: "user", text: "Look at the news" }]);
    expect(await api.engine.run(turn)).toMatchObject({ status: "running", session: `agent:main:schedule:${id}` });
    await run(id);
    expect(await run(id)).toMatchObject({ code: 1, err: expect.stringMatching(/another one waits/) as string });
    expect(await run("nope")).toMatchObject({ code: 1, err: 'There is no job "nope".\n' });
  });

  it("needs a gateway", async () => {
    const { run } = shell(await overNotes());
    expect(await run("any")).toEqual({
      code: 1,
      out: "",
      err: "No gateway runs, so no job can run. Start it with: hermes gateway\n",
    });
  });

  it("says so where the gateway does not answer, or not as it should", async () => {
    const api = await gateway();
    await expect(remoteJobs(api, "wrong").list()).rejects.toMatchObject({ status: 401 });
    await api.close();
    await expect(remoteJobs(api).list()).rejects.toThrow(/Cannot reach/);
  });
});

describe("/api/jobs", () => {
  type Shown = { id: string; next_at: number; [field: string]: unknown };

  it("shows a job in the words of the API", async () => {
    const api = await gateway();
    const body = { text: "Look", at: "2099-11-20T09:00", zone: "Europe/Berlin", deliver_to: CHAT };
    const made = await api.json<Shown>("POST", "/api/jobs", body);
    expect(made).toMatchObject({
      status: 201,
      body: {
        object: "hermes.job",
        name: "Look",
        cron: null,
        zone: null,
        at: Date.parse("2099-11-20T08:00:00Z") / 1_000,
        deliver_to: CHAT,
        session_id: `agent:main:schedule:${made.body.id}`,
        unattended: "deny",
        catch_up: "once",
        created_by: "api",
        last_slot: null,
        next_at: Date.parse("2099-11-20T08:00:00Z") / 1_000,
      },
    });
    expect((await api.json("GET", "/api/jobs")).body).toMatchObject({ data: [{ id: made.body.id, name: "Look" }] });
    expect((await api.json("DELETE", `/api/jobs/${made.body.id}`)).body).toMatchObject({
      id: made.body.id,
      deleted: true,
    });
    expect((await api.json("GET", "/api/jobs")).body).toMatchObject({ object: "list", data: [] });
  });

  it("makes one job of a request that is sent twice, and one run", async () => {
    const api = await gateway();
    const once = { "Idempotency-Key": "k" };
    const [first, second] = await Promise.all(
      [1, 2].map(() => api.json<Shown>("POST", "/api/jobs", { text: "x", in: "1h" }, once)),
    );
    expect(second?.body).toEqual(first?.body);
    const path = `/api/jobs/${first?.body.id}/run`;
    const runs = [await api.json("POST", path, undefined, once), await api.json("POST", path, undefined, once)];
    expect(runs.map(({ status }) => status)).toEqual([202, 202]);
    expect(runs[1]?.body).toEqual(runs[0]?.body);
    expect(api.model.all.length).toBeLessThanOrEqual(1);
  });

  it.each([
    ["a field that it does not know", { text: "x", in: "1h", colour: "red" }, null],
    ["an empty text", { text: "", in: "1h" }, null],
    ["a policy that is none", { text: "x", in: "1h", unattended: "maybe" }, null],
    ["no time", { text: "x" }, "invalid_job"],
    ["a chat that is none", { text: "x", in: "1h", deliver_to: "agent:main:irc:dm:1" }, "invalid_job"],
  ])("refuses %s", async (_, body, code) => {
    const api = await gateway();
    const answer = await api.json<{ error: { code: string | null } }>("POST", "/api/jobs", body);
    expect([answer.status, answer.body.error.code]).toEqual([400, code]);
    expect((await api.json("GET", "/api/jobs")).body).toMatchObject({ object: "list", data: [] });
  });

  it("says 404 for what is not there, 401 without a key, and 503 to a run while it drains", async () => {
    const api = await gateway();
    const { body } = await api.json<Shown>("POST", "/api/jobs", { text: "x", in: "1h" });
    for (const [method, path] of [
      ["DELETE", "/api/jobs/nope"],
      ["POST", "/api/jobs/nope/pause"],
      ["POST", "/api/jobs/nope/resume"],
      ["POST", "/api/jobs/nope/run"],
    ] as const)
      expect(await api.json(method, path)).toMatchObject({ status: 404, body: { error: { code: "job_not_found" } } });
    expect((await fetch(`${api.url}/api/jobs`)).status).toBe(401);
    const drained = api.engine.drain(0);
    expect((await api.json("POST", `/api/jobs/${body.id}/run`)).status).toBe(503);
    await drained;
  });
});

describe("hermes cron in the words of Hermes", () => {
  it("creates a job, and changes its time and chat", async () => {
    const { notes } = asStore(createMemoryStore());
    const jobs = openJobs({ notes, clock, log: () => {}, delivers });
    const said: string[] = [];
    const options = {
      jobs,
      print: (text: string) => void said.push(text),
      complain: (line: string) => void said.push(line),
    };
    expect(await createJob(options, "every 2h", "look", { name: "looker" })).toBe(0);
    const [made] = await jobs.list();
    expect(made).toMatchObject({ name: "looker", when: { cron: "0 */2 * * *" }, route: null });
    expect(await editJob(options, made?.id ?? "", { schedule: "0 9 * * *", deliver: "telegram:999" })).toBe(0);
    expect((await jobs.list())[0]).toMatchObject({ text: "look", when: { cron: "0 9 * * *" }, route: CHAT });
    expect(await editJob(options, made?.id ?? "", { schedule: "every 7 moons" })).toBe(1);
    expect(said.at(-1)).toContain("is not a time");
  });
});
