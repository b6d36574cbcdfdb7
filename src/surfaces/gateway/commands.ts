// Slash commands of a chat. Each is a few lines over the runtime; those that change the conversation wait for its turn to end.

import { choiceAnswer } from "../../conversation/choice.ts";
import { rewind, undo } from "../../conversation/rewind.ts";
import type { Person, Place } from "../../core/chat.ts";
import { grantsCommand } from "../../core/grant.ts";
import type { Notes } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Image, Mode, Unattended } from "../../core/session.ts";
import { type Access, asRecord } from "./access.ts";
import { BESIDE } from "./outbox.ts";
import type { Questions } from "./questions.ts";
import { generation, generationOf, personOf } from "./route.ts";
import type { Sessions } from "./sessions.ts";

export type Typed = { name: string; rest: string };
type Asked = Typed & {
  platform: string;
  place: Place;
  from: Person;
  /** Of the place, and of the session it talks in now. */
  key: string;
  session: string;
  /** Of the message: the same when it is brought again. */
  message: string;
};
/** What to answer ("": nothing), or a message that it stands for. */
type Done = string | { text: string; mode: Mode; images?: Image[] };
type Command = {
  description: string;
  /** It changes what a running turn stands on. */
  idle?: boolean;
  admin?: boolean;
  /** It must not be done twice: after a crash in its middle somebody must look, or (`done`) the crash was all it wanted. */
  once?: "look" | "done";
  run(asked: Asked): Promise<Done>;
};
export type Commands = {
  menu: { name: string; description: string }[];
  run(asked: Asked): Promise<Done>;
  /** Whether it must not be done twice. */
  once(name: string): "look" | "done" | null;
  /** What a message does while its session is busy. */
  modeOf(key: string, platform: string): Promise<Mode>;
  /** Who answers there, if not the configured one. */
  modelOf(session: string): Promise<string | undefined>;
};

const MODES: readonly Mode[] = ["interrupt", "queue", "steer"];

export const commandIn = (text: string): Typed | null => {
  const [, name = "", rest = ""] = /^\/([a-z][a-z0-9_]*)(?:\s+([\s\S]*))?$/i.exec(text.trim()) ?? [];
  return name ? { name: name.toLowerCase(), rest: rest.trim() } : null;
};

export function createCommands(options: {
  runtime: Runtime;
  notes: Notes;
  access: Access;
  sessions: Sessions;
  questions: Questions;
  busyMode(platform: string): Mode;
  unattended(platform: string): Unattended | undefined;
  models(): readonly string[];
  skills(): Promise<string>;
  /** Somebody leaves that conversation for a new one. */
  left(session: string, by: string): void;
  /** Says what will happen. */
  restart(): Promise<string>;
}): Commands {
  const { runtime, notes, access, sessions, questions, busyMode } = options;

  async function modeOf(key: string, platform: string): Promise<Mode> {
    const chosen = await notes.get(`busy/${key}`);
    return MODES.find((mode) => mode === chosen) ?? busyMode(platform);
  }

  const modelName = (session: string) => `model/${session}`;
  async function modelOf(session: string): Promise<string | undefined> {
    const chosen = await notes.get(modelName(session));
    return typeof chosen === "string" ? chosen : undefined;
  }

  /** Tasks beside this conversation that are at work. */
  async function beside(key: string) {
    const tasks = await runtime.sessions({ prefix: BESIDE, active: true, limit: 200 });
    const found = await Promise.all(
      tasks.map(async ({ session, title }) => {
        const mine = asRecord(await notes.get(`route/${session}`))?.["to"] === key;
        const { turn } = await runtime.status(session);
        return mine && turn ? [{ session, turn: turn.id, title }] : [];
      }),
    );
    return found.flat();
  }

  const commands: Record<string, Command> = {
    stop: {
      description: "stop the current turn; all: also children and background work",
      once: "look",
      async run({ key, session, rest }) {
        const { turn, background, inbox } = await runtime.status(session);
        const all = rest.toLowerCase() === "all";
        const tasks = all ? await beside(key) : [];
        if (!turn && !(all && background.length) && !tasks.length) return "Nothing is running.";
        const stopped = await runtime.stop({ session, turn: turn?.id ?? "", scope: all ? "tree" : "turn" });
        for (const task of tasks) await runtime.stop({ session: task.session, turn: task.turn, scope: "tree" });
        if (stopped === "ending") return "It has just finished; its answer is on the way.";
        return inbox.length ? `⏹ Stopped. ${inbox.length} message(s) are next.` : "⏹ Stopped.";
      },
    },
    status: {
      description: "what is going on, and what waits",
      async run({ key, session }) {
        const { turn, inbox, asking, parked, background, unsaved } = await runtime.status(session);
        const now = turn ? `Working (${turn.phase}, model call ${turn.thoughts + 1}).` : parked ? "Parked." : "Idle.";
        return [
          `${now} ${inbox.length} waiting.`,
          ...inbox.map(({ mode, text }, i) => `${i + 1}. [${mode}] ${text.slice(0, 80)}`),
          ...asking.map(({ text }) => `Asks: ${text.slice(0, 200)}`),
          ...(await beside(key)).map(({ title }) => `Beside this: ${title}`),
          ...background.map(({ id, command }) => `In the background: ${id} \`${command.slice(0, 80)}\``),
          ...(unsaved.length ? [`Memory still to be written: ${unsaved.join(", ")}`] : []),
        ].join("\n");
      },
    },
    queue: {
      description: "say something as the next turn",
      run: async ({ rest }) => (rest ? { text: rest, mode: "queue" } : "What shall I queue? /queue your message"),
    },
    steer: {
      description: "say something into the running turn",
      run: async ({ rest }) => (rest ? { text: rest, mode: "steer" } : "What shall I steer with? /steer your message"),
    },
    background: {
      description: "work on something beside this conversation",
      async run({ rest, key, platform, from, message }) {
        if (!rest) return "What shall I do? /background your task";
        const session = `${BESIDE}${runtime.idOf(platform, message)}`;
        await notes.set(`route/${session}`, { to: key });
        const by = personOf(platform, from);
        const request = { session, source: "background", key: `${platform} ${message}`, text: rest, by } as const;
        const unattended = options.unattended(platform);
        await runtime.accept({ ...request, mode: "queue", reply: "push", ...(unattended && { unattended }) });
        return "🔧 Working on it beside this conversation. I'll tell you when it is done.";
      },
    },
    approve: {
      description: "yes to what is asked: once, session or always",
      once: "look",
      run: ({ platform, from, session, rest }) =>
        questions.answerBy(platform, from, session, ({ kind, choices }) => {
          const choice = rest.toLowerCase() || "once";
          return kind === "approval" && choice !== "deny" && choices.includes(choice)
            ? choiceAnswer(kind, choice)
            : null;
        }),
    },
    deny: {
      description: "no to what is asked, and why",
      once: "look",
      run: ({ platform, from, session, rest }) =>
        questions.answerBy(platform, from, session, () => ({
          allow: false,
          text: rest ? `The user said no: ${rest}` : "The user said no.",
        })),
    },
    grants: {
      description: "what is allowed for the rest of this conversation; revoke takes it back",
      once: "look",
      run: ({ platform, from, session, rest }) => grantsCommand(runtime, session, rest, personOf(platform, from)),
    },
    answer: {
      description: "answer a question in your own words",
      once: "look",
      run: async ({ platform, from, session, rest }) => {
        if (!rest) return "What is the answer? /answer your words";
        return questions.answerBy(platform, from, session, ({ kind }) =>
          kind === "question" ? choiceAnswer(kind, rest) : null,
        );
      },
    },
    new: {
      description: "begin a new conversation",
      once: "look",
      async run({ key, session, platform, from }) {
        const { turn } = await runtime.status(session);
        if (turn) await runtime.stop({ session, turn: turn.id });
        await sessions.renew(key);
        options.left(session, personOf(platform, from));
        return "✨ A new conversation. /resume brings the old one back.";
      },
    },
    retry: {
      description: "do the last message over again",
      once: "look",
      idle: true,
      async run({ key, session }) {
        const last = (await rewind(runtime, session, () => sessions.renew(key)))?.undone;
        return last ? { text: last.text, mode: "queue", images: last.images ?? [] } : "There is nothing to do again.";
      },
    },
    undo: {
      description: "take back the last message, its answer and what it did to files; files: the files as before that",
      once: "look",
      idle: true,
      async run({ key, session, rest }) {
        if (rest.toLowerCase() === "files") return runtime.restoreFiles({ session });
        const back = await undo(runtime, session, () => sessions.renew(key));
        if (!back) return "There is nothing to undo.";
        return `↩️ Taken back: ${back.undone.text.slice(0, 200)}\n${back.files}`.trim();
      },
    },
    title: {
      description: "name this conversation",
      async run({ session, rest }) {
        if (!rest) return (await runtime.summary(session))?.title || "It has no title.";
        return (await runtime.retitle(session, rest.slice(0, 200)))
          ? `📝 ${rest.slice(0, 200)}`
          : "Say something first.";
      },
    },
    sessions: {
      description: "conversations of this chat",
      async run({ key, session }) {
        const first = await runtime.summary(key);
        const later = await runtime.sessions({ prefix: `${key}#`, top: true, limit: 20 });
        const rows = [...later, ...(first ? [first] : [])].sort((a, b) => b.updatedAt - a.updatedAt);
        if (!rows.length) return "There are none yet.";
        return rows
          .slice(0, 20)
          .map(
            (row) =>
              `${row.session === session ? "▸" : " "} ${generationOf(row.session)}. ${row.title || "(no title)"}`,
          )
          .join("\n");
      },
    },
    resume: {
      description: "go back to an earlier conversation: /resume 2",
      idle: true,
      async run({ key, rest }) {
        const wanted = Number(rest || Number.NaN);
        const found = Number.isInteger(wanted) ? await runtime.summary(generation(key, wanted)) : null;
        if (!found) return "Which one? /sessions lists them.";
        await sessions.resume(key, found.session);
        return `▸ ${found.title || "(no title)"}`;
      },
    },
    model: {
      description: "which models there are; /model NAME for this conversation, /model default back",
      async run({ session, rest }) {
        if (rest) await notes.set(modelName(session), rest === "default" ? undefined : rest.slice(0, 200));
        const chosen = await modelOf(session);
        const all = [...new Set([...options.models(), ...(chosen ? [chosen] : [])])];
        return all.map((name, i) => `${name === chosen || (!chosen && i === 0) ? "▸" : " "} ${name}`).join("\n");
      },
    },
    memory: {
      description: "what memory had to say to your last message",
      async run({ session }) {
        const { entries = 0 } = (await runtime.summary(session)) ?? {};
        const last = await runtime.entries(session, Math.max(0, entries - 100), 100);
        const thought = last.findLast((entry) => entry.kind === "thought");
        return thought?.kind === "thought" && thought.recalled ? thought.recalled : "Nothing was recalled for it.";
      },
    },
    skills: {
      description: "what I can look up",
      run: async () => options.skills(),
    },
    usage: {
      description: "tokens of this conversation",
      async run({ session }) {
        let input = 0;
        let output = 0;
        for (const entry of await runtime.entries(session, 0, 100_000))
          if (entry.kind === "thought") {
            input += entry.usage.input;
            output += entry.usage.output;
          }
        return `${input.toLocaleString("en")} tokens in, ${output.toLocaleString("en")} out.`;
      },
    },
    compress: {
      description: "summarise the conversation for the model",
      idle: true,
      async run({ session, platform, from, message }) {
        const by = personOf(platform, from);
        const request = { session, source: platform, key: message, text: "/compress", by } as const;
        await runtime.accept({ ...request, mode: "queue", reply: "push", task: "compress" });
        return "";
      },
    },
    busy: {
      description: "what a message does while I work: interrupt, queue or steer",
      async run({ key, platform, rest }) {
        const mode = MODES.find((one) => one === rest.toLowerCase());
        if (!mode)
          return `Messages ${await modeOf(key, platform)} while I work. Choose: /busy interrupt | queue | steer`;
        await notes.set(`busy/${key}`, mode);
        return `From now on messages ${mode} while I work.`;
      },
    },
    restart: {
      description: "restart the gateway; what runs may finish",
      admin: true,
      once: "done",
      run: () => options.restart(),
    },
    help: {
      description: "what there is",
      run: async () => menu.map(({ name, description }) => `/${name} ${description}`).join("\n"),
    },
  };
  const find = (name: string) => (Object.hasOwn(commands, name) ? commands[name] : undefined);
  const menu = Object.entries(commands).map(([name, { description }]) => ({ name, description }));

  return {
    menu,
    modeOf,
    modelOf,
    once: (name) => find(name)?.once ?? null,
    async run(asked) {
      const command = find(asked.name);
      if (!command) return `There is no /${asked.name}. /help lists what there is.`;
      if (command.admin && !access.isAdmin(asked.platform, asked.from)) return "Only an admin may do that.";
      if (command.idle && (await runtime.status(asked.session)).turn)
        return `⏳ Agent is running — \`/${asked.name}\` can't run mid-turn. Wait for the current response or \`/stop\` first.`;
      return command.run(asked);
    },
  };
}
