// hermes chat: opens the runtime and the view, and sees to it that leaving always ends.
import { randomBytes, randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import { NO_SESSIONS, pickSession } from "../../conversation/commands/sessions.ts";
import { costOf, type Prices } from "../../conversation/cost.ts";
import { codeOf, messageOf } from "../../core/errors.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Mode, Usage } from "../../core/session.ts";
import { fullName, isTerminal, rootOf, shortName } from "../../core/session-key.ts";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { createFile } from "../../platform/confined.ts";
import { setDeadline } from "../../platform/deadline.ts";
import { uncaught } from "../../platform/uncaught.ts";
import { attachmentsIn } from "./attachments.ts";
import { copyText, pasteImage } from "./clipboard.ts";
import { sessionsToResume } from "./commands.ts";
import { editDraft } from "./draft-file.ts";
import { findSession, newestSession } from "./find.ts";
import { openPlain } from "./plain.ts";
import { suggestionsIn } from "./suggestions.ts";
import { createTalk, type Talk, type TalkOptions } from "./talk.ts";
import type { View } from "./view.ts";

type TerminalFlag = { flag: string; key: string; value: unknown };
/** What is configured: known before anything is opened. */
export type TerminalSettings = {
  config: {
    readonly display: {
      readonly busy_input_mode: Mode;
      readonly queued_after_stop: "run" | "edit";
      readonly theme: "auto" | "dark" | "light" | "mono";
      readonly plain: boolean;
      readonly compact: boolean;
      readonly show_reasoning: boolean;
      readonly tool_progress: "off" | "new" | "all" | "verbose";
    };
    readonly approvals: { readonly unattended: "deny" | "allow" };
    readonly agent: { readonly exit_watchdog: number };
    readonly prices: Prices;
    readonly terminal: { readonly cwd?: string | undefined; readonly writable: readonly string[] };
  };
  home: { readonly dir: string; readonly attachments: string };
  endpoints: readonly { provider: string; model: string; because: string; context: number }[];
};
export type OpenedTalk = TerminalSettings &
  Pick<TalkOptions, "shell" | "models" | "skills" | "jobs" | "switched"> & {
    engine: Runtime;
    sandbox: string;
    /** Whose process runs the turns. */
    owner: "self" | "terminal" | "gateway";
    close(drainMs: number): Promise<{ left: string[] }>;
  };
export type OpenRuntime = (options: {
  env: NodeJS.ProcessEnv;
  flags: readonly TerminalFlag[];
  logToStderr: boolean;
  mine(session: string): boolean;
  /** Another process runs the turns from now on, or this one. */
  moved?(line: string): void;
}) => Promise<OpenedTalk>;
export type ChatOptions = {
  settings: TerminalSettings;
  open: OpenRuntime;
  env: NodeJS.ProcessEnv;
  model?: string;
  session?: string;
  /** The newest, or the one of that name. */
  continue?: true | string;
  /** Picked by the person, or the one of that name. */
  resume?: true | string;
  /** Sent as soon as the conversation is open. */
  message?: string;
  plain: boolean;
};

/** A view that a person types into. What is entered before there is a talk waits for it. */
export type Surface = View & {
  start(talking: Promise<Talk>, leave: (code: number) => void): void;
  /** The terminal is as it was before. */
  stop(): void;
};

/** Turns that still run when we leave go on at the next start, so nobody waits for them here. */
const DRAIN_MS = 500;
/** With all that may be wedged (CONTRACT: over in 5 s). */
const EXIT_MS = 4_000;
const LINGER_MS = 500;
/** Who leaves before we are open does not wait for an MCP server that never answers. */
const OPENING_MS = 500;

export async function openChat(options: ChatOptions): Promise<number> {
  const { env } = options;
  const { stdin, stdout, stderr } = process;
  const left = Promise.withResolvers<number>();
  const broken = uncaught();
  // A closed terminal must not keep us: the session can be resumed. A second of these (the shell's and the kernel's SIGHUP,
  // a Ctrl+C too many) would end us before the tools have ended; a second SIGTERM is meant like that.
  process.on("SIGHUP", () => left.resolve(129));
  process.once("SIGTERM", () => left.resolve(143));
  // Also stderr, where nothing is written: Node asks it for its size on SIGWINCH, and a terminal that is gone has none.
  stdout.removeAllListeners("error");
  for (const stream of [stdin, stdout, stderr]) stream.on("error", () => left.resolve(129));

  const { display } = options.settings.config;
  const lines = options.plain || display.plain || !stdin.isTTY || !stdout.isTTY || env.TERM === "dumb";
  if (!lines) process.on("SIGINT", () => left.resolve(130)); // there Ctrl+C is a key; plain lines know a first one
  const view = lines
    ? openPlain({ input: stdin, output: stdout, now: () => performance.now() })
    : await openOnScreen(options);
  view.say(`hermes · ${modelLine(options.settings)}`);
  // The prompt is there at once; the rest of us (a fifth of a second) while the person reads and types.
  const wanted = {
    env,
    flags: [modelFlag(options.model)],
    logToStderr: false,
    mine: (session: string) => isTerminal(rootOf(session)),
    moved: view.say,
  };
  const opening = clock.sleep(0).then(() => options.open(wanted));
  const talking = opening.then(begin);
  view.start(talking, left.resolve);
  let code = 1;
  let failure: unknown;
  try {
    code = await Promise.race([left.promise, broken, talking.then(() => left.promise)]);
  } catch (error) {
    failure = error;
  }
  // Also when the talk broke off: nothing may keep the process.
  view.stop();
  if (!failure) stdout.write("Shutting down… (finalizing session)\n");
  const running = await settledBy(opening, OPENING_MS);
  const talk = await settledBy(talking);
  talk?.close();
  const over = running !== null && (await leave(running));
  if (failure) throw failure;
  const { session = "", title = "", turn = null, waiting = [] } = talk?.facts() ?? {};
  if (title || turn || waiting.length) stdout.write(`Resume with: hermes -c ${shortName(session)}\n`);
  if (!over) process.exit(code); // whatever is wedged would hold the process
  // So would a request to a gateway that hangs. Not counted itself: with nothing left, the process ends at once.
  setTimeout(() => process.exit(code), LINGER_MS).unref();
  return code;

  async function begin(opened: OpenedTalk): Promise<Talk> {
    const { engine: runtime, config, endpoints, sandbox } = opened;
    const talk = createTalk({
      ...opened,
      runtime,
      view,
      mode: config.display.busy_input_mode,
      queuedAfterStop: config.display.queued_after_stop,
      model: endpoints[0]?.model ?? "",
      window: endpoints[0]?.context ?? 0,
      newSession,
      newKey: randomUUID,
      now: clock.now,
      imagesIn: async (text) => (await attachmentsIn(text, process.cwd(), rootsOf(opened))).images,
      copy: (text) => copyText(text, env, stdout),
      save: (file, text) => save(file, text, rootsOf(opened)),
      costOf: (name: string, usage: Usage) => costOf(config.prices, name, usage),
      leave: () => left.resolve(0),
    });
    view.say(`${sandbox}\n${HELP}`);
    await talk.open(await sessionOf(options, opened, view));
    if (options.message) await talk.enter(options.message).catch((error: unknown) => view.complain(messageOf(error)));
    return talk;
  }
}

const HELP = "Type a message; /help for commands, Ctrl+C stops a turn, Ctrl+D leaves.";

/** Null: it will not come, or not soon (the person left while choosing what to talk about). */
async function settledBy<T>(work: Promise<T>, ms = 0): Promise<T | null> {
  const settled = work.catch(() => null);
  return (await within(clock, ms, settled)) ?? null;
}

export const modelFlag = (model: string | undefined) => ({ flag: "--model", key: "model.default", value: model });

async function openOnScreen({ settings, env, ...options }: ChatOptions): Promise<Surface> {
  const { config, endpoints, home } = settings;
  const { openScreen } = await import("./screen/screen.ts");
  const workspace = config.terminal.cwd ?? process.cwd();
  const isNew = !options.message && !options.session && !options.continue && !options.resume;
  return openScreen({
    env,
    display: config.display,
    historyFile: join(home.dir, "history"),
    cwd: process.cwd(),
    workspace,
    window: endpoints[0]?.context ?? 0,
    costOf: (name, usage) => costOf(config.prices, name, usage),
    now: clock.now,
    editDraft: (text, signal) => editDraft(text, home.dir, env, signal),
    pasteImage: () => pasteImage(home.attachments, env),
    suggestions: isNew ? suggestionsIn(workspace) : Promise.resolve([]),
  });
}

/** False: not everything has ended. After the watchdog's time the process is gone whatever happens. */
export async function leave(running: OpenedTalk): Promise<boolean> {
  const cancel = setDeadline(running.config.agent.exit_watchdog * 1_000);
  const closed = running.close(DRAIN_MS).then(
    () => true,
    (error: unknown) => {
      process.stderr.write(`hermes: ${messageOf(error)}\n`);
      return false;
    },
  );
  const over = (await within(clock, EXIT_MS, closed)) ?? false;
  if (over) cancel();
  return over;
}

async function sessionOf(options: ChatOptions, running: OpenedTalk, view: View): Promise<string> {
  const { engine } = running;
  if (options.session) return fullName(options.session);
  for (const wanted of [options.continue, options.resume])
    if (typeof wanted === "string") return findSession(engine, wanted);
  const rows = options.resume ? await sessionsToResume(engine) : [];
  if (options.resume && !rows.length) view.say(NO_SESSIONS);
  const picked = rows.length > 0 && (await pickSession(rows, view.choose, clock.now()));
  return picked || (options.continue && (await newestSession(engine))) || newSession();
}

export const newSession = () => fullName(randomBytes(4).toString("hex"));

/** Where the agent may write: a link in there is not followed for a person either. */
export const rootsOf = ({ config }: Pick<TerminalSettings, "config">): string[] => [
  config.terminal.cwd ?? process.cwd(),
  ...config.terminal.writable,
];

/** Never over something that is there. */
export async function save(file: string, text: string, roots: readonly string[]): Promise<string> {
  const path = resolve(file.replace(/^~(?=\/)/, process.env["HOME"] ?? "~"));
  await createFile(path, roots, text).catch((error: unknown) => {
    throw codeOf(error) === "EEXIST" ? new Error(`${path} is there already: name another file.`) : error;
  });
  return path;
}

export function modelLine({ endpoints }: Pick<TerminalSettings, "endpoints">): string {
  const [first] = endpoints;
  if (first?.provider === "demo") return "Demo mode: canned replies. Run `hermes setup` to connect a model.";
  return `${first?.model} via ${first?.provider} (${first?.because})`;
}
