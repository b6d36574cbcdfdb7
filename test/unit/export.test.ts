// A conversation as a file, from entries as the engine writes them.

import { describe, expect, it } from "vitest";
import { exportJson, exportMarkdown } from "../../src/conversation/export.ts";
import { entriesOf } from "../../src/core/pages.ts";
import type { Entry, Fact, Input } from "../../src/core/session.ts";
import { bootEngine, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

const START = Date.UTC(2026, 0, 2, 9, 30);
const NAMED = { key: "agent:main:terminal:dm:ab12", title: "Tidy up" };
const AT = new Date(START + 86_400_000);

/** One entry a minute. */
const journal = (...facts: Fact[]): Entry[] =>
  facts.map((fact, i) => ({ seq: i + 1, turn: "t", at: START + i * 60_000, ...fact }));
const accepted = (id: string, text: string, more: Partial<Input> = {}): Fact => ({
  kind: "accepted",
  applied: "began",
  input: { id, text, mode: "queue", reply: "pull", ...more },
});
const thought = (text: string, calls: Extract<Fact, { kind: "thought" }>["calls"] = []): Fact => ({
  kind: "thought",
  text,
  calls,
  reasoning: "SECRET THOUGHT",
  recalled: "SECRET MEMORY",
  usage: { input: 100, output: 10, cached: 40 },
  model: "openai:m",
});
const said = (text: string): Entry[] => journal(accepted("a", text), { kind: "began", input: "a" }, thought("next"));
const markdown = (entries: Entry[], named = NAMED) => exportMarkdown(named, entries);
type Exported = { messages: Record<string, unknown>[] } & Record<string, unknown>;
const json = (entries: Entry[], named = NAMED) => JSON.parse(exportJson(named, entries, AT)) as Exported;
/** Headings that are not within a fenced block, as a reader of Markdown sees them. */
function headings(text: string): string[] {
  let fence = "";
  return text.split("\n").filter((line) => {
    const mark = /^ {0,3}(`{3,}|~{3,})(?!.*`)/.exec(line)?.[1] ?? "";
    if (fence) {
      if (line.trim().startsWith(fence)) fence = "";
      return false;
    }
    fence = mark;
    return /^#{1,2} /.test(line);
  });
}

const WORK = journal(
  accepted("a", "Tidy up, please", { by: "ann", images: [{ mime: "image/png", data: "BASE64" }] }),
  { kind: "began", input: "a" },
  thought("", [{ id: "c1", tool: "terminal", args: { command: "ls" } }]),
  { kind: "started", call: "c1" },
  accepted("b", "and quickly", { mode: "steer" }),
  { kind: "acted", call: "c1", outcome: "error", text: "exit 2" },
  { kind: "joined", input: "b" },
  thought("Done."),
  { kind: "ended", outcome: "completed" },
  accepted("c", "never mind"),
  { kind: "withdrawn", input: "c" },
  accepted("d", "still waiting"),
);

describe("Markdown", () => {
  it("has the title, the time, who said what, and tools with arguments and results", () => {
    expect(markdown(WORK)).toBe(`# Tidy up

2026-01-02 09:30 to 2026-01-02 09:37 (UTC)  
Session \`agent:main:terminal:dm:ab12\`  
1 more waiting, not in here

## User (ann) · 2026-01-02 09:30

Tidy up, please

(1 picture)

## Assistant · 2026-01-02 09:32

Tool \`terminal\` (error)

\`\`\`json
{
  "command": "ls"
}
\`\`\`

\`\`\`
exit 2
\`\`\`

## User · 2026-01-02 09:34

and quickly

## Assistant · 2026-01-02 09:37

Done.
`);
  });

  it("says that there is nothing yet", () => {
    expect(markdown([], { key: "k", title: "" })).toBe("# Conversation\n\nNothing was said yet.  \nSession `k`\n");
  });

  it("tells turns that failed or were stopped, and what was said until then", () => {
    const text = markdown(
      journal(
        accepted("a", "go"),
        { kind: "began", input: "a" },
        { kind: "cut", text: "I was ab" },
        { kind: "stopping", outcome: "interrupted", by: "ann" },
        { kind: "failed", reason: "no\nroute" },
      ),
    );
    expect(text).toContain("\nI was ab\n\n> The turn was interrupted.\n\n> The turn failed: no route\n");
  });

  it("cuts a long result in its middle and nothing else", () => {
    const long = `begin${"x".repeat(9_000)}end`;
    const entries = journal(
      accepted("a", long),
      { kind: "began", input: "a" },
      thought("", [{ id: "c", tool: "write", args: { content: long } }]),
      { kind: "acted", call: "c", outcome: "ok", text: long },
    );
    const result = markdown(entries).split("```")[3] ?? "";
    expect(result).toHaveLength(4_000 + "\n\n[… 5008 characters left out …]\n\n".length);
    expect(result).toMatch(/^\nbeginx+\n\[… 5008 characters left out …\]\nx+end\n$/);
    expect(markdown(entries).split(long)).toHaveLength(3);
  });

  it.each([
    ["a fence that is never closed", "```js\nlet a"],
    ["a longer fence with a shorter one in it", "````\n```\nstill in it"],
    ["tildes that are never closed", "~~~\n```"],
    ["a fence in a list that is never closed", "- a\n\n  ```\n  b"],
    ["code that only looks like a fence", "    ```\nb"],
    ["headings that look like ours", "# Other title\n## Assistant · 2026-01-02 09:31\n   ## User\n##"],
    ["a comment that is never closed", "<!-- gone"],
    ["a tag that hides what follows", "a\n  <script>\n<details>\n</details>"],
  ])("keeps in its own section a message with %s", (_, text) => {
    const whole = markdown(said(text));
    expect(headings(whole)).toEqual(["# Tidy up", "## User · 2026-01-02 09:30", "## Assistant · 2026-01-02 09:32"]);
    expect(whole).not.toMatch(/^ {0,3}<[a-z!/]/im);
    expect(whole).toMatch(/\n\nnext\n$/);
  });

  it("leaves a message's own Markdown as it is", () => {
    const text = "a `b` #1\n\n```c\n# comment\n<x>\n```\n\n- ~~~ d\n- 1 < 2";
    expect(markdown(said(text))).toContain(`\n\n${text}\n\n`);
  });

  it("fences arguments and results with more backticks than are in them", () => {
    const entries = journal(
      accepted("a", "go"),
      { kind: "began", input: "a" },
      thought("", [{ id: "c", tool: "x`y``", args: { text: "`````" } }]),
      { kind: "acted", call: "c", outcome: "ok", text: "```\n## User\n``\x00``" },
    );
    expect(markdown(entries)).toContain('``````json\n{\n  "text": "`````"\n}\n``````');
    expect(markdown(entries)).toContain("\n`````\n```\n## User\n````\n`````\n");
    expect(markdown(entries)).toContain("Tool ``` x`y`` ```");
  });

  it("has no control characters, sequences or bidi tricks in it, wherever they came from", () => {
    const evil = "a\x1b[31mb\x1b]52;c;ZXZpbA==\x07c\x9b2Jd\x00e\u202ef\r\ng\x1b";
    const entries = journal(
      accepted("a", evil, { by: evil }),
      { kind: "began", input: "a" },
      thought(evil, [{ id: "c", tool: evil, args: { [evil]: evil } }]),
      { kind: "acted", call: "c", outcome: "ok", text: evil },
      { kind: "failed", reason: evil },
    );
    const text = markdown(entries, { key: evil, title: `${evil}\n# more` });
    expect(text).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
    expect(text).toContain("# abcdef g # more\n");
    expect(text).toContain("## User (abcdef g) · ");
    expect(text).toContain("\n\nabcdef\ng\n\n");
  });
});

describe("JSON", () => {
  it("has the session, the time of the export, what waits, the usage and every message with its calls", () => {
    expect(json(WORK)).toEqual({
      session: NAMED.key,
      title: "Tidy up",
      exported_at: "2026-01-03T09:30:00.000Z",
      waiting: 1,
      usage: { input: 200, output: 20, cached: 80 },
      messages: [
        { role: "user", at: "2026-01-02T09:30:00.000Z", text: "Tidy up, please", by: "ann", images: 1 },
        {
          role: "assistant",
          at: "2026-01-02T09:32:00.000Z",
          text: "",
          model: "openai:m",
          usage: { input: 100, output: 10, cached: 40 },
          tool_calls: [
            { id: "c1", name: "terminal", arguments: { command: "ls" }, outcome: "error", result: "exit 2" },
          ],
        },
        { role: "user", at: "2026-01-02T09:34:00.000Z", text: "and quickly", images: 0 },
        {
          role: "assistant",
          at: "2026-01-02T09:37:00.000Z",
          text: "Done.",
          model: "openai:m",
          usage: { input: 100, output: 10, cached: 40 },
          tool_calls: [],
        },
      ],
    });
  });

  it("loses nothing of hostile text, and holds no character that a terminal would obey", () => {
    const evil = "\x1b[31m```\u202e\x9b2J\x7f\u2028\n";
    const text = exportJson({ key: "k", title: evil }, said(evil), AT);
    expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]/);
    expect(JSON.parse(text)).toMatchObject({ title: evil, messages: [{ text: evil }, {}] });
  });
});

describe("what is in both", () => {
  it("is neither thoughts nor memories nor pictures themselves nor what was withdrawn or waits", () => {
    for (const text of [markdown(WORK), exportJson(NAMED, WORK, AT)])
      expect(text).not.toMatch(/SECRET|BASE64|never mind|still waiting/);
  });

  it("is no message that only asked for a summary", () => {
    const entries = journal(accepted("a", "/compress", { task: "compress" }), { kind: "began", input: "a" });
    expect(json(entries)).toMatchObject({ messages: [], waiting: 0 });
  });

  it("is what a copy was begun with", () => {
    const entries = journal({
      kind: "forked",
      from: "other",
      upTo: 4,
      messages: [
        { role: "user", text: "first", images: [{ mime: "image/png", data: "AA" }] },
        { role: "assistant", text: "looking", calls: [{ id: "c", tool: "read", args: {} }] },
        { role: "tool", call: "c", tool: "read", outcome: "ok", text: "content" },
      ],
    });
    expect(json(entries).messages).toMatchObject([
      { role: "user", text: "first", images: 1 },
      { role: "assistant", text: "looking", tool_calls: [{ name: "read", outcome: "ok", result: "content" }] },
    ]);
  });
});

describe("all entries", () => {
  it("are read page by page, to the last one", async () => {
    const all = journal(...Array.from({ length: 2_000 }, (): Fact => ({ kind: "parked" })));
    const asked: number[] = [];
    const entries = async (_: string, after: number, limit: number) => {
      asked.push(after);
      return all.filter(({ seq }) => seq > after).slice(0, limit);
    };
    expect(await entriesOf({ entries }, "s")).toEqual(all);
    expect(asked).toEqual([0, 1_000, 2_000]);
  });

  it("of a conversation with the real engine become its export", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("look");
    const { engine, send, ended } = await bootEngine({ model, tools: [tool] });
    const { id } = await send("s", "hello");
    (await model.next()).answer("I look.", { tool: "look", args: { at: 1 } });
    (await tool.next()).done("seen");
    (await model.next()).answer("It is good.");
    await ended("s", id);
    const text = exportMarkdown({ key: "s", title: "hello" }, await entriesOf(engine, "s"));
    expect(text.match(/hello|I look\.|`look`|"at": 1|seen|It is good\./g)).toEqual([
      "hello",
      "hello",
      "I look.",
      "`look`",
      '"at": 1',
      "seen",
      "It is good.",
    ]);
  });
});
