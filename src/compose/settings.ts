// What is known before anything is opened.
import { type Flag, loadConfig } from "../config/config.ts";
import { chooseEndpoints } from "../llm/endpoint.ts";
import { homeOf } from "../platform/home.ts";

export function settingsFor(env: NodeJS.ProcessEnv, flags: readonly Flag[]) {
  const { config } = loadConfig({ env, flags });
  return { config, home: homeOf(env), endpoints: chooseEndpoints(config) };
}
