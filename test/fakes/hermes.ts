// The program as a real process with a home of its own, and what it has printed so far.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const program = fileURLToPath(new URL("../../bin/hermes", import.meta.url));

type Hermes = {
  pid: number;
  stdout(): string;
  stderr(): string;
  /** Resolves when this has been printed on stdout or stderr; rejects when the process ends without it. */
  prints(what: RegExp): Promise<void>;
  type(text: string): void;
  /** No more will be typed. */
  hangUp(): void;
  kill(signal: NodeJS.Signals): void;
  /** The exit code, or the signal that ended it. */
  exit: Promise<number | NodeJS.Signals>;
};

type Running = Pick<Hermes, "kill" | "exit">;

export type Place = {
  home: string;
  dir: string;
  start(args: string[], more?: NodeJS.ProcessEnv): Hermes;
  /** No file of it can grow beyond so many KiB: a disk that is full, for whoever need not be root to have one. */
  startWithFullDisk(args: string[], kib: number): Hermes;
  /** On a terminal of its own: what is typed are keys, what is printed comes with colours and all. */
  startOnTerminal(args: string[]): Hermes;
  /** Writes config.yaml. */
  configure(yaml: string): void;
  /** `hermes gateway`, ready when this returns. */
  startGateway(more?: NodeJS.ProcessEnv): Promise<{ hermes: Hermes; url: string }>;
  /** What a process here starts with. */
  env(more?: NodeJS.ProcessEnv): NodeJS.ProcessEnv;
  /** Takes in a process that was started elsewhere: clear() kills it if it still runs. */
  adopt(child: Running): void;
  clear(): void;
};

/** A temporary directory with a home in it; nothing of the caller's environment but PATH. `launcher`: another installation's. */
export function makePlace(env: NodeJS.ProcessEnv = {}, launcher = program): Place {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-")));
  const home = join(dir, "home");
  const running = new Set<Running>();
  const whole = (more: NodeJS.ProcessEnv = {}) => ({
    PATH: process.env["PATH"],
    HERMES_TEST_RUN: process.env["HERMES_TEST_RUN"], // test/leaks.ts knows its own by it
    HOME: dir,
    HERMES_HOME: home,
    API_SERVER_PORT: "0", // several run side by side
    ...env,
    ...more,
  });
  const adopt = (child: Running) => {
    running.add(child);
    void child.exit.finally(() => running.delete(child));
  };
  const launch = (command: string, args: string[], more: NodeJS.ProcessEnv) => {
    const hermes = start(command, args, dir, whole(more));
    adopt(hermes);
    return hermes;
  };
  return {
    dir,
    home,
    env: whole,
    adopt,
    configure(yaml) {
      mkdirSync(home, { recursive: true, mode: 0o700 });
      writeFileSync(join(home, "config.yaml"), yaml, { mode: 0o600 });
    },
    start: (args, more = {}) => launch(launcher, args, more),
    async startGateway(more = {}) {
      const hermes = launch(launcher, ["gateway", "--port", "0"], more);
      await hermes.prints(/^hermes gateway ready on http:\S+\n/m);
      return { hermes, url: /ready on (http:\S+)\n/.exec(hermes.stdout())?.[1] ?? "" };
    },
    startWithFullDisk: (args, kib) =>
      launch("/bin/sh", ["-c", `ulimit -f ${kib * 2}; exec "$0" "$@"`, launcher, ...args], {}), // in blocks of 512 bytes
    startOnTerminal(args) {
      const command = `stty cols 120 rows 50; exec '${launcher}' ${args.join(" ")}`;
      return launch("script", ["-qefc", command, "/dev/null"], { TERM: "xterm", SHELL: "/bin/sh" });
    },
    clear() {
      for (const hermes of running) hermes.kill("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function start(command: string, args: string[], cwd: string, env: NodeJS.ProcessEnv): Hermes {
  const child = spawn(command, args, { cwd, env });
  const printed = { stdout: "", stderr: "" };
  const waiting = new Set<() => void>();
  for (const which of ["stdout", "stderr"] as const)
    child[which].setEncoding("utf8").on("data", (text: string) => {
      printed[which] += text;
      for (const check of waiting) check();
    });
  let over = false;
  const exit = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on("close", (code, signal) => {
      over = true;
      for (const check of waiting) check();
      resolve(code ?? signal ?? "SIGKILL");
    });
  });
  child.stdin.on("error", () => {}); // it may be gone by then
  return {
    pid: child.pid ?? 0,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    prints: (what) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const found = what.test(printed.stdout) || what.test(printed.stderr);
          if (!found && !over) return;
          waiting.delete(check);
          if (found) resolve();
          else reject(new Error(`it ended without ${what}:\n${printed.stdout}\n${printed.stderr}`));
        };
        waiting.add(check);
        check();
      }),
    type: (text) => void child.stdin.write(text),
    hangUp: () => void child.stdin.end(),
    kill: (signal) => void child.kill(signal),
    exit,
  };
}
