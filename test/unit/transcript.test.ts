// The journal as a model sees it.
import { describe, expect, it } from "vitest";

import type { CallOutcome, Entry, Fact, Outcome, Refused, Replay } from "../../src/core/session.ts";
import { emptyTranscript, extend, type Message, messagesOfTurn, type Transcript } from "../../src/core/transcript.ts";

const NOTE = /^\[System note: Your previous turn was interrupted before you could process the last tool result\(s\)\./;

/** The turn's name goes with each fact: [turn, fact]. */
type Told = [string, Fact];
function read(...told: Told[]): Transcript {
  const transcript = emptyTranscript();
  told.forEach(([turn, fact], i) => extend(transcript, { seq: i + 1, turn, at: i, ...fact }));
  return transcript;
}
const messages = (...told: Told[]): Message[] => read(...told).messages;
/** `user hello`, `assistant hi`, `tool ok`. */
const lines = (...told: Told[]) =>
  messages(...told).map((m) => `${m.role} ${m.role === "tool" ? `${m.call} ${m.outcome}` : m.text}`);

const accepted = (id: string): Told => [
  id,
  { kind: "accepted", input: { id, text: `text of ${id}`, mode: "queue", reply: "pull" }, applied: "queue" },
];
const began = (id: string): Told => [id, { kind: "began", input: id }];
const joined = (id: string, turn: string): Told => [turn, { kind: "joined", input: id }];
const starts = (id: string): Told[] => [accepted(id), began(id)];
const thought = (turn: string, text: string, ...calls: string[]): Told => [
  turn,
  {
    kind: "thought",
    model: "m",
    text,
    calls: calls.map((id) => ({ id, tool: `tool of ${id}`, args: { of: id } })),
    usage: { input: 1, output: 1 },
  },
];
const thinking = (turn: string, reasoning: string, replay?: Replay, refused?: Refused): Told => [
  turn,
  {
    kind: "thought",
    model: "m",
    text: "so",
    reasoning,
    calls: [],
    usage: { input: 1, output: 1 },
    ...(replay && { replay }),
    ...(refused && { refused }),
  },
];
const acted = (turn: string, call: string, outcome: CallOutcome = "ok"): Told => [
  turn,
  { kind: "acted", call, outcome, text: `result of ${call}` },
];
const cut = (turn: string, text: string): Told => [turn, { kind: "cut", text }];
const stopping = (turn: string, outcome: Outcome = "cancelled"): Told => [turn, { kind: "stopping", outcome, by: "" }];
const failed = (turn: string): Told => [turn, { kind: "failed", reason: "no" }];
const ended = (turn: string, outcome: Outcome = "interrupted"): Told => [turn, { kind: "ended", outcome }];

describe("a journal as messages", () => {
  it("has what was said, thought and done, in order", () => {
    expect(messages(...starts("a"), thought("a", "let me look", "c1"), acted("a", "c1"), thought("a", "done"))).toEqual(
      [
        { role: "user", text: "text of a" },
        { role: "assistant", text: "let me look", calls: [{ id: "c1", tool: "tool of c1", args: { of: "c1" } }] },
        { role: "tool", call: "c1", tool: "tool of c1", outcome: "ok", text: "result of c1" },
        { role: "assistant", text: "done", calls: [] },
      ],
    );
  });

  it("has an input where its turn begins, not where it came", () => {
    const told = [...starts("a"), accepted("b"), thought("a", "one"), ended("a"), began("b"), thought("b", "two")];
    expect(lines(...told)).toEqual(["user text of a", "assistant one", "user text of b", "assistant two"]);
  });

  it("does not have what was withdrawn, nor what still waits", () => {
    const told: Told[] = [...starts("a"), accepted("b"), accepted("c"), ["b", { kind: "withdrawn", input: "b" }]];
    expect(lines(...told)).toEqual(["user text of a"]);
    expect([...read(...told).waiting.keys()]).toEqual(["c"]);
  });

  it("has no empty assistant message: strict providers refuse one", () => {
    expect(lines(...starts("a"), thought("a", ""))).toEqual(["user text of a"]);
    expect(lines(...starts("a"), thought("a", "", "c1"), acted("a", "c1"))).toEqual([
      "user text of a",
      "assistant ",
      "tool c1 ok",
    ]);
  });

  it("keeps text that was cut as it was said, and that it was cut", () => {
    const [, said] = messages(...starts("a"), cut("a", "half a sent"), ended("a"));
    expect(said).toEqual({ role: "assistant", text: "half a sent", calls: [], cut: true });
  });

  it("keeps what an answer's maker wants back, and counts it", () => {
    const replay = { maker: "m@h", parts: [{ type: "reasoning" as const, length: 400 }] };
    const thinks = thinking("a", "x".repeat(400), replay);
    expect(messages(...starts("a"), thinks)[1]).toMatchObject({ text: "so", reasoning: "x".repeat(400), replay });
    expect(read(...starts("a"), thinks).tokens - read(...starts("a"), thought("a", "so")).tokens).toBeGreaterThan(100);
  });

  it("leaves out what was refused, for whoever refused it", () => {
    const [mine, theirs] = ["mine", "theirs"].map((maker) => ({ maker, parts: [] }));
    const images = [{ mime: "image/png", data: "AA==" }];
    const input = { id: "a", text: "look", mode: "queue", reply: "pull", images } as const;
    const told: Told[] = [
      ["a", { kind: "accepted", input: { ...input, images }, applied: "queue" }],
      began("a"),
      thinking("a", "hm", mine),
      thinking("a", "ah", theirs),
      thinking("a", "oh", mine, { maker: "mine", what: ["reasoning", "pictures"] }),
    ];
    expect(messages(...told)).toMatchObject([{ images, unseen: ["mine"] }, {}, { replay: theirs }, { replay: mine }]);
    expect(messages(...told)[1]).toEqual({ role: "assistant", text: "so", calls: [] });
  });

  it.each<CallOutcome>(["ok", "error", "denied", "cancelled", "unknown", "skipped"])(
    "has one result for a call that came out %s",
    (outcome) => {
      const transcript = read(
        ...starts("a"),
        thought("a", "", "c1", "c2"),
        acted("a", "c2"),
        acted("a", "c1", outcome),
      );
      expect(transcript.messages.slice(2)).toMatchObject([
        { call: "c2", tool: "tool of c2", outcome: "ok" },
        { call: "c1", tool: "tool of c1", outcome },
      ]);
      expect(transcript.calls.size).toBe(0);
    },
  );

  it("does not have what is no talk", () => {
    const told: Told[] = [
      ["a", { kind: "asked", call: "c1", ask: { kind: "approval", text: "?", choices: [], until: 0 } }],
      ["a", { kind: "decided", call: "c1", allow: true, text: "", by: "me" }],
      ["a", { kind: "started", call: "c1" }],
      ["a", { kind: "failed", reason: "no" }],
      ["a", { kind: "stopping", outcome: "cancelled", by: "" }],
      ["a", { kind: "abandoned", key: "think:1" }],
      ["a", { kind: "retracted", reason: "the line broke" }],
      ["a", { kind: "restarted", attempt: 1 }],
      ["a", { kind: "parked" }],
      ["a", { kind: "delivered", how: "sent" }],
      ["b", { kind: "moved", input: "b", to: 0 }],
    ];
    expect(lines(...starts("a"), ...told)).toEqual(["user text of a"]);
  });

  it("takes each entry once, in order: one that is in already, or is not next, changes nothing", () => {
    const transcript = read(...starts("a"));
    const entry = (seq: number): Entry => ({ seq, turn: "a", at: 0, kind: "cut", text: "x" });
    for (const seq of [1, 2, 4]) extend(transcript, entry(seq));
    expect(transcript.messages).toHaveLength(1);
    extend(transcript, entry(3));
    expect(transcript).toMatchObject({ seq: 3, messages: { length: 2 } });
  });
});

describe("a turn that ended without an answer", () => {
  const next = [...starts("b")];
  const called = [...starts("a"), thought("a", "", "c1"), acted("a", "c1", "cancelled")];

  it.each<[string, Told[], RegExp]>([
    ["was stopped before the first word", [...starts("a"), stopping("a"), ended("a", "cancelled")], /stopped/],
    ["gave way to a newer message", [...starts("a"), stopping("a", "interrupted"), ended("a")], /stopped/],
    ["was stopped inside a tool", [...called, stopping("a"), ended("a", "cancelled")], /stopped/],
    ["failed before the first word", [...starts("a"), failed("a"), ended("a", "failed")], /failed/],
    ["failed behind a tool", [...called, failed("a"), ended("a", "failed")], /failed/],
    ["was lost in a restart before the first word", [...starts("a"), ended("a")], /restart/],
  ])("%s: one line on the assistant's side says so, before the next message", (_, told, why) => {
    const [line, last] = messages(...told, ...next).slice(-2);
    expect(line).toMatchObject({ role: "assistant", text: expect.stringMatching(why), calls: [] });
    expect(last).toEqual({ role: "user", text: "text of b" });
  });

  it("has no such line where its words were cut: they say so themselves", () => {
    const told = [...starts("a"), cut("a", "half"), stopping("a"), ended("a", "cancelled")];
    expect(messages(...told)).toHaveLength(2);
  });

  it("has no such line when it was answered, or was nothing but a task", () => {
    expect(lines(...starts("a"), thought("a", "ok"), ended("a", "completed"))).toHaveLength(2);
    const input = { id: "t", text: "compress", mode: "queue", reply: "pull", task: "compress" } as const;
    const task: Told[] = [["t", { kind: "accepted", input, applied: "began" }], began("t"), stopping("t")];
    expect(lines(...starts("a"), thought("a", "ok"), ended("a", "completed"), ...task, ended("t"))).toHaveLength(2);
  });
});

describe("auto-continue after a restart (seed 002)", () => {
  const worked = [...starts("a"), thought("a", "", "c1", "c2", "c3"), acted("a", "c1"), acted("a", "c2")];
  const interrupted = [...worked, acted("a", "c3", "unknown"), ended("a")];
  /** What the model is shown in the turn that runs. */
  const shown = (...told: Told[]) => messagesOfTurn(read(...told), "");
  const noted = (all: readonly Message[]) => all.filter((m) => NOTE.test(m.text));

  it("a trailing tool result is detected", () => {
    const all = shown(...starts("a"), thought("a", "", "c1"), acted("a", "c1"), ended("a"), ...starts("b"));
    expect(all.at(-1)?.text).toMatch(NOTE);
  });

  it("also where the turn was given up after too many restarts", () => {
    const parked: Told[] = [["a", { kind: "parked" }], failed("a"), ended("a", "failed")];
    expect(shown(...interrupted.slice(0, -1), ...parked, ...starts("b")).at(-1)?.text).toMatch(NOTE);
  });

  it("no note after an assistant message", () => {
    const all = shown(...interrupted.slice(0, -1), thought("a", "all done"), ended("a"), ...starts("b"));
    expect(all.at(-1)).toEqual({ role: "user", text: "text of b" });
    expect(noted(all)).toEqual([]);
  });

  it("no note after a user message", () => {
    const all = shown(...starts("a"), ended("a"), ...starts("b"));
    expect(all.at(-1)).toEqual({ role: "user", text: "text of b" });
    expect(noted(all)).toEqual([]);
  });

  it("no note for an empty history", () => {
    expect(shown(...starts("a"))).toEqual([{ role: "user", text: "text of a" }]);
  });

  it("no note after a stop by the user, or by a newer message", () => {
    for (const outcome of ["cancelled", "interrupted"] as const) {
      const told = [...interrupted.slice(0, -1), stopping("a", outcome), ended("a", outcome), ...starts("b")];
      expect(noted(shown(...told))).toEqual([]);
    }
  });

  it("no note where the message that it stands before is in a summary by now", () => {
    const told = [...interrupted, ...starts("b"), thought("b", "", "c4"), acted("b", "c4")];
    const upTo = read(...interrupted, ...starts("b")).seq;
    const all = shown(...told, ["b", { kind: "compacted", summary: "they worked", upTo }]);
    expect(all[0]?.text).toContain("they worked");
    expect(noted(all)).toEqual([]);
  });

  it("one note for many results", () => {
    const all = shown(...interrupted, ...starts("b"));
    expect(noted(all)).toHaveLength(1);
    expect(noted(all)[0]?.text.match(/System note/g)).toHaveLength(1);
  });

  it("in every request of the turn that begins with it, and in none of a later turn", () => {
    const second = [...interrupted, ...starts("b"), thought("b", "", "c4"), acted("b", "c4")];
    expect(noted(shown(...second))).toHaveLength(1);
    const third = [...second, thought("b", "ok"), ended("b", "completed"), ...starts("c")];
    expect(noted(shown(...third))).toEqual([]);
  });

  it("not in what another session begins with", () => {
    expect(noted(messages(...interrupted, ...starts("b")))).toEqual([]);
  });

  it("the user's message is preserved after the note", () => {
    const text = shown(...interrupted, ...starts("b")).at(-1)?.text ?? "";
    expect(text).toMatch(NOTE);
    expect(text).toMatch(/address the user's new message below\.\]\n\ntext of b$/);
  });

  it("the stored text never has the note", () => {
    const told = [...interrupted, ...starts("b")];
    const stored = JSON.stringify(told);
    shown(...told);
    expect(JSON.stringify(told)).toBe(stored);
    expect(stored).not.toContain("System note");
  });

  it("no note for one who steers: the results are being read", () => {
    const all = shown(...worked, acted("a", "c3"), accepted("m"), joined("m", "a"));
    expect(all.at(-1)).toEqual({ role: "user", text: "text of m" });
  });

  it("no note after text that was cut", () => {
    const all = shown(...starts("a"), cut("a", "half"), ended("a"), ...starts("b"));
    expect(noted(all)).toEqual([]);
  });
});
