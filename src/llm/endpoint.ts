// Chooses the endpoints from the configuration, once at the start, with the reason for each.
import { ConfigError } from "../core/errors.ts";
import { type Endpoint, FORMATS, type Format, VENDORS, type Vendor, vendorAt } from "../core/providers.ts";

type WantedEndpoint = {
  provider: Format | "auto";
  model: string | undefined;
  base_url?: string | undefined;
  api_key?: string | undefined;
  context_length?: number | undefined;
};

/** The part of the configuration that is about models. */
export type ModelSettings = {
  model: Omit<WantedEndpoint, "model"> & { default?: string | undefined };
  /** By the name of the vendor. */
  providers: Readonly<
    Record<string, { readonly api_key?: string | undefined; readonly base_url?: string | undefined }>
  >;
  fallback_providers: readonly WantedEndpoint[];
};

/** The primary endpoint, then the fallbacks in order. */
export function chooseEndpoints(settings: ModelSettings): Endpoint[] {
  const { model, fallback_providers } = settings;
  return [{ ...model, model: model.default }, ...fallback_providers].map((wanted) => choose(settings, wanted));
}

function choose({ providers }: ModelSettings, wanted: WantedEndpoint): Endpoint {
  const made = (provider: Format, baseUrl: string, apiKey: string | undefined, model: string, because: string) => ({
    provider,
    baseUrl: addressOf(provider, baseUrl),
    apiKey: wanted.api_key ?? apiKey ?? "",
    model,
    context: wanted.context_length ?? FORMATS[provider].context,
    ...(provider !== "demo" && { guessed: wanted.context_length === undefined }),
    because,
  });
  const keyOf = ({ name }: Vendor) => providers[name]?.api_key;
  const of = (vendor: Vendor, because: string) => {
    const address = wanted.base_url ?? providers[vendor.name]?.base_url ?? vendor.usual.baseUrl;
    return made(vendor.format, address, keyOf(vendor), wanted.model ?? vendor.usual.model, because);
  };
  const { openai } = providers;
  // A key is sent only to the server that it belongs to.
  const compatible = (address: string, because: string) => {
    const vendor = vendorAt("openai-compatible", address);
    return vendor
      ? made("openai-compatible", address, keyOf(vendor), wanted.model ?? vendor.usual.model, because)
      : made("openai-compatible", address, openai?.api_key, named(wanted), because);
  };
  const demo = (because: string): Endpoint => ({ ...made("demo", "", "", "offline-demo", because), apiKey: "" });

  const { provider, base_url: address } = wanted;
  if (provider === "demo") return demo("configured");
  if (provider === "openai-compatible") {
    const withKey = VENDORS.find((vendor) => vendor.format === provider && keyOf(vendor));
    const where = address ?? openai?.base_url ?? withKey?.usual.baseUrl;
    if (where) return compatible(where, "configured");
    throw new ConfigError('model.provider "openai-compatible" needs model.base_url: set it to the server\'s address.');
  }
  const own = VENDORS.filter(({ format }) => format !== "openai-compatible");
  const configured = own.find(({ format }) => format === provider);
  if (configured) return of(configured, "configured");
  if (address) {
    const owner = own.find(({ owns }) => owns.test(address));
    return owner ? of(owner, `the address is ${owner.label}'s`) : compatible(address, "a base URL is set");
  }
  if (openai?.base_url) return compatible(openai.base_url, "OPENAI_BASE_URL is set");
  const placed = own.find(({ name }) => providers[name]?.base_url);
  if (placed) return of(placed, `${placed.addressVariable} is set`);
  const withKey = VENDORS.find(keyOf);
  if (withKey) return of(withKey, `${/^[AEIOU]/.test(withKey.label) ? "an" : "a"} ${withKey.label} key is set`);
  const keyed = wanted.api_key && VENDORS.find(({ name }) => name === "openai");
  return keyed ? of(keyed, "an OpenAI key is set") : demo("no key and no base URL is set");
}

/** The address as the library needs it. It may be configured with `/v1`, without it, or with the path of a call. Some servers
 *  have no `/v1`. */
function addressOf(provider: Format, given: string): string {
  const bare = given.replace(/\/+$/, "").replace(/\/(chat\/completions|messages|responses)$/, "");
  if (provider === "demo" || /\/v\d\w*$/.test(bare)) return bare;
  if (provider === "anthropic") return `${bare}/v1`; // ANTHROPIC_BASE_URL is given without it
  const host = /^https?:\/\/([^/]+)$/i.exec(bare)?.[1];
  return host && !NO_V1.test(host) ? `${bare}/v1` : bare;
}
const NO_V1 = /^(api\.perplexity\.ai|api\.githubcopilot\.com|models\.inference\.ai\.azure\.com)$/i;

/** The user's own server has no known default model. */
function named({ model }: WantedEndpoint): string {
  if (model) return model;
  throw new ConfigError(
    "model.default is not set: name the model that the server at model.base_url should use (hermes models lists them).",
  );
}
