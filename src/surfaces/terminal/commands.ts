// The slash commands of a terminal. Each is a few lines over the runtime.

import { choiceAnswer } from "../../conversation/choice.ts";
import { rewind, undo } from "../../conversation/rewind.ts";
import { grantsCommand } from "../../core/grant.ts";
import { entriesOf } from "../../core/pages.ts";
import type { AcceptRequest, Answer, Runtime } from "../../core/runtime.ts";
import type { Mode } from "../../core/session.ts";
import { exportJson, exportMarkdown } from "./export.ts";
import type { Facts, Question } from "./facts.ts";
import { findSession } from "./find.ts";
import { isTerminal, shortName, TERMINAL } from "./names.ts";
import type { TalkOptions } from "./talk.ts";
import type { View } from "./view.ts";

/** What commands work with. */
export type Desk = Omit<TalkOptions, "mode" | "model"> & {
  facts(): Facts;
  change(changes: Partial<Pick<Facts, "mode" | "title">>): void;
  /** Undefined: the configured one. */
  chooseModel(name: string | undefined): void;
  open(session: string, heading?: string): Promise<void>;
  send(text: string, more?: Partial<AcceptRequest>): Promise<void>;
  stop(scope?: "turn" | "tree"): Promise<boolean>;
  answer(question: Question, given: Answer): Promise<boolean>;
};
export type Command = {
  name: string;
  alias?: string;
  argument?: string;
  description: string;
  /** It changes what a running turn stands on. */
  idle?: true;
  /** What its argument can be. */
  complete?: readonly string[];
  run(desk: Desk, rest: string): Promise<void>;
};

const MODES: readonly Mode[] = ["interrupt", "queue", "steer"];

export const commandIn = (text: string): { name: string; rest: string } | null => {
  const [, name = "", rest = ""] = /^\/([a-z][a-z0-9_-]*)(?:\s+([\s\S]*))?$/i.exec(text) ?? [];
  return name ? { name: name.toLowerCase(), rest: rest.trim() } : null;
};

export const COMMANDS: readonly Command[] = [
  {
    name: "help",
    description: "what there is",
    run: async ({ view }) => view.say(HELP()),
  },
  {
    name: "status",
    description: "what is going on, and what waits",
    run: async ({ view, runtime, facts }) => view.say(await describe(runtime, facts())),
  },
  {
    name: "stop",
    argument: "[all]",
    description: "stop the turn (also Esc or Ctrl+C); all: also children and background processes",
    complete: ["all"],
    async run({ view, stop }, rest) {
      if (!(await stop(rest === "all" ? "tree" : "turn"))) view.say("Nothing is running.");
    },
  },
  {
    name: "approve",
    argument: "[once | session | always]",
    description: "yes to what is asked",
    complete: ["once", "session", "always"],
    async run(desk, rest) {
      const [question] = desk.facts().asking;
      const choice = rest.toLowerCase() || "once";
      const offered = question?.kind === "approval" ? question.choices.filter((one) => one !== "deny") : [];
      if (question && !offered.includes(choice)) throw new Error(`Say one of: ${question.choices.join(", ")}.`);
      await decide(desk, choiceAnswer("approval", choice));
    },
  },
  {
    name: "deny",
    argument: "[reason]",
    description: "no to what is asked",
    run: (desk, rest) => decide(desk, { allow: false, text: rest || "The user said no." }),
  },
  {
    name: "grants",
    argument: "[revoke <number> | all]",
    description: "what you have allowed for the rest of this conversation; revoke takes it back",
    complete: ["revoke all"],
    run: async ({ view, runtime, facts }, rest) =>
      view.say(await grantsCommand(runtime, facts().session, rest, "terminal")),
  },
  {
    name: "busy",
    argument: "interrupt | queue | steer",
    description: "what a message does while I work",
    complete: MODES,
    async run({ view, facts, change }, rest) {
      const mode = MODES.find((one) => one === rest.toLowerCase());
      if (mode) change({ mode });
      view.say(
        mode
          ? `From now on messages ${mode} while I work.`
          : `Messages ${facts().mode} while I work. Choose: /busy interrupt | queue | steer`,
      );
    },
  },
  {
    name: "withdraw",
    argument: "N",
    description: "take back the N-th waiting message (the last one: Alt+Up)",
    async run({ view, runtime, facts }, rest) {
      const input = facts().waiting[Number(rest) - 1];
      const done = input && (await runtime.withdraw(facts().session, input.id));
      if (!done) throw new Error("There is no such waiting message; /status lists them.");
      view.draft(input.text);
    },
  },
  {
    name: "new",
    description: "start a new conversation",
    async run({ facts, switched, newSession, open }) {
      switched(facts().session);
      await open(newSession(), "A new conversation.");
    },
  },
  {
    name: "resume",
    argument: "[name or title]",
    description: "go on with another conversation",
    async run(desk, rest) {
      const { runtime, view, facts, switched, open } = desk;
      const chosen = rest ? await findSession(runtime, rest) : await pickSession(runtime, view, desk.now());
      if (!chosen || chosen === facts().session) return;
      switched(facts().session);
      await open(chosen);
    },
  },
  {
    name: "title",
    argument: "WORDS",
    description: "call this conversation so",
    async run({ view, runtime, facts, change }, rest) {
      if (!rest) return view.say(facts().title || "It has no title yet.");
      if (!(await runtime.retitle(facts().session, rest))) throw new Error("There is nothing in it yet.");
      change({ title: rest });
    },
  },
  {
    name: "retry",
    description: "take your last message back and send it again",
    idle: true,
    async run({ view, runtime, facts, newSession, open, send }) {
      const back = await rewind(runtime, facts().session, newSession);
      if (!back) return view.say("There is nothing to retry.");
      await open(back.session, "Once more, from before your last message.");
      const { text, images = [] } = back.undone;
      await send(text, { images });
    },
  },
  {
    name: "undo",
    argument: "[files]",
    description: "go back to before your last message, with the files; files: take that back for the files",
    idle: true,
    complete: ["files"],
    async run({ view, runtime, facts, newSession, open }, rest) {
      const { session } = facts();
      if (rest === "files") return view.say(await runtime.restoreFiles({ session }));
      const back = await undo(runtime, session, newSession);
      if (!back) return view.say("There is nothing to undo.");
      await open(back.session, `Back to before your last message. All of it stays as ${shortName(session)}.`);
      view.draft(back.undone.text);
      if (back.files) view.say(back.files);
    },
  },
  {
    name: "branch",
    argument: "[title]",
    description: "go on in a copy; this conversation stays as it is",
    idle: true,
    async run({ view, runtime, facts, newSession, open }, rest) {
      const { session, title } = facts();
      const next = newSession();
      const forked = await runtime.fork({ from: session, session: next, title: rest || title });
      if (forked !== "forked") return view.say("There is nothing to branch from yet.");
      await open(next, `A branch of ${shortName(session)}, which stays as it is.`);
    },
  },
  {
    name: "compress",
    description: "summarise the conversation for the model",
    run: ({ send }) => send("/compress", { task: "compress", mode: "queue" }),
  },
  {
    name: "model",
    argument: "[name | default]",
    description: "who answers; another one for this conversation",
    async run({ view, facts, models, chooseModel }, rest) {
      if (rest) chooseModel(rest === "default" ? undefined : rest);
      const { model } = facts();
      if (rest) return view.say(`From now on ${model} answers here.`);
      const all = await models();
      const chosen = all.length > 1 ? await view.choose("Who answers in this conversation?", all.map(asChoice)) : null;
      if (chosen) chooseModel(chosen);
      view.say(`${facts().model} answers here. /model NAME chooses another, /model default goes back.`);
    },
  },
  {
    name: "usage",
    description: "tokens and cost of this conversation",
    run: async (desk) => desk.view.say(usageOf(desk)),
  },
  {
    name: "export",
    argument: "[md | json] [file]",
    description: "write this conversation to a file",
    complete: ["md", "json"],
    async run({ view, runtime, facts, save, now }, rest) {
      const { session, title } = facts();
      const [, format = "", file = ""] = /^(?:(md|json)(?:\s+|$))?(.*)$/s.exec(rest) ?? [];
      const at = new Date(now());
      const entries = await entriesOf(runtime, session);
      const json = format ? format === "json" : file.endsWith(".json");
      const text = json
        ? exportJson({ key: session, title }, entries, at)
        : exportMarkdown({ key: session, title }, entries);
      const usual = `hermes-${shortName(session).replaceAll(/[^\w-]+/g, "-")}.${json ? "json" : "md"}`;
      view.say(`Written to ${await save(file || usual, text)}`);
    },
  },
  {
    name: "skills",
    description: "what I can look up",
    run: async ({ view, skills }) => view.say(await skills()),
  },
  {
    name: "memory",
    description: "what memory had to say to your last message (notes: hermes memory list)",
    run: async ({ view, runtime, facts }) => view.say(await recalled(runtime, facts().session)),
  },
  {
    name: "quit",
    alias: "exit",
    description: "leave (also Ctrl+D); what runs is taken up again next time",
    run: async ({ leave }) => leave(),
  },
];

const KEYS = `- Enter sends; Shift+Enter, Ctrl+J or \\ and Enter begin a new line
- while I work, Enter does what /busy says, Alt+Enter the other thing; Alt+Up takes the last waiting message back
- Esc or Ctrl+C stops the turn, twice leaves; Ctrl+D leaves; Ctrl+Z suspends
- Ctrl+O shows what tools said, and thoughts; Up and Down bring back what you typed before
- \`@\` completes files; the path of a picture shows it to the model
- \`!command\` runs a command of yours, and the model is told with your next message; \`!!command\` keeps it to yourself`;

const HELP = () =>
  `${COMMANDS.map(({ name, argument = "", description }) => `- \`/${`${name} ${argument}`.trim()}\` ${description}`).join("\n")}\n${KEYS}`;

async function decide({ facts, answer, view }: Desk, given: Answer): Promise<void> {
  const [question] = facts().asking;
  if (!question || !(await answer(question, given))) view.say("Nothing is asked just now.");
}

async function describe(runtime: Runtime, { session, title }: Facts): Promise<string> {
  const { turn, inbox, parked, background, unsaved } = await runtime.status(session);
  const state = turn ? `Working (${turn.phase}, model call ${turn.thoughts + 1}).` : parked ? "Parked." : "Idle.";
  return [
    `${state} Conversation ${shortName(session)}${title && ` “${title}”`}. ${inbox.length} waiting.`,
    ...inbox.map(({ mode, text }, i) => `${i + 1}. [${mode}] ${text.slice(0, 80).replaceAll(/\s+/g, " ")}`),
    ...background.map(({ id, command }) => `- ${id} in the background: ${command.slice(0, 80)}`),
    ...(unsaved.length ? [`- Memory still to be written: ${unsaved.join(", ")}`] : []),
  ].join("\n");
}

export async function pickSession(
  runtime: Pick<Runtime, "sessions">,
  view: Pick<View, "choose" | "say">,
  now: number,
): Promise<string | null> {
  const [own, all] = await Promise.all([
    runtime.sessions({ limit: 200, top: true, prefix: TERMINAL }),
    runtime.sessions({ limit: 200, top: true }),
  ]);
  // Those of the terminal, however many others are newer.
  const rows = [...own, ...all.filter(({ session }) => !isTerminal(session))].sort((a, b) => b.updatedAt - a.updatedAt);
  if (!rows.length) {
    view.say("There are no conversations yet.");
    return null;
  }
  const choices = rows.map(({ session, title, updatedAt, active }) => ({
    value: session,
    label: title || "(no title)",
    description: `${active ? "● " : ""}${ago(now - updatedAt)} · ${shortName(session)}`,
  }));
  return view.choose("Which conversation?", choices);
}

const UNITS = [
  { ms: 86_400_000, name: "d" },
  { ms: 3_600_000, name: "h" },
  { ms: 60_000, name: "min" },
];
function ago(ms: number): string {
  const unit = UNITS.find((one) => ms >= one.ms);
  return unit ? `${Math.floor(ms / unit.ms)} ${unit.name} ago` : "just now";
}

function usageOf({ facts, costOf }: Desk): string {
  const { spent } = facts();
  if (!spent.length) return "Nothing was spent yet.";
  const lines = spent.map((one) => {
    const cost = costOf(one.model, one);
    const cached = one.cached ? ` (${grouped(one.cached)} of them cached)` : "";
    const dollars = cost === null ? "" : `, $${cost.toFixed(4)}`;
    return `- ${one.model}: ${one.calls} calls, ${grouped(one.input)} tokens in${cached}, ${grouped(one.output)} out${dollars}`;
  });
  const unknown = spent.some(({ model }) => costOf(model, { input: 1, output: 1 }) === null);
  return [
    ...lines,
    ...(unknown ? ["What a token costs is not known: see `prices` in docs/configuration.md."] : []),
  ].join("\n");
}

async function recalled(runtime: Runtime, session: string): Promise<string> {
  const { entries = 0 } = (await runtime.summary(session)) ?? {};
  const last = await entriesOf(runtime, session, Math.max(0, entries - 100));
  const thought = last.findLast((entry) => entry.kind === "thought");
  return thought?.recalled || "Nothing was recalled for your last message.";
}

const grouped = (count: number) => count.toLocaleString("en");
const asChoice = (name: string) => ({ value: name, label: name });
