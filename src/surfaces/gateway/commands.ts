// Slash commands of a chat. Each is a few lines over the runtime; those that change the conversation wait for its turn to end.
import type { Person, Place } from "../../core/chat.ts";
import type { Notes } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Entry, Mode } from "../../core/session.ts";
import type { Access } from "./access.ts";
import type { Questions } from "./questions.ts";
import { generationOf } from "./route.ts";
import type { Sessions } from "./sessions.ts";

export type Typed = { name: string; rest: string };
export type Asked = Typed & {
  platform: string;
  place: Place;
  from: Person;
  /** Of the place, and of the session it talks in now. */
  key: string;
  session: string;
};
/** What to answer ("": nothing), or a message that it stands for. */
type Done = string | { text: string; mode: Mode };
type Command = {
  description: string;
  /** It changes what a running turn stands on. */
  idle?: boolean;
  admin?: boolean;
  run(asked: Asked): Promise<Done>;
};
export type Commands = {
  menu: { name: string; description: string }[];
  run(asked: Asked): Promise<Done>;
  /** What a message does while its session is busy. */
  modeOf(key: string, platform: string): Promise<Mode>;
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
  models(): readonly string[];
  newKey(): string;
  /** Says what will happen. */
  restart(asked: { session: string; turn: string | null }): Promise<string>;
}): Commands {
  const { runtime, notes, access, sessions, questions, busyMode, newKey } = options;

  async function modeOf(key: string, platform: string): Promise<Mode> {
    const chosen = await notes.get(`busy/${key}`);
    return MODES.find((mode) => mode === chosen) ?? busyMode(platform);
  }

  const started = async (session: string) =>
    (await runtime.entries(session, 0, 10_000)).filter((entry) => entry.kind === "began");

  /** The conversation without its last turn, in a session of its own: nothing is deleted. */
  async function undo({ key, session }: Asked): Promise<Entry | null> {
    const turns = await started(session);
    const last = turns.at(-1);
    if (!last) return null;
    const next = await sessions.renew(key);
    const before = turns.at(-2);
    if (before) await runtime.fork({ from: session, through: before.turn, session: next, title: "" });
    const [accepted] = await runtime.turn(last.turn);
    return accepted ?? null;
  }

  async function answerBy(asked: Asked, choice: string): Promise<string> {
    const { asking, turn } = await runtime.status(asked.session);
    const [question] = asking;
    if (!question || !turn) return "Nothing is asked just now.";
    const [first] = await runtime.turn(turn.id);
    const by = first?.kind === "accepted" ? first.input.by : "";
    if (by !== `${asked.platform}:${asked.from.id}` && !access.isAdmin(asked.platform, asked.from))
      return "Only the person who is asked can answer.";
    return questions.decide(asked.platform, asked.from, asked.session, question, choice);
  }

  const commands: Record<string, Command> = {
    stop: {
      description: "stop the current turn; all: also children and background processes",
      async run({ session, rest }) {
        const { turn, background, inbox } = await runtime.status(session);
        const all = rest.toLowerCase() === "all";
        if (!turn && !(all && background.length)) return "Nothing is running.";
        await runtime.stop({ session, turn: turn?.id ?? "", scope: all ? "tree" : "turn" });
        return inbox.length ? `⏹ Stopped. ${inbox.length} message(s) are next.` : "⏹ Stopped.";
      },
    },
    status: {
      description: "what is going on, and what waits",
      async run({ session }) {
        const { turn, inbox, asking, parked, background, unsaved } = await runtime.status(session);
        const now = turn ? `Working (${turn.phase}, model call ${turn.thoughts + 1}).` : parked ? "Parked." : "Idle.";
        return [
          `${now} ${inbox.length} waiting.`,
          ...inbox.map(({ mode, text }, i) => `${i + 1}. [${mode}] ${text.slice(0, 80)}`),
          ...asking.map(({ text }) => `Asks: ${text.slice(0, 200)}`),
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
      async run({ rest, key, platform, from }) {
        if (!rest) return "What shall I do? /background your task";
        const session = `agent:main:background:${newKey()}`;
        await notes.set(`route/${session}`, { to: key });
        const by = `${platform}:${from.id}`;
        await runtime.accept({
          session,
          source: "background",
          key: newKey(),
          text: rest,
          mode: "queue",
          reply: "push",
          by,
        });
        return "🔧 Working on it beside this conversation. I'll tell you when it is done.";
      },
    },
    approve: {
      description: "yes to what is asked: once, session or always",
      run: async (asked) => answerBy(asked, ["session", "always"].includes(asked.rest) ? asked.rest : "once"),
    },
    deny: { description: "no to what is asked", run: async (asked) => answerBy(asked, "deny") },
    answer: {
      description: "answer a question in your own words",
      run: async (asked) => (asked.rest ? answerBy(asked, asked.rest) : "What is the answer? /answer your words"),
    },
    new: {
      description: "begin a new conversation",
      async run({ key, session }) {
        const { turn } = await runtime.status(session);
        if (turn) await runtime.stop({ session, turn: turn.id });
        await sessions.renew(key);
        return "✨ A new conversation. /resume brings the old one back.";
      },
    },
    retry: {
      description: "do the last message over again",
      idle: true,
      async run(asked) {
        const last = await undo(asked);
        return last?.kind === "accepted" ? { text: last.input.text, mode: "queue" } : "There is nothing to do again.";
      },
    },
    undo: {
      description: "take back the last message and its answer",
      idle: true,
      async run(asked) {
        const last = await undo(asked);
        return last?.kind === "accepted"
          ? `↩️ Taken back: ${last.input.text.slice(0, 200)}`
          : "There is nothing to undo.";
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
        const rows = (await runtime.sessions({ limit: 200, top: true })).filter(
          (row) => row.session.split("#")[0] === key,
        );
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
        const rows = (await runtime.sessions({ limit: 200, top: true })).filter(
          (row) => row.session.split("#")[0] === key,
        );
        const found = rows.find((row) => generationOf(row.session) === wanted);
        if (!found) return "Which one? /sessions lists them.";
        await sessions.resume(key, found.session);
        return `▸ ${found.title || "(no title)"}`;
      },
    },
    model: {
      description: "which models there are",
      run: async () =>
        options
          .models()
          .map((name, i) => `${i === 0 ? "▸" : " "} ${name}`)
          .join("\n"),
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
      async run({ session, platform, from }) {
        const by = `${platform}:${from.id}`;
        const request = { session, source: platform, key: newKey(), text: "/compress", by } as const;
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
      run: async ({ session }) => options.restart({ session, turn: (await runtime.status(session)).turn?.id ?? null }),
    },
    help: {
      description: "what there is",
      run: async () => menu.map(({ name, description }) => `/${name} ${description}`).join("\n"),
    },
  };
  const menu = Object.entries(commands).map(([name, { description }]) => ({ name, description }));

  return {
    menu,
    modeOf,
    async run(asked) {
      const command = commands[asked.name];
      if (!command) return `There is no /${asked.name}. /help lists what there is.`;
      if (command.admin && !access.isAdmin(asked.platform, asked.from)) return "Only an admin may do that.";
      if (command.idle && (await runtime.status(asked.session)).turn)
        return `⏳ Agent is running — \`/${asked.name}\` can't run mid-turn. Wait for the current response or \`/stop\` first.`;
      return command.run(asked);
    },
  };
}
