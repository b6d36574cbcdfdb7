// Approvals and questions of a turn, as messages with buttons. A button works once, for the person whose turn asks (or an
// admin), and also after a restart: what it stands for is noted before it is shown. So does an answer in words: it is for
// the question that waited when it came, also if the platform brings it again when another one does.

import type { Button, Chat, Person, Place, Pressed } from "../../core/chat.ts";
import { choiceAnswer, choiceIn } from "../../core/choice.ts";
import type { Clock, Log, Notes } from "../../core/ports.ts";
import type { Runtime, Status } from "../../core/runtime.ts";
import { type Access, asRecord } from "./access.ts";
import { faultOf } from "./outbox.ts";
import { personOf } from "./route.ts";
import { splitMarkdown } from "./split.ts";
import type { Tell } from "./tell.ts";

export type Question = Status["asking"][number];
export type Questions = ReturnType<typeof createQuestions>;
/** Which question is answered, and how. */
export type Answer = { session: string; call: string; allow: boolean; text: string };

const LABELS: Record<string, string> = {
  once: "✅ Once",
  session: "✅ This session",
  always: "✅ Always",
  deny: "❌ Deny",
};
const NOT_YOURS = "Only the person who is asked can answer.";
const DECIDED = "This was decided already.";
/** Buttons in a row. */
const ROW = 2;
const LONGEST_LABEL = 40;
/** What nobody can be expected to read is not asked. */
const MOST_PARTS = 10;
/** What is left free for how it was decided. */
const OUTCOME = 200;
const LONGEST_WAIT_MS = 30_000;

export function createQuestions(options: {
  runtime: Runtime;
  notes: Notes;
  access: Access;
  tell: Tell;
  clock: Clock;
  log: Log;
  newKey(): string;
}) {
  const { runtime, notes, access, tell, clock, log, newKey } = options;
  const nameOf = (session: string, call: string) => `asked/${session}/${call}`;
  const showing = new Map<string, { over: AbortController; shown: Promise<void> }>();

  /** Begins to show it, unless it is shown already. */
  function ask(chat: Chat, place: Place, session: string, turn: string, question: Question): void {
    const name = nameOf(session, question.call);
    if (showing.has(name)) return;
    const over = new AbortController();
    const shown = show(chat, place, session, turn, question, over.signal)
      .catch((error: unknown) => log("warn", "question.unshown", { session, error: faultOf(error).message }))
      .finally(() => showing.delete(name));
    showing.set(name, { over, shown });
  }

  async function show(
    chat: Chat,
    place: Place,
    session: string,
    turn: string,
    question: Question,
    signal: AbortSignal,
  ): Promise<void> {
    const { call, kind, text, choices } = question;
    const name = nameOf(session, call);
    const before = asRecord(await notes.get(name));
    if (typeof before?.["message"] === "string") return;
    const parts = partsOf(question, chat.longest);
    if (parts.length > MOST_PARTS) {
      const no = `Not run: ${text.length} characters are too long to be shown to a person in this chat. Make it shorter.`;
      await runtime.answer({ session, call, allow: false, text: no, by: "gateway" });
      return;
    }
    const token = typeof before?.["token"] === "string" ? before["token"] : newKey().replaceAll("-", "").slice(0, 12);
    await notes.set(`ask/${token}`, { session, call, kind, by: await askedOf(turn), choices });
    await notes.set(name, { token });
    for (const [part, words] of parts.entries()) {
      const last = part === parts.length - 1;
      const said = { text: words, ...(last && { buttons: rowsOf(token, choices) }) };
      const message = await insist(() => chat.send(place, said, `ask.${token}.${part}`, signal), question, signal);
      if (message === null) return;
      if (last) await notes.set(name, { token, message, text: words });
    }
  }

  /** A question that nobody sees is a no after all its time: it is tried as long as it waits. */
  async function insist(send: () => Promise<string>, { until }: Question, signal: AbortSignal): Promise<string | null> {
    for (let tries = 0; !signal.aborted && clock.now() < until; tries++) {
      try {
        return await send();
      } catch (error) {
        const { landed, message, retryAfter } = faultOf(error);
        log("warn", "question.failed", { tries, landed, error: message });
        if (landed === "never") return null;
        await clock.sleep(retryAfter ?? Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** tries), signal);
      }
    }
    return null;
  }

  /** It is decided: its message says so and has no buttons any more. */
  async function settle(chat: Chat, place: Place, session: string, call: string, outcome: string): Promise<void> {
    const name = nameOf(session, call);
    showing.get(name)?.over.abort("decided");
    await showing.get(name)?.shown;
    const asked = asRecord(await notes.get(name));
    if (!asked) return;
    await notes.set(`ask/${String(asked["token"])}`, undefined);
    const { message, text } = asked;
    if (typeof message === "string") {
      const words = `${typeof text === "string" ? text : ""}\n\n${outcome.slice(0, OUTCOME - 2)}`.trim();
      void tell.edit(chat, place, message, { text: words });
    }
    await notes.set(name, undefined);
  }

  /** What a process before us had shown and could not bring to its end. */
  async function settleOld(chat: Chat, place: Place, session: string, asking: readonly Question[]): Promise<void> {
    for (const { key } of await notes.list(nameOf(session, ""))) {
      const call = key.slice(nameOf(session, "").length);
      if (!asking.some((question) => question.call === call)) await settle(chat, place, session, call, "It is over.");
    }
  }

  /** Returns what whoever pressed it is shown. */
  async function pressed(platform: string, { data, from, place }: Pressed): Promise<string> {
    const [kind, token = "", index = ""] = data.split(":");
    if (kind !== "q") return "I do not know this button.";
    const asked = asRecord(await notes.get(`ask/${token}`));
    if (!asked) return DECIDED;
    const { session, call, by, choices } = asked;
    if (!(await access.mayTalk(platform, place, from)) || !mayAnswer(platform, from, by)) return NOT_YOURS;
    const choice: unknown = Array.isArray(choices) && /^\d$/.test(index) ? choices[Number(index)] : undefined;
    if (typeof session !== "string" || typeof call !== "string" || typeof choice !== "string")
      return "This is not a choice.";
    const given = choiceAnswer(asked["kind"] === "approval" ? "approval" : "question", choice);
    return (await decide(platform, from, { session, call, ...given })) ? (LABELS[choice] ?? choice) : DECIDED;
  }

  /** A message that is a clear answer to what waits. Null: it is not; it is a message like any other. */
  async function answerIn(platform: string, from: Person, session: string, text: string): Promise<Answer | null> {
    const { asking, turn } = await runtime.status(session);
    const [question] = asking;
    const choice = question && choiceIn(question, text.trim());
    if (!question || !turn || !choice || !mayAnswer(platform, from, await askedOf(turn.id))) return null;
    return { session, call: question.call, ...choiceAnswer(question.kind, choice) };
  }

  /** The same by a command. In words: why it cannot be. `how` says what it comes to; null: not for this question. */
  async function answerBy(
    platform: string,
    from: Person,
    session: string,
    how: (question: Question) => Pick<Answer, "allow" | "text"> | null,
  ): Promise<string> {
    const { asking, turn } = await runtime.status(session);
    const [question] = asking;
    if (!question || !turn) return "Nothing is asked just now.";
    if (!mayAnswer(platform, from, await askedOf(turn.id))) return NOT_YOURS;
    const given = how(question);
    if (!given) return `That is no answer to this. ${howTo(question)}`;
    const answer = { session, call: question.call, ...given };
    return (await decide(platform, from, answer)) ? thanks(answer) : DECIDED;
  }

  const decide = (platform: string, from: Person, answer: Answer): Promise<boolean> =>
    runtime.answer({ ...answer, by: personOf(platform, from) });

  const mayAnswer = (platform: string, from: Person, by: unknown) =>
    personOf(platform, from) === by || access.isAdmin(platform, from);

  async function askedOf(turn: string): Promise<string> {
    const [first] = await runtime.turn(turn);
    return first?.kind === "accepted" ? (first.input.by ?? "") : "";
  }

  return {
    ask,
    settle,
    settleOld,
    pressed,
    answerIn,
    answerBy,
    decide,
    close() {
      for (const { over } of showing.values()) over.abort("closed");
    },
  };
}

export const thanks = ({ allow }: Answer): string => (allow ? "👍" : "👎 Not run.");

const howTo = ({ kind, choices }: Question) =>
  kind === "question" ? "Say /answer and your words." : `Say one of: ${choices.join(", ")}.`;

function rowsOf(token: string, choices: readonly string[]): Button[][] {
  const buttons = choices.map((choice, i) => ({
    label: (LABELS[choice] ?? choice).slice(0, LONGEST_LABEL),
    data: `q:${token}:${i}`,
  }));
  return Array.from({ length: Math.ceil(buttons.length / ROW) }, (_, row) => buttons.slice(row * ROW, row * ROW + ROW));
}

/** All of it: what is approved is what was seen. As code, so that no sign of a command is taken for formatting. */
function partsOf({ kind, text, choices }: Question, longest: number): string[] {
  const how = kind === "question" && !choices.length ? "\n\nAnswer with /answer and your words." : "";
  if (kind === "question") return splitMarkdown(`❓ ${text}${how}`, longest - OUTCOME);
  const ticks = Math.max(3, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length + 1));
  const fence = "`".repeat(ticks);
  return splitMarkdown(`❓ May I?\n${fence}\n${text}\n${fence}`, longest - OUTCOME);
}
