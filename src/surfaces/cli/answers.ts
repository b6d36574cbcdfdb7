// The answers that `hermes setup` collects, and the two files that they produce.
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
  /** Empty if the key stays as it is. */
  key: string;
  /** The model as its server lists it. */
  offer?: Offer;
  /** Absent if they stay as they are. */
  guards?: Guards;
};

/** The settings before any change. `endpoint` is null if no usable endpoint is configured. */
export type Current = { endpoint: Pick<Answers, "provider" | "baseUrl" | "model"> | null; guards: Guards };

export const problemOfKey = (key: string): string | undefined =>
  /^[\x21-\x7e]*$/.test(key) ? undefined : "A key contains no spaces, line breaks or special letters.";

/** The new content of the files, by path. */
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
    // A key in config.yaml overrides .env, and belongs to its own server.
    if (key || moved) changes["model.api_key"] = undefined;
    // A context window belongs to its own model.
    if (offer?.context) changes["model.context_length"] = offer.context;
    else if (moved || current.endpoint?.model !== model) changes["model.context_length"] = undefined;
    // What a vendor charges is known, or comes with each answer.
    if (offer?.price && !usual) changes[`prices.${model}`] = { ...offer.price };
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
