// Programs that run another command: which command they run, and which text they read as a script.

import { entries, oneOf, own, wordsOf } from "./table.ts";

export const baseName = (program: string): string => program.slice(program.lastIndexOf("/") + 1).toLowerCase();

/** `values`: options whose value is the next word. `skip`: words before the command. `assigns`: NAME=value may
 *  precede it. */
type Carrier = { values?: string; skip?: number; assigns?: boolean };

const CARRIERS: Record<string, Carrier> = {
  ...entries(
    "prlimit nohup setsid unbuffer command builtin busybox toybox setpriv valgrind dbus-run-session torsocks bunx pnpx",
    {},
  ),
  ...entries("gosu su-exec taskset chroot", { skip: 1 }),
  sudo: {
    values: "-u -g -h -p -C -T -r -t -U -D -R --user --group --host --prompt --chdir --other-user",
    assigns: true,
  },
  doas: { values: "-u -C" },
  pkexec: { values: "--user" },
  runuser: { values: "-u -g -G -s --user --group --shell" },
  env: { values: "-u -C --unset --chdir -P", assigns: true },
  nice: { values: "-n --adjustment" },
  ionice: { values: "-c -n -p -P -u --class --classdata" },
  chrt: { values: "-T -P -D --sched-runtime --sched-period --sched-deadline", skip: 1 },
  numactl: { values: "-C -N -m -i -p" },
  fakeroot: { values: "-l -s -i -b" },
  rlwrap: { values: "-a -f -H -s" },
  caffeinate: { values: "-t -w" },
  stdbuf: { values: "-i -o -e --input --output --error" },
  ...entries("timeout gtimeout", { values: "-s -k --signal --kill-after", skip: 1 }),
  time: { values: "-f -o --format --output" },
  exec: { values: "-a" },
  xargs: {
    values: `
        -a -d -E -I -L -n -P -s -R -S -J --arg-file --delimiter --max-args --max-procs --max-lines --max-chars
        --replace --eof --process-slot-var`,
  },
  parallel: { values: "-j -a -n -N -L -I --jobs --arg-file --colsep -C --delay --timeout" },
  flock: { values: "-w -E -c --timeout --command", skip: 1 },
  unshare: { values: "-R -w -S -G" },
  nsenter: { values: "-t -S -G --target" },
  "systemd-run": { values: "-p -u -M -H -t --unit --property --slice --uid --gid" },
  strace: { values: "-e -o -p -s -u -a -b -E -I -O -P -S -X" },
  ltrace: { values: "-e -o -p -s -u -a -n -x -l" },
  "xvfb-run": { values: "-n -s -e -f -p -w" },
  cgexec: { values: "-g" },
  faketime: { values: "-f", skip: 1 },
  sshpass: { values: "-p -f -e -d -P" },
  proxychains: { values: "-f" },
  npx: { values: "-p --package -c --call" },
  uvx: { values: "--from --with -p --python" },
  ssh: { values: "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", skip: 1 },
};
const OF_PACKAGES: Record<string, RegExp> = {
  npm: /^(?:exec|x)$/,
  pnpm: /^(?:exec|dlx)$/,
  yarn: /^(?:exec|dlx)$/,
  bun: /^x$/,
  uv: /^run$/,
  pipx: /^run$/,
  perf: /^(?:stat|record|trace)$/,
};
export const SHELLS = /^(?:ba|da|z|k|a|mk|fi|c|tc|rba|po|r)?sh$/;
/** Programs of which every word may be a script. */
const SCRIPTED = oneOf(`
  su runuser script watch parallel hyperfine flock tmux screen entr nodemon concurrently at batch npx sg ssh gdb
  expect zip`);
const ASSIGNMENT = /^[A-Za-z_]\w*=/;

export type Carried = {
  /** Commands it would run, as words. */
  argvs: string[][];
  /** Commands it would run if an unknown option takes a value. */
  maybe: string[][];
  /** Text that it reads as a script. */
  scripts: string[];
  /** Text that it may read as a script. */
  guesses: string[];
  /** A shell that takes its commands from an unknown source. */
  blind: boolean;
};

/** `fed`: possible standard input. */
export const carried = (argv: readonly string[], fed: readonly string[] = []): Carried => {
  const [program = "", ...args] = argv;
  const name = baseName(program);
  const found: Carried = { argvs: [], maybe: [], scripts: [], guesses: [], blind: false };

  if (SHELLS.test(name)) return shell(args, fed);
  if (name === "eval") found.scripts.push(args.join(" "));
  if (name === "trap") found.scripts.push(args[0] ?? "");
  if (name === "git") found.guesses.push(...gitScripts(args));
  if (name === "env") found.scripts.push(...envScripts(args));
  if (SCRIPTED.test(name)) {
    found.scripts.push(...args.filter((_arg, index) => /^(?:-\w*c|--command)$/.test(args[index - 1] ?? "")));
    found.guesses.push(...args.filter((arg) => /\s/.test(arg)));
    const rest = args.slice(commandAt(args, own(CARRIERS, name) ?? {}));
    if (rest.length > 0) found.guesses.push(rest.join(" "));
  }
  if (/^(?:g?find|fd|fdfind)$/.test(name)) found.argvs.push(...execs(args));
  if ((name === "source" || name === ".") && /^\/dev\/(?:stdin|fd\/)/.test(args[0] ?? "")) found.blind = true;

  const packaged = own(OF_PACKAGES, name)?.test(args[0] ?? "") === true;
  const carrier = packaged ? {} : own(CARRIERS, name);
  // `command -v` and `command -V` only look up a name.
  if (!carrier || (name === "command" && /^-[pvV]*[vV]/.test(args[0] ?? ""))) return found;
  const rest = packaged ? args.slice(1) : args;
  const at = commandAt(rest, carrier);
  const appended = name === "xargs" ? fed.flatMap((text) => text.split(/\s+/).filter(Boolean)) : [];
  const inner = rest.slice(at);
  if (inner.length > 0) found.argvs.push([...inner, ...appended]);
  // The word after an unknown option may be its value; then the command begins one word later.
  if (inner.length > 1 && at > 0 && rest[at - 1]?.startsWith("-")) found.maybe.push([...inner.slice(1), ...appended]);
  return found;
};

const commandAt = (args: readonly string[], { values = "", skip = 0, assigns = false }: Carrier): number => {
  const valued = wordsOf(values);
  let at = 0;
  let left = skip;
  for (; at < args.length; at++) {
    const arg = args[at] ?? "";
    if (arg === "--") {
      at += 1 + left;
      break;
    }
    if (arg.startsWith("-") && arg.length > 1) {
      if (valued.includes(arg)) at += 1;
    } else if (assigns && ASSIGNMENT.test(arg)) continue;
    else if (left > 0) left -= 1;
    else break;
  }
  return at;
};

const shell = (args: readonly string[], fed: readonly string[]): Carried => {
  const flag = args.findIndex((arg) => /^-[a-zA-Z]*c[a-zA-Z]*$/.test(arg) || arg === "--command");
  const operands = args.filter((arg) => !/^[-+]/.test(arg));
  const nothing = { argvs: [], maybe: [], guesses: [] };
  if (flag >= 0)
    return { ...nothing, scripts: args.slice(flag + 1).filter((arg) => !arg.startsWith("-")), blind: false };
  const stdin = operands.length === 0 || args.includes("-s") || /^\/dev\/(?:stdin|fd\/)/.test(operands[0] ?? "");
  const asks = args.some((arg) => /^--(?:version|help)$/.test(arg));
  return { ...nothing, scripts: stdin ? [...fed] : [], blind: stdin && fed.length === 0 && !asks };
};

const afterEquals = (arg: string): string => arg.slice(arg.indexOf("=") + 1);

/** Aliases, pagers, editors and helpers that are given in the command itself. */
const gitScripts = (args: readonly string[]): string[] =>
  args.flatMap((arg, index) => {
    const set = args[index - 1] === "-c" || args[index - 1] === "--config" ? afterEquals(arg) : null;
    const exec = /^--(?:exec|upload-pack|receive-pack|tool|extcmd|open-files-in-pager)=(.*)$/s.exec(arg)?.[1] ?? null;
    const after = /^(?:--exec|-x|--extcmd|--tree-filter|--index-filter|--msg-filter|foreach|run)$/.test(
      args[index - 1] ?? "",
    );
    return [set, exec, after ? arg : null].flatMap((text) => (text === null ? [] : [text.replace(/^!/, "")]));
  });

const envScripts = (args: readonly string[]): string[] =>
  args.flatMap((arg, index) => {
    if (/^(?:-\w*S|--split-string)$/.test(args[index - 1] ?? "")) return [arg];
    return /^(?:-\w*S|--split-string=)(.+)$/s.exec(arg)?.[1] ?? [];
  });

const execs = (args: readonly string[]): string[][] => {
  const found: string[][] = [];
  for (const [index, arg] of args.entries()) {
    if (!/^(?:-exec(?:dir)?|-ok(?:dir)?|-x|-X|--exec|--exec-batch)$/.test(arg)) continue;
    const rest = args.slice(index + 1);
    const end = rest.findIndex((word) => word === ";" || word === "+");
    found.push(end < 0 ? rest : rest.slice(0, end));
  }
  return found;
};
