// Servers that use the same wire format but accept different requests, by their published rules and by the errors they return.
import type { Endpoint } from "../core/providers.ts";

export type Dialect =
  /** Calls have ids of nine letters and digits, also its own ones; after a tool speaks the model, not the user. */
  | "mistral"
  /** The first call of each answer carries a signature. */
  | "gemini"
  /** Answers that call tools carry the reasoning before them. */
  | "deepseek"
  /** The same as DeepSeek. */
  | "kimi"
  /** Unknown fields are refused, also the one that reasoning came in. */
  | "groq"
  | "plain";

/** Whoever serves a model adds rules of its own, so the host decides before the name of the model does. */
const HOSTS: [Dialect, RegExp][] = [
  ["groq", /(^|\.)groq\.com$/],
  ["mistral", /(^|\.)mistral\.ai$/],
  ["deepseek", /(^|\.)deepseek\.com$/],
  ["kimi", /(^|\.)(moonshot\.(ai|cn)|kimi\.(com|ai))$/],
];
const MODELS: [Dialect, RegExp][] = [
  ["mistral", /mistral|mixtral|ministral|magistral|devstral|codestral|pixtral/i],
  // From 3 on, by the names that Google and LiteLLM give it; OpenRouter does it itself.
  ["gemini", /^(models\/|gemini\/)?gemini-(?![12]\b)/i],
  ["deepseek", /deepseek/i],
  ["kimi", /kimi|moonshot/i],
];

export function dialectOf({ provider, model, baseUrl }: Pick<Endpoint, "provider" | "model" | "baseUrl">): Dialect {
  if (provider !== "openai-compatible") return "plain";
  const { hostname = "" } = URL.parse(baseUrl) ?? {};
  const fits = (rows: [Dialect, RegExp][], text: string) => rows.find(([, pattern]) => pattern.test(text))?.[0];
  return fits(HOSTS, hostname) ?? fits(MODELS, model) ?? "plain";
}

/** The maker of an answer. Only the same model at the same address can use its reasoning and signatures. */
export const makerOf = ({ provider, model, baseUrl }: Pick<Endpoint, "provider" | "model" | "baseUrl">): string =>
  `${provider}:${model}@${URL.parse(baseUrl)?.host ?? ""}`;

/** OpenRouter caches nothing for Anthropic's models unless the request asks for it. */
export const asksToKeep = ({ model, baseUrl }: Pick<Endpoint, "model" | "baseUrl">): boolean =>
  /(^|\.)openrouter\.ai$/.test(URL.parse(baseUrl)?.hostname ?? "") && /^~?anthropic\//.test(model);
