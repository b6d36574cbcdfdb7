// What differs between the wire formats: the library, which is loaded with the first call, and the request for the list of models.
import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { Endpoint, Format } from "../core/providers.ts";
import { checkedQuickly } from "./chunk-check.ts";
import { dialectOf } from "./dialect.ts";
import { extras } from "./replay.ts";
import { withoutUnledThinking } from "./thinking-budget.ts";
import type { Alive } from "./wire.ts";

type Speaks = {
  /** Loaded late, so that `hermes --help` does not wait for it. One for all calls: the library makes its schemas for each. */
  load(endpoint: Endpoint, alive: Alive): Promise<LanguageModelV4>;
  list(endpoint: Endpoint): { url: string; headers: Record<string, string> };
};

const list: Speaks["list"] = ({ baseUrl, apiKey }) => ({
  url: `${baseUrl}/models`,
  headers: apiKey ? { authorization: `Bearer ${apiKey}` } : {},
});

const compatible: Speaks = {
  async load(endpoint, alive) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const settings = await settingsOf(endpoint, alive);
    // Mistral always sends the usage, and refuses requests that ask for it.
    const includeUsage = dialectOf(endpoint) !== "mistral";
    const more = { name: "compatible", includeUsage, metadataExtractor: extras, supportsStructuredOutputs: true };
    return checkedQuickly(createOpenAICompatible({ ...settings, ...more })(endpoint.model));
  },
  list,
};

const openai: Speaks = {
  async load(endpoint, alive) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const settings = await settingsOf(endpoint, alive);
    return createOpenAI(settings).responses(endpoint.model);
  },
  list,
};

const anthropic: Speaks = {
  async load(endpoint, alive) {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const { fetch: sent, ...rest } = await settingsOf(endpoint, alive);
    const led: typeof fetch = (input, init) =>
      sent(input, typeof init?.body === "string" ? { ...init, body: withoutUnledThinking(init.body) } : init);
    return createAnthropic({ ...rest, fetch: led })(endpoint.model);
  },
  list: ({ baseUrl, apiKey }) => ({
    url: `${baseUrl}/models?limit=1000`,
    headers: { "x-api-key": apiKey, "anthropic-version": "2023-06-01" },
  }),
};

async function settingsOf({ baseUrl, apiKey }: Endpoint, alive: Alive) {
  const { streamFetch } = await import("./wire.ts");
  return { baseURL: baseUrl, apiKey, fetch: streamFetch(alive) };
}

/** The demo has no server, so its row is never used. */
const SPEAKS: Record<Format, Speaks> = { "openai-compatible": compatible, openai, anthropic, demo: compatible };

export const formatOf = ({ provider }: Endpoint): Speaks => SPEAKS[provider];
