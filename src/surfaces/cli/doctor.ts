// `hermes doctor`: checks everything that the program needs to run, says what to fix, and changes nothing.
import { accessSync, constants, lstatSync, readdirSync, type Stats, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { ConfigError, messageOf } from "../../core/errors.ts";
import type { Store } from "../../core/store.ts";
import type { Home } from "../../platform/home.ts";
import { printable } from "../../platform/logline.ts";
import { createRedactor } from "../../platform/redact.ts";
import type { ShownSetting } from "./config.ts";
import { describe, type ShownEndpoint } from "./models.ts";

type DoctorStatus = "ok" | "warn" | "fail";
/** `says`: the finding. `fix`: what to do, if anything. */
type DoctorLine = { check: string; status: DoctorStatus; says: string; fix?: string };

export type DoctorOptions = {
  home: Home;
  nodeVersion: string;
  json: boolean;
  colour: boolean;
  /** Also contact the server of the model. */
  online: boolean;
  look: () => { warnings: string[]; settings: ShownSetting[]; secrets: string[]; endpoints: () => ShownEndpoint[] };
  /** Opens for reading; must not create or lock anything. */
  openStore: () => Promise<Pick<Store, "check" | "close"> | null>;
  /** The protections of commands; empty if the configuration cannot be used. */
  sandbox: () => Promise<Omit<DoctorLine, "status">[]>;
  print: (text: string) => Promise<void>;
};

const MEGABYTE = 1_000_000;
const ONLINE_MS = 10_000;
const SYMBOLS: Record<DoctorStatus, string> = { ok: "✓", warn: "!", fail: "✗" };
const COLOURS: Record<DoctorStatus, string> = { ok: "\x1b[32m", warn: "\x1b[33m", fail: "\x1b[31m" };

/** Returns the exit code: 0 no problems (warnings at most), 1 problems, 78 unusable configuration. */
export const examine = async (options: DoctorOptions): Promise<number> => {
  const { home, json, colour, print } = options;
  const config = await checkConfig(options);
  const checks: DoctorLine[] = [
    checkNode(options.nodeVersion),
    ...checkHome(home),
    ...config.checks,
    await checkDatabase(
      options,
      config.settings.some(({ key }) => key === "store.url"),
    ),
    ...(await checkSandbox(options)),
    checkDisk(home.dir),
    checkLogs(home),
  ];
  const failed = checks.filter(({ status }) => status === "fail");
  const problems = failed.some(({ check }) => check !== "config") ? 1 : 0;
  const exit = failed.some(({ check }) => check === "config") ? 78 : problems;

  if (json) {
    await print(`${JSON.stringify({ ok: exit === 0, checks, settings: config.settings }, null, 2)}\n`);
    return exit;
  }
  for (const { check, status, says, fix } of checks) {
    const symbol = colour ? `${COLOURS[status]}${SYMBOLS[status]}\x1b[0m` : SYMBOLS[status];
    await print(`${symbol} ${check.padEnd(8)} ${printable(says)}${fix ? ` → ${printable(fix)}` : ""}\n`);
    if (check === "config" && status === "ok")
      for (const { key, value, from } of config.settings)
        await print(`             ${printable(`${key} = ${value}`)}  (${printable(from)})\n`);
  }
  return exit;
};

const checkSandbox = async ({ sandbox }: DoctorOptions): Promise<DoctorLine[]> =>
  (await sandbox()).map((found) => ({ ...found, status: found.fix === undefined ? "ok" : "warn" }));

const checkNode = (version: string): DoctorLine => {
  const ok = Number(version.replace(/^v/, "").split(".")[0]) >= 24;
  const found = { check: "node", says: version } as const;
  return ok ? { ...found, status: "ok" } : { ...found, status: "fail", fix: "install Node 24 or newer" };
};

const checkHome = ({ dir, logs }: Home): DoctorLine[] => {
  const check = "home";
  const stat = statSync(dir, { throwIfNoEntry: false });
  if (!stat) return [{ check, status: "ok", says: `${dir} is not created yet` }];
  if (!stat.isDirectory()) return [failed(check, `${dir} is not a directory`, "move this file away")];
  if (stat.uid !== process.getuid?.())
    return [failed(check, `${dir} belongs to another user`, "set HERMES_HOME to a directory of your own")];

  // If others cannot enter the directory, the modes of its files do not matter.
  const status = (stat.mode & 0o077) === 0 ? "warn" : "fail";
  const open = [dir, ...entriesOf(dir), ...entriesOf(logs)].filter((path) => isOpen(path));
  if (open.length === 0) return [{ check, status: "ok", says: `${dir}, readable by you only` }];
  return open.map((path) => ({
    check,
    status,
    says: `other users can read ${path}`,
    fix: `chmod go= ${quoted(path)}`,
  }));
};

const checkConfig = async ({
  look,
  online,
}: DoctorOptions): Promise<{ checks: DoctorLine[]; settings: ShownSetting[] }> => {
  const check = "config";
  try {
    const { warnings, settings, secrets, endpoints } = look();
    const says = settings.length === 0 ? "all defaults" : `${settings.length} set, the rest defaults`;
    const warned = warnings.map((warning): DoctorLine => ({ check, status: "warn", says: warning }));
    const redactor = createRedactor();
    for (const secret of secrets) redactor.add(secret);
    const model = await checkModel(endpoints(), online);
    return {
      checks: [{ check, status: "ok", says }, ...warned, { ...model, says: redactor.text(model.says) }],
      settings,
    };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    // Each line already says where the mistake is and what would be right.
    return { checks: error.message.split("\n").map((says) => ({ check, status: "fail", says })), settings: [] };
  }
};

const checkModel = async ([primary, ...others]: ShownEndpoint[], online: boolean): Promise<DoctorLine> => {
  const check = "model";
  if (!primary) return { check, status: "fail", says: "no model is configured" };
  const says = `${describe(primary)}${others.length ? `, then ${others.map(({ model }) => model).join(", ")}` : ""}`;
  if (primary.provider === "demo") return { check, status: "warn", says, fix: "choose a real model: hermes setup" };
  if (!online) return { check, status: "ok", says };
  const found = await primary.list(ONLINE_MS);
  if (Array.isArray(found)) {
    const answers = `${says}; the server answers and offers ${found.length} models`;
    const window = found.find(({ id }) => id === primary.model)?.context;
    if (!window || window >= primary.context || primary.guessed) return { check, status: "ok", says: answers };
    const larger = `model.context_length is ${primary.context}, but the server says ${window}`;
    return { check, status: "warn", says: `${answers}; ${larger}`, fix: `set model.context_length to ${window}` };
  }
  return failed(check, `${says}; ${found.reason}`, "hermes setup");
};

const checkDatabase = async (options: DoctorOptions, server: boolean): Promise<DoctorLine> => {
  const check = "database";
  const { home, openStore } = options;
  const database = server ? "the database of store.url" : home.database;
  try {
    const store = await openStore();
    if (!store) return { check, status: "ok", says: `${database} is not created yet` };
    const faults = await store.check();
    await store.close();
    if (faults.length === 0) return { check, status: "ok", says: `${database} has no errors` };
    return failed(
      check,
      faults.join("; "),
      `stop hermes and restore ${server ? "it" : quoted(database)} from a backup`,
    );
  } catch (error) {
    const says = messageOf(error);
    if (server) return { check, status: "fail", says };
    if (/in use|locked|busy/i.test(says))
      return { check, status: "warn", says, fix: "stop that process to check the database" };
    return failed(check, says, `check that ${quoted(database)} is a hermes database`);
  }
};

const checkDisk = (dir: string): DoctorLine => {
  const at = existing(dir);
  const { bavail, bsize } = statfsSync(at);
  const free = Math.floor((bavail * bsize) / MEGABYTE);
  const says = `${free >= 1000 ? `${(free / 1000).toFixed(1)} GB` : `${free} MB`} free at ${at}`;
  if (free >= 1000) return { check: "disk", status: "ok", says };
  const fix = "free some space: on a full disk no message can be accepted";
  return { check: "disk", status: free >= 100 ? "warn" : "fail", says, fix };
};

const checkLogs = ({ logs, log }: Home): DoctorLine => {
  const at = existing(log);
  try {
    accessSync(at, constants.W_OK);
    return { check: "logs", status: "ok", says: at === log || at === logs ? log : `${log} is not created yet` };
  } catch {
    return failed("logs", `${at} cannot be written`, `chmod u+w ${quoted(at)}`);
  }
};

const failed = (check: string, says: string, fix: string): DoctorLine => ({ check, status: "fail", says, fix });

const entriesOf = (dir: string): string[] => {
  try {
    return readdirSync(dir).map((name) => join(dir, name));
  } catch {
    return []; // it does not exist yet
  }
};

const isOpen = (path: string): boolean => {
  const stat = look(path);
  return stat !== null && !stat.isSymbolicLink() && (stat.mode & 0o077) !== 0;
};

const look = (path: string): Stats | null => {
  try {
    return lstatSync(path);
  } catch {
    return null; // it does not exist, or a parent is not a directory
  }
};

/** The path itself, or its nearest existing parent. */
const existing = (path: string): string => (look(path) ? path : existing(dirname(path)));

const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
