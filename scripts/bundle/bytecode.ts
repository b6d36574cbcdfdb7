// Makes the bytecode of dist/: the program is run as its users run it, and what V8 has compiled by then is written beside each file.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Script } from "node:vm";
import { type IPty, spawn as pty } from "@lydell/node-pty";

const KEY = "only-while-dist-is-built-0123456789";
const QUESTION = "Who has to sign the report?";
const TURNS = 5;
const LIMIT_MS = 60_000;

/** Run before the program: it takes down the scripts that are made, and writes their bytecode when the process ends. */
const RECORD = `
  import { writeFileSync } from "node:fs";
  const vm = process.getBuiltinModule("node:vm");
  const made = [];
  vm.Script = class extends vm.Script {
    constructor(code, options) {
      super(code, options);
      made.push([options.filename, this]);
    }
  };
  process.on("exit", () => {
    for (const [file, script] of made) writeFileSync(file + ".code", script.createCachedData());
  });`;

export async function makeBytecode(dir: string): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "hermes-build-"));
  const provider = createServer((request, response) => {
    request.resume().once("end", () => response.setHeader("content-type", "text/event-stream").end(ANSWER));
  });
  await once(provider.listen(0, "127.0.0.1"), "listening");
  try {
    const { port } = provider.address() as AddressInfo;
    const config = {
      model: { default: "m", base_url: `http://127.0.0.1:${port}/v1`, api_key: "k" },
      gateway: { api_server: { port: 0, key: KEY } },
    };
    writeFileSync(join(home, "config.yaml"), JSON.stringify(config), { mode: 0o600 });
    const node = ["--import", `data:text/javascript,${encodeURIComponent(RECORD)}`, `${dir}/main.cjs`];
    const env = {
      PATH: process.env.PATH ?? "",
      HOME: home,
      HERMES_HOME: home,
      TERM: "xterm-256color",
      LANG: "C.UTF-8",
    };
    const signal = AbortSignal.timeout(LIMIT_MS);
    const run = (...args: string[]) =>
      spawn(process.execPath, [...node, ...args], { cwd: home, env, stdio: ["ignore", "pipe", "ignore"], signal });
    for (const args of [["--help"], ["run", QUESTION]]) await once(run(...args), "exit");
    await chat(pty(process.execPath, [...node, QUESTION], { cols: 100, rows: 30, cwd: home, env }), signal);
    const gateway = run("gateway");
    const ended = once(gateway, "exit");
    const url = await new Promise<string>((resolve, reject) => {
      gateway.stdout.on("data", (text: Buffer) => {
        const ready = /ready on (\S+)/.exec(text.toString())?.[1];
        if (ready) resolve(ready);
      });
      ended.then(() => reject(new Error("the gateway did not start")), reject);
    });
    await talk(url).finally(() => gateway.kill("SIGTERM"));
    await ended;
    for (const file of globSync(`${dir}/*-*.cjs`).filter((one) => !existsSync(`${one}.code`)))
      writeFileSync(`${file}.code`, new Script(readFileSync(file, "utf8"), { filename: file }).createCachedData());
  } finally {
    provider.close();
    rmSync(home, { recursive: true, force: true });
  }
}

/** On its screen, until the answer is there; two Ctrl+C end it. */
async function chat(terminal: IPty, signal: AbortSignal): Promise<void> {
  let printed = "";
  const seen = terminal.onData((text) => {
    printed += text;
    if (!printed.includes("nobody.")) return;
    seen.dispose();
    terminal.write("\x03");
    terminal.write("\x03");
  });
  signal.addEventListener("abort", () => terminal.kill());
  await new Promise<void>((resolve) => terminal.onExit(() => resolve()));
}

async function talk(url: string): Promise<void> {
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  await fetch(`${url}/health`);
  for (let n = 0; n < TURNS; n++) {
    const body = JSON.stringify({ input: `What does report ${n} say, and who has to sign it?`, session_id: "build" });
    const { run_id } = (await (await fetch(`${url}/v1/runs`, { method: "POST", headers, body })).json()) as {
      run_id: string;
    };
    await (await fetch(`${url}/v1/runs/${run_id}/events`, { headers })).text();
  }
}

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const ANSWER = `${chunk({ role: "assistant", content: "Nothing," })}${chunk({ content: " nobody." })}${chunk({}, "stop")}data: [DONE]\n\n`;
