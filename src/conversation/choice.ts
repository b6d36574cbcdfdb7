// What is offered where a person is asked, and what their words mean as an answer: the same wherever people are asked.
import type { Answer } from "../core/runtime.ts";
import type { Ask, Scope } from "../core/session.ts";

const YES = /^(approve|yes|ok|y|👍|once)$/iu;
/** Also with its reason: "no, use husky". */
const NO = /^(?:n|(?:deny|no|👎)(?:\s*[,.:;!]\s*(?<reason>.*))?)$/isu;

/** The answer that was clearly meant, or null: then it is a message, and the question stays. */
export function answerIn({ kind, choices }: Pick<Ask, "kind" | "choices">, said: string): Answer | null {
  const exact = choices.find((choice) => choice.toLowerCase() === said.toLowerCase());
  if (exact !== undefined) return choiceAnswer(kind, exact);
  if (kind === "question") return null;
  if (YES.test(said)) return choiceAnswer(kind, "once");
  const no = NO.exec(said);
  return no && noAnswer(no.groups?.["reason"]);
}

/** A yes is only for approvals: to a question every choice is an answer. */
export function choiceAnswer(kind: Ask["kind"], choice: string): Answer {
  if (kind === "question") return { allow: true, text: choice };
  if (choice === "deny") return noAnswer();
  return { allow: true, text: choice, scope: SCOPES.find((scope) => scope === choice) ?? "once" };
}

/** The model is told why. */
export const noAnswer = (reason = ""): Answer => ({
  allow: false,
  text: reason.trim() ? `The user said no: ${reason.trim()}` : "The user said no.",
});

export const SCOPES: readonly Scope[] = ["once", "session", "always"];

/** A choice as a sentence that says how far it goes. */
export function choiceText({ kind, about, saves = [] }: Ask, choice: string): string {
  if (kind === "question") return choice;
  switch (choice) {
    case "once":
      return "Yes, once";
    case "session": {
      const hosts = about?.hosts ? `, and every command may reach ${about.hosts.join(", ")}` : "";
      return `Yes, this exact command in this folder for the rest of this conversation${hosts}`;
    }
    case "always": {
      const where = saves.some(({ file }) => file === "hosts.allow") ? "Always" : "Always in this folder";
      return saves.length ? `${where}; saves to ${savedText(saves)}` : where;
    }
    case "deny":
      return "No, and tell it why";
    default:
      return choice;
  }
}

export const savedText = (saves: NonNullable<Ask["saves"]>): string =>
  saves.map(({ file, rule }) => `${file}: ${rule}`).join("; ");
