// npm run real-model : hermes against real model servers on this machine, with a small model and no key.
import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/errors.ts";
import { breaksOf, type Case, casesOf } from "../test/real-model/cases.ts";
import { install, MODEL, type Server, startLiteLlm, startLlama } from "../test/real-model/servers.ts";

const CACHE = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "hermes-real-model");
const HELP = `npm run real-model -- [options]

Installs llama-cpp-python, LiteLLM and a model of 94 MB (SmolLM2, 135 million parameters) into a directory of its own, starts
both servers on 127.0.0.1, and lets hermes work with them in every wire format. A line for each case, then "N passed, M failed".
Needs Python 3.10 or newer with venv, a C++ compiler and cmake, the internet the first time, and 2 GB of disk.

  --cache DIR    where it is installed (${CACHE})
  --only TEXT    only the cases whose name contains this
  --serve        start the servers, say how to use them, and leave them running until Ctrl+C
  -h, --help     this text`;

const { values } = readOptions();
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const installed = await install(values.cache, (line) => console.log(`… ${line}`));
console.log("… starting llama.cpp's server");
let llama: Server = await startLlama(installed);
console.log(`… starting LiteLLM in front of it`);
const litellm = await startLiteLlm(installed, llama).catch(async (error: unknown) => {
  await llama.kill();
  throw error;
});
try {
  if (values.serve) await serve();
  else await runAll();
} finally {
  await litellm.kill();
  await llama.kill();
}

function readOptions() {
  try {
    return parseArgs({
      options: {
        cache: { type: "string", default: CACHE },
        only: { type: "string", default: "" },
        serve: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    console.error(`${messageOf(error)}\nTry: npm run real-model -- --help`);
    return process.exit(2);
  }
}

async function serve(): Promise<void> {
  const root = litellm.url.replace(/\/v1$/, "");
  console.log(`
llama.cpp           OPENAI_BASE_URL=${llama.url} LLM_MODEL=${MODEL} bin/hermes
LiteLLM             OPENAI_BASE_URL=${litellm.url} OPENAI_API_KEY=${litellm.key} LLM_MODEL=${MODEL} bin/hermes
LiteLLM, Anthropic  ANTHROPIC_BASE_URL=${root} ANTHROPIC_API_KEY=${litellm.key} LLM_MODEL=${MODEL} bin/hermes

Ctrl+C ends both.`);
  await new Promise((resolve) => process.once("SIGINT", resolve).once("SIGTERM", resolve));
}

async function runAll(): Promise<void> {
  const direct = {
    name: "llama.cpp",
    provider: "openai-compatible" as const,
    url: llama.url,
    key: "none",
    tellsUsage: false,
  };
  const behind = { url: litellm.url, key: litellm.key, tellsUsage: true };
  const restart = async () => {
    llama = await startLlama(installed, llama.port);
  };
  const cases: Case[] = [
    ...casesOf(direct),
    ...casesOf({ name: "LiteLLM, OpenAI", provider: "openai-compatible", ...behind }),
    ...casesOf({ name: "LiteLLM, Anthropic", provider: "anthropic", ...behind }),
    ...casesOf({ name: "LiteLLM, Responses", provider: "openai", ...behind }),
    ...breaksOf(direct, () => llama, restart),
  ].filter(({ name }) => name.includes(values.only));
  let failed = 0;
  for (const { name, run } of cases) {
    const began = performance.now();
    const problem = await run().then(() => null, messageOf);
    const seconds = ((performance.now() - began) / 1_000).toFixed(1);
    console.log(problem === null ? `✓ ${name} (${seconds} s)` : `✗ ${name} (${seconds} s): ${problem}`);
    if (problem !== null) failed += 1;
  }
  console.log(`${cases.length - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}
