// hermes run: reads what to do, opens the runtime for one turn, and sees to it that leaving always ends.
import { randomUUID } from "node:crypto";
import { fstatSync, writeFileSync } from "node:fs";
import { text as readAll } from "node:stream/consumers";
import { costOf } from "../../conversation/cost.ts";
import { fullName, shortName } from "../../core/session-key.ts";
import { uncaught } from "../../platform/uncaught.ts";
import { readImage } from "./attachments.ts";
import { findSession, newestSession } from "./find.ts";
import { type ChatOptions, leave, modelFlag, modelLine, newSession, rootsOf } from "./open.ts";
import { RUN_SOURCE, runOnce } from "./run-turn.ts";

export type RunCommandOptions = Pick<ChatOptions, "settings" | "open" | "env" | "session" | "model"> & {
  prompt: string;
  /** Instead of the prompt: all of it, whatever standard input is. Its conversation is named at the end. */
  query?: string;
  /** A name, title or part of a title of the conversation to go on with. */
  find?: string;
  provider?: string;
  /** Where the tokens and the cost of the turn are written. */
  usageFile?: string;
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
    flags: [modelFlag(options.model), { flag: "--provider", key: "model.provider", value: options.provider }, off],
    logToStderr: false,
    mine,
  });
  if (!options.quiet) stderr.write(`${modelLine(running)}\n`);
  if (options.provider && running.owner !== "self")
    stderr.write(`hermes: the ${running.owner} runs the turn with its own provider; --provider has no effect\n`);
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
    const key = randomUUID();
    const turn = runOnce({
      runtime: running.engine,
      session,
      key,
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
    if (options.usageFile) {
      const report = await usageReport(running, session, running.engine.idOf(RUN_SOURCE, key));
      writeFileSync(options.usageFile, `${JSON.stringify(report, null, 2)}\n`, { mode: 0o600 });
    }
    if (options.query !== undefined) stderr.write(`session_id: ${shortName(session)}\n`);
  } finally {
    if (!(await leave(running))) process.exit(code);
  }
  return code;
}

/** With the names that Hermes has for it. */
async function usageReport(running: Awaited<ReturnType<ChatOptions["open"]>>, session: string, turn: string) {
  const { engine, config } = running;
  const [run, entries] = await Promise.all([engine.run(turn), engine.turn(turn)]);
  const { input = 0, output = 0, cached = 0, reasoning = 0, ...rest } = run?.usage ?? {};
  const model = run?.model ?? "";
  const failure = run?.status === "completed" ? null : (run?.error ?? run?.status ?? "unknown");
  return {
    session_id: shortName(session),
    model,
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    cache_read_tokens: cached,
    reasoning_tokens: reasoning,
    estimated_cost_usd: costOf(config.prices, model, { input, output, cached, ...rest }),
    api_calls: entries.filter(({ kind }) => kind === "thought").length,
    completed: failure === null,
    failed: failure !== null,
    failure,
  };
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
