// An MCP server that is a program: messages over its input and output, one line each. The library's own transport knows
// neither a group nor a marker, so what a server starts would outlive it.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Transport } from "@modelcontextprotocol/client";
import { within } from "../../core/wait.ts";
import { attempt } from "../../platform/attempt.ts";
import { clock } from "../../platform/clock.ts";
import { bwrapArgs, type Sandbox } from "../sandbox/sandbox.ts";
import { childEnv, isOfCall, marks } from "../shell/env.ts";
import { bubblewrap, table } from "../shell/exec.ts";
import { endTree } from "../shell/tree.ts";

export type StdioOptions = {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  sandbox: Sandbox | null;
  /** Where the agent may write. */
  roots: readonly string[];
  /** `ownerHere(home)`: the next process of this home ends what we could not. */
  owner: string;
  onStderr(text: string): void;
};
type RpcMessage = Parameters<Transport["send"]>[0];
export type Stdio = Transport & { /** How it ended, once it has. */ ended(): string };

/** The server has not got the message. */
export class NotDelivered extends Error {
  override readonly name = "NotDelivered";
}

const LONGEST_LINE = 10_000_000;
/** For a server that ends by itself when its input does, as it should. */
const POLITE_MS = 300;

const groups = new Set<() => void>();
process.on("exit", () => {
  for (const kill of groups) kill();
});

export function createStdio(options: StdioOptions, parse: (line: string) => RpcMessage): Stdio {
  const marker = randomBytes(8).toString("hex");
  let child: ChildProcess | null = null;
  let exit: Promise<void> = Promise.resolve();
  let how = "";
  let closing: Promise<void> | null = null;

  function start(): Promise<void> {
    const { command, cwd, sandbox, roots, owner } = options;
    const [program = "", ...args] = sandbox
      ? [bubblewrap() ?? "bwrap", ...bwrapArgs(sandbox, cwd), ...command]
      : command;
    const started = spawn(program, args, {
      cwd: sandbox ? "/" : cwd,
      env: { ...childEnv(process.env, roots), ...options.env, ...marks(marker, owner) },
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    child = started;
    started.stdout.setEncoding("utf8").on("data", linesTo(receive));
    started.stderr.setEncoding("utf8").on("data", options.onStderr);
    for (const stream of [started.stdin, started.stdout, started.stderr]) stream.on("error", () => {});
    groups.add(killNow);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    started.once("spawn", resolve);
    exit = new Promise((over) => {
      started.once("error", (error) => {
        how = `it could not be started: ${error.message}`;
        reject(new Error(how));
        over();
      });
      started.once("exit", (code, signal) => {
        how ||= signal ? `it was killed by ${signal}` : `it ended with exit code ${code}`;
        over();
      });
    });
    // Not on `close`: what it has started may hold the pipes for ever.
    void exit.then(close);
    return promise;
  }

  function receive(line: string): void {
    try {
      transport.onmessage?.(parse(line));
    } catch {
      transport.onerror?.(new Error(`not a message: ${line.slice(0, 200)}`));
    }
  }

  function linesTo(take: (line: string) => void): (text: string) => void {
    let rest = "";
    return (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.trim()) take(line);
      if (rest.length > LONGEST_LINE) {
        how ||= `it sent a line of more than ${LONGEST_LINE} characters`;
        rest = "";
        void close();
      }
    };
  }

  function close(): Promise<void> {
    closing ??= end();
    return closing;
  }

  /** Never rejects: it is also called where nobody waits for it. */
  async function end(): Promise<void> {
    const server = child;
    server?.stdin?.end();
    await within(clock, POLITE_MS, exit);
    const alive = () => server?.pid !== undefined && server.exitCode === null && server.signalCode === null;
    // Also after it has ended: what it started carries its marker.
    if (server?.pid !== undefined)
      await endTree(table, { mine: isOfCall(marker), group: () => (alive() ? (server.pid ?? null) : null) }).catch(
        killNow,
      );
    for (const stream of [server?.stdin, server?.stdout, server?.stderr]) stream?.destroy();
    groups.delete(killNow);
    transport.onclose?.();
  }

  /** We are leaving without having been asked to: there is no time for more. */
  function killNow(): void {
    const { pid, exitCode = null, signalCode = null } = child ?? {};
    if (pid !== undefined && exitCode === null && signalCode === null) attempt(() => process.kill(-pid, "SIGKILL"));
  }

  const transport: Stdio = {
    start,
    close,
    ended: () => how,
    send: (message) =>
      new Promise((resolve, reject) => {
        // What was not written to its end is no message: a line ends it.
        const refuse = () => reject(new NotDelivered(how || "it does not listen any more"));
        if (!child?.stdin?.writable || closing) return refuse();
        child.stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? refuse() : resolve()));
      }),
  };
  return transport;
}
