// What a person's words mean as an answer to what is asked: the same wherever people are asked.
import type { Answer } from "../core/runtime.ts";
import type { Ask, Scope } from "../core/session.ts";

const YES = /^(approve|yes|ok|y|👍|once)$/iu;
const NO = /^(deny|no|n|👎)$/iu;

/** The choice that was clearly meant, or null: then it is a message, and the question stays. */
export function choiceIn({ kind, choices }: Pick<Ask, "kind" | "choices">, said: string): string | null {
  const exact = choices.find((choice) => choice.toLowerCase() === said.toLowerCase());
  if (exact || kind === "question") return exact ?? null;
  if (YES.test(said)) return "once";
  return NO.test(said) ? "deny" : null;
}

/** A yes is only for approvals: to a question every choice is an answer. */
export function choiceAnswer(kind: Ask["kind"], choice: string): Answer {
  if (kind === "question") return { allow: true, text: choice };
  if (choice === "deny") return { allow: false, text: "The user said no." };
  return { allow: true, text: choice, scope: SCOPES.find((scope) => scope === choice) ?? "once" };
}

export const SCOPES: readonly Scope[] = ["once", "session", "always"];
