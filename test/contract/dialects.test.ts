// The same stories over every dialect. Nothing that happens in a conversation may make a later request of it unacceptable.
import { describe, expect, it, onTestFinished } from "vitest";
import type { Reply } from "../fakes/llm/reply.ts";
import { type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";
import {
  ANTHROPIC,
  begin,
  boot,
  call,
  chatRow,
  modelAt,
  PNG,
  ROWS,
  said,
  thoughts,
  uses,
  violations,
} from "./dialects.ts";

describe.each(ROWS)("$name", (row) => {
  it("thoughts and calls in a loop, and a turn after it", async () => {
    const { say, script, requests } = await begin(row);
    script(uses("first", "one"), uses("second", "two"), { reasoning: "third", text: "done" });
    expect(await say("go")).toBe("completed");
    script({ reasoning: "fourth", text: "again" });
    expect(await say("and now?")).toBe("completed");
    if (row.replays)
      expect(requests().map((request) => said(request))).toEqual([
        [],
        ["first"],
        ["first", "second"],
        ["first", "second", "third"],
      ]);
  });

  it("thoughts between words and calls", async () => {
    const { say, script, requests } = await begin(row);
    script({ reasoning: "first", text: "let me look", afterthought: "second", calls: [call("one")] }, { text: "done" });
    expect(await say("go")).toBe("completed");
    if (row.replays) expect(said(requests().at(-1)).join("")).toBe("firstsecond");
  });

  it("a model that does not think", async () => {
    const { say, script } = await begin(row);
    script({ text: " \n", calls: [call("one")] }, { calls: [call("two")] }, { text: "done" });
    expect(await say("go")).toBe("completed");
    script({ text: "again" });
    expect(await say("and now?")).toBe("completed");
  });

  it("parallel calls", async () => {
    const { say, script } = await begin(row);
    script({ reasoning: "all at once", calls: ["a", "b", "c"].map((name) => call(name)) }, { text: "done" });
    expect(await say("go")).toBe("completed");
    script({ text: "again" });
    expect(await say("and now?")).toBe("completed");
  });

  it("a call that it made up, and one that cannot be read", async () => {
    const { say, script, requests } = await begin(row);
    const odd = [
      { name: "no.such tool 🙂", args: {} },
      { name: "look", args: "{" },
    ];
    script({ reasoning: "well", calls: odd }, { text: "I see" });
    expect(await say("go")).toBe("completed");
    expect(
      requests()
        .at(-1)
        ?.tools.map(({ name }) => name),
    ).toEqual(["look"]);
  });

  it("pictures, one of another type than it says", async () => {
    const { say, script, requests, llm } = await begin(row);
    script({ text: "a cat" }, { text: "still a cat" });
    const images = [
      { mime: "image/jpeg", data: PNG },
      { mime: "image/png", data: PNG },
    ];
    expect(await say("what is this?", { images })).toBe("completed");
    const refusals = llm.violations.splice(0).length;
    expect(await say("sure?")).toBe("completed");
    const shown = requests()
      .at(-1)
      ?.messages.flatMap((m) => (m.role === "user" ? m.images : []));
    if (row.sees) expect(shown).toEqual([`data:image/png;base64,${PNG}`, `data:image/png;base64,${PNG}`]);
    else {
      expect([refusals, shown]).toEqual([1, []]);
      expect(JSON.stringify(requests().at(-1)?.messages)).toContain("2 of the user's pictures");
    }
  });

  it("a stop while a tool runs, and on from there", async () => {
    const { say, send, script, engine, entry, held } = await begin(row);
    script(uses("first", "hold"));
    const turn = await send("go");
    await held();
    await engine.stop({ session: "s", turn });
    expect((await entry("s", "ended", turn)).outcome).toBe("cancelled");
    script(uses("second", "two"), { reasoning: "third", text: "done" });
    expect(await say("go on")).toBe("completed");
  });

  it("a stop while it speaks, and on from there", async () => {
    const { say, send, script, engine, entry, nextRequest } = await begin(row);
    script(uses("first", "one"), { reasoning: "half", text: "half a", hold: new Promise(() => {}) });
    const turn = await send("go");
    await nextRequest();
    await (await nextRequest()).holding;
    await engine.stop({ session: "s", turn });
    expect((await entry("s", "ended", turn)).outcome).toBe("cancelled");
    script(uses("second", "two"), { reasoning: "third", text: "done" });
    expect(await say("go on")).toBe("completed");
  });

  it("a message that interrupts a loop", async () => {
    const { send, script, entry, held } = await begin(row);
    script(uses("first", "one"), uses("second", "hold"));
    const turn = await send("go");
    await held();
    script(uses("third", "two"), { reasoning: "fourth", text: "done" });
    const next = await send("no, this", { mode: "interrupt" });
    expect((await entry("s", "ended", turn)).outcome).toBe("interrupted");
    expect((await entry("s", "ended", next)).outcome).toBe("completed");
  });

  it("two messages in a row, since the first was never answered", async () => {
    const { say, send, script, engine, entry, nextRequest } = await begin(row);
    script({ text: "never", hold: new Promise(() => {}), holdAt: "accepted" });
    const turn = await send("go");
    await (await nextRequest()).holding;
    await engine.stop({ session: "s", turn });
    await entry("s", "ended", turn);
    script({ text: "yes" });
    expect(await say("go on")).toBe("completed");
  });

  it("a steer between a call and the next thought", async () => {
    const { send, script, entry, held, release } = await begin(row);
    script(uses("first", "hold"), uses("second", "two"), { reasoning: "third", text: "done" });
    const turn = await send("go");
    await held();
    await send("rather so", { mode: "steer" });
    release();
    expect((await entry("s", "ended", turn)).outcome).toBe("completed");
  });

  it("a crash between a call and its result", async () => {
    const first = await begin(row);
    first.script(uses("first", "hold"), uses("second", "two"), { reasoning: "third", text: "done" });
    const turn = await first.send("go");
    await first.held();
    first.kill();
    const second = await boot(row, first.llm, { disk: first.disk });
    expect((await second.entry("s", "ended", turn)).outcome).toBe("completed");
    expect(violations(row, first.llm)).toEqual([]);
  });

  it("a fork of it, and on in both", async () => {
    const { say, script, engine } = await begin(row);
    script(uses("first", "one"), { reasoning: "second", text: "done" });
    expect(await say("go")).toBe("completed");
    expect(await engine.fork({ from: "s", session: "f", title: "" })).toBe("forked");
    for (const session of ["f", "s"]) {
      script(uses("third", "two"), { reasoning: "fourth", text: "done" });
      expect(await say("on", { session })).toBe("completed");
    }
  });

  it("a summary inside a loop", async () => {
    const { say, script, requests } = await begin(row, { context: 2_000 });
    const long = { reasoning: "so long", text: "word ".repeat(300), calls: [call("long")] };
    script((request) => {
      if (request.system.startsWith("You write the summary")) return { text: "It was long." };
      return JSON.stringify(request.messages).includes("It was long.") ? { text: "done" } : long;
    });
    expect(await say("go")).toBe("completed");
    expect(requests().some(({ system }) => system.startsWith("You write the summary"))).toBe(true);
  });

  it("a loop that another model began", async () => {
    const other = await startFakeLlm();
    onTestFinished(() => other.close());
    const guest = modelAt({ ...chatRow("openai"), model: "another" }, other);
    const { say, send, script, held, kill, disk, llm } = await begin(row, { modelNamed: () => guest });
    other.script([
      { reasoning: "foreign", text: "hm", calls: [call("one")] },
      { reasoning: "foreign too", text: "done" },
    ]);
    expect(await say("go", { model: "another" })).toBe("completed");
    script({ text: "mine now" });
    expect(await say("you?")).toBe("completed");
    // And in the middle of it: the process that knew the other one is gone.
    other.script({ reasoning: "foreign", calls: [call("hold")] });
    const turn = await send("again", { model: "another" });
    await held();
    kill();
    script({ reasoning: "and now I", text: "done" });
    const second = await boot(row, llm, { disk, modelNamed: () => null });
    expect((await second.entry("s", "ended", turn)).outcome).toBe("completed");
  });
});

describe("what is refused once is left out from then on", () => {
  const row = chatRow("groq");

  it("reasoning, by a server that does not know the field it came in itself", async () => {
    const { say, script, llm, journal } = await begin(row);
    script(uses("first", "one"), { text: "done" });
    expect(await say("go")).toBe("completed");
    expect(llm.violations.splice(0)).toEqual([expect.stringContaining("property 'reasoning' is unsupported")]);
    expect(thoughts(journal("s")).map(({ refused }) => refused?.what)).toEqual([undefined, ["reasoning"]]);
    script({ text: "again" });
    expect(await say("and now?")).toBe("completed");
    expect(llm.violations).toEqual([]);
  });

  it("reasoning whose signature does not hold any more, and nothing else of the answer", async () => {
    const { say, script, requests } = await begin(ANTHROPIC);
    const body = JSON.stringify({
      type: "error",
      error: {
        type: "invalid_request_error",
        message: "messages.1.content.0: Invalid `signature` in `thinking` block",
      },
    });
    script(uses("first", "one"), { fault: { status: 400, body } }, { text: "done" });
    expect(await say("go")).toBe("completed");
    expect(requests().map(said)).toEqual([[], ["first"], []]);
    script({ reasoning: "second", text: "again" }, { text: "and again" });
    expect(await say("and now?")).toBe("completed");
    expect(await say("and now?")).toBe("completed");
    expect(requests().slice(3).map(said)).toEqual([[], ["second"]]);
  });

  it("what was refused for another reason is told as it was, and nothing is taken from the conversation", async () => {
    const { send, entry, say, script, requests, journal } = await begin(ANTHROPIC);
    const refused: Reply = {
      fault: { status: 400, body: '{"type":"error","error":{"type":"x","message":"no such beta"}}' },
    };
    script(uses("first", "one"), refused, refused);
    const turn = await send("go");
    expect(await entry("s", "failed", turn)).toMatchObject({ reason: expect.stringContaining("no such beta") });
    script({ text: "fine again" });
    expect(await say("and now?")).toBe("completed");
    expect(said(requests().at(-1))).toEqual(["first"]);
    expect(thoughts(journal("s")).some(({ refused }) => refused)).toBe(false);
  });
});

describe("thinking of Anthropic", () => {
  const blocks = (request: LlmRequest | undefined) =>
    request?.body as { thinking?: unknown; messages: { content: { type: string; data?: string }[] }[] };

  it("that nobody may read goes back too, in its place", async () => {
    const { say, script, requests } = await begin(ANTHROPIC);
    script({ redacted: "secret", reasoning: "open", text: "hm", calls: [call("one")] }, { text: "done" });
    expect(await say("go")).toBe("completed");
    const [, answer] = blocks(requests().at(-1)).messages;
    expect(answer?.content.map(({ type }) => type)).toEqual(["redacted_thinking", "thinking", "text", "tool_use"]);
    expect(answer?.content[0]?.data).toBe("secret");
  });

  it("is left out of a loop that began without it, and only of that", async () => {
    const { say, script, requests } = await begin(ANTHROPIC);
    script({ calls: [call("one")] }, { calls: [call("two")] }, { text: "done" }, { text: "again" });
    expect(await say("go")).toBe("completed");
    expect(await say("and now?")).toBe("completed");
    expect(requests().map((request) => blocks(request).thinking !== undefined)).toEqual([true, false, false, true]);
  });
});
