// What vendors charge for their own models at their own addresses, in US dollars for a million tokens. As of 16 November 2026; the
// vendors' own pages decide: platform.claude.com/docs/en/about-claude/pricing and developers.openai.com/api/docs/pricing. Prices that
// depend on more than is known here (Claude Haiku 5.5: the length of the prompt) are left out: no price is better than a wrong one.
import type { Offer } from "../core/ports.ts";
import { type Endpoint, VENDORS } from "../core/providers.ts";

type Price = NonNullable<Offer["price"]>;
/** All but `output` are part of `input`. */
type Tokens = { input: number; cached: number; written: number; output: number };
type PriceRow = readonly [input: number, cached: number, output: number];

const PRICES: Readonly<Record<string, Readonly<Record<string, PriceRow>>>> = {
  anthropic: {
    "claude-fable-5-1": [10, 0.25, 50],
    "claude-fable-5": [10, 1, 50],
    "claude-opus-5-5": [4, 0.2, 20],
    "claude-opus-5": [5, 0.5, 25],
    "claude-opus-4-8": [5, 0.5, 25],
    "claude-opus-4-7": [5, 0.5, 25],
    "claude-opus-4-6": [5, 0.5, 25],
    "claude-opus-4-5": [5, 0.5, 25],
    "claude-sonnet-5-5": [2, 0.1, 10],
    "claude-sonnet-5": [2, 0.2, 10],
    "claude-sonnet-4-6": [3, 0.3, 15],
    "claude-sonnet-4-5": [3, 0.3, 15],
    "claude-haiku-4-5": [1, 0.1, 5],
  },
  openai: {
    "gpt-6-astra": [10, 1, 50],
    "gpt-6.1-sol": [2, 0.1, 10],
    "gpt-6-sol": [2, 0.2, 10],
    "gpt-6.1-terra": [1, 0.05, 5],
    "gpt-6-luna": [0.1, 0.01, 0.5],
    "gpt-5.6-sol": [4, 0.4, 20],
    "gpt-5.6-terra": [2, 0.2, 12],
    "gpt-5.6-luna": [0.2, 0.02, 1.2],
    "gpt-5.5": [5, 0.5, 30],
    "gpt-5.4": [2.5, 0.25, 15],
    "gpt-5.4-mini": [0.75, 0.075, 4.5],
    "gpt-5.4-nano": [0.2, 0.02, 1.25],
    "gpt-5.2": [1.75, 0.175, 14],
    "gpt-5.1": [1.25, 0.125, 10],
  },
};
/** Tokens of input up to which the prices hold; beyond it, OpenAI charges more. */
const LONGEST_INPUT: Readonly<Record<string, number>> = { openai: 272_000 };
/** Both vendors charge a quarter more for tokens that they put into their cache. */
const WRITTEN = 1.25;
const MILLION = 1_000_000;

/** What a call costs, in US dollars. Undefined: that is not known. */
export function listedCost(
  { baseUrl, model }: Pick<Endpoint, "baseUrl" | "model">,
  tokens: Tokens,
): number | undefined {
  const name = VENDORS.find(({ usual }) => usual.baseUrl === baseUrl)?.name ?? "";
  const row = PRICES[name]?.[model.replace(/-(\d{8}|\d{4}-\d\d-\d\d)$/, "")];
  if (!row || tokens.input > (LONGEST_INPUT[name] ?? Infinity)) return undefined;
  const [input, cached, output] = row;
  return costAt({ input, cached, output }, tokens);
}

export function costAt({ input, output, cached = input }: Price, tokens: Tokens): number {
  const fresh = tokens.input - tokens.cached - tokens.written;
  return (fresh * input + tokens.written * input * WRITTEN + tokens.cached * cached + tokens.output * output) / MILLION;
}
