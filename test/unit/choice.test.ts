// What people's words mean as an answer, and what the choices say.
import { describe, expect, it } from "vitest";
import { answerIn, choiceText } from "../../src/conversation/choice.ts";
import type { Ask } from "../../src/core/session.ts";

const ASK: Ask = { kind: "approval", text: "rm x", choices: ["once", "session", "always", "deny"], until: 0 };

describe("an approval is answered", () => {
  it.each(["yes", "ok", "Y", "👍", "once", "approve"])("by %s, once", (said) => {
    expect(answerIn(ASK, said)).toEqual({ allow: true, text: "once", scope: "once" });
  });

  it.each(["no", "N", "deny", "👎", "no.", "no,"])("by %s, with a no", (said) => {
    expect(answerIn(ASK, said)).toEqual({ allow: false, text: "The user said no." });
  });

  it.each(["no, use husky", "No: use husky", "deny, use husky ", "no! use husky"])("by %s, with its reason", (said) => {
    expect(answerIn(ASK, said)).toEqual({ allow: false, text: "The user said no: use husky" });
  });

  it.each(["not now", "no problem", "n.b. the umlauts", "yes, but faster", "what is husky?", "no-op first"])(
    "not by %s, which is a message",
    (said) => {
      expect(answerIn(ASK, said)).toBeNull();
    },
  );
});

it("a question is answered by one of its choices only", () => {
  const question: Ask = { ...ASK, kind: "question", choices: ["red", "no"] };
  expect(["red", "no", "yes", "no, blue"].map((said) => answerIn(question, said)?.text)).toEqual([
    "red",
    "no",
    undefined,
    undefined,
  ]);
});

describe("a choice says how far it goes", () => {
  it("with the hosts that it opens", () => {
    const about = { command: "npm i", cwd: "/p", env: "", hosts: ["npm"] };
    expect(choiceText({ ...ASK, about }, "session")).toContain("and every command may reach npm");
  });

  it("with each rule and its file; a host is for every folder", () => {
    const rule = { file: "policy.yaml", rule: "allow_exact: rm x" } as const;
    const host = { file: "hosts.allow", rule: "npm" } as const;
    expect(choiceText({ ...ASK, saves: [rule] }, "always")).toBe(
      "Always in this folder; saves to policy.yaml: allow_exact: rm x",
    );
    expect(choiceText({ ...ASK, saves: [rule, host] }, "always")).toBe(
      "Always; saves to policy.yaml: allow_exact: rm x; hosts.allow: npm",
    );
  });
});
