// What is known before anything is opened.
import { homedir } from "node:os";
import { resolve } from "node:path";
import { type Flag, loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import { chooseEndpoints } from "../llm/endpoint.ts";
import { homeOf } from "../platform/home.ts";

/** `~` is the user's home, as a shell has it. */
export const externalSkills = ({ skills }: Config): string[] =>
  skills.external_dirs.map((dir) => resolve(dir.replace(/^~(?=\/|$)/, homedir())));

export function settingsFor(env: NodeJS.ProcessEnv, flags: readonly Flag[]) {
  const { config } = loadConfig({ env, flags });
  return { config, home: homeOf(env), endpoints: chooseEndpoints(config) };
}
