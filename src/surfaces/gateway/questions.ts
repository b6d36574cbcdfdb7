// Approvals and questions of a turn, as messages with buttons. A button works once, for the person whose turn asks (or an
// admin; where it is configured so, approvals are for admins only), and also after a restart: what it stands for is noted before it is shown. So does an answer in words: it is for
// the question that waited when it came, also if the platform brings it again when another one does.
import { answerIn as answerOf, choiceAnswer, choiceText } from "../../conversation/choice.ts";
import { DECIDED, keptText } from "../../conversation/commands/answers.ts";
import type { AskedQuestion, OpenQuestion } from "../../conversation/commands/command.ts";
import { createBounded } from "../../core/bounded.ts";
import type { Button, ButtonPress, Chat, Person, Place } from "../../core/chat.ts";
import type { Answer } from "../../core/runtime.ts";
import type { Notes } from "../../core/store.ts";
import { backoff } from "../../core/wait.ts";
import { type Access, asRecord, personOf } from "./access.ts";
import type { GatewayOptions } from "./gateway.ts";
import type { Tell } from "./notices.ts";
import { faultOf } from "./outbox.ts";
import { splitMarkdown } from "./split.ts";

/** Where something is asked: by a turn of that session, and the chat that shows it. */
type AskingPlace = { chat: Chat; place: Place; session: string };
type AskingTurn = AskingPlace & { turn: string };
export type Questions = ReturnType<typeof createQuestions>;
/** Which question is answered, and how. */
export type QuestionDecision = Answer & { session: string; call: string };
/** A message that shows a question: in the chat that asks, or in an admin's. */
type Copy = { name: string; place: Place; head: string; choices: readonly string[] };

const LABELS: Record<string, string> = {
  once: "✅ Yes, once",
  session: "✅ Yes, this conversation",
  always: "✅ Always, this folder",
  deny: "❌ No",
};
const NOT_YOURS = "Only the person who is asked can answer.";
const ADMINS_WORD = "Only an admin can say always, because it changes the rules for everybody. Say once or session.";
const NO_ADMIN = "Not run: approvals go to admins here, and none of them has a private chat with me. Tell the user.";
/** Buttons in a row. */
const ROW = 2;
const LONGEST_LABEL = 40;
/** What nobody can be expected to read is not asked. */
const MOST_PARTS = 10;
/** What is left free for how it was decided. */
const OUTCOME = 200;
const WAIT_MS = { first: 1_000, most: 30_000 };
const MOST_SETTLED = 10_000;

type Options = Pick<GatewayOptions, "runtime" | "clock" | "log" | "newKey" | "approvers" | "local"> & {
  notes: Notes;
  access: Access;
  tell: Tell;
};

export function createQuestions(options: Options) {
  const { runtime, notes, access, tell, clock, log, newKey, approvers, local } = options;
  const nameOf = (session: string, call: string) => `asked/${session}/${call}`;
  /** Sessions in which nothing of a process before us is left; where there are other nodes, that can change. */
  const settled = createBounded<true>(MOST_SETTLED);
  const showing = new Map<string, { over: AbortController; shown: Promise<unknown> }>();

  /** Begins to show it, unless it is shown already. */
  function ask(asking: AskingTurn, question: AskedQuestion): void {
    const { session } = asking;
    const name = nameOf(session, question.call);
    if (showing.has(name)) return;
    settled.delete(session);
    const over = new AbortController();
    const attempt = () => show(asking, question, over.signal);
    const shown = insist(attempt, question, over.signal).finally(() => showing.delete(name));
    showing.set(name, { over, shown });
  }

  async function show(asking: AskingTurn, question: AskedQuestion, signal: AbortSignal): Promise<void> {
    const { chat, session, turn } = asking;
    const { call, kind, text, choices } = question;
    const no = (why: string) => runtime.answer({ session, call, allow: false, text: why, by: "gateway" });
    if (partsOf(question, "", chat.longest).length > MOST_PARTS) {
      await no(
        `Not run: ${text.length} characters are too long to be shown to a person in this chat. Make it shorter.`,
      );
      return;
    }
    const by = await askedOf(turn);
    const copies = await copiesOf(asking, question, by);
    if (!copies.some((copy) => copy.choices.length || kind === "question")) return void (await no(NO_ADMIN));
    const before = asRecord(await notes.get(nameOf(session, call)));
    const token = typeof before?.["token"] === "string" ? before["token"] : newKey().replaceAll("-", "").slice(0, 12);
    await notes.set(`ask/${token}`, { session, call, kind, by, choices });
    // Each by itself: one that is tried again sends no other a second time.
    await Promise.all(
      copies.map((copy) => insist(() => showCopy(chat, copy, token, question, signal), question, signal)),
    );
  }

  /** The messages that show the question, each with its choices. */
  async function copiesOf({ chat, place, session }: AskingPlace, question: AskedQuestion, by: string): Promise<Copy[]> {
    const { platform } = chat;
    const { call, kind, choices } = question;
    const name = nameOf(session, call);
    const admin = access.isAdmin(platform, { id: by.slice(platform.length + 1) });
    const own = { name, place, head: "May I?", choices };
    if (kind === "question" || admin) return [own];
    if (approvers === "asker") return [{ ...own, choices: choices.filter((choice) => choice !== "always") }];
    const admins = await access.adminPlaces(platform);
    return [
      { ...own, head: "An admin is asked:", choices: [] },
      ...admins.map((dm) => ({ name: `${name}@${dm.chat}`, place: dm, head: `May I, for ${by}?`, choices })),
    ];
  }

  async function showCopy(chat: Chat, copy: Copy, token: string, question: AskedQuestion, signal: AbortSignal) {
    const { name, place, choices, head } = copy;
    if (typeof asRecord(await notes.get(name))?.["message"] === "string") return;
    await notes.set(name, { token, place });
    const parts = partsOf({ ...question, choices: [...choices] }, head, chat.longest);
    for (const [part, words] of parts.entries()) {
      const last = part === parts.length - 1;
      const buttons = rowsOf(token, question.choices, choices);
      const said = { text: words, ...(last && buttons.length && { buttons }) };
      const key = `ask.${token}.${part}${name.includes("@") ? `.${place.chat}` : ""}`;
      const message = await insist(() => chat.send(place, said, key, signal), question, signal);
      if (message === null) return;
      if (last) await insist(() => notes.set(name, { token, place, message, text: words }), question, signal);
    }
  }

  /** A question that nobody sees is a no after all its time: it is tried as long as it waits, whatever fails. Never rejects. */
  async function insist<T>(attempt: () => Promise<T>, { until }: AskedQuestion, signal: AbortSignal) {
    for (let tries = 0; !signal.aborted && clock.now() < until; tries++) {
      try {
        return await attempt();
      } catch (error) {
        const { landed, message, retryAfter } = faultOf(error);
        log("warn", "question.failed", { tries, landed, error: message });
        if (landed === "never") return null;
        await clock.sleep(retryAfter ?? backoff(tries, WAIT_MS), signal);
      }
    }
    return null;
  }

  /** The question is decided: its messages say so and lose their buttons. */
  async function settle({ chat, place, session }: AskingPlace, call: string, outcome: string): Promise<void> {
    const name = nameOf(session, call);
    showing.get(name)?.over.abort("decided");
    await showing.get(name)?.shown;
    for (const { key, value } of await notes.list(name)) {
      if (key !== name && !key.startsWith(`${name}@`)) continue;
      const { token, message, text } = asRecord(value) ?? {};
      await notes.set(`ask/${String(token)}`, undefined);
      if (typeof message === "string") {
        const words = `${typeof text === "string" ? text : ""}\n\n${outcome.slice(0, OUTCOME - 2)}`.trim();
        const [, admin] = key.slice(name.length).split("@");
        void tell.edit(chat, admin === undefined ? place : { kind: "dm", chat: admin }, message, { text: words });
      }
      await notes.set(key, undefined);
    }
  }

  /** What a process before us had shown and could not bring to its end. `once`: only if it was not done since we run. */
  async function settleOld(where: AskingPlace, asking: readonly AskedQuestion[], once: boolean): Promise<void> {
    const { session } = where;
    if (once && settled.get(session)) return;
    for (const { key } of await notes.list(nameOf(session, ""))) {
      const [call = ""] = key.slice(nameOf(session, "").length).split("@");
      if (!asking.some((question) => question.call === call)) await settle(where, call, "It is over.");
    }
    if (!local) settled.set(session, true);
  }

  /** Returns what whoever pressed it is shown. */
  async function pressed(platform: string, { data, from, place }: ButtonPress): Promise<string> {
    const [kind, token = "", index = ""] = data.split(":");
    if (kind !== "q") return "I do not know this button.";
    const asked = asRecord(await notes.get(`ask/${token}`));
    if (!asked) return DECIDED;
    const { session, call, by, choices } = asked;
    const isApproval = asked["kind"] === "approval";
    if (!(await access.mayTalk(platform, place, from)) || !mayAnswer(platform, from, by, isApproval)) return NOT_YOURS;
    const choice: unknown = Array.isArray(choices) && /^\d$/.test(index) ? choices[Number(index)] : undefined;
    if (typeof session !== "string" || typeof call !== "string" || typeof choice !== "string")
      return "This is not a choice.";
    const given = choiceAnswer(isApproval ? "approval" : "question", choice);
    if (isAdminsWord(platform, from, given)) return ADMINS_WORD;
    if (!(await decide(platform, from, { session, call, ...given }))) return DECIDED;
    return [LABELS[choice] ?? choice, await keptText(runtime, session, { call }, given)].filter(Boolean).join("\n");
  }

  /** A message that is a clear answer to what waits; in words, why it cannot be. Null: it is a message like any other. */
  async function answerIn(platform: string, from: Person, session: string, text: string) {
    const { asking, turn } = await runtime.status(session);
    const [question] = asking;
    const given = question && answerOf(question, text.trim());
    if (!question || !turn || !given) return null;
    const isApproval = question.kind === "approval";
    const by = await askedOf(turn.id);
    if (!mayAnswer(platform, from, by, isApproval)) return by === personOf(platform, from) ? NOT_YOURS : null;
    return isAdminsWord(platform, from, given) ? ADMINS_WORD : { session, call: question.call, ...given };
  }

  /** Why this person cannot give that answer by a command; null: they can. */
  async function refusal(platform: string, from: Person, { turn, question }: OpenQuestion, given: Answer | null) {
    if (!mayAnswer(platform, from, await askedOf(turn), question.kind === "approval")) return NOT_YOURS;
    return given && isAdminsWord(platform, from, given) ? ADMINS_WORD : null;
  }

  const decide = (platform: string, from: Person, decision: QuestionDecision): Promise<boolean> =>
    runtime.answer({ ...decision, by: personOf(platform, from) });

  const mayAnswer = (platform: string, from: Person, by: unknown, isApproval: boolean) =>
    access.isAdmin(platform, from) || (personOf(platform, from) === by && !(isApproval && approvers === "admins"));

  /** A rule is for everybody. */
  const isAdminsWord = (platform: string, from: Person, { scope }: Answer) =>
    scope === "always" && !access.isAdmin(platform, from);

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
    refusal,
    decide,
    close() {
      for (const { over } of showing.values()) over.abort("closed");
    },
  };
}

/** A button stands for its place among all choices, also where not all of them are shown. */
function rowsOf(token: string, all: readonly string[], shown: readonly string[]): Button[][] {
  const buttons = shown.map((choice) => ({
    label: (LABELS[choice] ?? choice).slice(0, LONGEST_LABEL),
    data: `q:${token}:${all.indexOf(choice)}`,
  }));
  return Array.from({ length: Math.ceil(buttons.length / ROW) }, (_, row) => buttons.slice(row * ROW, row * ROW + ROW));
}

/** All of it: what is approved is what was seen. As code, so that no sign of a command is taken for formatting. */
function partsOf(question: AskedQuestion, head: string, longest: number): string[] {
  const { kind, choices, saves } = question;
  const rules = saves && choices.includes("always") ? `\n\n${choiceText(question, "always")}` : "";
  const text = question.text + rules;
  const how = kind === "question" && !choices.length ? "\n\nAnswer with /answer and your words." : "";
  if (kind === "question") return splitMarkdown(`❓ ${text}${how}`, longest - OUTCOME);
  const ticks = Math.max(3, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length + 1));
  const fence = "`".repeat(ticks);
  return splitMarkdown(`❓ ${head}\n${fence}\n${text}\n${fence}`, longest - OUTCOME);
}
