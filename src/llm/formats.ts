// What differs between the wire formats: the library, which is loaded with the first call, and the request for the list of models.
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Endpoint, Format } from "../core/providers.ts";
import { dialectOf } from "./dialect.ts";
import { withoutUnledThinking } from "./thinking-budget.ts";
import type { Alive } from "./wire.ts";

/** Makes one call. */
export type Library = (options: LanguageModelV4CallOptions) => Promise<AsyncIterable<LanguageModelV4StreamPart>>;
type Speaks = {
  /** Loaded late, so that `hermes --help` does not wait for it. Once: the library makes its schemas with each model. */
  load(endpoint: Endpoint, alive: Alive): Promise<Library>;
  list(endpoint: Endpoint): { url: string; headers: Record<string, string> };
};

const list: Speaks["list"] = ({ baseUrl, apiKey }) => ({
  url: `${baseUrl}/models`,
  headers: apiKey ? { authorization: `Bearer ${apiKey}` } : {},
});

const compatible: Speaks = {
  async load(endpoint, alive) {
    const [{ OpenAICompatibleChatLanguageModel }, { openChat }] = await Promise.all([
      import("@ai-sdk/openai-compatible"),
      import("./chat-stream.ts"),
    ]);
    const { model, baseUrl, apiKey } = endpoint;
    const url = `${baseUrl}/chat/completions`;
    const config = { provider: "compatible.chat", url: () => url, headers: {}, supportsStructuredOutputs: true };
    const library = new OpenAICompatibleChatLanguageModel(model, config);
    // Mistral always sends the usage, and refuses requests that ask for it.
    const usage = dialectOf(endpoint) === "mistral" ? {} : { stream_options: { include_usage: true } };
    return async (options) => {
      const { body } = await library.prepareRequest(options);
      return openChat({ url, apiKey, body: { ...body, stream: true, ...usage }, alive }, options);
    };
  },
  list,
};

const openai: Speaks = {
  async load(endpoint, alive) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const settings = await settingsOf(endpoint, alive);
    const model = createOpenAI(settings).responses(endpoint.model);
    return async (options) => (await model.doStream(options)).stream;
  },
  list,
};

const anthropic: Speaks = {
  async load(endpoint, alive) {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const { fetch: sent, ...rest } = await settingsOf(endpoint, alive);
    const led: typeof fetch = (input, init) =>
      sent(input, typeof init?.body === "string" ? { ...init, body: withoutUnledThinking(init.body) } : init);
    const model = createAnthropic({ ...rest, fetch: led })(endpoint.model);
    return async (options) => (await model.doStream(options)).stream;
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
