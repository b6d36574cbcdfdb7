// /api/sessions on a real socket: what people's programs use, then what a terminal elsewhere uses.
import { describe, expect, it } from "vitest";
import type { Gate } from "../../src/core/ports.ts";
import type { Receipt, Status, Update } from "../../src/core/runtime.ts";
import { eventsOf, frames, type TestApi } from "../fakes/api.ts";
import { restart, start } from "../fakes/runs.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const ask: Gate = { gate: "ask", kind: "approval", text: "Run it?", choices: ["once", "deny"], timeoutMs: 60_000 };
type Listed = { id: string; title: string; snippet?: string; parent_id: string | null; active: boolean };
type Page<T> = { data: T[]; has_more: boolean; next: string | number | null };
type Said = { id: number; role: string; content: string; run_id: string | null; [field: string]: unknown };

const codeOf = ({ status, body }: { status: number; body: { error?: { code?: unknown } } }) => [
  status,
  body.error?.code,
];
const ids = ({ body }: { body: Page<Listed> }) => body.data.map(({ id }) => id);
const page = (api: TestApi, query = "") => api.json<Page<Listed>>("GET", `/api/sessions${query}`);
const messages = async (api: TestApi, session: string, query = "") =>
  (await api.json<Page<Said>>("GET", `/api/sessions/${session}/messages${query}`)).body;
/** Follows `next` to the end. */
async function leaf<T>(limit: number, read: (after: string) => Promise<Page<T>>): Promise<T[]> {
  const all: T[] = [];
  for (let after = ""; ; ) {
    const { data, has_more, next } = await read(after);
    all.push(...data);
    expect(data.length).toBeLessThanOrEqual(limit);
    expect(has_more).toBe(next !== null);
    if (next === null) return all;
    after = `&after=${encodeURIComponent(next)}`;
  }
}
/** A turn from its input to its end. */
async function talk(api: TestApi, session: string, text: string, reply: string, more = {}) {
  const { id } = await api.send(session, text, more);
  (await api.model.next()).answer(reply);
  await api.ended(session, id);
  return id;
}

describe("a session", () => {
  it("is made with nothing in it, exists durably, and once", async () => {
    let api = await start();
    const made = await api.json("POST", "/api/sessions", { id: "mine", title: "Plans" });
    expect([made.status, made.body]).toMatchObject([
      201,
      {
        id: "mine",
        object: "hermes.session",
        title: "Plans",
        parent_id: null,
        created_at: expect.any(Number),
        updated_at: made.body["created_at"],
        active: false,
        entries: 1,
      },
    ]);
    expect(Math.abs(Number(made.body["created_at"]) - Date.now() / 1_000)).toBeLessThan(60);
    expect(codeOf(await api.json("POST", "/api/sessions", { id: "mine" }))).toEqual([409, "session_exists"]);
    api = await restart(api);
    expect((await api.json("GET", "/api/sessions/mine")).body).toMatchObject({ id: "mine", title: "Plans" });
    expect(await messages(api, "mine")).toMatchObject({ object: "list", data: [], has_more: false, next: null });
    await talk(api, "mine", "hello", "hi");
    expect(api.model.all[0]?.request.messages).toEqual([{ role: "user", text: "hello" }]);
    expect(ids(await page(api))).toEqual(["mine"]);
  });

  it("gets an id where none is given", async () => {
    const api = await start();
    const one = await api.json("POST", "/api/sessions");
    const other = await api.json("POST", "/api/sessions", {});
    expect([one.status, other.status]).toEqual([201, 201]);
    expect(one.body["id"]).not.toBe(other.body["id"]);
  });

  it.each([
    ["an empty title", { title: "" }],
    ["a blank title", { title: " " }],
    ["a title of 201 characters", { title: "x".repeat(201) }],
    ["a title with control characters", { title: "a\u001b[2Jb" }],
    ["a title that is no text", { title: 5 }],
    ["an empty id", { id: "" }],
    ["an id of two lines", { id: "a\nb" }],
  ])("is not made from %s", async (_, body) => {
    const api = await start();
    const { status } = await api.json("POST", "/api/sessions", body);
    expect([status, api.disk.catalog.sessions({ limit: 10 })]).toEqual([400, []]);
  });

  it("tells what it does now: its turn, what waits, what is asked", async () => {
    const api = await start({ tools: [scriptedTool("shell", { gate: ask })] });
    const { id } = await api.send("s", "do it");
    (await api.model.next()).answer("", { tool: "shell", args: {} });
    await api.entry("s", "asked");
    const { id: waiting } = await api.send("s", "then this");
    const { body } = await api.json<{ active: boolean; status: Status }>("GET", "/api/sessions/s");
    expect(body.active).toBe(true);
    expect(body.status).toMatchObject({
      turn: { id, phase: "acting" },
      inbox: [{ id: waiting, mode: "queue", text: "then this" }],
      asking: [{ kind: "approval", text: "Run it?" }],
      parked: false,
      background: [],
    });
    expect(body.status).toEqual(await api.engine.status("s"));
  });

  it("is found by a name with any characters in it", async () => {
    const api = await start();
    const name = "agent:main/child/ü %2F?#&x=1";
    await talk(api, name, "hello", "hi");
    expect((await api.json("GET", `/api/sessions/${encodeURIComponent(name)}`)).body).toMatchObject({ id: name });
  });

  it("is renamed, and keeps the name through a restart", async () => {
    let api = await start();
    await talk(api, "s", "first words", "ok");
    expect((await api.json("GET", "/api/sessions/s")).body["title"]).toBe("first words");
    const { status, body } = await api.json("PATCH", "/api/sessions/s", { title: "Better" });
    expect([status, body["title"]]).toEqual([200, "Better"]);
    for (const title of [7, "x".repeat(201), undefined])
      expect((await api.json("PATCH", "/api/sessions/s", { title })).status).toBe(400);
    api = await restart(api);
    expect((await api.json("GET", "/api/sessions/s")).body["title"]).toBe("Better");
  });

  it("is not deleted while it is at work; afterwards it is gone with all of it", async () => {
    const api = await start();
    const { id } = await api.send("s", "hello");
    const asked = await api.model.next();
    const busy = await api.json<{ error: { code: string; message: string } }>("DELETE", "/api/sessions/s");
    expect([busy.status, busy.body.error.code]).toEqual([409, "session_busy"]);
    expect(busy.body.error.message).toMatch(/Stop its run/);
    asked.answer("hi");
    await api.ended("s", id);
    const gone = await api.json("DELETE", "/api/sessions/s");
    expect([gone.status, gone.body]).toEqual([200, { id: "s", object: "hermes.session.deleted", deleted: true }]);
    expect(api.journal("s")).toEqual([]);
    expect((await api.json("GET", `/v1/runs/${id}`)).status).toBe(404);
  });

  it("that nobody knows is a 404, whatever is asked of it", async () => {
    const api = await start();
    const asked = [
      ["GET", ""],
      ["PATCH", "", { title: "x" }],
      ["DELETE", ""],
      ["GET", "/messages"],
      ["POST", "/fork", {}],
      ["POST", "/chat", { message: "hi" }],
      ["POST", "/chat/stream", { message: "hi" }],
    ] as const;
    for (const [method, path, body] of asked)
      expect(codeOf(await api.json(method, `/api/sessions/none${path}`, body))).toEqual([404, "session_not_found"]);
    expect(api.disk.catalog.sessions({ limit: 10 })).toEqual([]);
  });

  it("shows nothing to whoever has no key, and never says whether it exists", async () => {
    const api = await start();
    await talk(api, "s", "secret", "yes");
    const paths = ["", "/s", "/none", "/s/messages", "/s/events", "/s/entries"].map((path) => `/api/sessions${path}`);
    for (const path of [...paths, "/api/search?q=secret", "/api/load"]) {
      const response = await fetch(`${api.url}${path}`);
      expect([path, response.status]).toEqual([path, 401]);
      expect(await response.text()).not.toContain("secret");
    }
  });
});

describe("the list of sessions", () => {
  it("has each once, the one that changed last first, in pages of any size", async () => {
    const api = await start();
    const names = ["a", "b", "c", "d", "e"];
    for (const id of names) await api.json("POST", "/api/sessions", { id });
    expect(ids(await page(api))).toEqual(names.toReversed());
    for (const limit of [1, 2, 3, 5, 200]) {
      const all = await leaf(limit, async (after) => (await page(api, `?limit=${limit}${after}`)).body);
      expect(all.map(({ id }) => id)).toEqual(names.toReversed());
    }
    await new Promise((resolve) => setTimeout(resolve, 2)); // the clock's next millisecond
    await talk(api, "b", "hello", "hi");
    expect(ids(await page(api, "?limit=2"))[0]).toBe("b");
  });

  it.each(["limit=0", "limit=201", "limit=x", "limit=1.5", "after=x", "after=e30", "after=", "children=yes"])(
    "refuses %s",
    async (query) => {
      const api = await start();
      const { status, body } = await api.json<{ error: { param: string } }>("GET", `/api/sessions?${query}`);
      expect([status, body.error.param]).toEqual([400, query.split("=", 1)[0]]);
    },
  );

  it("leaves out what other sessions made, unless it is asked for", async () => {
    const api = await start();
    await talk(api, "top", "hello", "hi");
    await talk(api, "top-child", "hello", "hi", { parent: "top" });
    expect(ids(await page(api))).toEqual(["top"]);
    const { body } = await page(api, "?children=true");
    expect(Object.fromEntries(body.data.map(({ id, parent_id }) => [id, parent_id]))).toEqual({
      top: null,
      "top-child": "top",
    });
  });

  it("finds words: in titles first, then in what was said, each session once", async () => {
    const api = await start();
    await talk(api, "said-1", "hello", "the zebra runs");
    await talk(api, "said-2", "hello", "a zebra and a zebra and a zebra");
    await talk(api, "said-child", "hello", "zebra", { parent: "said-1" });
    await talk(api, "titled-1", "Zebra facts", "zebra zebra");
    await talk(api, "titled-2", "more zebra facts", "fine");
    await talk(api, "other", "hello", "nothing of that kind");
    const { body } = await page(api, "?q=zebra");
    expect(body.data.map(({ id }) => id)).toEqual(["titled-2", "titled-1", "said-2", "said-1"]);
    expect(body.data.map(({ snippet }) => snippet)).toEqual([
      undefined,
      undefined,
      "a zebra and a zebra and a zebra",
      "the zebra runs",
    ]);
    for (const limit of [1, 2, 3]) {
      const all = await leaf(limit, async (after) => (await page(api, `?q=zebra&limit=${limit}${after}`)).body);
      expect(all).toEqual(body.data);
    }
    expect(ids(await page(api, "?q=zebra&children=true"))).toContain("said-child");
    expect(ids(await page(api, "?q=giraffe"))).toEqual([]);
  });
});

describe("what was said", () => {
  it("is told with calls, results, steers, cuts and summaries, and the same page by page", async () => {
    const tool = scriptedTool("shell");
    const api = await start({ tools: [tool] });
    const { id: first } = await api.send("s", "do it", { by: "ann", images: [{ mime: "image/png", data: "AAAA" }] });
    (await api.model.next()).answer("let me see", { tool: "shell", args: { command: "ls" } });
    const running = await tool.next();
    const { id: steer } = await api.send("s", "and quickly", { mode: "steer" });
    running.done("x".repeat(10_001));
    (await api.model.next()).answer("done");
    await api.ended("s", first);
    const { id: second } = await api.send("s", "go on");
    (await api.model.next()).say("well, I");
    await api.engine.stop({ session: "s", turn: second });
    await api.ended("s", second);
    const { id: third } = await api.send("s", "/compress", { task: "compress" });
    (await api.model.next()).answer("they did it");
    await api.ended("s", third);

    const { data, has_more } = await messages(api, "s");
    expect(has_more).toBe(false);
    const when = { id: expect.any(Number), created_at: expect.any(Number) };
    expect(data).toMatchObject([
      { ...when, role: "user", content: "do it", run_id: first, input_id: first, by: "ann", images: 1 },
      {
        ...when,
        role: "assistant",
        content: "let me see",
        run_id: first,
        model: "scripted",
        tool_calls: [{ id: expect.any(String), tool: "shell", args: { command: "ls" } }],
      },
      {
        ...when,
        role: "tool",
        content: "x".repeat(10_000),
        run_id: first,
        call_id: expect.any(String),
        tool: "shell",
        outcome: "ok",
        truncated: true,
      },
      { ...when, role: "user", content: "and quickly", run_id: first, input_id: steer },
      { ...when, role: "assistant", content: "done", run_id: first, model: "scripted" },
      { ...when, role: "user", content: "go on", run_id: second, input_id: second },
      { ...when, role: "assistant", content: "well, I", run_id: second, cut: true },
      { ...when, role: "summary", content: "they did it", run_id: third, up_to: expect.any(Number) },
    ]);
    const numbers = data.map(({ id }) => id);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    const each = await leaf(1, (after) => messages(api, "s", `?limit=1${after}`));
    expect(each).toEqual(data);
    const [full] = (await messages(api, "s", `?full=true&after=${data[1]?.id}&limit=1`)).data;
    expect([full?.content.length, full?.["truncated"]]).toEqual([10_001, undefined]);
  });

  it("is not told before it begins: what waits is in the status", async () => {
    const api = await start();
    await api.send("s", "one");
    await api.model.next();
    await api.send("s", "two");
    expect((await messages(api, "s")).data.map(({ content }) => content)).toEqual(["one"]);
  });
});

describe("a fork", () => {
  it("goes on from all of it, or from one of its runs, and leaves the first as it was", async () => {
    const api = await start();
    const first = await talk(api, "s", "one", "eins");
    await talk(api, "s", "two", "zwei");
    const before = api.journal("s");
    const whole = await api.json("POST", "/api/sessions/s/fork", { id: "whole", title: "All of it" });
    expect([whole.status, whole.body["id"], whole.body["title"]]).toEqual([201, "whole", "All of it"]);
    const part = await api.json("POST", "/api/sessions/s/fork", { through: first });
    expect([part.status, part.body["title"]]).toEqual([201, "one"]);
    const said = async (id: unknown) => (await messages(api, String(id))).data.map(({ content }) => content);
    expect(await said("whole")).toEqual(["one", "eins", "two", "zwei"]);
    expect(await said(part.body["id"])).toEqual(["one", "eins"]);
    const all = (await messages(api, "whole")).data;
    expect(await leaf(1, (after) => messages(api, "whole", `?limit=1${after}`))).toEqual(all);
    expect(new Set(all.map(({ id }) => id)).size).toBe(4);
    await talk(api, "whole", "three", "drei");
    expect(api.model.all.at(-1)?.request.messages).toHaveLength(5);
    expect((await said("whole")).slice(3)).toEqual(["zwei", "three", "drei"]);
    expect(api.journal("s")).toEqual(before);
  });

  it("before a run is a rollback: it has what was said before, and gives the message back", async () => {
    const api = await start();
    const first = await talk(api, "s", "one", "eins");
    const second = await talk(api, "s", "two", "zwei");
    await talk(api, "s", "three", "drei");
    const back = (body: unknown) => api.json("POST", "/api/sessions/s/rollback", body);
    expect((await back({ turn: second, preview: true })).body).toEqual({ summary: "", patch: "" });
    const { status, body } = await back({ turn: second, id: "back" });
    expect([status, body["id"], body["undone"]]).toEqual([201, "back", "two"]);
    expect((await messages(api, "back")).data.map(({ content }) => content)).toEqual(["one", "eins"]);
    expect((await back({ turn: first, id: "empty" })).status).toBe(201);
    expect((await messages(api, "empty")).data).toEqual([]);
    expect(codeOf(await back({ turn: second, id: "back" }))).toEqual([409, "session_exists"]);
    expect(codeOf(await back({ turn: "run_other" }))).toEqual([404, "run_not_found"]);
  });

  it("needs a run of that session, and a name that is free", async () => {
    const api = await start();
    await talk(api, "s", "one", "eins");
    const elsewhere = await talk(api, "other", "one", "eins");
    const fork = (body: unknown) => api.json("POST", "/api/sessions/s/fork", body);
    expect(codeOf(await fork({ through: elsewhere }))).toEqual([404, "run_not_found"]);
    expect(codeOf(await fork({ id: "other" }))).toEqual([409, "session_exists"]);
    expect(ids(await page(api)).toSorted()).toEqual(["other", "s"]);
  });
});

describe("chat", () => {
  const chat = (api: TestApi, body: unknown, headers?: Record<string, string>) =>
    api.json("POST", "/api/sessions/s/chat", body, headers);

  it("waits for the answer", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const reply = chat(api, { message: "hello", instructions: "be brief" }, { "X-Hermes-Session-Key": "ann" });
    const asked = await api.model.next();
    expect(asked.request.system).toContain("be brief");
    asked.answer("hi");
    const { status, body, headers } = await reply;
    expect([status, body]).toMatchObject([
      200,
      {
        object: "hermes.session.chat.completion",
        run_id: expect.stringMatching(/^run_[0-9a-f]{32}$/),
        session_id: "s",
        status: "completed",
        output: "hi",
        usage: { input_tokens: 2, output_tokens: 1, total_tokens: 3 },
      },
    ]);
    expect(headers.get("X-Hermes-Session-Key")).toBe("ann");
  });

  it("says the same again for the same idempotency key, and runs once", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const key = { "Idempotency-Key": "k" };
    const one = chat(api, { input: "hello" }, key);
    (await api.model.next()).answer("hi");
    const first = await one;
    const again = await chat(api, { input: "hello" }, key);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("Idempotency-Replayed")).toBe("true");
    expect(api.model.all).toHaveLength(1);
    expect(codeOf(await chat(api, { input: "other" }, key))).toEqual([409, "idempotency_key_conflict"]);
  });

  it("tells a failure as a reply", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const reply = chat(api, { message: "hello" });
    (await api.model.next()).fault("wrong key", "auth");
    expect((await reply).body).toMatchObject({ status: "failed", error: expect.stringContaining("wrong key") });
  });

  it("goes on when its client leaves", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const leave = new AbortController();
    const left = fetch(`${api.url}/api/sessions/s/chat`, {
      method: "POST",
      headers: { Authorization: "Bearer test-key-0123456789-abcdefghij", "Content-Type": "application/json" },
      body: JSON.stringify({ message: "hello" }),
      signal: leave.signal,
    }).catch(() => "left");
    const asked = await api.model.next();
    leave.abort();
    expect(await left).toBe("left");
    asked.answer("hi");
    const { turn } = await api.entry("s", "began");
    expect(await api.ended("s", turn)).toBe("completed");
    expect(asked.signal.aborted).toBe(false);
  });

  it("says where to look when the server leaves first, and the run goes on after the restart", async () => {
    let api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const reply = api.json<{ error: { message: string; code: string } }>("POST", "/api/sessions/s/chat", {
      message: "hello",
    });
    await api.model.next();
    const { turn } = await api.entry("s", "began");
    await api.engine.drain(0);
    const { status, body } = await reply;
    expect([status, body.error.code]).toEqual([400, "gateway_draining"]);
    expect(body.error.message).toContain(`/v1/runs/${turn}`);
    api = await restart(api);
    (await api.model.next()).answer("hi");
    expect(await api.ended("s", turn)).toBe("completed");
  });

  it("has its answer also while the server drains", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const reply = chat(api, { message: "hello" });
    const asked = await api.model.next();
    const drained = api.engine.drain(60_000);
    expect(codeOf(await chat(api, { message: "and this" }))).toEqual([503, "gateway_draining"]);
    asked.answer("hi");
    expect((await reply).body).toMatchObject({ status: "completed", output: "hi" });
    expect(await drained).toEqual({ left: [] });
  });

  it("needs a text", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    for (const body of [{}, { message: " " }, { message: 5 }]) expect((await chat(api, body)).status).toBe(400);
    expect(api.model.all).toEqual([]);
  });

  it("interrupts a turn at work, which tells its own waiter so", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const first = chat(api, { message: "one" });
    await api.model.next();
    const second = chat(api, { message: "two", mode: "interrupt" });
    (await api.model.next()).answer("zwei");
    expect((await first).body).toMatchObject({ status: "interrupted" });
    expect((await second).body).toMatchObject({ status: "completed", output: "zwei" });
  });

  it("as a stream names its run first, then tells its events, and can be taken up again elsewhere", async () => {
    const api = await start();
    await api.json("POST", "/api/sessions", { id: "s" });
    const response = await api.call("POST", "/api/sessions/s/chat/stream", { message: "hello" });
    const asked = await api.model.next();
    const reading = frames(response);
    const [first, second] = [(await reading.next()).value, (await reading.next()).value];
    const accepted = JSON.parse(first?.data ?? "");
    expect(accepted).toMatchObject({ event: "run.accepted", session_id: "s", mode: "began", replayed: false });
    expect(JSON.parse(second?.data ?? "")).toMatchObject({ event: "run.started", run_id: accepted.run_id });
    asked.say("Hel");
    const delta = (await reading.next()).value;
    await reading.return(undefined);
    asked.answer("lo");
    await api.ended("s", accepted.run_id);
    const rest = await api.call("GET", `/v1/runs/${accepted.run_id}/events`, undefined, {
      "Last-Event-ID": delta?.id ?? "",
    });
    const told = await eventsOf(rest);
    expect(JSON.parse(delta?.data ?? "").delta + told.map(({ delta = "" }) => delta).join("")).toBe("Hello");
    expect(told.at(-1)).toMatchObject({ event: "run.completed", output: "Hello" });
  });
});

describe("a terminal elsewhere", () => {
  const say = (api: TestApi, session: string, body: Record<string, unknown>) =>
    api.json<Receipt>("POST", `/api/sessions/${session}/messages`, { mode: "queue", ...body });

  /** What a session's stream tells behind a place, up to the end of a turn. */
  async function updates(api: TestApi, session: string, after: string) {
    const response = await api.call("GET", `/api/sessions/${session}/events?after=${encodeURIComponent(after)}`);
    const seen: (Update & { id: string })[] = [];
    for await (const { id, data } of frames(response)) {
      const update: Update = JSON.parse(data);
      seen.push({ id, ...update });
      if ("entry" in update && update.entry.kind === "ended") break;
    }
    return seen;
  }

  it("gets the receipt of what it says; the same key again is the same input", async () => {
    const api = await start();
    const first = await say(api, "new", { text: "hello", key: "k", by: "ann" });
    expect([first.status, first.body]).toEqual([
      202,
      {
        id: expect.stringMatching(/^run_/),
        session: "new",
        applied: "began",
        replayed: false,
        cursor: "0",
      },
    ]);
    const again = await say(api, "new", { text: "hello", key: "k", by: "ann" });
    expect(again.body).toEqual({ ...first.body, replayed: true });
    expect(await api.entry("new", "accepted")).toMatchObject({ input: { by: "ann", reply: "pull" } });
    const alone = await api.json<Receipt>("POST", "/api/messages", { text: "hello", mode: "queue" });
    expect(alone.body.session).toBe(alone.body.id);
  });

  it.each([
    ["a blank text", { text: " " }, "invalid_input"],
    ["a text that is too long", { text: "x".repeat(1_000_001) }, "input_too_long"],
    ["a key of two lines", { text: "hi", key: "a\nb" }, "invalid_idempotency_key"],
    ["an unknown mode", { text: "hi", mode: "shout" }, null],
    ["a kind of picture that no model reads", { text: "hi", images: [{ mime: "image/svg+xml", data: "AAAA" }] }, null],
    ["a picture that is no base64", { text: "hi", images: [{ mime: "image/png", data: "not base64!" }] }, null],
    ["nothing", {}, null],
  ])("is refused by name for %s", async (_, body, code) => {
    const api = await start();
    expect(codeOf((await say(api, "s", body)) as never)).toEqual([400, code]);
    expect(api.disk.catalog.sessions({ limit: 10 })).toEqual([]);
  });

  it("sends pictures, a model and a task", async () => {
    const api = await start();
    const images = [{ mime: "image/png", data: "AAAA" }];
    const { body } = await say(api, "s", { text: "look", images, model: "other", instructions: "be brief" });
    (await api.model.next()).answer("seen");
    await api.ended("s", body.id);
    expect(await api.entry("s", "accepted")).toMatchObject({
      input: { images, model: "other", instructions: "be brief" },
    });
    const task = await say(api, "s", { text: "/compress", task: "compress" });
    (await api.model.next()).answer("short");
    expect(await api.ended("s", task.body.id)).toBe("completed");
  });

  it("is refused a new turn at the cap of runs, never a word into a session at work", async () => {
    const api = await start({ settings: { maxRuns: 1 } });
    const { body } = await say(api, "s", { text: "one" });
    const asked = await api.model.next();
    expect(codeOf((await say(api, "other", { text: "two" })) as never)).toEqual([429, "rate_limit_exceeded"]);
    const interrupting = await say(api, "s", { text: "instead", mode: "interrupt" });
    expect([interrupting.status, interrupting.body.applied]).toEqual([202, "interrupt"]);
    expect(await api.ended("s", body.id)).toBe("interrupted");
    expect(asked.signal.aborted).toBe(true);
    expect((await say(api, "other", { text: "two" })).status).toBe(202);
  });

  it("sees every entry and all text, and exactly the rest from any place on", async () => {
    const api = await start();
    const watching = updates(api, "s", "");
    await say(api, "s", { text: "hello" });
    const asked = await api.model.next();
    asked.say("Hel");
    asked.answer("lo");
    const live = await watching;
    expect(live.flatMap((update) => ("entry" in update ? [update.entry] : []))).toEqual(api.journal("s"));
    expect(live.map((update) => ("delta" in update ? update.delta : "")).join("")).toBe("Hello");
    const all = await updates(api, "s", "");
    expect(all.map((update) => ("entry" in update ? update.entry.kind : update))).toEqual([
      "accepted",
      "began",
      { id: "2.5", cursor: "2.5", delta: "Hello", at: expect.any(Number) },
      "thought",
      "ended",
    ]);
    for (const [index, { id, cursor }] of all.slice(0, -1).entries()) {
      expect(id).toBe(cursor);
      expect(await updates(api, "s", cursor)).toEqual(all.slice(index + 1));
    }
    expect(await updates(api, "s", "2.2")).toEqual([{ ...all[2], delta: "llo" }, ...all.slice(3)]);
  });

  it("is told so when it names a place that is not there", async () => {
    const api = await start();
    await talk(api, "s", "hello", "hi");
    for (const after of ["5", "x", "1.2.3", "-1", "9999999999999999"])
      expect(codeOf(await api.json("GET", `/api/sessions/s/events?after=${after}`))).toEqual([410, "event_id_unknown"]);
    expect((await api.json("GET", `/api/sessions/${"x".repeat(513)}/events`)).status).toBe(400);
  });

  it("has its stream ended, with the hint to come back, when the server leaves", async () => {
    const api = await start();
    const response = await api.call("GET", "/api/sessions/s/events");
    const text = response.text();
    await api.api.close(1_000);
    expect(await text).toBe("retry: 1000\n: leaving; come back with Last-Event-ID\n");
  });

  it("stops, answers, takes back and moves, and hears what came of it", async () => {
    const tool = scriptedTool("shell", { gate: ask });
    const api = await start({ tools: [tool] });
    const post = async (path: string, body: unknown) => (await api.json("POST", `/api/sessions/s/${path}`, body)).body;
    const { id } = (await say(api, "s", { text: "do it" })).body;
    (await api.model.next()).answer("", { tool: "shell", args: {} });
    const { call } = await api.entry("s", "asked");
    const one = (await say(api, "s", { text: "one" })).body.id;
    const two = (await say(api, "s", { text: "two" })).body.id;

    expect(await post(`inbox/${two}`, { to: 0 })).toEqual({ moved: true });
    expect((await api.engine.status("s")).inbox.map(({ text }) => text)).toEqual(["two", "one"]);
    expect((await api.json("DELETE", `/api/sessions/s/inbox/${one}`)).body).toEqual({ withdrawn: true });
    expect((await api.json("DELETE", `/api/sessions/s/inbox/${one}`)).body).toEqual({ withdrawn: false });
    expect(await post(`inbox/${one}`, { to: 0 })).toEqual({ moved: false });

    const answer = { call, allow: true, text: "once", by: "ann" };
    expect(await post("answer", answer)).toEqual({ answered: true });
    expect(await post("answer", answer)).toEqual({ answered: false });
    expect(await api.entry("s", "decided")).toMatchObject({ allow: true, text: "once", by: "ann" });
    await tool.next();
    expect(await post("stop", { turn: id })).toEqual({ stopped: "stopping" });
    expect(await api.ended("s", id)).toBe("cancelled");
    expect(await post("stop", { turn: id, scope: "tree" })).toEqual({ stopped: "over" });
  });

  it("reads runs, inputs, entries, the load, and what was said, as they are kept", async () => {
    const api = await start();
    const id = await talk(api, "s", "hello zebra", "hi");
    const read = async (path: string) => (await api.json<{ data?: unknown }>("GET", path)).body;
    expect(await read(`/api/runs/${id}`)).toEqual(await api.engine.run(id));
    expect((await read(`/api/runs/${id}/entries`)).data).toEqual(await api.engine.turn(id));
    expect(await read(`/api/inputs/${id}`)).toEqual({ at: "answered", turn: id, outcome: "completed" });
    expect((await read("/api/sessions/s/entries?after=1&limit=2")).data).toEqual(await api.engine.entries("s", 1, 2));
    expect((await read("/api/search?q=zebra&session=s")).data).toEqual(
      await api.engine.search("zebra", { session: "s", limit: 20 }),
    );
    expect((await read("/api/search?q=zebra&session=other")).data).toEqual([]);
    expect(await read("/api/load")).toEqual({ turns: 0, held: 0, waiting: 0, oldestWaitingAt: null, inputs: [] });
    expect(codeOf(await api.json("GET", "/api/runs/none"))).toEqual([404, "run_not_found"]);
    expect(codeOf(await api.json("GET", "/api/inputs/none"))).toEqual([404, "input_not_found"]);
  });
});
