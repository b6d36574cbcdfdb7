// What a chat does for the slash commands of conversation/commands.
import type { ChatContext, CommandResult, CommandSources, ListedSession } from "../../conversation/commands/command.ts";
import { CHAT_COMMANDS, findCommand, runCommand, type Typed } from "../../conversation/commands/commands.ts";
import { modeNamed } from "../../conversation/modes.ts";
import type { Person } from "../../core/chat.ts";
import { replyRoute, setReplyRoute } from "../../core/reply-route.ts";
import { EFFORTS, type Effort, type Input, type Mode } from "../../core/session.ts";
import { BACKGROUND, backgroundSession, generation, generationOf, laterGenerations } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { type Access, personOf } from "./access.ts";
import type { GatewayOptions } from "./gateway.ts";
import type { Questions } from "./questions.ts";
import type { PlaceSessions } from "./sessions.ts";

type ChatCommand = Typed & {
  platform: string;
  from: Person;
  /** The key of the place, and the session that the place talks in now. */
  key: string;
  session: string;
  /** The id of the message: the same when the platform delivers it again. */
  message: string;
};
export type Commands = ReturnType<typeof createCommands>;

const MENU = CHAT_COMMANDS.map(({ name, description }) => ({ name, description }));
const MOST_LISTED = 20;
const MOST_TASKS = 200;
const LONGEST_DRAFT = 200;

type Options = Pick<GatewayOptions, "runtime" | "clock" | "busyMode" | "unattended" | "model" | "left"> &
  CommandSources & {
    notes: Notes;
    access: Access;
    sessions: PlaceSessions;
    questions: Questions;
    /** Voice messages of that place which failed. */
    transcribeAgain(platform: string, key: string): Promise<string>;
    /** Says what will happen. `key`: of the place that hears when we are back. */
    restart(key: string): Promise<string>;
  };

export function createCommands(options: Options) {
  const { runtime, notes, clock, access, sessions, questions, busyMode, restart } = options;

  /** What a message does while its session is busy. */
  const modeOf = async (key: string, platform: string): Promise<Mode> =>
    modeNamed(await notes.get(`busy/${key}`)) ?? busyMode(platform);

  const noteOf = (what: "model" | "effort" | "yolo", session: string) => `${what}/${session}`;
  async function modelOf(session: string): Promise<string | undefined> {
    const chosen = await notes.get(noteOf("model", session));
    return typeof chosen === "string" ? chosen : undefined;
  }
  async function effortOf(session: string): Promise<Effort | undefined> {
    const chosen = await notes.get(noteOf("effort", session));
    return EFFORTS.find((one) => one === chosen);
  }
  const isYolo = async (session: string) => (await notes.get(noteOf("yolo", session))) === true;

  function contextOf({ platform, from, key, session, message }: ChatCommand): ChatContext {
    const by = personOf(platform, from);
    return {
      ...options,
      surface: "chat",
      session,
      by,
      isAdmin: access.isAdmin(platform, from),
      // Not as code: a platform makes a command that one can press of a plain one.
      help: () => MENU.map(({ name, description }) => `/${name} ${description}`).join("\n"),
      now: clock.now,
      mode: () => modeOf(key, platform),
      setMode: (mode) => notes.set(`busy/${key}`, mode),
      model: async () => (await modelOf(session)) ?? options.model,
      setModel: (name) => notes.set(noteOf("model", session), name),
      effort: () => effortOf(session),
      setEffort: (effort) => notes.set(noteOf("effort", session), effort),
      yolo: () => isYolo(session),
      setYolo: (on) => notes.set(noteOf("yolo", session), on || undefined),
      sessions: () => sessionsOf(key),
      async findSession(words) {
        const wanted = Number(words || Number.NaN);
        const found = Number.isInteger(wanted) ? await runtime.summary(generation(key, wanted)) : null;
        return found?.session ?? null;
      },
      newSession: () => sessions.renew(key),
      async left() {
        // In the same chat nobody could tell its answer from those of the next conversation.
        const { turn } = await runtime.status(session);
        if (turn) await runtime.stop({ session, turn: turn.id });
        options.left(session, by);
      },
      stop: (scope) => stop(key, session, scope),
      mayAnswer: (asked, given) => questions.refusal(platform, from, asked, given),
      tasks: async () => (await tasksOf(key)).map(({ title }) => title),
      async background(text) {
        const task = backgroundSession(runtime.idOf(platform, message));
        await setReplyRoute(notes, task, key);
        const request = { session: task, source: "background", key: `${platform} ${message}`, text, by } as const;
        const unattended = options.unattended(platform);
        await runtime.accept({ ...request, mode: "queue", reply: "push", ...(unattended && { unattended }) });
      },
      transcribe: () => options.transcribeAgain(platform, key),
      restart: () => restart(key),
    };
  }

  async function stop(key: string, session: string, scope: "turn" | "tree") {
    const { turn, background } = await runtime.status(session);
    const all = scope === "tree";
    const tasks = all ? await tasksOf(key) : [];
    if (!turn && !(all && background.length) && !tasks.length) return "nothing";
    const stopped = await runtime.stop({ session, turn: turn?.id ?? "", scope });
    for (const task of tasks) await runtime.stop({ session: task.session, turn: task.turn, scope });
    return stopped === "ending" ? "ending" : "stopped";
  }

  /** Tasks beside this conversation that are at work. */
  async function tasksOf(key: string) {
    const tasks = await runtime.sessions({ prefix: BACKGROUND, active: true, limit: MOST_TASKS });
    const found = await Promise.all(
      tasks.map(async ({ session, title }) => {
        const mine = (await replyRoute(notes, session)) === key;
        const { turn } = await runtime.status(session);
        return mine && turn ? [{ session, turn: turn.id, title }] : [];
      }),
    );
    return found.flat();
  }

  async function sessionsOf(key: string): Promise<ListedSession[]> {
    const first = await runtime.summary(key);
    const later = await runtime.sessions({ prefix: laterGenerations(key), top: true, limit: MOST_LISTED });
    return [...later, ...(first ? [first] : [])]
      .sort((a, b) => b.updatedAt - a.updatedAt)
      .slice(0, MOST_LISTED)
      .map((row) => ({ ...row, name: String(generationOf(row.session)) }));
  }

  return {
    menu: MENU,
    modeOf,
    /** What holds for messages of that session: who answers, how much it reasons, and how approvals are decided if nobody is asked. */
    async chosenIn(session: string, platform: string): Promise<Pick<Input, "model" | "options" | "unattended">> {
      const [model, effort, yolo] = await Promise.all([modelOf(session), effortOf(session), isYolo(session)]);
      const unattended = yolo ? "allow" : options.unattended(platform);
      return { ...(model && { model }), ...(effort && { options: { effort } }), ...(unattended && { unattended }) };
    },
    /** Whether it must not be done twice. */
    once: (name: string) => findCommand(CHAT_COMMANDS, name)?.once ?? null,
    /** What to say ("": nothing), and a message that the command stands for. */
    async run(said: ChatCommand): Promise<{ say: string; send?: CommandResult["send"] }> {
      const command = findCommand(CHAT_COMMANDS, said.name);
      if (!command) return { say: `Unknown command /${said.name}. See /help.` };
      const outcome = await runCommand(command, contextOf(said), said.rest);
      const { open, send } = outcome;
      if (open && open.session !== (await sessions.current(said.key))) await sessions.resume(said.key, open.session);
      return { say: textOf(outcome), ...(send && { send }) };
    },
  };
}

/** A message that is sent again needs no words beside its answer. */
function textOf({ refused, open, draft, send, text = "" }: CommandResult): string {
  if (refused !== undefined) return refused;
  if (send) return text;
  const heading = draft === undefined ? open?.heading : `↩️ Taken back: ${draft.slice(0, LONGEST_DRAFT)}`;
  return [heading, text].filter(Boolean).join("\n");
}
