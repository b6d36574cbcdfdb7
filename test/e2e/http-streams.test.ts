// The events of a run on a real socket: whoever comes late, goes, comes back, or cannot keep up, gets exactly the rest (I20).
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import type { Gate } from "../../src/core/ports.ts";
import { frames, KEY, type TestApi } from "../fakes/api.ts";
import { restart, start } from "../fakes/runs.ts";
import { calm, scriptedTool } from "../fakes/scripted.ts";
import { judge } from "../streams/judge.ts";
import { live } from "../streams/life.ts";
import { type Frame, framesOf, look } from "../streams/viewer.ts";

const events = (api: TestApi, id: string, headers: Record<string, string> = {}, query = "") =>
  api.call("GET", `/v1/runs/${id}/events${query}`, undefined, headers);
const whole = async (api: TestApi, id: string, after = ""): Promise<Frame[]> =>
  (await look(api.url, id, after, Number.POSITIVE_INFINITY)).frames;
const names = (seen: readonly Frame[]) => seen.map(({ data }) => data.event);
const textOf = (seen: readonly Frame[]) =>
  seen.map(({ data: { delta } }) => (typeof delta === "string" ? delta : "")).join("");
/** One frame after the other. */
async function viewer(api: TestApi, id: string, after = "") {
  const response = await events(api, id, after ? { "Last-Event-ID": after } : {});
  const stream = frames(response);
  const next = async (): Promise<Frame> => {
    for (;;) {
      const { done, value } = await stream.next();
      if (done) throw new Error("The stream is over.");
      if (value.data) return { id: value.id, data: JSON.parse(value.data) };
    }
  };
  /** Up to and with the first of this kind. */
  const until = async (event: string): Promise<Frame[]> => {
    const seen = [await next()];
    while (seen.at(-1)?.data.event !== event) seen.push(await next());
    return seen;
  };
  return { next, until, leave: () => response.body?.cancel().catch(() => {}) ?? stream.return(undefined) };
}
/** Of a session, from there on, up to and with the first of one of these kinds. */
async function updates(api: TestApi, after: string, ...kinds: string[]): Promise<{ cursor: string }[]> {
  const response = await api.call("GET", "/api/sessions/s/events", undefined, after ? { "Last-Event-ID": after } : {});
  expect(response.status).toBe(200);
  const seen: { cursor: string }[] = [];
  for await (const { data } of frames(response)) {
    if (data) seen.push(JSON.parse(data));
    if (kinds.some((kind) => kind in (seen.at(-1) ?? {}))) break;
  }
  return seen;
}
const ASK: Gate = { gate: "ask", kind: "approval", text: "may I?", choices: ["once", "deny"], timeoutMs: 60_000 };

/** A run in which everything happens, up to its end. */
async function eventful() {
  const look = scriptedTool("look");
  const danger = scriptedTool("danger", { gate: ASK });
  const api = await start({ tools: [look, danger], settings: { showReasoning: true } });
  const id = await api.run({ input: "go", session_id: "s" });
  const first = await api.model.next();
  first.reason("what could I look at?");
  first.answer("I look. ", { tool: "look", args: { path: "here" } }, { tool: "danger", args: { command: "rm x" } });
  await api.entry("s", "asked");
  await api.json("POST", `/v1/runs/${id}/steer`, { text: "mind the gap" });
  await api.run({ input: "later", session_id: "s", mode: "queue" });
  (await look.next()).done("seen");
  await api.json("POST", `/v1/runs/${id}/approval`, { choice: "once" });
  (await danger.next()).done("no such file", false);
  (await api.model.next()).answer("Done, 👋🏽\n\nall of it.");
  expect(await api.ended("s", id)).toBe("completed");
  return { api, id };
}

// ── Frames ────────────────────────────────────────────────────────────────────────────────────────────

describe("a stream", () => {
  it("has the headers of a stream that nobody buffers or keeps", async () => {
    const { api, id } = await eventful();
    const { status, headers, body } = await events(api, id);
    expect(status).toBe(200);
    expect(headers.get("Content-Type")).toMatch(/^text\/event-stream\b/);
    expect(headers.get("Cache-Control")).toBe("no-cache");
    expect(headers.get("X-Accel-Buffering")).toBe("no");
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    await body?.cancel();
  });

  it("is frames of an id and one line of data, a comment at its end, and then it is over", async () => {
    const { api, id } = await eventful();
    const parts = (await (await events(api, id)).text()).split("\n\n");
    expect(parts.at(-1)).toBe(": stream closed\n");
    for (const part of parts.slice(0, -1)) {
      const lines = part.split("\n");
      expect(lines).toEqual([expect.stringMatching(/^id: \S+$/), expect.stringMatching(/^data: \{.*\}$/)]);
      const data = JSON.parse(lines[1]?.slice(6) ?? "");
      expect(data).toMatchObject({ event: expect.any(String), run_id: id, timestamp: expect.any(Number) });
      expect(Math.abs(data.timestamp - Date.now() / 1_000)).toBeLessThan(60);
    }
  });

  it("tells everything in order, each with its fields", async () => {
    const { api, id } = await eventful();
    const seen = await whole(api, id);
    expect(seen.map(({ data }) => data)).toMatchObject([
      { event: "run.started", session_id: "s" },
      { event: "message.delta", delta: "I look. " },
      { event: "reasoning.available", text: "what could I look at?" },
      { event: "approval.request", command: "rm x", choices: ["once", "deny"], expires_at: expect.any(Number) },
      { event: "tool.started", tool: "look", preview: "here", call_id: expect.any(String) },
      { event: "tool.completed", tool: "look", error: false, duration: expect.any(Number) },
      { event: "approval.responded", choice: "once", resolved: 1, request_id: seen[3]?.data["request_id"] },
      { event: "tool.started", tool: "danger", preview: "rm x" },
      { event: "tool.completed", tool: "danger", error: true },
      { event: "run.steered" },
      { event: "message.delta", delta: "Done, 👋🏽\n\nall of it." },
      { event: "run.completed", output: "Done, 👋🏽\n\nall of it.", usage: { total_tokens: 6 } },
    ]);
    judge(id, seen, seen);
  });

  it("that is told later has the times at which it happened: none is later than the one of its end", async () => {
    const { api, id } = await eventful();
    const ended = (await api.entry("s", "ended", id)).at;
    while (Date.now() <= ended + 5) await calm();
    const times = (await whole(api, id)).map(({ data }) => data["timestamp"] as number);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.at(-1)).toBe(ended / 1_000);
  });

  it("shows no reasoning unless it is enabled", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const { until } = await viewer(api, id);
    const asked = await api.model.next();
    asked.reason("secretly, ");
    asked.answer("openly");
    const seen = await until("run.completed");
    expect(names(seen)).toEqual(["run.started", "message.delta", "run.completed"]);
    expect(JSON.stringify(seen)).not.toContain("secretly");
  });

  it("tells of children when they start and when they are done", async () => {
    const tool = scriptedTool("delegate_task");
    const api = await start({ tools: [tool] });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "delegate_task", args: { tasks: [{ goal: "a" }, { goal: "b" }] } });
    (await tool.next()).done("both are done");
    (await api.model.next()).answer("done");
    await api.ended(id, id);
    const seen = await whole(api, id);
    expect(names(seen)).toEqual([
      "run.started",
      "tool.started",
      "subagent.start",
      "subagent.start",
      "subagent.complete",
      "subagent.complete",
      "tool.completed",
      "message.delta",
      "run.completed",
    ]);
    expect(seen[2]?.data).toMatchObject({ goal: "a", child_session_id: expect.any(String) });
    for (const { id: place } of seen) expect(await whole(api, id, place)).toEqual(rest(seen, place));
  });

  it("has nothing of another run in the same session", async () => {
    const api = await start();
    const first = await api.run({ input: "one", session_id: "s" });
    const second = await api.run({ input: "two", session_id: "s", mode: "queue" });
    const [one, two] = [viewer(api, first), viewer(api, second)];
    (await api.model.next()).answer("the first");
    (await api.model.next()).answer("the second");
    const seen = await Promise.all([(await one).until("run.completed"), (await two).until("run.completed")]);
    expect(seen.map(textOf)).toEqual(["the first", "the second"]);
    expect(seen.map(names)).toEqual(Array.from({ length: 2 }, () => ["run.started", "message.delta", "run.completed"]));
  });

  it("of a run that failed ends with why", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    asked.say("so far");
    asked.fault("it does not like the request", "bad_request");
    await api.ended(id, id);
    expect((await whole(api, id)).map(({ data }) => data)).toMatchObject([
      { event: "run.started" },
      { event: "message.delta", delta: "so far" },
      { event: "run.failed", error: "it does not like the request" },
    ]);
  });

  it("of a run whose model broke off takes its words back, and a viewer that comes back then gets exactly the rest", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const { until } = await viewer(api, id);
    const asked = await api.model.next();
    asked.say("so far");
    const before = await until("message.delta");
    asked.fault("the line broke");
    (await api.model.next()).answer("whole");
    const seen = [...before, ...(await until("run.completed"))];
    const told = seen.filter(({ data }) => data["event"] !== "run.notice");
    expect(told.map(({ data }) => data)).toMatchObject([
      { event: "run.started" },
      { event: "message.delta", delta: "so far" },
      { event: "message.reset" },
      { event: "message.delta", delta: "whole" },
      { event: "run.completed", output: "whole" },
    ]);
    const [, , reset] = told;
    const rest = await whole(api, id, reset?.id ?? "");
    expect(rest.map(({ data }) => data)).toMatchObject([
      { event: "message.delta", delta: "whole" },
      { event: "run.completed" },
    ]);
    const [, words] = told;
    const again = await whole(api, id, words?.id ?? "");
    expect(again.map(({ data }) => data)).toMatchObject([
      { event: "message.reset" },
      { event: "message.delta", delta: "whole" },
      { event: "run.completed" },
    ]);
    const late = await whole(api, id);
    expect(late.map(({ data }) => data["event"])).toEqual(["run.started", "message.delta", "run.completed"]);
  });

  it("says that it lives when nothing happens", async () => {
    const api = await start({ settings: { heartbeatMs: 10 } });
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const comments: string[] = [];
    for await (const { comment } of frames(await events(api, id))) {
      if (comment) comments.push(comment);
      if (comments.length === 3) asked.answer("done");
    }
    expect(comments.slice(0, 3)).toEqual(["keepalive", "keepalive", "keepalive"]);
    expect(comments.at(-1)).toBe("stream closed");
  });
});

const rest = (seen: readonly Frame[], place: string) => seen.slice(seen.findIndex(({ id }) => id === place) + 1);

// ── Viewers ───────────────────────────────────────────────────────────────────────────────────────────

describe("viewers", () => {
  it("may be many, and each gets all of it", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const watching = Array.from({ length: 50 }, () => whole(api, id));
    for (const word of ["one ", "two ", "three"]) {
      asked.say(word);
      await calm();
    }
    asked.answer("");
    const all = await Promise.all(watching);
    const full = await whole(api, id);
    for (const seen of all) {
      expect(textOf(seen)).toBe("one two three");
      judge(id, seen, full);
    }
  });

  it("that come late, in the middle of a text, get what was said so far and then the rest", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    asked.say("what was said ");
    const { next, until } = await viewer(api, id);
    expect((await next()).data.event).toBe("run.started");
    expect((await next()).data).toMatchObject({ delta: "what was said " });
    asked.answer("and what comes");
    expect(textOf(await until("run.completed"))).toBe("and what comes");
  });

  it("that leave stop nothing", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const { next, leave } = await viewer(api, id);
    await next();
    await leave();
    asked.say("nobody hears ");
    asked.answer("this");
    expect(await api.ended(id, id)).toBe("completed");
    expect(textOf(await whole(api, id))).toBe("nobody hears this");
    expect(asked.signal.aborted).toBe(false);
  });

  it("that leave at once, by the hundred, leave nothing behind", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const open = serverSockets();
    await Promise.all(Array.from({ length: 100 }, (_, n) => look(api.url, id, "", 1 + (n % 40))));
    asked.answer("done");
    expect(await api.ended(id, id)).toBe("completed");
    for (const socket of open.all) if (!socket.destroyed) await once(socket, "close");
    open.stop();
    expect(open.all.length).toBeGreaterThanOrEqual(100);
  });

  it("come back with Last-Event-ID, or with ?after=, and get exactly the rest", async () => {
    const { api, id } = await eventful();
    const full = await whole(api, id);
    for (const { id: place } of full) {
      expect(await whole(api, id, place)).toEqual(rest(full, place));
      const query = `?after=${encodeURIComponent(place)}`;
      const asked = framesOf(await (await events(api, id, {}, query)).text());
      expect(asked).toEqual(rest(full, place));
    }
  });

  it("that had all of it are told that it is all", async () => {
    const { api, id } = await eventful();
    const last = (await whole(api, id)).at(-1)?.id ?? "";
    expect((await events(api, id, { "Last-Event-ID": last })).status).toBe(204); // EventSource does not come back then
  });

  it("come back in the middle of a text and get its other half", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    asked.say("one half, ");
    const { until } = await viewer(api, id);
    const place = (await until("message.delta")).at(-1)?.id ?? "";
    asked.say("the other half");
    const again = await viewer(api, id, place);
    expect((await again.next()).data).toMatchObject({ event: "message.delta", delta: "the other half" });
    asked.answer("!");
    await api.ended(id, id);
    expect(textOf(await whole(api, id, place))).toBe("the other half!");
  });

  it("come back after a thought that they have heard, and do not hear it again", async () => {
    const api = await start({ settings: { showReasoning: true } });
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    asked.reason("first I think, ");
    const first = await viewer(api, id);
    const thought = (await first.until("reasoning.delta")).at(-1);
    asked.reason("then I think again, ");
    const second = await viewer(api, id, thought?.id);
    expect((await second.next()).data).toMatchObject({ event: "reasoning.delta", text: "then I think again, " });
    asked.say("and now I speak");
    const spoken = (await second.until("message.delta")).at(-1);
    const third = await viewer(api, id, spoken?.id);
    asked.answer(".");
    expect(names(await third.until("run.completed"))).toEqual([
      "message.delta",
      "reasoning.available",
      "run.completed",
    ]);
  });

  it("come back after a notice, and are not told it again", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    (await api.model.next()).fault("the line is bad");
    const first = await viewer(api, id);
    const notice = (await first.until("run.notice")).at(-1);
    expect(notice?.data["text"]).toMatch(/again.*the line is bad/);
    const second = await viewer(api, id, notice?.id);
    (await api.model.next()).answer("back");
    const seen = await second.until("run.completed");
    expect(seen.map(({ data }) => data["text"])).not.toContain(notice?.data["text"]);
  });
});

// ── Ids ───────────────────────────────────────────────────────────────────────────────────────────────

describe("an event id", () => {
  const refused = async (api: TestApi, id: string, place: string, query = false) => {
    const response = query
      ? await events(api, id, {}, `?after=${encodeURIComponent(place)}`)
      : await events(api, id, { "Last-Event-ID": place });
    if (response.status === 200) {
      await response.body?.cancel();
      return "taken";
    }
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.message).toMatch(/\S/);
    return [response.status, error.code];
  };
  const gone = [410, "event_id_unknown"];

  it.each(["abc", "-1", "1e3", "٣", "1.2.3", "0x10", "null", "1-", "1-zzzzzzzz", "+e1", "9".repeat(40), "../../etc"])(
    "that is garbage is 410: %s",
    async (place) => {
      const { api, id } = await eventful();
      expect(await refused(api, id, place, true)).toEqual(gone);
    },
  );

  it("of another run is 410, also in the same session", async () => {
    const { api, id } = await eventful();
    const other = await api.run({ input: "y" });
    const place = (await whole(api, id))[1]?.id ?? "";
    expect(await refused(api, other, place)).toEqual(gone);
    const sibling = await api.run({ input: "z", session_id: "s", mode: "queue" });
    expect(await refused(api, sibling, place)).toEqual(gone);
  });

  it("from the future is 410: an entry that is not there yet, or more text than was said", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    asked.say("four");
    const { until } = await viewer(api, id);
    const place = (await until("message.delta")).at(-1)?.id ?? "";
    const [, seq, tag] = /^(\d+)\.4(-.*)$/.exec(place) ?? [];
    expect(tag).toBeDefined();
    for (const future of [
      `${Number(seq) + 1}${tag}`,
      `${Number(seq) + 1000}${tag}`,
      `${seq}.5${tag}`,
      `${seq}.999${tag}`,
    ])
      expect([future, await refused(api, id, future)]).toEqual([future, gone]);
    asked.answer("");
    await api.ended(id, id);
    const last = (await whole(api, id)).at(-1)?.id ?? "";
    expect(
      await refused(
        api,
        id,
        last.replace(/^\d+/, (n) => String(Number(n) + 1)),
      ),
    ).toEqual(gone);
  });

  it("is never given twice, and rises, also where a text starts over", async () => {
    const tool = scriptedTool("look");
    const api = await start({ tools: [tool] });
    const id = await api.run({ input: "x" });
    (await api.model.next()).answer("", { tool: "look", args: {} });
    (await tool.next()).done("seen");
    (await api.model.next()).say("half a");
    const before = await (await viewer(api, id)).until("message.delta");
    const again = await restart(api, { tools: [tool] });
    const after = await viewer(again, id, before.at(-1)?.id);
    (await again.model.next()).answer("a whole");
    const joined = [...before, ...(await after.until("run.completed"))];
    expect(names(joined)).toContain("message.reset");
    judge(id, joined, await whole(again, id));
  });

  it("of an event is the same for everybody", async () => {
    const api = await start();
    await api.run({ input: "one", session_id: "s" });
    const asked = await api.model.next();
    const second = await api.run({ input: "two", session_id: "s", mode: "queue" });
    const early = await events(api, second);
    asked.say("meanwhile, another run speaks");
    await calm();
    await api.json("POST", `/v1/runs/${second}/stop`);
    expect(framesOf(await early.text())).toEqual(await whole(api, second));
  });
});

describe("a run that steered another", () => {
  it("is told the same end however it was watched, and its status says the same", async () => {
    const tool = scriptedTool("look");
    const api = await start({ tools: [tool] });
    const first = await api.run({ input: "one", session_id: "s" });
    (await api.model.next()).answer("I look", { tool: "look", args: {} });
    const { done } = await tool.next();
    const second = await api.run({ input: "two", session_id: "s", mode: "steer" });
    const early = await viewer(api, second);
    done("seen");
    const steered = (await early.until("run.steered")).at(-1);
    const resumed = await viewer(api, second, steered?.id);
    (await api.model.next()).answer("both");
    await api.ended("s", first);
    const ends = [
      (await early.until("run.completed")).at(-1),
      (await resumed.until("run.completed")).at(-1),
      (await whole(api, second)).at(-1),
    ];
    const { usage } = (await api.json("GET", `/v1/runs/${second}`)).body;
    for (const end of ends) expect(end?.data).toMatchObject({ output: "both", usage });
  });
});

// ── Servers that go ───────────────────────────────────────────────────────────────────────────────────

describe("a server that is killed in the middle of a run", () => {
  it("and started on the same disk goes on, and its viewers are told where the text starts over", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    (await api.model.next()).say("I was about to say");
    const before = await (await viewer(api, id)).until("message.delta");
    const again = await restart(api);
    const after = await viewer(again, id, before.at(-1)?.id);
    (await again.model.next()).answer("I have said it");
    const joined = [...before, ...(await after.until("run.completed"))];
    expect(names(joined)).toEqual(["run.started", "message.delta", "message.reset", "message.delta", "run.completed"]);
    expect(joined.at(-2)?.data["delta"]).toBe("I have said it");
    expect(names(await whole(again, id))).toEqual(["run.started", "message.delta", "run.completed"]);
  });

  it("takes every id that it gave in a session's stream, also that of a text that was taken back", async () => {
    const api = await start();
    const id = await api.run({ input: "x", session_id: "s" });
    (await api.model.next()).say("I was about to say");
    const before = await updates(api, "", "delta");
    const again = await restart(api);
    const after = await updates(again, before.at(-1)?.cursor ?? "", "reset");
    const cursor = after.at(-1)?.cursor ?? "";
    expect(cursor).toMatch(/\+x$/);
    (await again.model.next()).answer("I have said it");
    await again.ended("s", id);
    const [next] = await updates(again, cursor, "delta", "entry");
    expect(next).toMatchObject({ entry: { kind: "restarted" } });
  });

  it("tells a viewer who comes back only after the end the same", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    (await api.model.next()).say("I was about to say");
    const before = await (await viewer(api, id)).until("message.delta");
    const again = await restart(api);
    (await again.model.next()).answer("I have said it");
    await again.ended(id, id);
    const after = await whole(again, id, before.at(-1)?.id);
    expect(names(after)).toEqual(["message.reset", "message.delta", "run.completed"]);
    expect(textOf(after)).toBe("I have said it");
  });

  it("does not say that a text starts over to one who has none of it", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const first = await viewer(api, id);
    const began = await first.next();
    (await api.model.next()).say("never heard");
    const again = await restart(api);
    (await again.model.next()).answer("heard");
    await again.ended(id, id);
    expect(names(await whole(again, id, began.id))).toEqual(["message.delta", "run.completed"]);
  });
});

describe("a server that leaves", () => {
  it("ends its streams with the hint to come back, not as if they were over", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    (await api.model.next()).say("to be continued");
    const text = (await events(api, id)).text();
    await calm();
    await api.api.close(1_000);
    expect(await text).toMatch(/\nretry: 1000\n: leaving; come back with Last-Event-ID\n$/);
    expect(await text).not.toContain("stream closed");
  });

  it("whose engine was shut down first does not say that the run is over", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    await api.model.next();
    const text = (await events(api, id)).text();
    await api.engine.drain(0);
    await api.api.close(1_000);
    expect(await text).not.toContain("stream closed");
  });

  it("because another has taken over does not say that the run is over, and the other goes on with it", async () => {
    const api = await start();
    const id = await api.run({ input: "x" });
    const old = await api.model.next();
    const text = (await events(api, id)).text();
    const other = await start({ disk: api.disk });
    old.answer("too late");
    expect(await text).not.toContain("stream closed");
    const last = framesOf(await text).at(-1)?.id;
    (await other.model.next()).answer("in time");
    await other.ended(id, id);
    expect(names(await whole(other, id, last)).at(-1)).toBe("run.completed");
  });
});

// ── Readers that cannot keep up ───────────────────────────────────────────────────────────────────────

/** The server's ends of the connections that come from now on. */
function serverSockets() {
  const all: Socket[] = [];
  const add = (message: unknown) => void all.push((message as { socket: Socket }).socket);
  subscribe("net.server.socket", add);
  return { all, stop: () => unsubscribe("net.server.socket", add) };
}

describe("a reader that stops reading", () => {
  const MEGABYTE = "0123456789abcdef".repeat(65_536);
  /** What the kernel holds for us differs; it is full when nothing more goes out for some pieces in a row. */
  const MOST_PIECES = 128;
  const STUCK = 3;

  it("is held in bounds, then cut, holds up nobody, and can resume exactly", async () => {
    const api = await start({ settings: { stallMs: 200 } });
    const id = await api.run({ input: "x" });
    const asked = await api.model.next();
    const { port } = new URL(api.url);
    const open = serverSockets();
    const reader = connect(Number(port), "127.0.0.1");
    reader.pause();
    reader.on("error", () => {});
    reader.write(
      `GET /v1/runs/${id}/events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`,
    );
    const quick = whole(api, id);
    const held = () => open.all.find((socket) => socket.remotePort === reader.localPort);
    await expect.poll(held, { interval: 1 }).toBeDefined();
    let [pieces, stuck, most] = [0, 0, 0];
    for (; pieces < MOST_PIECES && stuck < STUCK && !held()?.destroyed; pieces++) {
      asked.say(MEGABYTE);
      await calm();
      const waiting = held()?.writableLength ?? 0;
      most = Math.max(most, waiting);
      stuck = waiting > 0 ? stuck + 1 : 0;
    }
    const server = held();
    open.stop();
    if (server && !server.destroyed) await once(server, "close");
    asked.answer("the end");
    const full = textOf(await quick);
    expect(full).toHaveLength(pieces * MEGABYTE.length + 7);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThan(8 * MEGABYTE.length);

    const chunks: Buffer[] = [];
    reader.on("data", (chunk: Buffer) => chunks.push(chunk)).resume();
    await once(reader, "close");
    const seen = framesOf(dechunked(Buffer.concat(chunks)));
    expect(textOf(seen).length).toBeLessThan(full.length);
    const after = await whole(api, id, seen.at(-1)?.id ?? "");
    expect(textOf([...seen, ...after]) === full).toBe(true);
    expect(after.at(-1)?.data.event).toBe("run.completed");
  });
});

/** The body of an answer in chunks, as much as came. */
function dechunked(raw: Buffer): string {
  const parts: Buffer[] = [];
  let at = raw.indexOf("\r\n\r\n") + 4;
  for (;;) {
    const end = raw.indexOf("\r\n", at);
    if (end < 0) break;
    const size = Number.parseInt(raw.toString("latin1", at, end), 16);
    if (!size) break;
    parts.push(raw.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(parts).toString();
}

// ── Cuts ──────────────────────────────────────────────────────────────────────────────────────────────

describe("a stream that is cut", () => {
  it("at every third byte and resumed is the same stream", async () => {
    const { api, id } = await eventful();
    const text = await (await events(api, id)).text();
    const full = framesOf(text);
    const size = Buffer.byteLength(text);
    const cutAt = async (bytes: number) => {
      const { frames: seen } = await look(api.url, id, "", bytes);
      judge(id, [...seen, ...(await whole(api, id, seen.at(-1)?.id))], full);
    };
    for (let byte = 1; byte < size; byte += 60)
      await Promise.all(Array.from({ length: 20 }, (_, n) => cutAt(Math.min(byte + 3 * n, size - 1))));
    expect(size).toBeGreaterThan(1_000);
  });

  it("again and again, live and afterwards, over servers that are killed, is the same stream", async () => {
    const budget = { left: 400 };
    for (let seed = 1; budget.left > 0; seed++) await live(seed, budget);
  });
});
