// What `hermes setup` is told, and what that makes of the two files.
import { readFileSync } from "node:fs";
import { ConfigError, messageOf } from "../../core/errors.ts";
import type { Offer } from "../../core/ports.ts";
import type { Provider } from "../../core/providers.ts";
import type { Home } from "../../platform/home.ts";
import { type Changes, editEnv, editYaml } from "./files.ts";

type Guards = { approvals: "manual" | "off"; sandbox: "auto" | "required" | "off" };

export type Answers = {
  provider: Provider;
  baseUrl: string;
  model: string;
  /** Empty: as it is. */
  key: string;
  /** What the server says of the model. */
  offer?: Offer;
  /** Absent: as they are. */
  guards?: Guards;
};

/** What is in force before anything is changed. `endpoint` is null where it cannot start yet. */
export type Current = { endpoint: Pick<Answers, "provider" | "baseUrl" | "model"> | null; guards: Guards };

export const problemOfKey = (key: string): string | undefined =>
  /^[\x21-\x7e]*$/.test(key) ? undefined : "A key has no spaces, line breaks or special letters in it.";

/** The files as they would be, by path. */
export function draftsOf(home: Home, current: Current, answers: Answers): Map<string, string> {
  const { provider, key } = answers;
  const env = readText(home.env);
  return new Map([
    [home.env, key ? editEnv(env, provider.keyVariable, key) : env],
    [home.config, editYaml(readText(home.config), changesOf(current, answers))],
  ]);
}

function changesOf(current: Current, answers: Answers): Changes {
  const { provider, baseUrl, model, key, guards, offer } = answers;
  const { format, usual } = provider;
  const changes: Changes = { "model.provider": format };
  if (format !== "demo") {
    const known = format !== "openai-compatible" && baseUrl === usual?.baseUrl;
    const moved = current.endpoint?.provider !== provider || current.endpoint.baseUrl !== baseUrl;
    changes["model.default"] = model;
    changes["model.base_url"] = known ? undefined : baseUrl;
    // A key in config.yaml is stronger than .env, and belongs to the server that it was for.
    if (key || moved) changes["model.api_key"] = undefined;
    // A window belongs to the model that it was for.
    if (offer?.context) changes["model.context_length"] = offer.context;
    else if (moved || current.endpoint?.model !== model) changes["model.context_length"] = undefined;
    if (offer?.price) changes[`prices.${model}`] = { ...offer.price };
  }
  if (guards && guards.approvals !== current.guards.approvals) changes["approvals.mode"] = guards.approvals;
  if (guards && guards.sandbox !== current.guards.sandbox) changes["terminal.sandbox"] = guards.sandbox;
  return changes;
}

export function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw new ConfigError(`${file}: cannot be read: ${messageOf(error)}`);
  }
}
