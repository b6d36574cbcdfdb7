// A server in a process of its own, and what it needs.
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const HERMES = fileURLToPath(new URL("../bin/hermes", import.meta.url));

/** A server and a thread with a database: what no gateway can do without. */
export const BARE_SERVER = `
  const { Worker } = require("node:worker_threads");
  const { createServer } = require("node:http");
  const thread = "const { DatabaseSync } = require('node:sqlite'); const db = new DatabaseSync(':memory:'); " +
    "const { parentPort } = require('node:worker_threads'); parentPort.on('message', () => {}); parentPort.postMessage(0)";
  const server = createServer((request, response) => response.end("ok"));
  new Worker(thread, { eval: true }).once("message", () =>
    server.listen(0, "127.0.0.1", () => console.log("ready on http://127.0.0.1:" + server.address().port)));
  process.on("SIGTERM", () => process.exit());`;

export type Launched = {
  url: string;
  /** CPU of all its threads since it began. */
  cpuMs(): number;
  rss(): number;
  stop(): Promise<unknown>;
};
const running = new Set<ChildProcess>();

/** Resolves when it has printed where it is ready. */
export async function launch(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Launched> {
  const child = spawn(command, args, {
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  running.add(child);
  const exited = new Promise((resolve) => child.once("exit", resolve));
  void exited.then(() => running.delete(child));
  const url = await new Promise<string>((resolve, reject) => {
    let printed = "";
    child.stdout.on("data", (text: Buffer) => {
      printed += text.toString();
      const found = /ready on (\S+)\n/.exec(printed)?.[1];
      if (found) resolve(found);
    });
    void exited.then(() => reject(new Error(`${command} ended: ${printed}`)));
  });
  const proc = `/proc/${child.pid}`;
  return {
    url,
    cpuMs: () =>
      readdirSync(`${proc}/task`)
        .map((id) => Number(readFileSync(`${proc}/task/${id}/schedstat`, "utf8").split(" ")[0]) / 1e6)
        .reduce((sum, ms) => sum + ms, 0),
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`${proc}/status`, "utf8"))?.[1]) / 1_024,
    stop() {
      child.kill("SIGTERM");
      return exited;
    },
  };
}

export function endAll(): void {
  for (const child of running) child.kill("SIGKILL");
}
