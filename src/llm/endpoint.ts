// Which endpoint answers: chosen once, from what is configured, and said aloud.
import { ConfigError } from "../core/errors.ts";

type Provider = "openai-compatible" | "openai" | "anthropic" | "demo";
export type Endpoint = {
  provider: Provider;
  model: string;
  baseUrl: string;
  apiKey: string;
  /** Tokens of input and output together. */
  context: number;
  /** For a person: what was chosen, and why. */
  because: string;
};

/** The part of the configuration that is about models. */
export type ModelSettings = {
  model: {
    default?: string | undefined;
    provider: Provider | "auto";
    base_url?: string | undefined;
    api_key?: string | undefined;
    context_length?: number | undefined;
  };
  providers: {
    openai: { api_key?: string | undefined; base_url?: string | undefined };
    openrouter: { api_key?: string | undefined };
    anthropic: { api_key?: string | undefined; base_url?: string | undefined };
  };
  fallback_providers: readonly {
    provider: Provider | "auto";
    model: string;
    base_url?: string | undefined;
    api_key?: string | undefined;
  }[];
};

const OPENAI = "https://api.openai.com/v1";
const ANTHROPIC = "https://api.anthropic.com/v1";
const OPENROUTER = "https://openrouter.ai/api/v1";
const DEFAULT_MODEL = {
  openai: "gpt-5.1",
  anthropic: "claude-sonnet-4-5",
  openrouter: "anthropic/claude-sonnet-4.5",
};
const DEFAULT_CONTEXT = { "openai-compatible": 128_000, openai: 400_000, anthropic: 200_000, demo: 8_000 };

/** The primary endpoint, then the fallbacks in order. */
export function chooseEndpoints(settings: ModelSettings): Endpoint[] {
  const { model } = settings;
  const primary = choose(settings, {
    provider: model.provider,
    model: model.default,
    base_url: model.base_url,
    api_key: model.api_key,
  });
  const fallbacks = settings.fallback_providers.map((fallback) => choose(settings, fallback));
  return [{ ...primary, context: model.context_length ?? primary.context }, ...fallbacks];
}

type Wanted = {
  provider: Provider | "auto";
  model: string | undefined;
  base_url?: string | undefined;
  api_key?: string | undefined;
};

function choose({ providers }: ModelSettings, wanted: Wanted): Endpoint {
  const { openai, openrouter, anthropic } = providers;
  const made = (provider: Provider, baseUrl: string, apiKey: string | undefined, model: string, because: string) => ({
    provider,
    baseUrl: wanted.base_url ?? baseUrl,
    apiKey: wanted.api_key ?? apiKey ?? "",
    model: wanted.model ?? model,
    context: DEFAULT_CONTEXT[provider],
    because,
  });
  switch (wanted.provider) {
    case "demo":
      return made("demo", "", "", "offline-demo", "it is configured");
    case "openai":
      return made("openai", openai.base_url ?? OPENAI, openai.api_key, DEFAULT_MODEL.openai, "it is configured");
    case "anthropic":
      return made(
        "anthropic",
        anthropic.base_url ?? ANTHROPIC,
        anthropic.api_key,
        DEFAULT_MODEL.anthropic,
        "it is configured",
      );
    case "openai-compatible":
      if (!wanted.base_url && !openai.base_url && !openrouter.api_key)
        throw new ConfigError(
          'model.provider "openai-compatible" needs model.base_url: set it to the server\'s address.',
        );
      return made(
        "openai-compatible",
        openai.base_url ?? OPENROUTER,
        openai.api_key ?? openrouter.api_key,
        named(wanted),
        "it is configured",
      );
    case "auto":
      break;
  }
  if (wanted.base_url) {
    if (/\banthropic\b/.test(wanted.base_url))
      return made("anthropic", "", anthropic.api_key, DEFAULT_MODEL.anthropic, "the address is Anthropic's");
    if (/\bapi\.openai\.com\b/.test(wanted.base_url))
      return made("openai", "", openai.api_key, DEFAULT_MODEL.openai, "the address is OpenAI's");
    const key = /openrouter/.test(wanted.base_url) ? openrouter.api_key : openai.api_key;
    return made("openai-compatible", "", key, named(wanted), "a base URL is set");
  }
  if (openai.base_url)
    return made("openai-compatible", openai.base_url, openai.api_key, named(wanted), "OPENAI_BASE_URL is set");
  if (anthropic.base_url)
    return made(
      "anthropic",
      anthropic.base_url,
      anthropic.api_key,
      DEFAULT_MODEL.anthropic,
      "ANTHROPIC_BASE_URL is set",
    );
  if (openrouter.api_key)
    return made(
      "openai-compatible",
      OPENROUTER,
      openrouter.api_key,
      DEFAULT_MODEL.openrouter,
      "there is an OpenRouter key",
    );
  if (anthropic.api_key)
    return made("anthropic", ANTHROPIC, anthropic.api_key, DEFAULT_MODEL.anthropic, "there is an Anthropic key");
  if (openai.api_key || wanted.api_key)
    return made("openai", OPENAI, openai.api_key, DEFAULT_MODEL.openai, "there is an OpenAI key");
  return made("demo", "", "", "offline-demo", "no key and no base URL is set");
}

/** Servers of one's own have no default model that we could know. */
function named({ model }: Wanted): string {
  if (model) return model;
  throw new ConfigError("model.default is not set: name the model that the server at model.base_url should use.");
}
