// Commands that never run, in any mode, whoever asks: deleting the system or a home, formatting or writing raw devices,
// fork bombs, killing everything, shutting down. They are found behind carriers, quotes, variables and path tricks.
import { baseName } from "./carriers.ts";
import { isRawDevice, isVital } from "./paths.ts";
import { UNKNOWN } from "./possible.ts";
import { type Reach, type Reached, reach } from "./reach.ts";
import type { ReadCommand } from "./reading.ts";
import { entries, has, oneOf, own, wordsOf } from "./table.ts";
import type { CommandPlace } from "./types.ts";

export type Hardline = { reason: string; part: string };

const DELETES = "It would delete a system or home directory.";
const FORMATS = "It would format or overwrite a device.";
const KILLS = "It would kill everything that runs.";
const STOPS = "It would shut the machine down.";
const FORKS = "It is a fork bomb.";

const OVER = /^(?:-c|--help|--version|--show|-k|--wtmp-only|-w)$/;
const POWER = oneOf(`
  poweroff reboot halt kexec soft-reboot suspend hibernate hybrid-sleep suspend-then-hibernate emergency rescue exit`);
const INTERPRETER = oneOf(
  wordsOf(`
    python pypy perl ruby node nodejs deno bun php lua luajit tclsh osascript awk gawk mawk nawk rscript julia groovy
    elixir ipython`)
    .map((name) => `${name}[\\d.]*`)
    .join(" "),
);
const QUOTED_COMMAND = /\bqx?[{(/|]([^})/|]*)/g;
const REMOVER = "rmtree rmSync rmdirSync removeSync rm_rf rm_r remove_dir_all remove_tree rimraf \\brm \\bremove";
const REMOVES = new RegExp(`(?:${wordsOf(REMOVER).join("|")})\\w{0,20}\\s{0,20}\\(?\\s{0,20}["'\`]([^"'\`]+)`, "g");

type HardlineRule = (args: readonly string[], at: Reached) => string | null;

const operands = (args: readonly string[]): string[] => {
  const end = args.indexOf("--");
  const before = end < 0 ? args : args.slice(0, end);
  return [...before.filter((arg) => !arg.startsWith("-")), ...(end < 0 ? [] : args.slice(end + 1))];
};

const toDevice = (paths: readonly string[], place: CommandPlace): string | null =>
  paths.some((path) => isRawDevice(path, place)) ? FORMATS : null;
const write: HardlineRule = (args, { place }) => toDevice(operands(args), place);
const overwrite: HardlineRule = (args, { place }) => toDevice(operands(args).slice(1), place);

const remove: HardlineRule = (args, at) =>
  operands(args).some((path) => isVital(path, at.place)) ? DELETES : write(args, at);

const move: HardlineRule = (args, at) => {
  const all = operands(args);
  const from = has(args, /^(?:-t|--target-directory)/) ? all : all.slice(0, -1);
  return from.some((path) => isVital(path, at.place)) ? DELETES : overwrite(args, at);
};

const format: HardlineRule = (args) => (has(args, new RegExp(`^/dev/|^//|${UNKNOWN}`)) ? FORMATS : null);
const formatWith =
  (wanted: RegExp): HardlineRule =>
  (args) =>
    has(args, wanted) ? FORMATS : null;
const partition: HardlineRule = (args, at) =>
  has(args, /^(?:-l|--list.*|-d|--dump|-p|--print|print|-s|--show.*|--help|--version|-V|-v)$/)
    ? null
    : format(args, at);

const NARROWS = oneOf(`
  -i?name -i?path -i?wholename -i?regex -size -[acm]time -[acm]min -newer.* -user -group -perm -empty -inum -samefile`);
const find: HardlineRule = (args, { place }) => {
  const removing = args.some(
    (arg, index) =>
      arg === "-delete" ||
      (/^-(?:exec|ok)/.test(arg) && /^(?:rm|shred|unlink|rmdir)$/.test(baseName(args[index + 1] ?? ""))),
  );
  if (!removing) return null;
  const first = args.findIndex((arg) => /^[-(!]/.test(arg) && !/^-[HLP]$/.test(arg));
  const roots = args.slice(0, first).filter((arg) => !arg.startsWith("-"));
  const narrowing = args.some((arg, index) => NARROWS.test(arg) && !/^\*+$|^\.\*$/.test(args[index + 1] ?? ""));
  const turned = has(args, /^(?:!|-not|-o|-or|,)$/);
  if (narrowing && !turned) return null;
  return (roots.length > 0 ? roots : ["."]).some((root) => isVital(root, place)) ? DELETES : null;
};

const kill: HardlineRule = (args) => {
  const [first = ""] = args;
  const signal = first.startsWith("-") && first !== "--";
  const rest = signal ? args.slice(/^-[sn]$/.test(first) ? 2 : 1) : args;
  return rest.some((arg) => /^(?:-1|0*1)$/.test(arg)) ? KILLS : null;
};
const killByName: HardlineRule = (args) => {
  const valued = /^-(?:[uUgGPstFnoc]|-signal|-user|-uid|-euid|-group|-parent|-session|-terminal|-ns|-nslist)$/;
  const names = args.filter((arg, index) => !arg.startsWith("-") && !valued.test(args[index - 1] ?? ""));
  if (has(args, /^(?:-\w*v\w*|--inverse)$/) && !has(args, /^--?version$/)) return KILLS;
  if (names.length === 0) return has(args, /^(?:-[uUgG]|--user|--uid|--euid|--group)/) ? KILLS : null;
  return names.some((name) => /^\^?(?:\.\*?|\.\+)?\$?$/.test(name)) ? KILLS : null;
};

const shutdown: HardlineRule = (args) => (has(args, OVER) ? null : STOPS);
const runlevel: HardlineRule = (args) => (has(args, /^[06]$/) ? STOPS : null);
const service: HardlineRule = (args) => (has(operands(args), POWER) ? STOPS : null);
const bus: HardlineRule = (args) =>
  /login1|ConsoleKit/.test(args.join(" ")) && has(args, /PowerOff|Reboot|Halt|Stop|Restart/) ? STOPS : null;

const RULES: Record<string, HardlineRule> = {
  ...entries("rm rmdir unlink shred srm wipe rimraf trash trash-put", remove),
  mv: move,
  ...entries("find gfind", find),
  rsync: (args, { place }) => {
    const [, ...into] = operands(args);
    return has(args, /^--del/) && into.some((path) => isVital(path, place)) ? DELETES : toDevice(into, place);
  },
  dd: (args, { place }) =>
    args.some((arg) => arg.startsWith("of=") && isRawDevice(arg.slice(3), place)) ? FORMATS : null,
  ...entries("tee truncate sponge", write),
  ...entries("cp install ln ddrescue", overwrite),
  ...entries("mke2fs mkswap mkntfs mkdosfs newfs blkdiscard mkfs", format),
  wipefs: (args, at) => (has(args, /^(?:-\w*[ao]|--all|--offset)/) ? format(args, at) : null),
  ...entries("fdisk sfdisk cfdisk gdisk sgdisk parted", partition),
  hdparm: formatWith(/^--(?:security-erase|trim-sector|dco)/),
  nvme: formatWith(/^(?:format|sanitize|delete-ns)$/),
  cryptsetup: formatWith(/^(?:luksFormat|luksErase|erase|reencrypt)$/),
  diskutil: formatWith(/^(?:erase|reformat|partition|zero|random|secureErase|apfs)/i),
  zpool: formatWith(/^(?:destroy|labelclear)$/),
  ...entries("pvremove vgremove lvremove", formatWith(/./)),
  badblocks: formatWith(/^-\w*w/),
  kill,
  ...entries("pkill killall skill", killByName),
  killall5: () => KILLS,
  ...entries("shutdown reboot halt poweroff", shutdown),
  ...entries("init telinit", runlevel),
  ...entries("systemctl loginctl", service),
  kexec: (args) => (has(args, /^(?:-e|--exec)$/) ? STOPS : null),
  ...entries("dbus-send busctl gdbus", bus),
};

export const findHardline = (all: Reach, read: ReadCommand, depth = 0): Hardline | null => {
  const [bomb] = all.bombs;
  if (bomb !== undefined) return { reason: FORKS, part: bomb };
  const raw = all.writes.find((write) => isRawDevice(write.path, write.place));
  if (raw) return { reason: /proc|power/.test(raw.path) ? STOPS : FORMATS, part: raw.part };
  for (const reached of all.commands) {
    const [program = "", ...args] = reached.argv;
    const name = baseName(program);
    const rule = own(RULES, name) ?? (/^(?:mkfs|newfs)[._]/.test(name) ? format : null);
    const reason = rule?.(args, reached) ?? (INTERPRETER.test(name) ? inCode(args, reached.place, read, depth) : null);
    if (reason) return { reason, part: reached.part };
  }
  return null;
};

/** Shell commands and deletions in a program that is given as text. */
const inCode = (args: readonly string[], place: CommandPlace, read: ReadCommand, depth: number): string | null => {
  if (depth > 2) return null;
  for (const code of args) {
    if (!/\W/.test(code) || code.length > 20_000) continue;
    if (/\bfork\b/.test(code) && /\bwhile\b|\bfor\s*\(\s*;|\bloop\b|\bfork\s*(?:\(\))?\s*&&/.test(code)) return FORKS;
    if (/System Events|Finder|loginwindow/.test(code) && /shut ?down|restart|sleep/i.test(code)) return STOPS;
    for (const [, path] of code.matchAll(REMOVES)) if (isVital(path ?? "", place)) return DELETES;
    const strings = [...quotedTexts(code), ...code.matchAll(QUOTED_COMMAND).map(([, text = ""]) => text)].slice(0, 50);
    for (const text of [...strings, strings.join(" ")]) {
      const inside = text.length > 2 ? findHardline(reach(text, place, read), read, depth + 1) : null;
      if (inside) return inside.reason;
    }
  }
  return null;
};

/** The content of quotes of any kind, with escapes unchanged. One pass: an unclosed quote must not be retried at each
 *  position. */
const quotedTexts = (code: string): string[] => {
  const found: string[] = [];
  let start = -1;
  for (let at = 0; at < code.length; at++) {
    const char = code.charAt(at);
    if (char === "\\") at += 1;
    else if (start < 0 ? /["'`]/.test(char) : char === code[start]) {
      if (start >= 0) found.push(code.slice(start + 1, at));
      start = start < 0 ? at : -1;
    }
  }
  return start < 0 ? found : [...found, code.slice(start + 1)];
};
