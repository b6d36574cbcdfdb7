// Opens the configured models, which are tried in order, and any other model that a turn names.
import { createBounded } from "../core/bounded.ts";
import type { Clock, Model } from "../core/ports.ts";
import { type Endpoint, formatAndModel } from "../core/providers.ts";
import { createDemoModel } from "./demo.ts";
import { chooseEndpoints, type ModelSettings } from "./endpoint.ts";
import { createModel } from "./provider.ts";

/** Named models that are kept open. Clients choose the names, so the number is bounded. */
const MOST_NAMED = 32;

export function openModels(options: {
  settings: ModelSettings;
  endpoints: readonly Endpoint[];
  clock: Clock;
  redact(text: string): string;
}): { models: Model[]; modelNamed(name: string): Model | null } {
  const { settings, endpoints, clock, redact } = options;
  const [primary] = endpoints;
  const modelOf = (endpoint: Endpoint): Model =>
    endpoint.provider === "demo" ? createDemoModel(clock) : withoutSecrets(createModel(endpoint), redact);

  /** Null: it is the first configured model, or the demo. */
  function open(name: string): Model | null {
    const parts = formatAndModel(name);
    const { format, model } = parts.format === "demo" ? { format: null, model: name } : parts; // `demo:latest`, of Ollama
    if (!primary || primary.provider === "demo") return null;
    if (model === primary.model && (!format || format === primary.provider)) return null;
    const [endpoint = primary] = format
      ? chooseEndpoints({ ...settings, model: { ...settings.model, provider: format, default: model } })
      : [];
    return modelOf({ ...endpoint, model, guessed: true });
  }

  const named = createBounded<{ model: Model | null }>(MOST_NAMED);
  return {
    models: endpoints.map(modelOf),
    modelNamed(name) {
      const known = named.get(name) ?? { model: open(name) };
      named.set(name, known);
      return known.model;
    },
  };
}

/** An error of a provider may contain our key, and errors go into the journal and to clients. */
const withoutSecrets = (model: Model, redact: (text: string) => string): Model => ({
  ...model,
  get context() {
    return model.context; // it may be learnt
  },
  async call(...given) {
    const result = await model.call(...given);
    return result.end === "fault" ? { ...result, reason: redact(result.reason) } : result;
  },
});
