// Commands about this conversation as a whole: its model, its cost, what the agent knows, and the way out.
import { entriesOf } from "../../core/pages.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";
import type { Command, CommandContext } from "./command.ts";

const LONGEST_MODEL = 200;
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
    description: "who answers; /model NAME chooses another for this conversation, /model default goes back",
    async run({ model, setModel, models, choose }, rest) {
      if (rest) {
        await setModel(rest === "default" ? undefined : rest.slice(0, LONGEST_MODEL));
        return { text: `From now on ${await model()} answers here.` };
      }
      const all = [...(await models())];
      const choices = all.map((name) => ({ value: name, label: name }));
      const chosen = choose && all.length > 1 ? await choose("Who answers in this conversation?", choices) : null;
      if (chosen) await setModel(chosen);
      const now = await model();
      const others = choose ? [] : all.filter((name) => name !== now).map((name) => `- ${name}`);
      const how = "/model NAME chooses another, /model default goes back.";
      return { text: [`${now} answers here. ${how}`, ...others].join("\n") };
    },
  },
  {
    name: "usage",
    on: "everywhere",
    description: "tokens that this conversation has used",
    run: async (context) => ({ text: await usage(context) }),
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
      const last = (await lastEntries(runtime, session)).findLast((entry) => entry.kind === "thought" && entry.text);
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

async function usage({ spent: read, costOf }: CommandContext): Promise<string> {
  const spent = await read();
  if (!spent.length) return "Nothing was spent yet.";
  const lines = spent.map((one) => {
    const cost = costOf?.(one.model, one) ?? null;
    const cached = one.cached ? ` (${grouped(one.cached)} of them cached)` : "";
    const dollars = cost === null ? "" : `, $${cost.toFixed(4)}`;
    return `- ${one.model}: ${one.calls} calls, ${grouped(one.input)} tokens in${cached}, ${grouped(one.output)} out${dollars}`;
  });
  const unknown = costOf && spent.some(({ model }) => costOf(model, { input: 1, output: 1 }) === null);
  return [
    ...lines,
    ...(unknown ? ["What a token costs is not known: see `prices` in docs/configuration.md."] : []),
  ].join("\n");
}

async function recalled(runtime: Runtime, session: string): Promise<string> {
  const thought = (await lastEntries(runtime, session)).findLast((entry) => entry.kind === "thought");
  return thought?.recalled || "Nothing was recalled for your last message.";
}

async function lastEntries(runtime: Runtime, session: string): Promise<Entry[]> {
  const { entries = 0 } = (await runtime.summary(session)) ?? {};
  return entriesOf(runtime, session, Math.max(0, entries - LAST));
}

const grouped = (count: number) => count.toLocaleString("en");
