// hermes run against a provider on this machine: streaming, stopping, failing, dying.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ALONE } from "../../src/core/store.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { llm, place, useProgram } from "../fakes/program.ts";

useProgram({ env: { OPENAI_API_KEY: "sk-secret-canary-123456" } });

function run(...args: string[]) {
  const hermes = place.start(["run", ...args]);
  hermes.hangUp();
  return hermes;
}

describe("hermes run", () => {
  it("streams the answer to stdout, says which model it is on stderr, and exits with 0", async () => {
    llm.script({ text: ["Hello ", "you."] });
    const hermes = run("hi");
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).toBe("Hello you.\n");
    expect(hermes.stderr()).toContain("fake-model via openai-compatible");
    expect(llm.requests).toHaveLength(1);
  });

  const HOSTILE = ["a\x1b]52;c;eA==\x07b", "\tc\u009b31md", "\u202ee", "\x1b[", "2J\r\n"];

  it("writes no control sequence of a model's, neither to a pipe nor as JSON; tabs and all else arrive", async () => {
    llm.script([{ text: HOSTILE }, { text: HOSTILE }]);
    const piped = run("hi");
    expect(await piped.exit).toBe(0);
    // The last sequence is whole if both of its parts are read at once; else only its beginning is one.
    expect(piped.stdout()).toMatch(/^ab\tcd\u202ee(?:2J)?\n$/);
    const json = run("--json", "hi");
    expect(await json.exit).toBe(0);
    expect(json.stdout()).not.toMatch(/[\x1b\x7f-\x9f]/);
    const said = json
      .stdout()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const deltas = said.flatMap(({ event, delta }) => (event === "message.delta" ? [delta] : []));
    expect(deltas.join("")).toBe(HOSTILE.join(""));
  });

  it("shows nothing on a terminal that would drive it or turn its text around", async () => {
    llm.script([{ text: HOSTILE, calls: [{ name: "todo", args: { x: "\x1b]0;title\x07" } }] }, { text: "done" }]);
    const hermes = place.startOnTerminal(["run", "hi"]);
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).toContain("done");
    expect(hermes.stdout()).not.toMatch(/[\x1b\x9b\u202e\x07]/);
  });

  it("speaks Anthropic's format when that is what is configured", async () => {
    const hermes = place.start(["run", "hi"], {
      OPENAI_BASE_URL: "",
      ANTHROPIC_BASE_URL: llm.url,
      ANTHROPIC_API_KEY: "k",
    });
    hermes.hangUp();
    expect(await hermes.exit).toBe(0);
    expect(llm.requests.map((request) => request.format)).toEqual(["anthropic"]);
  });

  it("reads the prompt from stdin, behind what is asked about it", async () => {
    const hermes = place.start(["run", "what is this?"]);
    hermes.type("a poem");
    hermes.hangUp();
    expect(await hermes.exit).toBe(0);
    expect(JSON.stringify(llm.requests[0]?.body)).toContain("what is this?\\n\\na poem");
  });

  it("--json prints one event a line, the last of them the end", async () => {
    llm.script({ text: ["a", "b"] });
    const hermes = run("--json", "hi");
    expect(await hermes.exit).toBe(0);
    const events = hermes
      .stdout()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { event: string; delta?: string });
    expect(events.map((e) => e.event)).toContain("thought");
    expect(events.map((e) => e.delta ?? "").join("")).toBe("ab");
    expect(events.at(-1)).toMatchObject({ event: "ended", outcome: "completed" });
  });

  it("goes on with a session, and continues the newest with -c", async () => {
    await run("--session", "talk", "first").exit;
    await run("-c", "second").exit;
    const said = JSON.stringify(llm.requests[1]?.body);
    expect(said).toContain("first");
    expect(said).toContain("second");
  });

  it("continues the newest conversation of the terminal with -c, however many others are newer", async () => {
    await run("--session", "talk", "first").exit;
    const store = await openSqlite({ file: join(place.home, "hermes.db") });
    const { state } = (await store.journal.load("agent:main:terminal:dm:talk")) ?? {};
    if (!state) throw new Error("The first conversation was not kept.");
    const node = await store.nodes.join(ALONE);
    for (let n = 0; n < 60; n++) {
      const at = Date.now() + 1_000;
      const change = { session: `run_${n}`, node, version: 0, state, active: false, parent: null, at };
      await store.journal.commit({ ...change, entries: [], accepted: [], taken: [] });
    }
    await store.close();
    await run("-c", "second").exit;
    expect(llm.requests[1]?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  });

  it("a provider's refusal is said, once, and exits with 1", async () => {
    llm.script({ fault: { status: 401 } });
    const hermes = run("hi");
    expect(await hermes.exit).toBe(1);
    expect(hermes.stderr()).toContain("HTTP 401");
    expect(llm.requests).toHaveLength(1);
  });

  it("a genuine reset is tried again and answered", async () => {
    llm.script([{ fault: { cut: "accepted" } }, { text: "there" }]);
    const hermes = run("hi");
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).toBe("there\n");
    expect(hermes.stderr()).toMatch(/trying again in/i);
    expect(llm.requests).toHaveLength(2);
  });

  it("without a prompt says what to do and exits with 2", async () => {
    const hermes = run();
    expect(await hermes.exit).toBe(2);
    expect(hermes.stderr()).toContain("hermes run");
  });

  it("no secret is in the log, and the log knows what happened", async () => {
    llm.script({ fault: { status: 401 } });
    await run("hi").exit;
    const logs = place.start(["logs"]);
    await logs.exit;
    expect(logs.stdout()).toContain("model.fault");
    expect(logs.stdout()).not.toContain("canary");
  });
});

describe("Ctrl+C", () => {
  it.each([
    ["before the headers", { fault: { silence: "accepted" as const } }, ""],
    ["in the middle of the text", { text: "so far", fault: { silence: "text" as const } }, "so far"],
    ["in the reasoning", { reasoning: "hmm", text: "x", fault: { silence: "reasoning" as const } }, ""],
  ])(
    "%s closes the socket, asks nothing more, exits with 130, and the next message is answered",
    async (_, reply, said) => {
      llm.script(reply);
      const hermes = run("--session", "talk", "one");
      const held = await llm.nextRequest();
      await held.holding;
      if (said) await hermes.prints(new RegExp(said));
      hermes.kill("SIGINT");
      expect(await hermes.exit).toBe(130);
      expect(await held.closed).toBe("closed-by-client");
      expect(llm.requests).toHaveLength(1);
      const next = run("--session", "talk", "two");
      expect(await next.exit).toBe(0);
      expect(llm.requests).toHaveLength(2);
      if (said) expect(JSON.stringify(llm.requests[1]?.body)).toContain(said); // partial answers are kept
    },
  );

  it("in the wait before the next try: there is none", async () => {
    llm.script({ fault: { status: 429, retryAfter: 30 } });
    const hermes = run("hi");
    await hermes.prints(/trying again in/i);
    hermes.kill("SIGINT");
    expect(await hermes.exit).toBe(130);
    expect(llm.requests).toHaveLength(1);
  });

  it("while the conversation is being summarised", async () => {
    const long = "word ".repeat(1_000);
    await run("--session", "talk", long).exit;
    await llm.nextRequest();
    writeFileSync(join(place.home, "config.yaml"), "model: {context_length: 2000}", { mode: 0o600 });
    llm.script({ text: "summary", fault: { silence: "text" } });
    const hermes = run("--session", "talk", long);
    const held = await llm.nextRequest();
    await held.holding;
    expect(hermes.stderr()).toContain("Summarising");
    hermes.kill("SIGINT");
    expect(await hermes.exit).toBe(130);
    expect(await held.closed).toBe("closed-by-client");
    expect(llm.requests).toHaveLength(2);
  });
});

describe("kill -9", () => {
  it("while thinking: the next process finishes the turn, then answers the next message", async () => {
    llm.script([{ text: "partway", fault: { silence: "text" } }, { text: "whole" }, { text: "next" }]);
    const hermes = run("--session", "talk", "one");
    await (await llm.nextRequest()).holding;
    hermes.kill("SIGKILL");
    expect(await hermes.exit).toBe("SIGKILL");
    const next = run("--session", "talk", "two");
    expect(await next.exit).toBe(0);
    expect(next.stdout()).toBe("next\n");
    const asked = llm.requests.map((request) => JSON.stringify(request.body));
    expect(asked).toHaveLength(3);
    expect(asked[2]).toContain("whole");
    expect(asked[2]).not.toContain("partway");
  });

  it("while summarising: nothing stored is missing, and the turn is finished", async () => {
    const long = "word ".repeat(1_000);
    await run("--session", "talk", `first ${long}`).exit;
    writeFileSync(join(place.home, "config.yaml"), "model: {context_length: 2000}", { mode: 0o600 });
    llm.script([{ text: "summary", fault: { silence: "text" } }, { text: "what was said" }, { text: "answer" }]);
    const hermes = run("--session", "talk", `second ${long}`);
    await llm.nextRequest();
    await (await llm.nextRequest()).holding;
    hermes.kill("SIGKILL");
    await hermes.exit;
    const next = run("--session", "talk", "third");
    expect(await next.exit).toBe(0);
    const asked = llm.requests.map((request) => JSON.stringify(request.body));
    expect(asked[3]).toContain("what was said");
    expect(asked[3]).toContain("second word");
    expect(asked[3]).not.toContain("first word");
    expect(asked.at(-1)).toContain("third");
  });
});

describe("--image", () => {
  it("a picture goes with the message; what is no picture is refused before anything is sent", async () => {
    const picture = join(place.dir, "x.png");
    writeFileSync(picture, Buffer.from("iVBORw0KGgo=", "base64"));
    expect(await run("look at this", "--image", picture).exit).toBe(0);
    expect(JSON.stringify(llm.requests[0]?.body)).toContain("data:image/png;base64,iVBORw0KGgo=");
    const wrong = run("look at this", "--image", "notes.txt");
    expect(await wrong.exit).toBe(1);
    expect(wrong.stderr()).toContain("notes.txt");
    expect(llm.requests).toHaveLength(1);
  });
});
