// Commands about what the agent asks, and about what was allowed.
import type { Answer, Runtime } from "../../core/runtime.ts";
import type { Grant } from "../../core/session.ts";
import { choiceAnswer, noAnswer, SCOPES, savedText } from "../choice.ts";
import type { AskedQuestion, Command, CommandContext, CommandResult, OpenQuestion } from "./command.ts";

export const answerCommands: readonly Command[] = [
  {
    name: "approve",
    on: "everywhere",
    argument: `[${SCOPES.join(" | ")}]`,
    description: "allow what is asked: once, for this conversation (session), or always",
    complete: SCOPES,
    once: "look",
    run: (context, rest) =>
      answer(context, ({ kind, choices }) => {
        const choice = rest.toLowerCase() || "once";
        return kind === "approval" && choice !== "deny" && choices.includes(choice) ? choiceAnswer(kind, choice) : null;
      }),
  },
  {
    name: "deny",
    on: "everywhere",
    argument: "[reason]",
    description: "refuse what is asked, with your reason",
    once: "look",
    run: (context, rest) => answer(context, () => noAnswer(rest)),
  },
  {
    name: "answer",
    on: "chat",
    argument: "WORDS",
    description: "answer a question in your own words",
    once: "look",
    run: (context, rest) =>
      rest
        ? answer(context, ({ kind }) => (kind === "question" ? choiceAnswer(kind, rest) : null))
        : { text: "What is the answer? /answer your words" },
  },
  {
    name: "yolo",
    on: "everywhere",
    argument: "[off]",
    description: "approve everything in this conversation, without asking; off: ask again",
    complete: ["off"],
    admin: true,
    async run({ setYolo }, rest) {
      const wanted = rest.toLowerCase() || "on";
      if (wanted !== "on" && wanted !== "off") return { refused: "Say /yolo, or /yolo off." };
      await setYolo(wanted === "on");
      return { text: wanted === "on" ? YOLO : "From the next message on I ask again." };
    },
  },
  {
    name: "grants",
    on: "everywhere",
    argument: "[revoke <number> | all]",
    description: "what is allowed for the rest of this conversation; revoke takes it back",
    complete: ["revoke all"],
    once: "look",
    run: async ({ runtime, session, by }, rest) => ({ text: await grants(runtime, session, rest, by) }),
  },
];

/** `how` says what the words come to; null: they are no answer to this question. */
async function answer(
  { runtime, session, by, asked: seen, mayAnswer, surface }: CommandContext,
  how: (question: AskedQuestion) => Answer | null,
): Promise<CommandResult> {
  const asked = seen ? seen() : await askedIn(runtime, session);
  if (!asked) return { text: NOTHING_ASKED };
  const { question } = asked;
  const given = how(question);
  const refused = await mayAnswer?.(asked, given);
  if (refused) return { refused };
  if (!given) return { refused: `That is no answer to this. ${howTo(question)}` };
  const first = await runtime.answer({ session, call: question.call, ...given, by });
  if (!first) return { text: DECIDED };
  const kept = await keptText(runtime, session, question, given);
  // A screen shows by itself how it was decided.
  return { text: [surface === "chat" && thanks(given), kept].filter(Boolean).join("\n") };
}

async function askedIn(runtime: Runtime, session: string): Promise<OpenQuestion | null> {
  const { turn, asking } = await runtime.status(session);
  const [question] = asking;
  return turn && question ? { turn: turn.id, question } : null;
}

/** What a yes leaves behind, and how to take it back; empty: nothing. */
export async function keptText(
  runtime: Runtime,
  session: string,
  { call, saves = [] }: Pick<AskedQuestion, "call" | "saves">,
  { scope }: Answer,
): Promise<string> {
  if (scope === "session") {
    const number = (await runtime.grants(session)).findIndex((grant) => grant.call === call) + 1;
    return number
      ? `Allowed for the rest of this conversation. To take it back: /grants revoke ${number}, or hermes policy revoke.`
      : "";
  }
  if (scope !== "always" || !saves.length) return "";
  return `Saved to ${savedText(saves)}\nTo take it back: hermes policy rules, then hermes policy revoke ID.`;
}

const YOLO =
  "⚠️ From the next message on I ask nothing in this conversation: what needs an approval is run, and questions are not asked. " +
  "What the policy forbids stays forbidden. /yolo off ends this.";
const NOTHING_ASKED = "Nothing is asked just now.";
export const DECIDED = "This was decided already.";

export const thanks = ({ allow }: Pick<Answer, "allow">): string => (allow ? "👍" : "👎 Not run.");

const howTo = ({ kind, choices }: AskedQuestion) =>
  kind === "question" ? "Say /answer and your words." : `Say one of: ${choices.join(", ")}.`;

/** `/grants`, `/grants revoke 2`, `/grants revoke all` */
async function grants(runtime: Runtime, session: string, rest: string, by: string): Promise<string> {
  const held = await runtime.grants(session);
  if (!held.length) return "Nothing is allowed for the rest of this conversation. Permanent rules: hermes policy rules";
  const [verb = "", which = ""] = rest.trim().toLowerCase().split(/\s+/);
  if (verb === "") return `${held.map(grantLine).join("\n")}\n\nTake one back with /grants revoke 1, or all of them.`;
  const chosen = which === "all" ? held : held.slice(Number(which) - 1, Number(which));
  if (verb !== "revoke" || !/^(all|[1-9]\d{0,3})$/.test(which) || !chosen.length)
    return `Say /grants revoke and a number from 1 to ${held.length}, or all.`;
  for (const { call } of chosen) await runtime.revoke(session, call, by);
  return `Taken back: it asks again.\n${chosen.map(grantLine).join("\n")}`;
}

const grantLine = ({ about: { command, cwd, hosts } }: Grant, index: number): string =>
  `${index + 1}. ${command} in ${cwd}${hosts ? `, reaching ${hosts.join(", ")}` : ""}`;
