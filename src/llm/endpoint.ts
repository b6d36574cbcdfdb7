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
  /** That is a guess: the server may know better. */
  guessed?: boolean;
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
    context_length?: number | undefined;
  }[];
};

/** Where each vendor answers, and the model that is asked when none is named. */
export const VENDORS = {
  openrouter: { baseUrl: "https://openrouter.ai/api/v1", model: "anthropic/claude-sonnet-4.5" },
  anthropic: { baseUrl: "https://api.anthropic.com/v1", model: "claude-sonnet-4-5" },
  openai: { baseUrl: "https://api.openai.com/v1", model: "gpt-5.1" },
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
    context_length: model.context_length,
  });
  return [primary, ...settings.fallback_providers.map((fallback) => choose(settings, fallback))];
}

type Wanted = {
  provider: Provider | "auto";
  model: string | undefined;
  base_url?: string | undefined;
  api_key?: string | undefined;
  context_length?: number | undefined;
};

function choose({ providers }: ModelSettings, wanted: Wanted): Endpoint {
  const { openai, openrouter, anthropic } = providers;
  const made = (provider: Provider, baseUrl: string, apiKey: string | undefined, model: string, because: string) => ({
    provider,
    baseUrl: addressOf(provider, baseUrl),
    apiKey: wanted.api_key ?? apiKey ?? "",
    model,
    context: wanted.context_length ?? DEFAULT_CONTEXT[provider],
    ...(provider !== "demo" && { guessed: wanted.context_length === undefined }),
    because,
  });
  const ofOpenAi = (because: string) => {
    const address = wanted.base_url ?? openai.base_url ?? VENDORS.openai.baseUrl;
    return made("openai", address, openai.api_key, wanted.model ?? VENDORS.openai.model, because);
  };
  const ofAnthropic = (because: string) => {
    const address = wanted.base_url ?? anthropic.base_url ?? VENDORS.anthropic.baseUrl;
    return made("anthropic", address, anthropic.api_key, wanted.model ?? VENDORS.anthropic.model, because);
  };
  // A key goes nowhere but to the server it is for.
  const compatible = (address: string, because: string) =>
    address.includes("openrouter")
      ? made("openai-compatible", address, openrouter.api_key, wanted.model ?? VENDORS.openrouter.model, because)
      : made("openai-compatible", address, openai.api_key, named(wanted), because);
  const demo = (because: string): Endpoint => ({ ...made("demo", "", "", "offline-demo", because), apiKey: "" });

  switch (wanted.provider) {
    case "demo":
      return demo("configured");
    case "openai":
      return ofOpenAi("configured");
    case "anthropic":
      return ofAnthropic("configured");
    case "openai-compatible": {
      const address = wanted.base_url ?? openai.base_url ?? (openrouter.api_key && VENDORS.openrouter.baseUrl);
      if (address) return compatible(address, "configured");
      throw new ConfigError(
        'model.provider "openai-compatible" needs model.base_url: set it to the server\'s address.',
      );
    }
    case "auto":
      break;
  }
  if (wanted.base_url) {
    if (/\banthropic\b/.test(wanted.base_url)) return ofAnthropic("the address is Anthropic's");
    if (/\bapi\.openai\.com\b/.test(wanted.base_url)) return ofOpenAi("the address is OpenAI's");
    return compatible(wanted.base_url, "a base URL is set");
  }
  if (openai.base_url) return compatible(openai.base_url, "OPENAI_BASE_URL is set");
  if (anthropic.base_url) return ofAnthropic("ANTHROPIC_BASE_URL is set");
  if (openrouter.api_key) return compatible(VENDORS.openrouter.baseUrl, "an OpenRouter key is set");
  if (anthropic.api_key) return ofAnthropic("an Anthropic key is set");
  if (openai.api_key || wanted.api_key) return ofOpenAi("an OpenAI key is set");
  return demo("no key and no base URL is set");
}

/** As the provider's library wants it, whether it was given with `/v1`, without, or with the path of a call. Some serve
 *  nothing under `/v1`. */
function addressOf(provider: Provider, given: string): string {
  const bare = given.replace(/\/+$/, "").replace(/\/(chat\/completions|messages|responses)$/, "");
  if (provider === "demo" || /\/v\d\w*$/.test(bare)) return bare;
  if (provider === "anthropic") return `${bare}/v1`; // ANTHROPIC_BASE_URL is given without it
  const host = /^https?:\/\/([^/]+)$/i.exec(bare)?.[1];
  return host && !NO_V1.test(host) ? `${bare}/v1` : bare;
}
const NO_V1 = /^(api\.perplexity\.ai|api\.githubcopilot\.com|models\.inference\.ai\.azure\.com)$/i;

/** Servers of one's own have no default model that we could know. */
function named({ model }: Wanted): string {
  if (model) return model;
  throw new ConfigError(
    "model.default is not set: name the model that the server at model.base_url should use (hermes models lists them).",
  );
}
