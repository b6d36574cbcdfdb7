// What a person does in a conversation: send, command, stop, answer. Everything goes through the runtime, as from a terminal.
import { signal } from "@preact/signals";
import { createRemoteJobs } from "../../../client/jobs.ts";
import type { CommandContext, CommandResult } from "../../../conversation/commands/command.ts";
import { commandIn, findCommand, helpLine, runCommand, WEB_COMMANDS } from "../../../conversation/commands/commands.ts";
import { costOf, type Prices } from "../../../conversation/cost.ts";
import { exportFile } from "../../../conversation/export.ts";
import { takenText } from "../../../conversation/modes.ts";
import type { ModelNames } from "../../../core/model-names.ts";
import { entriesOf } from "../../../core/pages.ts";
import type { Answer } from "../../../core/runtime.ts";
import { type Effort, type Image, MODES, type Mode } from "../../../core/session.ts";
import { apiSession, shortName } from "../../../core/session-key.ts";
import type { ConversationView } from "./conversation.ts";
import { WEB } from "./format.ts";
import { go } from "./route.ts";
import { get, newId, runtime, wire, wordsOf } from "./server.ts";

const MODE = "hermes.mode";
/** What a message does while a turn runs, in this browser. */
export const busyMode = signal<Mode>(MODES.find((mode) => mode === localStorage.getItem(MODE)) ?? "interrupt");
/** The last answer to a command, or why something was not done. */
export const said = signal<{ session: string; text: string; isError: boolean } | null>(null);

export const newSession = (): string => apiSession(WEB + newId());

export function setMode(mode: Mode): void {
  busyMode.value = mode;
  localStorage.setItem(MODE, mode);
}

// ── Drafts ────────────────────────────────────────────────────────────────────────────────────────────

/** `key`: sent again after a failure, it is the same message. */
export type Draft = { text: string; key: string };

/** What this browser keeps; null: nothing that can be read. */
function kept<T>(name: string): Partial<T> | null {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

function keep(name: string, value: unknown, isEmpty: boolean): void {
  if (isEmpty) localStorage.removeItem(name);
  else localStorage.setItem(name, JSON.stringify(value));
}

export function draftOf(session: string): Draft {
  const { text = "", key = newId() } = kept<Draft>(`hermes.draft.${session}`) ?? {};
  return { text, key };
}

export const keepDraft = (session: string, draft: Draft) => keep(`hermes.draft.${session}`, draft, !draft.text);

/** Messages that were sent and of which nobody knows whether they have arrived; kept through a reload. */
function unsure(session: string): Draft[] {
  const all: unknown = kept(`hermes.sending.${session}`);
  return Array.isArray(all) ? all : [];
}

const keepUnsure = (session: string, all: readonly Draft[]) => keep(`hermes.sending.${session}`, all, !all.length);

/** What a page that was left has not heard of is written again; under its key it is the same message. */
export function takeUpUnsure(session: string): void {
  const [first, ...others] = unsure(session);
  if (!first) return;
  keepUnsure(session, others);
  const { text } = draftOf(session);
  if (!text) keepDraft(session, first);
}

// ── Acts ──────────────────────────────────────────────────────────────────────────────────────────────

/** What became of a message is seen by itself soon after. */
const TAKEN_MS = 4_000;

const tell = (session: string, text: string, isError = false) => {
  said.value = text ? { session, text, isError } : null;
};

let last: Promise<unknown> = Promise.resolve();

/** One after the other, however fast they are typed. What was not taken is put back. */
export function submit(conversation: ConversationView, draft: Draft, images: Image[], mode: Mode): void {
  const { session } = conversation;
  keepUnsure(session, [...unsure(session), draft]);
  last = last.then(async () => {
    const taken = await enter(conversation, draft, images, mode);
    keepUnsure(
      session,
      unsure(session).filter(({ key }) => key !== draft.key),
    );
    if (taken) return;
    putBack(session, draft);
  });
}

/** True: it was taken. */
async function enter(conversation: ConversationView, draft: Draft, images: Image[], mode: Mode): Promise<boolean> {
  const { session } = conversation;
  tell(session, "");
  try {
    const command = images.length ? null : commandIn(draft.text.trim());
    if (command) await obey(conversation, draft.text.trim());
    else await send(conversation, draft, { images, mode });
    return true;
  } catch (error) {
    tell(session, wordsOf(error), true);
    return false;
  }
}

type SentHow = Omit<NonNullable<CommandResult["send"]>, "text">;

async function send(to: Pick<ConversationView, "session" | "model">, draft: Draft, how: SentHow): Promise<void> {
  const { session, model } = to;
  const { images = [], ...more } = how;
  const { effort, isYolo } = chosen.get(session) ?? {};
  const receipt = await runtime.accept({
    session,
    source: "web",
    ...draft,
    reply: "pull",
    attended: true,
    by: "web",
    ...(model.value && { model: model.value }),
    ...(effort && { options: { effort } }),
    ...(isYolo && { unattended: "allow" }),
    ...(images.length && { images }),
    ...more,
  });
  tell(session, takenText(receipt));
  const taken = said.value;
  setTimeout(() => said.value === taken && tell(session, ""), TAKEN_MS);
}

/** A slash command, typed or from a button. */
async function obey(conversation: ConversationView, line: string): Promise<void> {
  const typed = commandIn(line);
  const command = typed && findCommand(WEB_COMMANDS, typed.name);
  if (!typed || !command) throw new Error(`Unknown command ${line.split(/\s/, 1)[0]}. See /help.`);
  const prices = command.name === "usage" ? await get<Prices>("/api/prices") : {};
  await show(conversation, await runCommand(command, contextOf(conversation, prices), typed.rest));
}

/** The same, where nobody waits for it to be done. */
export const order = (conversation: ConversationView, line: string): void =>
  void obey(conversation, line).catch((error: unknown) => tell(conversation.session, wordsOf(error), true));

async function show(conversation: ConversationView, result: CommandResult): Promise<void> {
  const { refused, open, draft, text, title, send: message } = result;
  if (refused !== undefined) throw new Error(refused);
  const session = open?.session ?? conversation.session;
  const { facts } = conversation;
  if (title !== undefined && facts.value) facts.value = { ...facts.value, title };
  if (draft !== undefined) keepDraft(session, { text: draft, key: newId() });
  if (message) {
    const { text: words, ...how } = message;
    await send({ session, model: conversation.model }, { text: words, key: newId() }, how);
  }
  if (session !== conversation.session) go("conversations", session);
  else if (draft !== undefined) draftChanged.value += 1;
  tell(session, [open?.heading, text].filter(Boolean).join("\n\n"));
}

/** Rises when a draft was put back from outside of the composer. */
export const draftChanged = signal(0);

/** Before what is written there by now. */
export function putBack(session: string, draft: Draft): void {
  const { text } = draftOf(session);
  keepDraft(session, text ? { text: `${draft.text}\n\n${text}`, key: newId() } : draft);
  draftChanged.value += 1;
}

export async function stop({ session, facts }: ConversationView, scope: "turn" | "tree"): Promise<void> {
  const turn = facts.value?.turn?.id ?? "";
  try {
    await runtime.stop({ session, turn, scope });
  } catch (error) {
    tell(session, wordsOf(error), true);
  }
}

const ANSWERED = "Your answer came too late: somebody else has answered, or the time was over.";

/** What became of an answer, for the person who gave it; empty: it counts. */
export async function answer(session: string, call: string, given: Answer): Promise<string> {
  try {
    if (await runtime.answer({ session, call, ...given, by: "web" })) return "";
    tell(session, ANSWERED, true); // the question itself may be gone from the page by now
    return ANSWERED;
  } catch (error) {
    return wordsOf(error);
  }
}

/** Read once for the page: the server asks its provider. */
let names: Promise<ModelNames> | null = null;

export async function models(): Promise<ModelNames> {
  names ??= get<ModelNames>("/api/models");
  names.catch(() => {
    names = null;
  });
  return names;
}

/** To a file of the person's browser. */
export async function exportTo(session: string, title: string, json: boolean): Promise<void> {
  const entries = await entriesOf(runtime, session);
  const { text, usualFile } = exportFile({ key: session, title }, entries, json, new Date());
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: json ? "application/json" : "text/markdown" }));
  link.download = usualFile;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** What was chosen on this page, by conversation. */
const chosen = new Map<string, { isYolo?: boolean; effort?: Effort | undefined }>();

function contextOf({ session, facts, model }: ConversationView, prices: Prices): CommandContext {
  return {
    surface: "web",
    runtime,
    session,
    by: "web",
    isAdmin: true,
    name: shortName(session),
    help: () => WEB_COMMANDS.map(helpLine).join("\n"),
    now: () => Date.now(),
    mode: () => busyMode.value,
    setMode,
    model: () => model.value ?? facts.value?.model ?? "",
    setModel: (name) => {
      model.value = name;
    },
    models,
    effort: () => chosen.get(session)?.effort,
    setEffort: (effort) => void chosen.set(session, { ...chosen.get(session), effort }),
    yolo: () => chosen.get(session)?.isYolo ?? false,
    setYolo: (isYolo) => void chosen.set(session, { ...chosen.get(session), isYolo }),
    jobs: () => createRemoteJobs(wire),
    skills: async () => {
      const { data } = await get<{ data: { name: string; description: string }[] }>("/v1/skills");
      return (
        data.map(({ name, description }) => `- **${name}** ${description}`).join("\n") || "There are no skills yet."
      );
    },
    costOf: (name, usage) => costOf(prices, name, usage),
    findSession: async (words) => (await runtime.sessions({ titled: words, limit: 1 }))[0]?.session ?? null,
    newSession,
    stop: async (scope) => {
      const turn = facts.value?.turn?.id;
      if (!turn && scope === "turn") return "nothing";
      await runtime.stop({ session, turn: turn ?? "", scope });
      return "shown";
    },
    asked: () => {
      const { turn, asking = [] } = facts.value ?? {};
      const [question] = asking;
      return turn && question ? { turn: turn.id, question } : null;
    },
  };
}
