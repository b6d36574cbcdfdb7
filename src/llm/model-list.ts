// The models that an endpoint lists, with their context windows and prices where the list has them. One request, bounded in time
// and size.
import { explained } from "../core/errors.ts";
import type { ModelNames } from "../core/model-names.ts";
import type { Fault, Offer } from "../core/ports.ts";
import type { Endpoint } from "../core/providers.ts";
import { textWithin } from "../platform/capped.ts";
import { isObject, jsonIn, toObject } from "../platform/json.ts";
import { classify } from "./classify.ts";
import { formatOf } from "./formats.ts";

const LONGEST_LIST = 16_000_000;

/** In alphabetical order. Never throws. */
export async function listModels(endpoint: Endpoint, ms: number): Promise<Offer[] | Fault> {
  if (endpoint.provider === "demo") return [{ id: endpoint.model }];
  const signal = AbortSignal.timeout(ms);
  try {
    return await ask(endpoint, signal);
  } catch (error) {
    const reason = `${endpoint.baseUrl} did not list its models within ${ms / 1_000} s`;
    return signal.aborted ? { end: "fault", kind: "stalled", reason } : classify(error);
  }
}

const NAMES_MS = 3_000;

/** The models that can be chosen by name: those of the primary endpoint, and of fallbacks in another wire format. */
export async function modelNames([primary, ...fallbacks]: readonly Endpoint[]): Promise<ModelNames> {
  if (!primary) return { names: [] };
  const found = await listModels(primary, NAMES_MS);
  const others = fallbacks.filter(({ provider }) => provider !== primary.provider);
  const listed = Array.isArray(found) ? found.map(({ id }) => id) : [];
  const names = [primary.model, ...listed, ...others.map(({ provider, model }) => `${provider}:${model}`)];
  return { names: [...new Set(names)], ...(!Array.isArray(found) && { unread: explained(found) }) };
}

async function ask(endpoint: Endpoint, signal: AbortSignal): Promise<Offer[] | Fault> {
  const { providerFetch } = await import("./wire.ts");
  const { url, headers } = formatOf(endpoint).list(endpoint);
  const response = await providerFetch(url, { headers, signal });
  const body = jsonIn(await textWithin(response.body, LONGEST_LIST));
  if (!response.ok) {
    const elsewhere = response.status < 400 && "it points to another address, and that is not followed";
    return classify({ statusCode: response.status, message: elsewhere || response.statusText, error: body });
  }
  const offers = offersOf(body);
  if (offers) return offers;
  return { end: "fault", kind: "garbled", reason: `${url} answers, but not with a list of models` };
}

/** Most servers send the list in `data`; some send only the list. */
function offersOf(body: unknown): Offer[] | null {
  const models: unknown = isObject(body) ? body["data"] : body;
  if (!Array.isArray(models)) return null;
  const offers = new Map<string, Offer>();
  for (const model of models) {
    if (!isObject(model) || typeof model["id"] !== "string") continue;
    const context = windowOf(model);
    const price = priceOf(model["pricing"]);
    offers.set(model["id"], { id: model["id"], ...(context && { context }), ...(price && { price }) });
  }
  return [...offers.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The window that the server was started with (`meta.n_ctx`, `max_model_len`, `loaded_context_length`), else that of the model. */
function windowOf(model: Record<string, unknown>): number | undefined {
  const told = [
    toObject(model["meta"])["n_ctx"],
    model["max_model_len"],
    model["loaded_context_length"],
    model["context_length"],
    model["max_input_tokens"],
    model["context_window"],
    model["max_context_length"],
  ];
  return told.map(Number).find((tokens) => Number.isInteger(tokens) && tokens >= SMALLEST_WINDOW);
}
const SMALLEST_WINDOW = 256;

/** As OpenRouter lists it: in dollars per token. */
function priceOf(pricing: unknown): Offer["price"] {
  if (!isObject(pricing)) return undefined;
  const perMillion = (value: unknown) => Number((Number(value ?? Number.NaN) * 1_000_000).toPrecision(6));
  const [input, output] = [perMillion(pricing["prompt"]), perMillion(pricing["completion"])];
  const cached = perMillion(pricing["input_cache_read"]);
  if (!(input >= 0 && output >= 0)) return undefined; // also NaN, and -1 for "it depends"
  return { input, output, ...(cached >= 0 && { cached }) };
}
