// Who serves models. The configuration, `hermes setup`, the choice of an endpoint and what tools may see of the environment
// read these tables: a new provider is a row.

/** How a server is spoken to: `model.provider` in the configuration, and what stands before the name of a model. `context`: tokens
 *  of its window, until the server says. `takes`: what of a request's options there is a field for. */
export const FORMATS = {
  "openai-compatible": { context: 128_000, takes: ["stop", "seed", "penalties", "json_schema", "json_object"] },
  openai: { context: 400_000, takes: ["json_schema", "json_object"] },
  anthropic: { context: 200_000, takes: ["stop", "json_schema"] },
  demo: { context: 8_000, takes: [] },
} as const satisfies Record<string, { context: number; takes: readonly Takes[] }>;
export type Takes = "stop" | "seed" | "penalties" | "json_schema" | "json_object";
export type Format = keyof typeof FORMATS;
export const isFormat = (name: string): name is Format => Object.hasOwn(FORMATS, name);
export const formats: readonly Format[] = Object.keys(FORMATS).filter(isFormat);

/** A server and a model, as they were chosen. */
export type Endpoint = {
  provider: Format;
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

export type Provider = {
  name: string;
  /** For a person who chooses. */
  label: string;
  hint: string;
  format: Format;
  /** The variable of its key; empty: it needs none. */
  keyVariable: string;
  /** The variable of its address, where it has one. */
  addressVariable?: string;
  /** Where it answers, and the model that is asked when none is named. Without it the server is the user's own. */
  usual?: { baseUrl: string; model: string };
  /** Addresses that are its own: its key goes nowhere else. */
  owns?: RegExp;
};
/** One with an address and a key of its own: `providers.<name>` in the configuration. */
export type Vendor = Provider & Required<Pick<Provider, "usual" | "owns">>;

/** In the order in which they are offered; of several keys, that of the first one is used. */
export const VENDORS: readonly Vendor[] = [
  {
    name: "openrouter",
    label: "OpenRouter",
    hint: "one key, most models: openrouter.ai/keys",
    format: "openai-compatible",
    keyVariable: "OPENROUTER_API_KEY",
    usual: { baseUrl: "https://openrouter.ai/api/v1", model: "anthropic/claude-sonnet-5.5" },
    owns: /openrouter/,
  },
  {
    name: "anthropic",
    label: "Anthropic",
    hint: "platform.claude.com/settings/keys",
    format: "anthropic",
    keyVariable: "ANTHROPIC_API_KEY",
    addressVariable: "ANTHROPIC_BASE_URL",
    usual: { baseUrl: "https://api.anthropic.com/v1", model: "claude-sonnet-5-5" },
    owns: /\banthropic\b/,
  },
  {
    name: "openai",
    label: "OpenAI",
    hint: "platform.openai.com/api-keys",
    format: "openai",
    keyVariable: "OPENAI_API_KEY",
    addressVariable: "OPENAI_BASE_URL",
    usual: { baseUrl: "https://api.openai.com/v1", model: "gpt-5.1" },
    owns: /\bapi\.openai\.com\b/,
  },
];

export const PROVIDERS: readonly Provider[] = [
  ...VENDORS,
  {
    name: "openai-compatible",
    label: "Custom OpenAI-compatible server (Ollama, vLLM …)",
    hint: "also LM Studio, llama.cpp or a proxy",
    format: "openai-compatible",
    keyVariable: "OPENAI_API_KEY",
  },
  {
    name: "demo",
    label: "Demo mode",
    hint: "canned replies; needs no key",
    format: "demo",
    keyVariable: "",
  },
];

export const providerNamed = (name: string | undefined): Provider | undefined =>
  PROVIDERS.find((provider) => provider.name === name);

/** Whose address it is, among those who speak this format. */
export const vendorAt = (format: Format, address: string): Vendor | undefined =>
  VENDORS.find((vendor) => vendor.format === format && vendor.owns.test(address));

/** `openai:gpt-5.1` in its parts. Not up to any colon: `llama3:8b` has one of its own. */
export function formatAndModel(name: string): { format: Format | null; model: string } {
  const format = formats.find((one) => name.startsWith(`${one}:`) && name.length > one.length + 1) ?? null;
  return { format, model: format ? name.slice(format.length + 1) : name };
}

/** "a, b or c" */
export const alternatives = (names: readonly string[]): string =>
  `${names.slice(0, -1).join(", ")} or ${names.at(-1) ?? ""}`;
