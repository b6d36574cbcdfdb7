// HERMES_HOME: the directory of all files of hermes, readable by its owner only.
import { chmodSync, existsSync, lstatSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { ConfigError, codeOf, messageOf } from "../core/errors.ts";

export type Home = ReturnType<typeof homeAt>;

export const homeAt = (dir: string) => ({
  dir,
  config: join(dir, "config.yaml"),
  env: join(dir, ".env"),
  database: join(dir, "hermes.db"),
  logs: join(dir, "logs"),
  log: join(dir, "logs", "hermes.log"),
  /** Files that came with messages, one directory per session. */
  attachments: join(dir, "attachments"),
  /** Created by us if no API key is configured. */
  apiKey: join(dir, "api_key"),
  /** The address at which the process that owns this home serves its API, while it does. */
  served: join(dir, "gateway.json"),
});

export const homeOf = (env: NodeJS.ProcessEnv): Home => {
  const user = env.HOME || homedir();
  const named = env.HERMES_HOME?.trim();
  const usual = join(user, ".hermes");
  if (!named) return homeAt(isHermesHome(usual) ? `${usual}-ts` : usual);
  // Service files and .env files do not expand "~" as a shell does.
  return homeAt(resolve(named === "~" || named.startsWith("~/") ? join(user, named.slice(1)) : named));
};

/** Whether Hermes, the program in Python, lives there. It uses the same directory by default, and nothing of it is ever changed. */
export const isHermesHome = (dir: string): boolean =>
  existsSync(join(dir, "state.db")) && !existsSync(homeAt(dir).database);

/** The home of Hermes that could be brought over: it lies where ours would be. */
export const oldHomeOf = (env: NodeJS.ProcessEnv): string | null => {
  const dir = join(env.HOME || homedir(), ".hermes");
  return isHermesHome(dir) ? dir : null;
};

/** Throws if HERMES_HOME is the home of Hermes. */
export function mustBeOurs({ dir }: Home): void {
  if (!isHermesHome(dir)) return;
  throw new ConfigError(
    `HERMES_HOME is ${dir}, the home of Hermes (the program in Python). Nothing in it was changed. Choose another one:\n` +
      `  HERMES_HOME=${dir}-ts hermes import ${dir}`,
  );
}

/** Creates the directory and its parents, for the owner only. Not with `recursive`: for /proc/x, Node 24 never returns from that,
 *  because mkdir says ENOENT although the parent exists. */
export function makeDir(dir: string): string {
  if (statSync(dir, { throwIfNoEntry: false })?.isDirectory()) return dir;
  const parent = dirname(dir);
  if (!existsSync(parent)) makeDir(parent);
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    const another = codeOf(error) === "EEXIST" && statSync(dir, { throwIfNoEntry: false })?.isDirectory();
    if (!another) throw error; // else another process was faster
  }
  return dir;
}

/** Whole or not at all, for the owner only. */
export function replaceFile(file: string, text: string): void {
  makeDir(dirname(file));
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export const makeHome = (home: Home): void => {
  for (const dir of [home.dir, home.logs]) {
    try {
      makeDir(dir);
    } catch (error) {
      const advice = "Set HERMES_HOME to a directory that you can write to.";
      throw new ConfigError(`HERMES_HOME is ${home.dir}, which cannot be used: ${messageOf(error)}. ${advice}`);
    }
    const { mode, uid } = lstatSync(dir);
    const open = (mode & 0o077) !== 0;
    // Do not change the mode of a shared directory (sticky, like /tmp) or of another user's: `hermes doctor` reports
    // it.
    if (open && (mode & 0o1000) === 0 && uid === process.getuid?.()) chmodSync(dir, 0o700);
  }
};
