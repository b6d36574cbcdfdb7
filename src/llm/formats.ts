// What differs between the wire formats: the library that speaks it, loaded with the first call, and how its servers are asked for
// their models.
import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { Endpoint, Format } from "../core/providers.ts";
import { dialectOf } from "./dialect.ts";
import { extras } from "./replay.ts";
import { withoutUnledThinking } from "./thinking-budget.ts";

/** One for each call, which hears of every sign of life of its own answer. */
export type Library = (alive: () => void) => LanguageModelV4;
type Speaks = {
  /** Nothing that only shows help or reads a file waits for it. */
  load(endpoint: Endpoint): Promise<Library>;
  list(endpoint: Endpoint): { url: string; headers: Record<string, string> };
};

const list: Speaks["list"] = ({ baseUrl, apiKey }) => ({
  url: `${baseUrl}/models`,
  headers: apiKey ? { authorization: `Bearer ${apiKey}` } : {},
});

const compatible: Speaks = {
  async load(endpoint) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const settings = await settingsOf(endpoint);
    // Mistral tells its usage without being asked, and refuses to be asked.
    const includeUsage = dialectOf(endpoint) !== "mistral";
    const more = { name: "compatible", includeUsage, metadataExtractor: extras, supportsStructuredOutputs: true };
    return (alive) => createOpenAICompatible({ ...settings(alive), ...more })(endpoint.model);
  },
  list,
};

const openai: Speaks = {
  async load(endpoint) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const settings = await settingsOf(endpoint);
    return (alive) => createOpenAI(settings(alive)).responses(endpoint.model);
  },
  list,
};

const anthropic: Speaks = {
  async load(endpoint) {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const settings = await settingsOf(endpoint);
    return (alive) => {
      const { fetch: sent, ...rest } = settings(alive);
      const led: typeof fetch = (input, init) =>
        sent(input, typeof init?.body === "string" ? { ...init, body: withoutUnledThinking(init.body) } : init);
      return createAnthropic({ ...rest, fetch: led })(endpoint.model);
    };
  },
  list: ({ baseUrl, apiKey }) => ({
    url: `${baseUrl}/models?limit=1000`,
    headers: { "x-api-key": apiKey, "anthropic-version": "2023-06-01" },
  }),
};

async function settingsOf({ baseUrl, apiKey }: Endpoint) {
  const { streamFetch } = await import("./wire.ts");
  return (alive: () => void) => ({ baseURL: baseUrl, apiKey, fetch: streamFetch(alive) });
}

/** The demo is no server: it is never asked. */
const SPEAKS: Record<Format, Speaks> = { "openai-compatible": compatible, openai, anthropic, demo: compatible };

export const formatOf = ({ provider }: Endpoint): Speaks => SPEAKS[provider];
