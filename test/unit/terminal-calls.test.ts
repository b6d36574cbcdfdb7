// What a tool call is shown as, from its journaled arguments and result.
import { describe, expect, it } from "vitest";
import { bodyOf, excerptOf, headOf } from "../../src/conversation/calls.ts";
import type { Acted } from "../../src/conversation/updates.ts";
import { stoppedText } from "../../src/core/run.ts";

const acted = (tool: string, args: unknown, text: string, more: Partial<Acted> = {}): Acted => ({
  id: "call",
  tool,
  args,
  at: 0,
  ms: 0,
  outcome: "ok",
  text,
  ...more,
});
const line = (call: Acted) => {
  const { name, about, counts } = headOf(call);
  return [name, about, counts];
};

describe("a tool call is shown", () => {
  const edits = [{ path: "src/retry.ts", old_text: "a\nb\n", new_text: "a\nc\nd\n" }];
  const result = "Changed 1 file.\nsrc/retry.ts\n@@ line 1 @@\n a\n-b\n+c\n+d";

  it("as an edit: its file, how many lines came and went, and the lines with their place", () => {
    const call = acted("patch", { edits }, result);
    expect(line(call)).toEqual(["edit", "src/retry.ts", "+2 −1"]);
    expect(bodyOf(call)).toEqual({ kind: "diff", lines: ["@@ line 1 @@", " a", "-b", "+c", "+d"] });
  });

  it("as an edit that is still to be made, from its arguments", () => {
    expect(headOf({ tool: "patch", args: { edits } })).toEqual({
      name: "edit",
      about: "src/retry.ts",
      counts: "+2 −1",
    });
  });

  it("as an edit by a unified diff, which makes and removes files too", () => {
    const diff =
      "--- a/x.ts\n+++ b/x.ts\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/y.ts\n@@ -0,0 +1,2 @@\n+1\n+2\n--- a/z.ts\n+++ /dev/null\n@@ -1 +0,0 @@\n--- 1\n";
    const call = acted("patch", { diff }, "Changed 3 files.\nx.ts\n@@ line 1 @@\n-1\n+2\ny.ts\n@@ made, 2 lines @@");
    expect(line(call)).toEqual(["edit", "3 files", "+3 −2"]);
    expect(bodyOf(call).lines).toEqual([
      "x.ts",
      "@@ -1 +1 @@",
      "-1",
      "+2",
      "y.ts",
      "@@ -0,0 +1,2 @@",
      "+1",
      "+2",
      "z.ts",
      "@@ -1 +0,0 @@",
      "--- 1",
    ]);
  });

  it("as an edit that is longer than its result, from its arguments", () => {
    const long = [{ path: "x", old_text: "a", new_text: Array.from({ length: 100 }, (_, i) => `${i}`).join("\n") }];
    const call = acted("patch", { edits: long }, "Changed 1 file.\nx\n@@ line 1 @@\n-a\n+0\n[… 99 more lines]");
    expect(line(call)).toEqual(["edit", "x", "+100 −1"]);
  });

  it("as an edit that failed: with the reason, and without lines that are not there", () => {
    const call = acted("patch", { edits }, "Nothing was changed.\nsrc/retry.ts: this text is not there.", {
      outcome: "error",
    });
    expect(line(call)).toEqual(["edit", "src/retry.ts", ""]);
    expect(bodyOf(call)).toMatchObject({ kind: "reason" });
  });

  it("as a new file with all of its lines", () => {
    const call = acted("write_file", { path: "src/new.ts", content: "1\n2\n" }, "Made src/new.ts (2 lines, 4 bytes).");
    expect(line(call)).toEqual(["write", "src/new.ts", "+2"]);
    expect(bodyOf(call)).toEqual({ kind: "diff", lines: ["+1", "+2"] });
  });

  it("as a file that was replaced, with what changed where that is known", () => {
    const args = { path: "a.ts", content: "1\n2\n" };
    const call = acted("write_file", args, "Replaced a.ts (2 lines, 4 bytes, +70 −0).\n@@ line 2 @@\n 1\n+2");
    expect(line(call)).toEqual(["write", "a.ts", "+70"]);
    expect(bodyOf(call)).toEqual({ kind: "diff", lines: ["@@ line 2 @@", " 1", "+2"] });
    expect(line(acted("write_file", args, "Replaced a.ts (2 lines, 4 bytes)."))).toEqual(["write", "a.ts", ""]);
  });

  it("as a checklist", () => {
    const call = acted("todo", { items: [] }, "[x] one\n[~] two\n[ ] three\n[-] four");
    expect(line(call)).toEqual(["todo", "", "1 of 4 done"]);
    expect(bodyOf(call)).toEqual({ kind: "list", lines: ["☑ one", "◐ two", "☐ three", "☒ four"] });
    expect(bodyOf(acted("todo", {}, "The list is empty.")).kind).toBe("text");
  });

  it("as a command: the last three lines, how many there are besides, and why it was ended", () => {
    const call = acted("terminal", { command: "seq 400" }, `[exit 0 · 0.1 s]\n${upTo(400)}\n`);
    expect(excerptOf(bodyOf(call))).toEqual({ shown: ["398", "399", "400"], left: 397, isBeginning: false });
    const late = acted("terminal", { command: "x" }, "[exit 124 · 2.0 s · ended at its time limit of 2 s]\n1\n2", {
      outcome: "error",
    });
    expect(line(late)).toEqual(["terminal", "x", "exit 124"]);
    expect(bodyOf(late).lines).toEqual(["1", "2", "[ended at its time limit of 2 s]"]);
    expect(bodyOf(acted("terminal", { command: "true" }, "[exit 0 · 0.0 s]\n(no output)")).lines).toEqual([]);
  });

  it("as a command that was stopped: what it had printed", () => {
    const call = acted("terminal", { command: "x" }, stoppedText("1\n2\n"), { outcome: "cancelled" });
    expect(bodyOf(call)).toEqual({ kind: "output", lines: ["1", "2"] });
  });

  it("without an argument where none says anything", () => {
    for (const args of [{}, { text: " \n" }, null, "x", [1], { edits: 1 }])
      for (const tool of ["look", "patch", "write_file", "todo"]) expect(line(acted(tool, args, ""))[1]).toBe("");
  });
});

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1).join("\n");
