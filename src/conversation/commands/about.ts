// Commands about this conversation as a whole: its model, its cost, what the agent knows, and the way out.
import { checkModel } from "../../core/model-names.ts";
import type { Runtime } from "../../core/runtime.ts";
import { EFFORTS } from "../../core/session.ts";
import { spentIn } from "../spent.ts";
import type { Command, CommandContext, CommandResult } from "./command.ts";
import { CRON_VERBS, cron } from "./cron.ts";
import { history, lastEntries, windowText } from "./shown.ts";

const LONGEST_MODEL = 200;
/** Of an endpoint that has hundreds, a chat shows these. */
const MOST_NAMES = 30;
/** Entries that are looked through for the last model call. */
const LAST = 100;

export const aboutCommands: readonly Command[] = [
  {
    name: "help",
    on: "everywhere",
    description: "list commands and keys",
    run: ({ help }) => ({ text: help() }),
  },
  {
    name: "compress",
    on: "everywhere",
    description: "summarise the conversation for the model",
    idle: "chat",
    run: () => ({ send: { text: "/compress", mode: "queue", task: "compress" } }),
  },
  {
    name: "model",
    on: "everywhere",
    argument: "[name | default]",
    description: "show or choose the model of this conversation; default: the configured one",
    async run(context, rest) {
      const { model, setModel, models, choose } = context;
      if (rest) return setNamed(context, rest.slice(0, LONGEST_MODEL));
      const { names, unread } = await models();
      const choices = names.map((name) => ({ value: name, label: name }));
      const chosen = choose && names.length > 1 ? await choose("Choose a model for this conversation", choices) : null;
      if (chosen) await setModel(chosen);
      const now = await model();
      const others = choose ? [] : names.filter((name) => name !== now);
      const lines = [
        `This conversation uses ${now}. /model NAME chooses another model, /model default the configured one.`,
        ...others.slice(0, MOST_NAMES).map((name) => `- ${name}`),
        ...(others.length > MOST_NAMES
          ? [`… and ${others.length - MOST_NAMES} more: \`hermes models\` lists all.`]
          : []),
        ...(unread ? [`The endpoint's list of models is not available: ${unread}`] : []),
      ];
      return { text: lines.join("\n") };
    },
  },
  {
    name: "reasoning",
    on: "everywhere",
    argument: `[${EFFORTS.join(" | ")} | default | show | hide]`,
    description: "how much the model reasons; show, hide: its thoughts on a screen",
    complete: [...EFFORTS, "default", "show", "hide"],
    async run({ effort, setEffort, showReasoning }, rest) {
      const words = rest.toLowerCase();
      if (words === "show" || words === "hide") {
        if (!showReasoning) return { refused: "Thoughts are not shown here." };
        showReasoning(words === "show");
        return { text: words === "show" ? "Thoughts are shown from now on." : "Thoughts are hidden from now on." };
      }
      const wanted = EFFORTS.find((one) => one === words);
      if (words && !wanted && words !== "default") return { refused: `Say one of: ${EFFORTS.join(", ")}, default.` };
      if (words) await setEffort(wanted);
      const now = await effort();
      return { text: `Reasoning in this conversation: ${now ?? "default, as the model decides"}.` };
    },
  },
  {
    name: "usage",
    on: "everywhere",
    description: "show the tokens and the cost of this conversation",
    run: async (context) => ({ text: await usage(context) }),
  },
  {
    name: "context",
    on: "everywhere",
    description: "show what fills the model's window",
    run: async (context) => ({ text: await windowText(context) }),
  },
  {
    name: "history",
    on: "everywhere",
    argument: "[n]",
    description: "show the last messages in short",
    run: async (context, rest) => ({ text: await history(context, rest) }),
  },
  {
    name: "export",
    on: "terminal",
    argument: "[md | json] [file]",
    description: "write this conversation to a file",
    complete: ["md", "json"],
    async run({ exportTo }, rest) {
      const [, format = "", file = ""] = /^(?:(md|json)(?:\s+|$))?(.*)$/s.exec(rest) ?? [];
      return { text: `Written to ${await exportTo(file, format === "md" || format === "json" ? format : "")}` };
    },
  },
  {
    name: "copy",
    on: "terminal",
    description: "copy the last answer to the clipboard",
    async run({ runtime, session, copy }) {
      const last = (await lastEntries(runtime, session, LAST)).findLast(
        (entry) => entry.kind === "thought" && entry.text,
      );
      return last?.kind === "thought" ? { text: await copy(last.text) } : { refused: "There is no answer yet." };
    },
  },
  {
    name: "skills",
    on: "everywhere",
    description: "list skills",
    run: async ({ skills }) => ({ text: await skills() }),
  },
  {
    name: "memory",
    on: "everywhere",
    description: "show notes recalled for your last message",
    run: async ({ runtime, session }) => ({ text: await recalled(runtime, session) }),
  },
  {
    name: "cron",
    on: "everywhere",
    argument: `[${CRON_VERBS.join(" | ")} ID]`,
    description: "list scheduled jobs; pause, resume or remove one",
    complete: CRON_VERBS,
    admin: true,
    run: cron,
  },
  {
    name: "whoami",
    on: "everywhere",
    description: "show who you are to me",
    run: ({ by, isAdmin, session }) => ({
      text: `You are ${by}${isAdmin ? ", an admin" : ""}. This conversation is \`${session}\`.`,
    }),
  },
  {
    name: "pause",
    on: "everywhere",
    argument: "[off]",
    description: "begin no new work anywhere; off: go on",
    complete: ["off"],
    admin: true,
    async run({ runtime, by }, rest) {
      const wanted = rest.toLowerCase() || "on";
      if (wanted !== "on" && wanted !== "off") return { refused: "Say /pause, or /pause off." };
      if (wanted === "off") await runtime.resume();
      else await runtime.pause(by);
      return { text: wanted === "on" ? PAUSED : "▶ Work goes on." };
    },
  },
  {
    name: "restart",
    on: "chat",
    description: "restart the gateway; what runs may finish",
    admin: true,
    once: "done",
    run: async ({ restart }) => ({ text: await restart() }),
  },
  {
    name: "quit",
    aliases: ["exit"],
    on: "terminal",
    description: "leave; a running turn continues next time",
    run({ leave }) {
      leave();
      return {};
    },
  },
];

const PAUSED =
  "⏸ Paused: no turn begins until /pause off, in any conversation. Turns that run go on to their end; messages are taken, and wait.";

async function usage({ runtime, session, costOf }: CommandContext): Promise<string> {
  const spent = await spentIn(runtime, session);
  if (!spent.length) return "Nothing was spent yet.";
  const lines = spent.map((one) => {
    const cost = costOf(one.model, one);
    const cached = one.cached ? ` (${grouped(one.cached)} of them cached)` : "";
    const dollars = cost === null ? "" : `, $${cost.toFixed(4)}`;
    return `- ${one.model}: ${one.calls} calls, ${grouped(one.input)} tokens in${cached}, ${grouped(one.output)} out${dollars}`;
  });
  const unknown = spent.filter((one) => costOf(one.model, one) === null).map(({ model }) => model);
  const hint = `The price of ${unknown.join(", ")} is not known. Set it in config.yaml, under \`prices\`.`;
  return [...lines, ...(unknown.length ? [hint] : [])].join("\n");
}

async function setNamed({ model, setModel, models }: CommandContext, name: string): Promise<CommandResult> {
  const { refused, unchecked } = name === "default" ? {} : checkModel(await models(), name);
  if (refused) return { refused };
  await setModel(name === "default" ? undefined : name);
  const note = unchecked ? ` The name was not checked: ${unchecked}` : "";
  return { text: `This conversation now uses ${await model()}.${note}` };
}

async function recalled(runtime: Runtime, session: string): Promise<string> {
  const thought = (await lastEntries(runtime, session, LAST)).findLast((entry) => entry.kind === "thought");
  return thought?.recalled || "Nothing was recalled for your last message.";
}

const grouped = (count: number) => count.toLocaleString("en");
