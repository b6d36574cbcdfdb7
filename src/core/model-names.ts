// Which models a person can choose by name, and what is said about a name that the endpoint does not list.
import { nearest } from "./nearest.ts";
import { formatAndModel } from "./providers.ts";

/** `unread`: why the endpoint's own list is not among the names. Then any other name may exist too. */
export type ModelNames = { names: readonly string[]; unread?: string };

const MOST_MEANT = 3;

/** `refused`: the endpoint lists its models, and this is none of them. `unchecked`: nobody could tell. */
export function checkModel({ names, unread }: ModelNames, typed: string): { refused?: string; unchecked?: string } {
  if (names.some((name) => covers(name, typed))) return {};
  const { format, model } = formatAndModel(typed);
  if (format && names.some((name) => covers(name, model))) return {};
  if (unread) return { unchecked: unread };
  if (format) return { unchecked: `only the models of the first endpoint are listed` };
  const meant = meantBy(typed, names);
  const hint = meant.length ? `Did you mean ${meant.join(" or ")}?` : "Choose one of its list.";
  return { refused: `The endpoint has no model "${typed}". ${hint}` };
}

/** Servers also take a listed name without its date (Anthropic, OpenAI) or without `:latest` (Ollama), and with a variant behind
 *  it (OpenRouter's `:free`). */
function covers(listed: string, typed: string): boolean {
  if (listed === typed || listed === `${typed}:latest` || typed.startsWith(`${listed}:`)) return true;
  return listed.startsWith(`${typed}-`) && /^-(\d{8}|\d{4}-\d\d-\d\d)$/.test(listed.slice(typed.length));
}

/** The name that is misspelt, then the shortest ones that have the typed text in them. */
function meantBy(typed: string, names: readonly string[]): string[] {
  const letters = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, "");
  const wanted = letters(typed);
  const misspelt = nearest(typed, names);
  const longer = wanted ? names.filter((name) => letters(name).includes(wanted)) : [];
  const shortest = longer.toSorted((a, b) => a.length - b.length);
  return [...new Set([...(misspelt ? [misspelt] : []), ...shortest])].slice(0, MOST_MEANT);
}
