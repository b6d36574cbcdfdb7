// hermes run: reads what to do, opens the runtime for one turn, and sees to it that leaving always ends.
import { randomUUID } from "node:crypto";
import { fstatSync } from "node:fs";
import { text as readAll } from "node:stream/consumers";
import { fullName, shortName } from "../../core/session-key.ts";
import { uncaught } from "../../platform/uncaught.ts";
import { readImage } from "./attachments.ts";
import { findSession, newestSession } from "./find.ts";
import { type ChatOptions, leave, modelFlag, modelLine, newSession, rootsOf } from "./open.ts";
import { runOnce } from "./run-turn.ts";

type RunCommandOptions = Pick<ChatOptions, "settings" | "open" | "env" | "session" | "model"> & {
  prompt: string;
  /** Instead of the prompt: all of it, whatever standard input is. Its conversation is named at the end. */
  query?: string;
  /** A name, title or part of a title of the conversation to go on with. */
  find?: string;
  image: string[];
  json: boolean;
  quiet: boolean;
  yolo: boolean;
  continue: boolean;
};

export async function openRun(options: RunCommandOptions): Promise<number> {
  const { stdout, stderr } = process;
  const prompt = options.query ?? (await promptOf(options.prompt));
  if (!prompt.trim()) {
    stderr.write('hermes: the prompt is missing. Use: hermes run "what to do", or give it on stdin.\n');
    return 2;
  }
  const images = await Promise.all(options.image.map((path) => readImage(path, rootsOf(options.settings))));
  const off = { flag: "--yolo", key: "approvals.mode", value: options.yolo ? "off" : undefined };
  const named = options.session && fullName(options.session);
  // A single turn is no time to take up what others left.
  const mine = (session: string) => session === named;
  const running = await options.open({
    env: options.env,
    flags: [modelFlag(options.model), off],
    logToStderr: false,
    mine,
  });
  if (!options.quiet) stderr.write(`${modelLine(running)}\n`);
  const stop = new AbortController();
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort();
  };
  for (const signal of signals) process.on(signal, onSignal);
  stdout.removeAllListeners("error").on("error", () => stop.abort()); // nobody reads any more: no reason to go on
  const broken = uncaught();
  let code = 1;
  try {
    const found = options.find === undefined ? named : await findSession(running.engine, options.find);
    const session = found ?? ((options.continue && (await newestSession(running.engine))) || newSession());
    const turn = runOnce({
      runtime: running.engine,
      session,
      key: randomUUID(),
      prompt,
      model: options.model,
      images,
      json: options.json,
      quiet: options.quiet,
      unattended: options.yolo ? "allow" : running.config.approvals.unattended,
      out: (text) => void stdout.write(text),
      terminal: stdout.isTTY,
      err: (line) => void stderr.write(`${line}\n`),
      stop: stop.signal,
    });
    code = await Promise.race([turn, broken]);
    if (options.query !== undefined) stderr.write(`session_id: ${shortName(session)}\n`);
  } finally {
    if (!(await leave(running))) process.exit(code);
  }
  return code;
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
