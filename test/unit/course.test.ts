// The course of a turn, as the console draws it from the journal.
import { describe, expect, it } from "vitest";
import type { Entry, Fact } from "../../src/core/session.ts";
import { courseOf } from "../../src/surfaces/web/app/course.ts";

const usage = { input: 1_200, output: 30 };
const journal = (...facts: (Fact & { at: number })[]): Entry[] =>
  facts.map((fact, at) => ({ seq: at + 1, turn: "run_1", ...fact }));
const accepted = { kind: "accepted", input: { id: "run_1", text: "hi", mode: "queue", reply: "push" } } as const;

describe("the course of a turn", () => {
  it("has memory before its model call, the tries that failed, who answered instead, the first word and the delivery", () => {
    const timing = { recalled: 40, firstWord: 700, tries: [{ model: "a:one", reason: "429", ms: 100 }] };
    const { spans } = courseOf(
      journal(
        { at: 0, ...accepted, applied: "began" },
        { at: 10, kind: "began", input: "run_1" },
        { at: 2_010, kind: "thought", text: "yes", calls: [], usage, model: "b:two", recalled: "tea", timing },
        { at: 2_110, kind: "delivered", how: "sent" },
        { at: 2_110, kind: "ended", outcome: "completed" },
      ),
      9_000,
    );
    expect(spans.map(({ name, from, to }) => [name, from, to])).toEqual([
      ["Waits for its turn", 0, 10],
      ["Memory", 10, 50],
      ["Model call 1", 10, 2_010],
      ["Delivery", 2_010, 2_110],
    ]);
    expect(spans[2]).toMatchObject({
      detail: "b:two · instead of a:one · after 1 try that failed · first word after 700 ms · 1.2 k in, 30 out",
      firstWord: 710,
      failed: [{ at: 110, name: "a:one: 429" }],
    });
  });

  it("ends the model call in which the process died, and begins another; what has not ended goes on until now", () => {
    const { spans, moments, to } = courseOf(
      journal(
        { at: 0, ...accepted, applied: "began" },
        { at: 0, kind: "began", input: "run_1" },
        { at: 500, kind: "restarted", attempt: 1 },
      ),
      900,
    );
    expect(spans.slice(1)).toMatchObject([
      { name: "Model call 1", to: 500, ok: false, detail: "the process died", open: false },
      { name: "Model call 2", from: 500, to: 900, open: true },
    ]);
    expect(moments).toMatchObject([{ at: 500, name: expect.stringContaining("taken up again") }]);
    expect(to).toBe(900);
  });
});
