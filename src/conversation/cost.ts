// What model calls cost: by the configured prices, else as it was recorded with each call (llm/prices.ts).
import { formatAndModel } from "../core/providers.ts";
import type { Usage } from "../core/session.ts";

/** In US dollars for a million tokens, by the name of the model. */
export type Prices = Readonly<
  Record<string, { readonly input: number; readonly output: number; readonly cached?: number | undefined }>
>;

const MILLION = 1_000_000;

/** In US dollars; null: the price is not known. */
export function costOf(prices: Prices, model: string, { input, output, cached = 0, cost }: Usage): number | null {
  const price = priceOf(prices, model);
  if (!price) return cost ?? null;
  const again = Math.min(cached, input);
  return ((input - again) * price.input + again * (price.cached ?? price.input) + output * price.output) / MILLION;
}

/** Models are written down with their provider before them; people name them with it or without. */
function priceOf(prices: Prices, model: string) {
  const named = Object.entries(prices);
  const found =
    named.find(([name]) => name === model) ??
    named.find(([name]) => name === bareName(model)) ??
    named.find(([name]) => bareName(name) === model);
  return found?.[1];
}

export const bareName = (name: string): string => formatAndModel(name).model;
