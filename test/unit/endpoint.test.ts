// Which endpoint is chosen from what is configured: one table, from the settings to the endpoint.
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import { type Endpoint, VENDORS } from "../../src/core/providers.ts";
import { chooseEndpoints, type ModelSettings } from "../../src/llm/endpoint.ts";
import { childEnv } from "../../src/tools/shell/env.ts";

type Model = Partial<ModelSettings["model"]>;
type Providers = Partial<ModelSettings["providers"]>;
const settings = (model: Model = {}, providers: Providers = {}, more: Partial<ModelSettings> = {}): ModelSettings => ({
  model: { provider: "auto", ...model },
  providers: { openai: {}, openrouter: {}, anthropic: {}, ...providers },
  fallback_providers: [],
  ...more,
});
const primary = (...given: Parameters<typeof settings>) => chooseEndpoints(settings(...given))[0];

const OWN = "http://127.0.0.1:11434/v1";
const ROUTER = "https://openrouter.ai/api/v1";
const openai = { openai: { api_key: "key-openai" } };
const openrouter = { openrouter: { api_key: "key-openrouter" } };
const anthropic = { anthropic: { api_key: "key-anthropic" } };
const DEMO = { provider: "demo", model: "offline-demo", baseUrl: "", apiKey: "" } as const;
const every = { ...openai, ...openrouter, ...anthropic };

describe.each(VENDORS)("the provider $name", ({ name, format, keyVariable, usual, owns }) => {
  const keys = Object.fromEntries(VENDORS.map((vendor) => [vendor.name, { api_key: `key-${vendor.name}` }]));

  it("is found by its key alone", () => {
    const { model, baseUrl } = usual;
    expect(primary({}, { [name]: keys[name] })).toMatchObject({
      provider: format,
      model,
      baseUrl,
      apiKey: `key-${name}`,
    });
  });

  it("gets its own key at its own address, whatever other keys there are", () => {
    expect(owns.test(usual.baseUrl)).toBe(true);
    expect(primary({ base_url: usual.baseUrl }, keys)).toMatchObject({ provider: format, apiKey: `key-${name}` });
  });

  it("hides its key from tools", () => {
    expect(childEnv({ [keyVariable]: "secret" })).not.toHaveProperty(keyVariable);
  });
});

describe("provider: auto", () => {
  it.each<[string, Model, Providers, Partial<Endpoint>]>([
    ["nothing is the demo", {}, {}, { provider: "demo", because: "no key and no base URL is set" }],
    ["a model alone is still the demo", { default: "m" }, {}, { provider: "demo", model: "offline-demo", baseUrl: "" }],
    [
      "an OpenRouter key",
      {},
      openrouter,
      {
        provider: "openai-compatible",
        baseUrl: ROUTER,
        apiKey: "key-openrouter",
        model: "anthropic/claude-sonnet-5.5",
        because: "an OpenRouter key is set",
      },
    ],
    [
      "an Anthropic key",
      {},
      anthropic,
      { provider: "anthropic", baseUrl: "https://api.anthropic.com/v1", apiKey: "key-anthropic", context: 200_000 },
    ],
    [
      "an OpenAI key",
      {},
      openai,
      { provider: "openai", baseUrl: "https://api.openai.com/v1", apiKey: "key-openai", context: 400_000 },
    ],
    ["a key that is not said to be anybody's is OpenAI's", { api_key: "k" }, {}, { provider: "openai", apiKey: "k" }],
    ["all keys: OpenRouter's is first", {}, every, { apiKey: "key-openrouter", baseUrl: ROUTER }],
    ["two keys: Anthropic's is before OpenAI's", {}, { ...openai, ...anthropic }, { provider: "anthropic" }],
    ["a model that is named is the one", { default: "m" }, anthropic, { provider: "anthropic", model: "m" }],
    [
      "a base URL beats every key",
      { base_url: OWN, default: "m" },
      every,
      { provider: "openai-compatible", baseUrl: OWN, apiKey: "key-openai", because: "a base URL is set" },
    ],
    ["a base URL needs no key", { base_url: OWN, default: "m" }, {}, { provider: "openai-compatible", apiKey: "" }],
    [
      "a base URL of Anthropic's",
      { base_url: "https://api.anthropic.com/v1" },
      every,
      { provider: "anthropic", apiKey: "key-anthropic" },
    ],
    [
      "a base URL of OpenAI's",
      { base_url: "https://api.openai.com/v1" },
      every,
      { provider: "openai", apiKey: "key-openai" },
    ],
    [
      "a base URL of OpenRouter's",
      { base_url: ROUTER },
      every,
      { provider: "openai-compatible", apiKey: "key-openrouter", model: "anthropic/claude-sonnet-5.5" },
    ],
    [
      "the key beside a base URL is for it",
      { base_url: OWN, api_key: "mine", default: "m" },
      every,
      { provider: "openai-compatible", apiKey: "mine" },
    ],
    [
      "an OpenAI address alone is a server of one's own",
      { default: "m" },
      { openai: { base_url: OWN, api_key: "k" } },
      { provider: "openai-compatible", baseUrl: OWN, apiKey: "k", because: "OPENAI_BASE_URL is set" },
    ],
    [
      "an Anthropic address",
      {},
      { anthropic: { base_url: OWN, api_key: "k" } },
      { provider: "anthropic", baseUrl: OWN, apiKey: "k", because: "ANTHROPIC_BASE_URL is set" },
    ],
  ])("%s", (_, model, providers, expected) => {
    expect(primary(model, providers)).toMatchObject(expected);
  });
});

describe("a provider that is named", () => {
  it.each<[string, Model, Providers, Partial<Endpoint>]>([
    [
      "anthropic, whatever other keys there are",
      { provider: "anthropic" },
      every,
      { provider: "anthropic", apiKey: "key-anthropic", model: "claude-sonnet-5-5", because: "configured" },
    ],
    ["anthropic without a key: the provider will say so", { provider: "anthropic" }, openai, { apiKey: "" }],
    [
      "anthropic elsewhere",
      { provider: "anthropic", base_url: OWN },
      anthropic,
      { provider: "anthropic", baseUrl: OWN },
    ],
    ["openai", { provider: "openai" }, every, { provider: "openai", apiKey: "key-openai", model: "gpt-5.1" }],
    ["openai elsewhere", { provider: "openai", base_url: OWN }, openai, { provider: "openai", baseUrl: OWN }],
    ["demo, whatever else is set", { provider: "demo", base_url: OWN, default: "m", api_key: "k" }, every, DEMO],
    [
      "openai-compatible with an address",
      { provider: "openai-compatible", base_url: OWN, default: "m" },
      every,
      { provider: "openai-compatible", baseUrl: OWN, apiKey: "key-openai" },
    ],
    [
      "openai-compatible without one is OpenRouter, with its key and no other",
      { provider: "openai-compatible" },
      every,
      { baseUrl: ROUTER, apiKey: "key-openrouter" },
    ],
    [
      "OpenRouter's address never gets OpenAI's key",
      { provider: "openai-compatible", base_url: ROUTER },
      openai,
      { baseUrl: ROUTER, apiKey: "" },
    ],
    [
      "a server of one's own never gets OpenRouter's key",
      { provider: "openai-compatible", base_url: OWN, default: "m" },
      openrouter,
      { baseUrl: OWN, apiKey: "" },
    ],
  ])("%s", (_, model, providers, expected) => {
    expect(primary(model, providers)).toMatchObject(expected);
  });
});

describe("an address", () => {
  it.each<[ModelSettings["model"]["provider"], string, string]>([
    ["openai-compatible", "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"],
    ["openai-compatible", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"],
    ["openai-compatible", "http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1"],
    ["openai-compatible", "http://127.0.0.1:8080/v1/chat/completions", "http://127.0.0.1:8080/v1"],
    ["openai-compatible", "https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4"],
    ["openai-compatible", "https://example.test/v1beta/openai/", "https://example.test/v1beta/openai"],
    ["openai-compatible", "https://api.perplexity.ai", "https://api.perplexity.ai"],
    ["openai", "https://api.openai.com", "https://api.openai.com/v1"],
    ["openai", "https://api.openai.com/v1/responses", "https://api.openai.com/v1"],
    ["anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1"],
    ["anthropic", "https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1"],
    ["anthropic", "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"],
  ])("of %s may be given as %s", (provider, base_url, baseUrl) => {
    expect(primary({ provider, base_url, default: "m" })?.baseUrl).toBe(baseUrl);
  });
});

describe("what cannot work is an error that names the key to set", () => {
  it.each<[string, Model, Providers, RegExp]>([
    ["a base URL without a model", { base_url: OWN }, {}, /model\.default is not set/],
    ["OPENAI_BASE_URL without a model", {}, { openai: { base_url: OWN } }, /model\.default is not set/],
    ["openai-compatible, no model", { provider: "openai-compatible", base_url: OWN }, {}, /model\.default is not set/],
    ["openai-compatible, no address", { provider: "openai-compatible", default: "m" }, openai, /needs model\.base_url/],
  ])("%s", (_, model, providers, message) => {
    expect(() => primary(model, providers)).toThrow(ConfigError);
    expect(() => primary(model, providers)).toThrow(message);
  });
});

describe("fallbacks", () => {
  const fallbacks = (...fallback_providers: ModelSettings["fallback_providers"]) =>
    chooseEndpoints(settings({ default: "first", api_key: "key-of-the-first" }, every, { fallback_providers })).slice(
      1,
    );

  it("come behind the primary, in order, each with its own key and model", () => {
    const chosen = fallbacks(
      { provider: "anthropic", model: "second" },
      { provider: "auto", model: "third", base_url: OWN, api_key: "mine" },
      { provider: "openai", model: "fourth" },
      { provider: "demo", model: "x" },
    );
    expect(chosen.map(({ provider, model, apiKey }) => [provider, model, apiKey])).toEqual([
      ["anthropic", "second", "key-anthropic"],
      ["openai-compatible", "third", "mine"],
      ["openai", "fourth", "key-openai"],
      ["demo", "offline-demo", ""],
    ]);
  });

  it("are never given the key of the primary", () => {
    expect(fallbacks({ provider: "auto", model: "m", base_url: OWN })[0]?.apiKey).toBe("key-openai");
  });
});

describe("model.context_length", () => {
  it("replaces what is assumed of the primary, and only of it", () => {
    const fallback_providers = [{ provider: "anthropic" as const, model: "m" }];
    const chosen = chooseEndpoints(settings({ context_length: 32_000 }, every, { fallback_providers }));
    expect(chosen.map(({ context }) => context)).toEqual([32_000, 200_000]);
    expect(chosen.map(({ guessed }) => guessed)).toEqual([false, true]);
    expect(primary({}, openrouter)?.context).toBe(128_000);
  });

  it("of a fallback is its own", () => {
    const fallback_providers = [{ provider: "anthropic" as const, model: "m", context_length: 8_192 }];
    const chosen = chooseEndpoints(settings({}, every, { fallback_providers }));
    expect(chosen.map(({ context, guessed }) => [context, guessed])).toEqual([
      [128_000, true],
      [8_192, false],
    ]);
  });
});
