// Approvals and questions of a turn, as messages with buttons. A button works once, for the person whose turn asks (or an
// admin), and also after a restart: what it stands for is noted before it is shown.
import type { Button, Chat, Place, Pressed } from "../../core/chat.ts";
import type { Clock, Log, Notes } from "../../core/ports.ts";
import type { Runtime, Status } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";
import { type Access, asRecord } from "./access.ts";
import { tell } from "./outbox.ts";
import { personOf } from "./route.ts";

export type Question = Status["asking"][number];
export type Questions = ReturnType<typeof createQuestions>;

const LABELS: Record<string, string> = {
  once: "✅ Once",
  session: "✅ This session",
  always: "✅ Always",
  deny: "❌ Deny",
};
const YES = /^(approve|yes|ok|y|👍|once)$/i;
const NO = /^(deny|no|n|👎)$/i;
/** Buttons in a row. */
const ROW = 2;
const LONGEST_LABEL = 40;

export function createQuestions(options: {
  runtime: Runtime;
  notes: Notes;
  access: Access;
  clock: Clock;
  log: Log;
  newKey(): string;
}) {
  const { runtime, notes, access, clock, log, newKey } = options;
  const askedName = (session: string, call: string) => `asked/${session}/${call}`;

  /** Shows it, unless it is shown already. */
  async function ask(chat: Chat, place: Place, session: string, turn: string, question: Question): Promise<void> {
    const { call, kind, text, choices } = question;
    if (await notes.get(askedName(session, call))) return;
    const token = newKey().replaceAll("-", "").slice(0, 12);
    const [first] = await runtime.turn(turn);
    const by = first?.kind === "accepted" ? (first.input.by ?? "") : "";
    const offered = choices.length ? choices : kind === "approval" ? ["once", "deny"] : [];
    await notes.set(`ask/${token}`, { session, call, by, kind, choices: offered });
    const message = await tell(
      chat,
      place,
      { text: shown(kind, text, offered.length > 0, chat.longest), buttons: rowsOf(token, offered) },
      { key: `ask.${token}`, clock, log },
    );
    await notes.set(askedName(session, call), { token, message });
  }

  /** It is decided: its message says so and has no buttons any more. */
  async function settle(
    chat: Chat,
    place: Place,
    session: string,
    entry: Extract<Entry, { kind: "decided" | "acted" }>,
  ) {
    const name = askedName(session, entry.call);
    const asked = asRecord(await notes.get(name));
    if (!asked) return;
    await notes.set(name, undefined);
    await notes.set(`ask/${String(asked["token"])}`, undefined);
    const { message } = asked;
    if (typeof message !== "string") return;
    const outcome = entry.kind === "acted" ? "It is over." : entry.allow ? `✅ ${entry.text}` : `❌ ${entry.text}`;
    await chat
      .edit(place, message, { text: outcome.slice(0, chat.longest) }, new AbortController().signal)
      .catch(() => {});
  }

  /** Returns what whoever pressed it is shown. */
  async function pressed(platform: string, { data, from }: Pressed): Promise<string> {
    const [kind, token = "", index = ""] = data.split(":");
    if (kind !== "q") return "I do not know this button.";
    const asked = asRecord(await notes.get(`ask/${token}`));
    if (!asked) return "This was decided already.";
    const { session, call, by, choices } = asked;
    if (personOf(platform, from) !== by && !access.isAdmin(platform, from))
      return "Only the person who is asked can answer.";
    const choice: unknown = Array.isArray(choices) ? choices[Number(index)] : undefined;
    if (typeof session !== "string" || typeof call !== "string" || typeof choice !== "string")
      return "This is not a choice.";
    const allow = asked["kind"] === "question" || choice !== "deny";
    const text = choice === "deny" ? "The user said no." : choice;
    const first = await runtime.answer({ session, call, allow, text, by: personOf(platform, from) });
    return first ? (LABELS[choice] ?? choice) : "This was decided already.";
  }

  /** A message that is a clear answer to what waits. Null: it is not; it is a message like any other. */
  async function answered(
    platform: string,
    from: Pressed["from"],
    session: string,
    text: string,
  ): Promise<string | null> {
    const { asking, turn } = await runtime.status(session);
    const [question] = asking;
    if (!question || !turn) return null;
    const said = text.trim();
    const choice = choiceOf(question, said);
    if (choice === null) return null;
    const [first] = await runtime.turn(turn.id);
    const by = first?.kind === "accepted" ? first.input.by : "";
    if (personOf(platform, from) !== by && !access.isAdmin(platform, from)) return null;
    return decide(platform, from, session, question, choice);
  }

  async function decide(
    platform: string,
    from: Pressed["from"],
    session: string,
    { call, kind }: Question,
    choice: string,
  ) {
    const allow = kind === "question" || choice !== "deny";
    const text = choice === "deny" && kind === "approval" ? "The user said no." : choice;
    const first = await runtime.answer({ session, call, allow, text, by: personOf(platform, from) });
    return first ? (allow ? "👍" : "👎 Not run.") : "This was decided already.";
  }

  return { ask, settle, pressed, answered, decide };
}

function choiceOf({ kind, choices }: Question, said: string): string | null {
  const exact = choices.find((choice) => choice.toLowerCase() === said.toLowerCase());
  if (exact) return exact;
  if (kind === "question") return null;
  if (YES.test(said)) return "once";
  return NO.test(said) ? "deny" : null;
}

function rowsOf(token: string, choices: readonly string[]): Button[][] {
  const buttons = choices.map((choice, i) => ({
    label: (LABELS[choice] ?? choice).slice(0, LONGEST_LABEL),
    data: `q:${token}:${i}`,
  }));
  return Array.from({ length: Math.ceil(buttons.length / ROW) }, (_, row) => buttons.slice(row * ROW, row * ROW + ROW));
}

function shown(kind: Question["kind"], text: string, hasButtons: boolean, longest: number): string {
  const how = kind === "question" && !hasButtons ? "\n\nAnswer with /answer and your words." : "";
  const head = kind === "approval" ? "❓ May I?\n" : "❓ ";
  const room = longest - head.length - how.length - 1;
  return `${head}${text.length > room ? `${text.slice(0, room - 1)}…` : text}${how}`;
}
