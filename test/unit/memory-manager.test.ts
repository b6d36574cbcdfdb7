// Many memories as one: each in its own line, within limits, left alone when it keeps failing.
import { describe, expect, it } from "vitest";
import type { Remembered, ToolCall } from "../../src/core/ports.ts";
import { createMemory } from "../../src/memory/manager.ts";
import type { MemoryProvider, MemoryTool, Whose } from "../../src/memory/provider.ts";
import { createRedactor } from "../../src/platform/redact.ts";
import { calm, handClock } from "../fakes/scripted.ts";

const SECRET = "made-up-secret-of-ours";
const redactor = createRedactor();
redactor.add(SECRET);

type More = { byOf?: (turn: string) => Promise<string | undefined> };

function open(providers: MemoryProvider[], more: More = {}) {
  const clock = handClock();
  const logged: string[] = [];
  const memory = createMemory({
    providers,
    clock,
    log: (_, event, fields) => void logged.push(`${event} ${JSON.stringify(fields)}`),
    redact: redactor.text,
    ...more,
  });
  return { clock, memory, logged };
}

const never = () => new AbortController().signal;
const turn = (n: number | string, more: Partial<Remembered> = {}): Remembered => ({
  session: "agent:main:terminal:dm:a",
  turn: `t${n}`,
  outcome: "completed",
  user: `question number ${n} about tea`,
  assistant: "green",
  ...more,
});

/** Each call lies here until the test ends it. */
function desk(name: string, more: Partial<MemoryProvider> = {}) {
  const calls: { what: string; whose: Whose; signal: AbortSignal; done(): void; fail(why: string): void }[] = [];
  const lay = (what: string, whose: Whose, signal: AbortSignal) =>
    new Promise<void>((done, reject) => {
      calls.push({ what, whose, signal, done, fail: (why) => reject(new Error(why)) });
    });
  const provider: MemoryProvider = {
    name,
    isAvailable: () => true,
    syncTurn: ({ turn }, whose, signal) => lay(`sync ${turn}`, whose, signal),
    queuePrefetch: (_, whose, signal) => lay("prefetch", whose, signal),
    onSessionEnd: (whose, signal) => lay("end", whose, signal),
    onSessionSwitch: (from, whose, signal) => lay(`switch from ${from}`, whose, signal),
    ...more,
  };
  return { provider, calls, whats: () => calls.map(({ what }) => what) };
}

const settled = async (promise: Promise<unknown>) => {
  let how = "pending";
  promise.then(
    () => (how = "done"),
    (error: unknown) => (how = String(error)),
  );
  await calm();
  return how;
};

describe("one line for each provider", () => {
  it("calls are made one after another, never two at once, in the order they came", async () => {
    const { provider, calls, whats } = desk("notes");
    const { memory } = open([provider]);
    const first = memory.remember("notes", turn(1), "t1", never());
    const second = memory.remember("notes", turn(2, { session: "agent:main:terminal:dm:b" }), "t2", never());
    memory.sessionEnded({ session: "agent:main:terminal:dm:a" });
    memory.sessionSwitched("agent:main:terminal:dm:a", { session: "agent:main:terminal:dm:c" });
    for (let i = 0; i < 6; i++) {
      await calm();
      expect(calls).toHaveLength(i + 1);
      calls[i]?.done();
    }
    expect(whats()).toEqual([
      "sync t1",
      "prefetch",
      "sync t2",
      "prefetch",
      "end",
      "switch from agent:main:terminal:dm:a",
    ]);
    await Promise.all([first, second]);
  });

  it("one that hangs holds up nobody else", async () => {
    const hanging = desk("hanging");
    const quick = desk("quick");
    const { memory } = open([hanging.provider, quick.provider]);
    void memory.remember("hanging", turn(1), "t1", never()).catch(() => {});
    const written = memory.remember("quick", turn(1), "t1", never());
    await calm();
    quick.calls.find(({ what }) => what === "prefetch")?.done();
    await calm();
    quick.calls.find(({ what }) => what === "sync t1")?.done();
    expect(await settled(written)).toBe("done");
    expect(hanging.calls).toHaveLength(1);
  });

  it("a call that takes a minute has failed; the line goes on, and its late end changes nothing", async () => {
    const { provider, calls } = desk("slow");
    const { memory, clock } = open([provider]);
    const first = memory.remember("slow", turn(1, { user: "" }), "t1", never());
    const second = memory.remember("slow", turn(2, { user: "" }), "t2", never());
    void first.catch(() => {});
    await clock.pass(59_999);
    expect(calls).toHaveLength(1);
    await clock.pass(1);
    await expect(first).rejects.toThrow("no answer within 60 s");
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(calls).toHaveLength(2);
    calls[0]?.done();
    await calm();
    expect(memory.health()).toMatchObject([{ name: "slow", state: "failing", failures: 1, pending: 1 }]);
    calls[1]?.done();
    await second;
    expect(memory.health()).toMatchObject([{ state: "ok", failures: 0, pending: 0 }]);
  });

  it("whoever gives up waiting is let go at once, and that is not counted against the provider", async () => {
    const { provider, calls } = desk("deaf");
    const { memory } = open([provider]);
    const leave = new AbortController();
    const running = memory.remember("deaf", turn(1), "t1", leave.signal);
    const waiting = memory.remember("deaf", turn(2), "t2", leave.signal);
    await calm();
    leave.abort();
    await expect(running).rejects.toThrow("asked to stop");
    await expect(waiting).rejects.toThrow("asked to stop");
    expect(calls[0]?.signal.aborted).toBe(true);
    calls[0]?.fail("interrupted");
    await calm();
    expect(memory.health()).toMatchObject([{ state: "ok", failures: 0 }]);
    expect(calls.map(({ what }) => what)).not.toContain("sync t2");
    await expect(memory.remember("deaf", turn(3), "t3", leave.signal)).rejects.toThrow("nobody waits");
  });

  it("a thousand calls may wait; the next is refused, and nothing of the rest is lost", async () => {
    const written: string[] = [];
    const opened = Promise.withResolvers<void>();
    const provider: MemoryProvider = {
      name: "slow",
      isAvailable: () => true,
      syncTurn: async ({ key }) => {
        await opened.promise;
        written.push(key);
      },
    };
    const { memory } = open([provider]);
    const keys = Array.from({ length: 1_001 }, (_, i) => `t${i}`);
    const told = keys.map((key) => memory.remember("slow", turn(key), key, never()));
    await expect(memory.remember("slow", turn(0), "t", never())).rejects.toThrow("1000 calls wait already");
    opened.resolve();
    await Promise.all(told);
    expect(written).toEqual(keys);
  });

  it("there is no writer of that name", async () => {
    await expect(open([]).memory.remember("who", turn(1), "t1", never())).rejects.toThrow('There is no memory "who"');
  });

  it("is made ready once, before the first call; if that fails, before the next", async () => {
    const order: string[] = [];
    let broken = true;
    const provider: MemoryProvider = {
      name: "notes",
      isAvailable: () => true,
      initialize: () => {
        order.push("initialize");
        return broken ? Promise.reject(new Error("no server")) : Promise.resolve();
      },
      syncTurn: async ({ turn }) => void order.push(turn),
    };
    const { memory } = open([provider]);
    await calm();
    await expect(memory.remember("notes", turn(1), "t1", never())).rejects.toThrow("no server");
    broken = false;
    await memory.remember("notes", turn(1), "t1", never());
    await memory.remember("notes", turn(2), "t2", never());
    expect(order).toEqual(["initialize", "initialize", "initialize", "t1", "t2"]);
  });
});

describe("a provider that keeps failing", () => {
  async function failing() {
    let down = true;
    let asked = 0;
    const provider: MemoryProvider = {
      name: "down",
      isAvailable: () => true,
      syncTurn: async () => {
        asked++;
        if (down) throw new Error(`connection refused, token=${SECRET} ${"x".repeat(1_000)}`);
      },
      prefetch: () => Promise.resolve("tea is green"),
    };
    const opened = open([provider]);
    const tell = () => opened.memory.remember("down", turn(1), "t1", never());
    const failOnce = () => expect(tell()).rejects.toThrow();
    return { ...opened, tell, failOnce, asked: () => asked, mend: () => (down = false) };
  }

  it("is left alone after five in a row: a minute, then longer, up to half an hour; a success ends it", async () => {
    const { memory, clock, tell, failOnce, asked, mend } = await failing();
    for (let i = 1; i <= 4; i++) {
      await failOnce();
      expect(memory.health()).toMatchObject([{ state: "failing", failures: i, suspendedUntil: null }]);
    }
    await failOnce();
    let count = 5;
    for (const minutes of [1, 2, 4, 8, 16, 30, 30]) {
      const [health] = memory.health();
      expect(health).toMatchObject({ state: "suspended", suspendedUntil: clock.now() + minutes * 60_000 });
      await clock.pass(minutes * 60_000 - 1);
      await expect(tell()).rejects.toThrow("is left alone until");
      expect(asked()).toBe(count);
      await clock.pass(1);
      await failOnce();
      expect(asked()).toBe(++count);
    }
    mend();
    await clock.pass(30 * 60_000);
    await tell();
    expect(memory.health()).toMatchObject([{ state: "ok", failures: 0, suspendedUntil: null }]);
  });

  it("is not asked what was already waiting for it, either", async () => {
    const { memory, asked } = await failing();
    const told = Array.from({ length: 8 }, (_, i) => memory.remember("down", turn(i), `t${i}`, never()));
    const reasons = (await Promise.allSettled(told)).map((one) =>
      one.status === "rejected" ? String(one.reason) : "",
    );
    expect(reasons.filter((reason) => reason.includes("connection refused, token"))).toHaveLength(8);
    expect(reasons.slice(5).every((reason) => reason.includes("is left alone until"))).toBe(true);
    expect(asked()).toBe(5);
  });

  it("says what was wrong, briefly and without secrets", async () => {
    const { memory, failOnce, logged } = await failing();
    for (let i = 0; i < 5; i++) await failOnce();
    const [health] = memory.health();
    expect(health?.lastError).toContain("connection refused");
    expect(health?.lastError.length).toBeLessThanOrEqual(300);
    expect(logged.join()).toContain("memory.suspended");
    expect(health?.lastError + logged.join()).not.toContain(SECRET);
  });

  it("is not asked what it knows, and the others are", async () => {
    const fine: MemoryProvider = {
      name: "fine",
      isAvailable: () => true,
      prefetch: () => Promise.resolve("water is wet"),
    };
    const down: MemoryProvider = {
      name: "down",
      isAvailable: () => true,
      syncTurn: () => Promise.reject(new Error("down")),
      prefetch: () => Promise.resolve("tea is green"),
    };
    const { memory } = open([down, fine]);
    const recall = (turn: string) =>
      memory.recall({ session: "agent:main:terminal:dm:a", turn, text: "what do I know of tea" }, never());
    expect(await recall("t1")).toContain("tea is green");
    for (let i = 0; i < 5; i++) await expect(memory.remember("down", turn(1), "t1", never())).rejects.toThrow();
    const after = await recall("t2");
    expect(after).not.toContain("tea is green");
    expect(after).toContain("water is wet");
  });

  it("one that fails every second time is never left alone", async () => {
    let n = 0;
    const provider: MemoryProvider = {
      name: "shaky",
      isAvailable: () => true,
      syncTurn: () => (n++ % 2 ? Promise.resolve() : Promise.reject(new Error("again"))),
    };
    const { memory } = open([provider]);
    for (let i = 0; i < 20; i++) await memory.remember("shaky", turn(i), `t${i}`, never()).catch(() => {});
    expect(memory.health()).toMatchObject([{ state: "ok" }]);
    expect(n).toBe(20);
  });
});

describe("what is written", () => {
  function listening(more: Partial<MemoryProvider> = {}) {
    const told: { key: string; user: string; assistant: string; scope: string; session: string }[] = [];
    const provider: MemoryProvider = {
      name: "notes",
      isAvailable: () => true,
      syncTurn: async ({ key, user, assistant }, whose) => void told.push({ key, user, assistant, ...whose }),
      ...more,
    };
    return { provider, told };
  }

  it("never holds what was recalled, not even half of it", async () => {
    const { provider, told } = listening({ prefetch: () => Promise.resolve("the cat is called Miez") });
    const { memory } = open([provider]);
    const recalled = await memory.recall({ session: "s", turn: "t1", text: "what is my cat called" }, never());
    expect(recalled).toContain("Miez");
    const assistant = `As I recall: ${recalled}\nIt is a cat.`;
    await memory.remember("notes", turn(1, { user: `${recalled}\n\nwhat is my cat called`, assistant }), "t1", never());
    await memory.remember("notes", turn(2, { assistant: `It is ${recalled.slice(0, -20)}` }), "t2", never());
    expect(told.map(({ user, assistant }) => [user, assistant])).toEqual([
      ["what is my cat called", "As I recall: \nIt is a cat."],
      ["question number 2 about tea", "It is"],
    ]);
  });

  it("holds no secret of ours, and has an end", async () => {
    const { provider, told } = listening();
    const { memory } = open([provider]);
    const user = `my key is ${SECRET}. ${"long ".repeat(100_000)}`;
    await memory.remember("notes", turn(1, { user, assistant: `you said ${SECRET}` }), "t1", never());
    expect(told[0]?.assistant).toBe("you said [redacted]");
    expect(told[0]?.user).toMatch(/^my key is \[redacted\]\. long/);
    expect(told[0]?.user.length).toBeLessThanOrEqual(100_000);
  });

  it("goes under the turn's key, in the scope of whoever spoke", async () => {
    const { provider, told } = listening();
    const { memory } = open([provider]);
    await memory.remember("notes", turn(1, { session: "run_1", by: "ann" }), "key 1", never());
    await memory.remember("notes", turn(2, { session: "agent:main:telegram:dm:7", by: "ann" }), "key 2", never());
    expect(told).toMatchObject([
      { key: "key 1", scope: "key:ann", session: "run_1" },
      { key: "key 2", scope: "telegram:7" },
    ]);
  });

  it("of a child it is what it was asked and reported, in the scope of its parent", async () => {
    const delegated: unknown[] = [];
    const { provider, told } = listening({
      onDelegation: async (what, whose) => void delegated.push({ ...what, ...whose }),
    });
    const { memory } = open([provider], { byOf: async (turn) => (turn === "run_9" ? "ann" : undefined) });
    const session = "run_1/child/run_9.call_1_0.0";
    await memory.remember("notes", turn(1, { session, user: "count", assistant: "seven" }), "k", never());
    expect(told).toEqual([]);
    expect(delegated).toEqual([
      {
        key: "k",
        child: session,
        outcome: "completed",
        task: "count",
        result: "seven",
        scope: "key:ann",
        session: "run_1",
      },
    ]);
  });

  it("lets providers get ready for the next turn once, with the user's words, not after small talk", async () => {
    const queries: string[] = [];
    const queuePrefetch = async (query: string) => void queries.push(query);
    const one = listening({ queuePrefetch }).provider;
    const { memory } = open([one, { ...one, name: "other" }, { ...one, name: "reader", syncTurn: undefined as never }]);
    for (const writer of ["notes", "other", "notes"]) await memory.remember(writer, turn(1), "t1", never());
    await memory.remember("notes", turn(2, { user: "thanks a lot!" }), "t2", never());
    await memory.flushPending(1_000);
    expect(queries).toEqual(Array(3).fill("question number 1 about tea"));
  });
});

describe("tools of memories", () => {
  const call = (session: string, turn = "t"): ToolCall => ({ session, turn, call: "c", signal: never() });
  const SPEC: MemoryTool = { name: "note", description: "Notes it.", schema: { type: "object" } };

  it("run in the scope of whoever began the turn, and other memories hear of what was written", async () => {
    const heard: unknown[] = [];
    const specs = [SPEC];
    const notes: MemoryProvider = {
      name: "notes",
      isAvailable: () => true,
      toolSchemas: () => specs,
      handleToolCall: async (tool, args, { scope }) => ({
        ok: true,
        text: `${tool} ${JSON.stringify(args)} for ${scope}, ${SECRET}`,
        wrote: { action: "add", target: "memory", text: "x" },
      }),
      onMemoryWrite: async () => void heard.push("itself"),
    };
    const mirror: MemoryProvider = {
      name: "mirror",
      isAvailable: () => true,
      onMemoryWrite: async (write, { scope }) => void heard.push({ ...write, scope }),
    };
    const { memory } = open([notes, mirror], { byOf: async () => "ann" });
    const [tool] = memory.tools();
    expect(tool).toMatchObject({ name: "note", repeatable: false });
    expect(await tool?.judge({}, "run_1")).toEqual({ gate: "run" });
    expect(await tool?.run({ a: 1 }, call("run_1"))).toEqual({
      ok: true,
      text: 'note {"a":1} for key:ann, [redacted]',
    });
    await memory.flushPending(1_000);
    expect(heard).toEqual([{ by: "notes", action: "add", target: "memory", text: "x", scope: "key:ann" }]);
  });

  it("are the same array until they are others; of two with one name there is the first", async () => {
    let specs = [SPEC];
    const one = (name: string): MemoryProvider => ({ name, isAvailable: () => true, toolSchemas: () => specs });
    const { memory } = open([one("a"), one("b")]);
    const before = memory.tools();
    expect(before.map(({ name }) => name)).toEqual(["note"]);
    expect(memory.tools()).toBe(before);
    specs = [SPEC, { ...SPEC, name: "search", repeatable: true }];
    expect(memory.tools().map(({ name }) => name)).toEqual(["note", "search"]);
  });

  it("that fail, hang or are stopped have one result that says so", async () => {
    const aborted: boolean[] = [];
    const specs = [SPEC];
    let work: (signal: AbortSignal) => Promise<never> = () => Promise.reject(new Error("disk full"));
    const provider: MemoryProvider = {
      name: "notes",
      isAvailable: () => true,
      toolSchemas: () => specs,
      handleToolCall: (_tool, _args, _whose, signal) => work(signal),
    };
    const { memory, clock } = open([provider]);
    const [tool] = memory.tools();
    expect(await tool?.run({}, call("s"))).toEqual({ ok: false, text: "Not done: disk full" });
    work = () => new Promise(() => {});
    const hung = tool?.run({}, call("s"));
    await clock.pass(60_000);
    expect(await hung).toMatchObject({ ok: false, text: expect.stringContaining("no answer within 60 s") });
    // A stop is over when the work is: nothing of it may happen afterwards.
    const stop = new AbortController();
    const ending = Promise.withResolvers<never>();
    work = (signal) => {
      signal.addEventListener("abort", () => aborted.push(true));
      return ending.promise;
    };
    const stopped = tool?.run({}, { ...call("s"), signal: stop.signal }) ?? Promise.resolve();
    await calm();
    stop.abort();
    expect(await settled(stopped)).toBe("pending");
    expect(aborted).toEqual([true]);
    ending.reject(new Error("stopped"));
    expect(await stopped).toEqual({ ok: false, text: "Not done: stopped" });
  });
});

describe("before a summary is made", () => {
  it("providers say what should be kept, bounded in time and size", async () => {
    const keeping = (name: string, onPreCompress: MemoryProvider["onPreCompress"]): MemoryProvider => ({
      name,
      isAvailable: () => true,
      ...(onPreCompress && { onPreCompress }),
    });
    const { memory, clock } = open([
      keeping("a", (messages) => Promise.resolve(`${messages.length} messages about tea`)),
      keeping("b", () => new Promise(() => {})),
      keeping("c", () => Promise.resolve("x".repeat(1_000_000))),
      keeping("d", () => Promise.reject(new Error("no"))),
      keeping("e", undefined),
    ]);
    const said = memory.compressing([{ role: "user", text: "tea" }], { session: "s" });
    await clock.pass(3_000);
    const text = await said;
    expect(text).toContain("[a]\n1 messages about tea");
    expect(text.length).toBeLessThanOrEqual(2_000);
  });
});

describe("leaving", () => {
  it("waits for what is under way, ends everybody, also those who throw, and says so", async () => {
    const ended: string[] = [];
    const { provider, calls } = desk("notes", {
      shutdown: async () => void ended.push("notes"),
      queuePrefetch: () => Promise.resolve(),
    });
    const thrower: MemoryProvider = {
      name: "thrower",
      isAvailable: () => true,
      shutdown: () => {
        throw new Error("not like this");
      },
    };
    const { memory, logged } = open([provider, thrower]);
    const written = memory.remember("notes", turn(1), "t1", never());
    const left = memory.shutdownAll();
    expect(memory.shutdownAll()).toBe(left);
    expect(await settled(left)).toBe("pending");
    calls[0]?.done();
    await Promise.all([written, left]);
    expect(ended).toEqual(["notes"]);
    expect(logged.join()).toContain("not like this");
    await expect(memory.remember("notes", turn(2), "t2", never())).rejects.toThrow("it is closed");
    expect(await memory.recall({ session: "s", turn: "t", text: "what about the tea" }, never())).toBe("");
  });

  it("what nobody waits for any more is not waited for", async () => {
    const { provider } = desk("deaf");
    const { memory, clock } = open([provider]);
    const leave = new AbortController();
    const written = memory.remember("deaf", turn(1, { user: "" }), "t1", leave.signal);
    await calm();
    leave.abort();
    await expect(written).rejects.toThrow();
    const began = clock.now();
    await memory.shutdownAll();
    expect(clock.now() - began).toBe(0);
  });
});
