// What is known before anything is opened.
import { homedir } from "node:os";
import { resolve } from "node:path";
import { type Flag, loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import type { GoalLimits } from "../core/jobs.ts";
import { chooseEndpoints } from "../llm/endpoint.ts";
import { homeOf } from "../platform/home.ts";

/** `~` is the user's home, as a shell has it. */
export const externalSkills = ({ skills }: Config): string[] =>
  skills.external_dirs.map((dir) => resolve(dir.replace(/^~(?=\/|$)/, homedir())));

export const goalLimitsOf = ({ goals }: Config): GoalLimits => ({
  turns: goals.max_turns,
  tokens: goals.max_tokens,
  cost: goals.max_cost,
  seconds: goals.max_time,
});

export function settingsFor(env: NodeJS.ProcessEnv, flags: readonly Flag[]) {
  const { config } = loadConfig({ env, flags });
  return { config, home: homeOf(env), endpoints: chooseEndpoints(config) };
}
