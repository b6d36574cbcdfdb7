// What a slash command is, what it works with, and what comes of it.
import type { Job, JobRefused, Wish } from "../../core/jobs.ts";
import type { ModelNames } from "../../core/model-names.ts";
import type { Answer, Runtime, Status } from "../../core/runtime.ts";
import type { Effort, Image, Mode, Task, Usage } from "../../core/session.ts";

export type AskedQuestion = Status["asking"][number];
export type OpenQuestion = { turn: string; question: AskedQuestion };
export type PickerItem = { value: string; label: string; description?: string };
/** `name`: what a person says to mean this session. */
export type ListedSession = { session: string; name: string; title: string; updatedAt: number; active: boolean };

export type CommandJob = Pick<Job, "id" | "name" | "text" | "enabled" | "nextAt" | "session" | "heartbeat" | "goal">;
type ChangeJob = (id: string) => Promise<{ id: string } | JobRefused>;
/** Jobs as far as commands show and change them. */
export type CommandJobs = {
  list(): Promise<readonly CommandJob[]>;
  add(wish: Wish): Promise<CommandJob | JobRefused>;
  pause: ChangeJob;
  resume: ChangeJob;
  remove: ChangeJob;
};

/** What every surface gives a command to work with. */
export type CommandContext = {
  surface: "terminal" | "chat" | "web" | "editor";
  runtime: Runtime;
  session: string;
  /** Who typed the command, as the journal names them. */
  by: string;
  isAdmin: boolean;
  /** What can be typed here. */
  help(): string;
  now(): number;
  /** What a message does while a turn runs. */
  mode(): Mode | Promise<Mode>;
  setMode(mode: Mode): void | Promise<void>;
  /** The model of this session. */
  model(): string | Promise<string>;
  /** Undefined: the configured one. */
  setModel(name: string | undefined): void | Promise<void>;
  models(): Promise<ModelNames>;
  /** Tokens that fit into the window of the configured model; 0 or not there: unknown. */
  window?: number;
  /** How much the model reasons; undefined: as much as it does by itself. */
  effort(): Effort | undefined | Promise<Effort | undefined>;
  setEffort(effort: Effort | undefined): void | Promise<void>;
  /** Shows what the model thinks, or hides it. Not there: the surface shows none. */
  showReasoning?: ((on: boolean) => void) | undefined;
  /** Whether the messages to come approve whatever would be asked. */
  yolo(): boolean | Promise<boolean>;
  setYolo(on: boolean): void | Promise<void>;
  jobs(): CommandJobs;
  /** What the agent can look up. */
  skills(): Promise<string>;
  /** Null: the price of that model is not known. */
  costOf(model: string, usage: Usage): number | null;
  /** What the person calls this session, if that is something to show. */
  name?: string;
  /** The one that the person means. Null: there is no such session. */
  findSession(words: string): Promise<string | null>;
  /** A new session for the person to go on in. */
  newSession(): string | Promise<string>;
  /** This session is left for another one. */
  left?(): void | Promise<void>;
  /** `shown`: the surface shows by itself that the turn stops. */
  stop(scope: "turn" | "tree"): Promise<"nothing" | "ending" | "stopped" | "shown">;
  /** The question that the person sees, and the turn that asks it. Not there: the one that waits now. */
  asked?(): OpenQuestion | null;
  /** Why this person cannot give that answer; null: they can. */
  mayAnswer?(asked: OpenQuestion, given: Answer | null): string | null | Promise<string | null>;
  /** Titles of the tasks that work beside this session. */
  tasks?(): Promise<readonly string[]>;
  /** The sessions that the person can go back to, newest first. Not there: nobody can choose among them. */
  sessions?(): Promise<readonly ListedSession[]>;
  /** Lets the person choose; null: they chose nothing. Not there: the surface cannot ask like that. */
  choose?(title: string, choices: PickerItem[]): Promise<string | null>;
};
/** What commands show of models, jobs and skills: the same in all conversations of a process. */
export type CommandSources = Required<Pick<CommandContext, "models" | "window" | "costOf" | "jobs" | "skills">>;
export type TerminalContext = CommandContext & {
  /** Writes this session to a file. Returns its path. */
  exportTo(file: string, format: "md" | "json" | ""): Promise<string>;
  /** Puts a text into the clipboard. What became of it, for people. */
  copy(text: string): Promise<string>;
  leave(): void;
};
export type ChatContext = CommandContext & {
  sessions(): Promise<readonly ListedSession[]>;
  /** Begins a task beside this session. */
  background(text: string): Promise<void>;
  /** Tries again to transcribe what failed here. Returns what will happen. */
  transcribe(): Promise<string>;
  /** Restarts the gateway. Returns what will happen. */
  restart(): Promise<string>;
};

/** What comes of a command. Each surface shows it in its own way. */
export type CommandResult = {
  /** What is answered. Markdown. */
  text?: string;
  /** Nothing was done, and why. */
  refused?: string;
  /** The session to talk in from here on. `heading` is shown on top of it. */
  open?: { session: string; heading?: string };
  /** A message that was taken back, to be changed and sent again. */
  draft?: string;
  /** A message to send now. */
  send?: { text: string; mode: Mode; images?: Image[]; task?: Task };
  /** What this session is called now. */
  title?: string;
};

type CommandRow<Context> = {
  name: string;
  aliases?: readonly string[];
  /** What may follow the name. */
  argument?: string;
  /** One line of at most 100 characters, which is what the menu of Discord takes. */
  description: string;
  /** What completes the argument. */
  complete?: readonly string[];
  /** It changes what a running turn stands on, so it waits for the turn's end: everywhere, or in chats. */
  idle?: true | "chat";
  /** It leads to another session. An editor has its own way to do that. */
  moves?: true;
  /** Only for admins; at a terminal everybody is one. */
  admin?: true;
  /** In chats: it must not be done twice. After a crash in its middle somebody must look, or (`done`) the crash was all it wanted. */
  once?: "look" | "done";
  run(context: Context, rest: string): CommandResult | Promise<CommandResult>;
};
/** `screen`: where a person sees the conversation as it goes on, which is the terminal and a web page. */
export type Command =
  | (CommandRow<CommandContext> & { on: "everywhere" })
  | (CommandRow<CommandContext> & { on: "screen" })
  | (CommandRow<TerminalContext> & { on: "terminal" })
  | (CommandRow<ChatContext> & { on: "chat" });
export type CommandOn<Context> = CommandRow<Context> & { on: Command["on"] };
