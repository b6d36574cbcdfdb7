// npm run clients-test : clients that others have written, against the packed and installed program.
import { execFile, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import pkg from "../package.json" with { type: "json" };
import { messageOf } from "../src/core/errors.ts";
import { type ClientCase, clientCases, playReply, runCase } from "../test/clients/cases.ts";
import { makePlace } from "../test/fakes/hermes.ts";
import { startFakeLlm } from "../test/fakes/llm/server.ts";

const HELP = `npm run clients-test -- [options]

Packs hermes, installs the package with npm, starts its gateway between a fake model and the clients in test/clients/cases, and runs
each of them with its own packages from PyPI and npm. A line for each client, then "N passed, M failed".
Needs npm, Python 3.10 or newer with venv, the internet, and 3 GB of disk.

  --only TEXT    only the clients whose name contains this; give the option again for more
  --dir DIR      install there and leave it for the next time (a temporary directory, removed at the end)
  -h, --help     this text`;

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [""] },
    dir: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}

const root = fileURLToPath(new URL("..", import.meta.url));
const cases = clientCases().filter(({ name }) => values.only.some((text) => name.includes(text)));
const dir = values.dir ?? mkdtempSync(join(tmpdir(), "hermes-clients-"));
const run = promisify(execFile);
const say = (line: string) => console.log(`… ${line}`);
/** npm and what it starts, without what `npm run` has set for this project. */
const outside = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
const LONG = { maxBuffer: 64_000_000, env: outside };

mkdirSync(dir, { recursive: true });
let failed = 0;
try {
  const program = await installProgram();
  for (const one of cases) await installClient(one);
  await runAll(program);
} finally {
  if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
const skipped = cases.filter(lacks);
for (const one of skipped) console.log(`- ${one.name}: not tested, no ${lacks(one)}`);
console.log(`${cases.length - skipped.length - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;

async function installProgram(): Promise<string> {
  say("packing and installing hermes");
  await run("npm", ["pack", "--pack-destination", dir], { cwd: root, ...LONG });
  const tarball = join(dir, `hermes-ts-${pkg.version}.tgz`);
  const prefix = join(dir, "hermes");
  const { stdout, stderr } = await run("npm", ["install", "-g", "--prefix", prefix, tarball], { cwd: dir, ...LONG });
  const warned = `${stdout}${stderr}`.split("\n").filter((line) => /^npm (?:warn (?!Unknown)|error)/i.test(line));
  if (warned.length) throw new Error(`npm warned of the package:\n${warned.join("\n")}`);
  return join(prefix, "bin", "hermes");
}

async function installClient({ name, language, packages }: ClientCase): Promise<void> {
  const at = join(dir, name);
  if (existsSync(join(at, "installed"))) return;
  mkdirSync(at, { recursive: true });
  if (packages.length) say(`installing ${packages.join(", ")}`);
  if (language === "python") {
    const uv = await installUv();
    await run(uv, ["venv", "--clear", at], LONG);
    if (packages.length) await run(uv, ["pip", "install", "--python", join(at, "bin", "python"), ...packages], LONG);
  } else {
    writeFileSync(join(at, "package.json"), '{ "type": "module" }\n');
    if (packages.length) await run("npm", ["install", "--no-audit", "--no-fund", ...packages], { cwd: at, ...LONG });
  }
  writeFileSync(join(at, "installed"), "");
}

/** It installs several times as fast as pip. */
async function installUv(): Promise<string> {
  const at = join(dir, "uv");
  const uv = join(at, "bin", "uv");
  if (existsSync(uv)) return uv;
  await run("python3", ["-m", "venv", at], LONG);
  await run(join(at, "bin", "pip"), ["install", "--quiet", "--disable-pip-version-check", "uv"], LONG);
  return uv;
}

function lacks({ needs }: ClientCase): string {
  return needs.filter((name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status !== 0).join(", ");
}

async function runAll(program: string): Promise<void> {
  await using llm = await startFakeLlm();
  llm.script(playReply);
  const place = makePlace(llm.env, program);
  mkdirSync(place.home, { mode: 0o700 });
  writeFileSync(join(place.home, "config.yaml"), `${JSON.stringify(config(place.dir))}\n`, { mode: 0o600 });
  const gateway = place.start(["gateway", "--port", "0"]);
  try {
    await gateway.prints(/^hermes gateway ready on http:\S+\n/m);
    const [, url = ""] = /ready on (http:\S+)\n/.exec(gateway.stdout()) ?? [];
    const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
    for (const one of cases.filter((one) => !lacks(one))) {
      const began = performance.now();
      const at = join(dir, one.name);
      const file = join(at, `case${one.language === "python" ? ".py" : ".mjs"}`);
      copyFileSync(one.file, file); // beside its packages
      const bin = one.language === "python" ? join(at, "bin") : dirname(process.execPath);
      const env = {
        ...place.env({ HERMES: program, HERMES_VERSION: pkg.version, HERMES_URL: url, HERMES_KEY: key }),
        PATH: [bin, process.env["PATH"]].join(delimiter),
        LLM_MODEL: "hermes-agent",
        OPENAI_BASE_URL: `${url}/v1`,
        OPENAI_API_KEY: key,
        PROVIDER_URL: llm.url,
        WORKSPACE: place.dir,
      };
      const problem = await runCase(one.language === "python" ? join(bin, "python") : process.execPath, {
        file,
        cwd: at,
        env,
      });
      const seconds = ((performance.now() - began) / 1_000).toFixed(1);
      console.log(problem === null ? `✓ ${one.name} (${seconds} s)` : `✗ ${one.name} (${seconds} s): ${problem}`);
      if (problem !== null) failed += 1;
    }
    for (const violation of llm.violations) console.log(`! the model's server refused: ${violation}`);
  } catch (error) {
    throw new Error(`${messageOf(error)}\n${gateway.stderr()}`, { cause: error });
  } finally {
    gateway.kill("SIGTERM");
    await gateway.exit;
    place.clear();
  }
}

/** config.yaml: four MCP servers that others have written. */
function config(workspace: string) {
  const program = (name: string, ...args: string[]) => ({
    command: [
      process.execPath,
      join(dir, "mcp", "node_modules", "@modelcontextprotocol", name, "dist", "index.js"),
      ...args,
    ],
  });
  return {
    approvals: { mode: "off" },
    ...(cases.some(({ name }) => name === "mcp") && {
      mcp_servers: {
        everything: program("server-everything"),
        files: program("server-filesystem", workspace),
        memory: program("server-memory"),
        thinking: program("server-sequential-thinking"),
      },
    }),
  };
}
