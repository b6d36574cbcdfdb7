// What `chat` and `run` share: opening the runtime, signals, and an end that always comes.
import { randomBytes, randomUUID } from "node:crypto";
import { fstatSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { createInterface } from "node:readline/promises";
import { text as readAll } from "node:stream/consumers";
import type { Runtime } from "../../core/runtime.ts";
import type { Image } from "../../core/session.ts";
import { chat } from "./chat.ts";
import { runOnce } from "./run.ts";
import { fullName, isTerminal, shortName } from "./sessions.ts";

type Flag = { flag: string; key: string; value: unknown };
type Opened = {
  engine: Runtime;
  config: {
    readonly display: { readonly busy_input_mode: "interrupt" | "queue" | "steer" };
    readonly approvals: { readonly unattended: "deny" | "allow" };
    readonly agent: { readonly exit_watchdog: number };
  };
  endpoints: readonly { provider: string; model: string; because: string }[];
  sandbox: string;
  newest(): Promise<string | null>;
  /** What can be looked up, for a person. */
  skills(): Promise<string>;
  /** That conversation is left for a new one. */
  switched(from: string): void;
  close(drainMs: number): Promise<{ left: string[] }>;
};
type Open = (options: {
  env: NodeJS.ProcessEnv;
  flags: readonly Flag[];
  logToStderr: boolean;
  mine(session: string): boolean;
}) => Promise<Opened>;
type Common = { open: Open; env: NodeJS.ProcessEnv; continue: boolean; session?: string; model?: string };

/** Turns that still run when we leave go on at the next start, so nobody waits for them here. */
const EXIT_MS = 500;

export async function openChat(options: Common): Promise<number> {
  const { stdin, stdout } = process;
  const running = await open(options, [], isTerminal);
  const session = await sessionOf(options, running);
  const lines = createInterface({
    input: stdin,
    output: stdout,
    prompt: stdout.isTTY ? "> " : "",
    terminal: stdout.isTTY,
  });
  // A closed terminal must not keep us: the session can be resumed.
  for (const signal of ["SIGHUP", "SIGTERM"] as const) process.once(signal, () => lines.close());
  stdout.removeAllListeners("error").on("error", () => lines.close());
  let code = 1;
  try {
    code = await chat({
      runtime: running.engine,
      session,
      newSession,
      newKey: randomUUID,
      mode: running.config.display.busy_input_mode,
      banner: banner(running, session),
      lines,
      write: (text) => void stdout.write(text),
      now: () => performance.now(),
      skills: running.skills,
      switched: running.switched,
    });
  } finally {
    // Also when the talk broke off: nothing may keep the process.
    lines.close();
    stdout.write("Shutting down… (finalizing session)\n");
    await leave(running);
  }
  stdout.write(`Resume with: hermes chat --session ${shortName(session)}\n`);
  return code;
}

export async function openRun(
  options: Common & { prompt: string; image: string[]; json: boolean; quiet: boolean; yolo: boolean },
): Promise<number> {
  const { stdout, stderr } = process;
  const prompt = await promptOf(options.prompt);
  if (!prompt.trim()) {
    stderr.write('hermes: there is nothing to do: hermes run "what to do", or give it on stdin.\n');
    return 2;
  }
  const images = await Promise.all(options.image.map(readImage));
  const off = { flag: "--yolo", key: "approvals.mode", value: options.yolo ? "off" : undefined };
  const named = options.session && fullName(options.session);
  // A single turn is no time to take up what others left.
  const running = await open(options, [off], (session) => session === named);
  if (!options.quiet) stderr.write(`${modelLine(running)}\n`);
  const stop = new AbortController();
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort();
  };
  for (const signal of signals) process.on(signal, onSignal);
  stdout.removeAllListeners("error").on("error", () => stop.abort()); // nobody reads any more: no reason to go on
  try {
    return await runOnce({
      runtime: running.engine,
      session: await sessionOf(options, running),
      key: randomUUID(),
      prompt,
      model: options.model,
      images,
      json: options.json,
      quiet: options.quiet,
      unattended: options.yolo ? "allow" : running.config.approvals.unattended,
      out: (text) => void stdout.write(text),
      err: (line) => void stderr.write(`${line}\n`),
      stop: stop.signal,
    });
  } finally {
    await leave(running);
  }
}

function open(
  { open: openRuntime, env, model }: Common,
  flags: readonly Flag[],
  mine: (session: string) => boolean,
): Promise<Opened> {
  const chosen = { flag: "--model", key: "model.default", value: model };
  return openRuntime({ env, flags: [chosen, ...flags], logToStderr: false, mine });
}

/** A wedged part cannot hold us: after the watchdog's time the process ends whatever happens. */
async function leave(running: Opened): Promise<void> {
  const watchdog = setTimeout(() => process.exit(1), running.config.agent.exit_watchdog * 1_000);
  await running.close(EXIT_MS);
  clearTimeout(watchdog);
}

async function sessionOf(options: Common, running: Opened): Promise<string> {
  if (options.session) return fullName(options.session);
  return (options.continue ? await running.newest() : null) ?? newSession();
}

const newSession = () => fullName(randomBytes(4).toString("hex"));

function banner(running: Opened, session: string): string {
  const help = "Type a message; /help for commands, Ctrl+C stops a turn, Ctrl+D leaves.";
  return `hermes · ${modelLine(running)} · session ${shortName(session)}\n${running.sandbox}\n${help}`;
}

function modelLine({ endpoints }: Opened): string {
  const [first] = endpoints;
  if (first?.provider === "demo") return "OFFLINE DEMO MODEL (a script; set a key with: hermes setup)";
  return `${first?.model} by ${first?.provider} (${first?.because})`;
}

const IMAGES: Record<string, string> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};
const LARGEST_IMAGE = 5_000_000;

async function readImage(path: string): Promise<Image> {
  const mime = IMAGES[extname(path).toLowerCase()];
  if (!mime) throw new Error(`--image ${path}: only ${Object.keys(IMAGES).join(", ")} are images that models read.`);
  const bytes = await readFile(path);
  if (bytes.length > LARGEST_IMAGE)
    throw new Error(`--image ${path}: larger than ${LARGEST_IMAGE} bytes; make it smaller.`);
  return { mime, data: bytes.toString("base64") };
}

/** What is piped in comes behind what is asked about it. */
async function promptOf(given: string): Promise<string> {
  const stdin = fstatSync(0);
  const piped = stdin.isFIFO() || stdin.isFile() || stdin.isSocket();
  if (given && given !== "-" && !piped) return given;
  const slow = setTimeout(() => process.stderr.write("hermes: reading stdin (end it, or use </dev/null)\n"), 2_000);
  const read = await readAll(process.stdin);
  clearTimeout(slow);
  const asked = given === "-" ? "" : given;
  return [asked, read.trim()].filter(Boolean).join("\n\n");
}
