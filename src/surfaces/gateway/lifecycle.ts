// How the gateway's process begins, is asked to leave, and ends: always, in time, with the code its service manager reads.
import { spawn } from "node:child_process";
import { Writable } from "node:stream";
import type { Log } from "../../core/ports.ts";
import { handOver, SECRETS_FD } from "../../platform/handed-secrets.ts";
import { findProgram } from "../../platform/programs.ts";

/** sysexits.h: EX_TEMPFAIL asks a service manager to start us again. */
const EXIT = { stopped: 0, failed: 1, restart: 75, second: 130 };

export type Leaving = { why: "shutdown" | "restart" | "failure"; turn: string | null };

type Signals = { on(signal: NodeJS.Signals, heard: () => void): unknown };

/** From now on signals are ours. A second one ends the process at once: what was accepted is durable already. */
export function createLifecycle(log: Log, signals: Signals = process) {
  const asked = Promise.withResolvers<Leaving>();
  let leaving = false;
  const leave = (why: Leaving["why"], turn: string | null): boolean => {
    if (leaving) return false;
    leaving = true;
    asked.resolve({ why, turn });
    return true;
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    signals.on(signal, () => {
      log("info", "gateway.signal", { signal });
      if (!leave("shutdown", null)) process.exit(signal === "SIGTERM" ? EXIT.stopped : EXIT.second);
    });
  signals.on("SIGUSR2", () => leave("restart", null));
  return {
    asked: asked.promise,
    /** True once, then false: one restart is enough. */
    requestRestart: ({ turn }: { turn: string | null }): boolean => leave("restart", turn),
    /** As a signal does. */
    stop: () => void leave("shutdown", null),
    /** Something went wrong that nobody expected: we leave in good order, since nobody knows what else is wrong now. */
    fail: () => void leave("failure", null),
  };
}

/** What comes after us: a service manager that sees our code, or a helper of our own that outlives us. */
export function leaveTo(why: Leaving["why"], env: NodeJS.ProcessEnv, again: readonly string[]): number {
  if (why === "shutdown") return EXIT.stopped;
  if (why === "failure") return EXIT.failed;
  if (env["INVOCATION_ID"]) return EXIT.restart;
  startAgain(process.pid, again, env);
  return EXIT.stopped;
}

/** Longer than any drain and deadline of ours. */
const WAIT_S = 600;

/** In a session of its own, without our terminal: waits until we are gone, then starts the gateway again. */
export function startAgain(pid: number, command: readonly string[], env: NodeJS.ProcessEnv): number {
  const script = `
    sleep=$1; shift
    n=0
    while kill -0 ${pid} 2>/dev/null; do
      n=$((n + 1)); [ "$n" -gt ${WAIT_S * 10} ] && exit 1
      "$sleep" 0.1
    done
    exec "$@"`;
  const given = handOver(env);
  const child = spawn(
    "/bin/sh",
    ["-c", script, "hermes gateway restart", findProgram("sleep") ?? "/bin/sleep", ...command],
    {
      detached: true, // setsid
      stdio: [...Array.from({ length: SECRETS_FD }, () => "ignore" as const), "pipe"],
      env: given.env,
    },
  );
  const streams: readonly unknown[] = child.stdio;
  const secrets = streams[SECRETS_FD];
  // Nobody reads it before we are gone: it waits in the socket.
  if (secrets instanceof Writable) secrets.on("error", () => {}).end(given.text);
  child.unref();
  return child.pid ?? 0;
}
