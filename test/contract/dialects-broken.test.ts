// The same stories over every dialect, of answers that do not come to their end: dropped, refused, stopped, interrupted. What was
// half said may not make a later request unacceptable either.
import { describe, expect, it } from "vitest";
import { clock } from "../../src/platform/clock.ts";
import type { Point, Reply } from "../fakes/llm/reply.ts";
import { begin, call, ROWS, uses } from "./dialects.ts";

/** Waits between attempts are over in a tenth of their time. */
const hurried = { ...clock, sleep: (ms: number, signal?: AbortSignal) => clock.sleep(ms / 10, signal) };
const never = new Promise<never>(() => {});

describe.each(ROWS)("$name", (row) => {
  /** In a loop of calls, so that there is something that the next request can get wrong. */
  async function broken(reply: Reply) {
    const begun = await begin(row, { clock: hurried });
    begun.script(uses("first", "one"), reply, uses("second", "two"), { reasoning: "third", text: "done" });
    const turn = await begun.send("go");
    expect((await begun.entry("s", "ended", turn)).outcome).toBe("completed");
    expect(begun.requests()).toHaveLength(4);
    const kinds = begun.journal("s").map(({ kind }) => kind);
    begun.script({ text: "again" });
    expect(await begun.say("and now?")).toBe("completed");
    return { ...begun, kinds };
  }

  it.each<Point>(["accepted", "headers"])("a drop before words (%s): asked again", async (cut) => {
    const { kinds } = await broken({ text: "never", fault: { cut } });
    expect(kinds).not.toContain("retracted");
  });

  it.each(["reset", "close", "end"] as const)("a drop after words (by %s): taken back, and begun again", async (by) => {
    const { kinds, journal, requests } = await broken({ reasoning: "hm", text: "half a", fault: { cut: "text", by } });
    expect(kinds).toContain("retracted");
    expect(journal("s").some((entry) => entry.kind === "thought" && entry.text.includes("half a"))).toBe(false);
    expect(JSON.stringify(requests().at(-1)?.messages)).not.toContain("half a");
  });

  it("a drop inside the arguments of a call: it is not run", async () => {
    const { journal } = await broken({ calls: [call("three")], fault: { cut: "arguments", by: "end" } });
    expect(journal("s").filter(({ kind }) => kind === "acted")).toHaveLength(2);
  });

  it("an error inside the stream, after words: taken back, and begun again", async () => {
    const { kinds } = await broken({ text: "half a", fault: { errorEvent: "overloaded" } });
    expect(kinds).toContain("retracted");
  });

  it.each([429, 500, 502, 529])("HTTP %i: asked again", async (status) => {
    await broken({ fault: { status } });
  });

  it("too long, in the server's words: a summary, and on from there", async () => {
    const { say, script, requests } = await begin(row);
    script(uses("first", "one"), { text: "done" });
    expect(await say(`go ${"on and ".repeat(100)}`)).toBe("completed");
    script({ fault: "context-overflow" }, { text: "They went on." }, { text: "short again" });
    expect(await say("and now?")).toBe("completed");
    expect(requests().at(-2)?.system).toMatch(/^You write the summary/);
    expect(JSON.stringify(requests().at(-1)?.messages)).toContain("They went on.");
  });

  const HELD: [string, Reply][] = [
    ["before it says anything", { text: "never", holdAt: "accepted" }],
    ["after its headers", { text: "never", holdAt: "headers" }],
    ["while it speaks", { reasoning: "half", text: "half a", holdAt: "text" }],
    ["inside the arguments of a call", { reasoning: "half", calls: [call("three")], holdAt: "arguments" }],
    ["before it says that it is done", { reasoning: "half", text: "nearly all", holdAt: "finish" }],
    ...(row.replays
      ? [["while it thinks", { reasoning: "half", text: "never", holdAt: "reasoning" }] as [string, Reply]]
      : []),
  ];

  it.each(HELD)("a stop %s, and on from there", async (_, reply) => {
    const { send, say, script, engine, entry, nextRequest, requests } = await begin(row);
    script(uses("first", "one"), { ...reply, hold: never });
    const turn = await send("go");
    await nextRequest();
    const held = await nextRequest();
    await held.holding;
    await engine.stop({ session: "s", turn });
    expect((await entry("s", "ended", turn)).outcome).toBe("cancelled");
    expect(await held.closed).toBe("closed-by-client");
    expect(requests()).toHaveLength(2);
    script(uses("second", "two"), { reasoning: "third", text: "done" });
    expect(await say("go on")).toBe("completed");
  });

  it.each(HELD)("a message that interrupts %s", async (_, reply) => {
    const { send, script, entry, nextRequest, requests } = await begin(row);
    script(uses("first", "one"), { ...reply, hold: never });
    const turn = await send("go");
    await nextRequest();
    await (await nextRequest()).holding;
    script(uses("second", "two"), { reasoning: "third", text: "done" });
    const next = await send("no, this", { mode: "interrupt" });
    expect((await entry("s", "ended", turn)).outcome).toBe("interrupted");
    expect((await entry("s", "ended", next)).outcome).toBe("completed");
    expect(requests()).toHaveLength(4);
  });

  it("a stop between two attempts: nothing more is asked", async () => {
    const { send, say, script, engine, entry, nextRequest, requests } = await begin(row);
    script(uses("first", "one"), { fault: { status: 429, retryAfter: 60 } });
    const turn = await send("go");
    await nextRequest();
    await (await nextRequest()).closed;
    await engine.stop({ session: "s", turn });
    expect((await entry("s", "ended", turn)).outcome).toBe("cancelled");
    expect(requests()).toHaveLength(2);
    script({ text: "here" });
    expect(await say("go on")).toBe("completed");
  });
});
