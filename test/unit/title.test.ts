// Titles by the model: the real engine, and a model that a test answers for.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { withTitles } from "../../src/agent/title.ts";
import { openRuntime } from "../../src/compose/runtime.ts";
import type { Memory } from "../../src/core/ports.ts";
import type { Store } from "../../src/core/store.ts";
import { titleOf } from "../../src/core/title.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { startFakeLlm } from "../fakes/llm/server.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { bootEngine, calm, type HandClock, handClock, scriptedMemory, scriptedModel } from "../fakes/scripted.ts";

const S = "agent:main:terminal:dm:a";

let dir: string;
let store: Store;
let closing: (() => Promise<unknown>)[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-title-"));
  store = asStore(createMemoryStore());
  closing = [];
});
afterEach(async () => {
  for (const close of closing) await close();
  rmSync(dir, { recursive: true, force: true });
});

const silent: Memory = { writers: [], recall: async () => "", remember: async () => {} };

async function boot({ clock = handClock(), beside = silent }: { clock?: HandClock; beside?: Memory } = {}) {
  const [model, titles] = [scriptedModel(), scriptedModel()];
  const logs: string[] = [];
  const log = (_: string, event: string) => void logs.push(event);
  const memory = withTitles(beside, { model: titles, catalog: store.catalog, clock, log });
  const { engine, send, ended } = await bootEngine({ between: () => store, clock, model, memory });
  async function close() {
    const over = new AbortController();
    void engine.drain(0).then(() => over.abort());
    while (!over.signal.aborted) await clock.pass(1_000);
  }
  closing.push(close);
  async function talk(session: string, text: string, reply: string, more: Parameters<typeof send>[2] = {}) {
    const { id } = await send(session, text, more);
    (await model.next()).answer(reply);
    await ended(session, id);
    return id;
  }
  /** All that was to be done about titles is done. */
  const settled = async (session = S) => {
    while ((await engine.status(session)).unsaved.length > 0) await calm();
  };
  const title = async (session = S) => (await engine.summary(session))?.title;
  return { engine, model, titles, send, talk, ended, settled, title, logs, clock, close };
}

describe("a conversation", () => {
  it("is named by the model after its first turn, and only then", async () => {
    const { talk, titles, settled, title } = await boot();
    await talk(S, "the shed is a mess, what now", "Begin with the tools.");
    const { request, answer } = await titles.next();
    expect(await title()).toBe("the shed is a mess, what now");
    expect(request).toMatchObject({ tools: [], final: true });
    expect(request.messages).toEqual([
      { role: "user", text: "User:\nthe shed is a mess, what now\n\nAgent:\nBegin with the tools." },
    ]);
    answer("Tidying the shed");
    await settled();
    expect(await title()).toBe("Tidying the shed");
    await talk(S, "and then?", "Then the floor.");
    await settled();
    expect(titles.all).toHaveLength(1);
    expect(await title()).toBe("Tidying the shed");
  });

  it("ends its turn and takes the next one while the model thinks about a title", async () => {
    const { engine, talk, titles, title, settled } = await boot();
    await talk(S, "first", "one");
    const { answer } = await titles.next();
    expect(await engine.status(S)).toMatchObject({ turn: null, unsaved: ["titles"] });
    await talk(S, "second", "two");
    expect(await title()).toBe("first");
    answer("Two words");
    await settled();
    expect(await title()).toBe("Two words");
  });

  it("keeps the name that a person gave it during its first turn: nobody asks", async () => {
    const { engine, send, model, ended, titles, settled, title } = await boot();
    const { id } = await send(S, "hello");
    await engine.retitle(S, "Mine");
    (await model.next()).answer("hi");
    await ended(S, id);
    await settled();
    expect(titles.all).toEqual([]);
    expect(await title()).toBe("Mine");
  });

  it("keeps the name that a person gave it while the model was asked", async () => {
    const { engine, talk, titles, settled, title } = await boot();
    await talk(S, "hello", "hi");
    const { answer } = await titles.next();
    await engine.retitle(S, "Mine");
    answer("Not this");
    await settled();
    expect(await title()).toBe("Mine");
  });

  it("keeps its first name when the model fails, which is asked once", async () => {
    const { talk, titles, settled, title, logs } = await boot();
    await talk(S, "hello", "hi");
    (await titles.next()).fault("overloaded", "unavailable");
    await settled();
    await talk(S, "more", "yes");
    await settled();
    expect(titles.all).toHaveLength(1);
    expect(await title()).toBe("hello");
    expect(logs).toEqual(["title.failed"]);
  });

  it("keeps its first name when the model is silent for 20 s, or never comes to an end", async () => {
    const { talk, titles, settled, title, clock } = await boot();
    await talk(S, "hello", "hi");
    const { signal } = await titles.next();
    await clock.pass(19_000);
    expect(signal.aborted).toBe(false);
    await clock.pass(1_000);
    expect(signal.aborted).toBe(true);
    await settled();

    const other = `${S}b`;
    await talk(other, "hello", "hi");
    const endless = await titles.next();
    for (let s = 0; s < 60; s++) {
      expect(endless.signal.aborted).toBe(false);
      endless.reason("hm");
      await clock.pass(1_000);
    }
    expect(endless.signal.aborted).toBe(true);
    await settled(other);
    expect([await title(), await title(other)]).toEqual(["hello", "hello"]);
  });

  it("takes the beginning of an answer that does not stop", async () => {
    const { talk, titles, settled, title } = await boot();
    await talk(S, "hello", "hi");
    const { say, signal } = await titles.next();
    let words = 0;
    for (; !signal.aborted; words++) say("word ");
    expect(words).toBe(80);
    await settled();
    expect(await title()).toMatch(/^(word ){11}word…$/);
  });

  it("is named also when its first turn was interrupted by the next message", async () => {
    const { send, model, titles } = await boot();
    await send(S, "first");
    (await model.next()).say("I beg");
    await send(S, "rather this", { mode: "interrupt" });
    const { request } = await titles.next();
    expect(request.messages[0]?.text).toBe("User:\nfirst\n\nAgent:\nI beg");
  });

  it("is not named after a turn that was stopped or failed: nothing is asked of a model then", async () => {
    const { engine, send, model, ended, titles, settled } = await boot();
    const { id } = await send(S, "hello");
    await model.next();
    await engine.stop({ session: S, turn: id });
    expect(await ended(S, id)).toBe("cancelled");
    const failing = await send(`${S}b`, "hello");
    (await model.next()).fault("no", "auth");
    expect(await ended(`${S}b`, failing.id)).toBe("failed");
    await Promise.all([settled(), settled(`${S}b`)]);
    expect(titles.all).toEqual([]);
  });

  it("is not named when it is a child's, a run's or a schedule's", async () => {
    const { talk, titles, settled } = await boot();
    await talk(S, "hello", "hi");
    await titles.next();
    for (const session of ["child", "run_0123", "agent:main:schedule:j1"]) {
      await talk(session, "do this", "done", session === "child" ? { parent: S } : {});
      await settled(session);
    }
    expect(titles.all).toHaveLength(1);
  });

  it("is named by the next process when this one ends before the model has answered", async () => {
    const first = await boot();
    await first.talk(S, "hello", "hi");
    const { signal } = await first.titles.next();
    await first.close();
    expect(signal.aborted).toBe(true);
    const { titles, settled, title } = await boot();
    (await titles.next()).answer("A greeting");
    await settled();
    expect(await title()).toBe("A greeting");
  });

  it("is not taken for named when the asking was aborted", async () => {
    const model = scriptedModel();
    const { engine, talk, titles } = await boot();
    const turn = await talk(S, "hello", "hi");
    await titles.next();
    const memory = withTitles(silent, { model, catalog: engine, clock: handClock(), log: () => {} });
    const leave = new AbortController();
    const told = { session: S, turn, outcome: "completed", user: "hello", assistant: "hi" } as const;
    const named = memory.remember("titles", told, turn, leave.signal);
    await model.next();
    leave.abort();
    await expect(named).rejects.toThrow("aborted");
  });

  it("is remembered by the other memories as before", async () => {
    const beside = scriptedMemory();
    const { talk, titles } = await boot({ beside });
    const turn = await talk(S, "hello", "hi");
    await titles.next();
    const { turn: told, key, done } = await beside.next();
    expect([told.user, told.assistant, key]).toEqual(["hello", "hi", turn]);
    done();
  });
});

describe("what a model says becomes a title", () => {
  it.each([
    ['"A quoted title."', "A quoted title"],
    ["**Title:** Bold things", "Bold things"],
    ["# A heading\n\nand an explanation", "A heading"],
    ["Title: «Räume»", "Räume"],
    ["Waiting...", "Waiting..."],
    ["  spaced \t out  ", "spaced out"],
    ["red \x1b[31m\u202etext\x07", "red [31m text"],
    ["x".repeat(80), `${"x".repeat(59)}…`],
    [`${"x".repeat(58)}😀 more`, `${"x".repeat(58)}…`],
  ])("%j → %j", async (said, becomes) => {
    const { talk, titles, settled, title } = await boot();
    await talk(S, "hello", "hi");
    (await titles.next()).answer(said);
    await settled();
    expect(await title()).toBe(becomes);
  });

  it("unless there is nothing in it", async () => {
    const { talk, titles, settled, title } = await boot();
    await talk(S, "hello", "hi");
    (await titles.next()).answer(' "**" ');
    await settled();
    expect(await title()).toBe("hello");
  });

  it("also where the first message was cut within a character", async () => {
    const text = `${"x".repeat(58)}😀 and more`;
    const { talk, titles, title } = await boot();
    await talk(S, text, "hi");
    expect(await title()).toBe(titleOf(text));
    await titles.next();
  });
});

describe("configured", () => {
  it.each([
    ["display:\n  titles: model\n", "By the model", 2],
    ["", "hello there", 1],
  ])("with %j the conversation is called %s", async (settings, title, calls) => {
    await using llm = await startFakeLlm();
    llm.script([{ text: ["Good day."] }, { text: ["By the model"] }]);
    const home = join(dir, "home");
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, "config.yaml"), settings);
    const running = await openRuntime({
      env: {
        PATH: process.env["PATH"],
        HOME: dir,
        HERMES_HOME: home,
        OPENAI_BASE_URL: llm.url,
        OPENAI_API_KEY: "k",
        LLM_MODEL: "m",
      },
      logToStderr: false,
      mine: () => true,
    });
    try {
      const { engine } = running;
      const ended = Promise.withResolvers<void>();
      running.observers.add((_, entries) => {
        if (entries.some(({ kind }) => kind === "ended")) ended.resolve();
      });
      await engine.accept({ session: S, source: "t", key: "k", text: "hello there", mode: "queue", reply: "pull" });
      await ended.promise;
    } finally {
      await running.close(10_000); // what is still to be remembered is waited for
    }
    const left = await openSqlite({ file: join(home, "hermes.db"), readOnly: true });
    expect((await left.catalog.summary(S))?.title).toBe(title);
    await left.close();
    expect(llm.requests).toHaveLength(calls);
    expect(llm.violations).toEqual([]);
  });
});
