// hermes models: shows the endpoint in use and why, its fallbacks, and the models that it offers.
import { ConfigError, explained } from "../../core/errors.ts";
import { checkModel } from "../../core/model-names.ts";
import type { Fault, Model, Offer } from "../../core/ports.ts";
import type { Endpoint } from "../../core/providers.ts";
import { printable } from "../../platform/logline.ts";

export type ShownEndpoint = Endpoint & {
  list(ms: number): Promise<Offer[] | Fault>;
  open(): Model;
};

type ModelsOptions = {
  /** The primary endpoint, then the fallbacks. `unnamed` is used if no model is configured. */
  endpoints(unnamed?: string): ShownEndpoint[];
  json: boolean;
  redact(text: string): string;
  print(text: string): Promise<void>;
  complain(line: string): void;
};

const LIST_MS = 10_000;

/** Returns the exit code. */
export async function showModels(options: ModelsOptions): Promise<number> {
  const { json, redact, print, complain } = options;
  const { endpoints, problem } = find(options);
  const [primary, ...fallbacks] = endpoints;
  if (!primary) return 1;
  const say = (text: string) => print(redact(text));
  if (!json) {
    await say(`model     ${describe(primary)}\n`);
    for (const fallback of fallbacks) await say(`fallback  ${describe(fallback)}\n`);
  }
  const found = primary.provider === "demo" ? [] : await primary.list(LIST_MS);
  const listed = Array.isArray(found);
  if (json) {
    const models = listed
      ? { models: found.map(({ id }) => id), ...windowsOf(found) }
      : { error: { kind: found.kind, reason: found.reason } };
    const report = { model: shown(primary), fallbacks: fallbacks.map(shown), ...models };
    await say(`${JSON.stringify(report, null, 2)}\n`);
  } else if (listed && found.length > 0) {
    const mark = ({ id, context }: Offer) =>
      `${id === primary.model ? "*" : " "} ${printable(id)}${context ? `  (${context} tokens)` : ""}\n`;
    await say(`\n${found.length} models at ${primary.baseUrl}:\n${found.map(mark).join("")}`);
  }
  const { refused = "" } =
    listed && found.length > 0 && !problem ? checkModel({ names: found.map(({ id }) => id) }, primary.model) : {};
  if (refused) complain(redact(`${printable(refused)} Change it with: hermes config set model.default NAME`));
  if (problem) complain(redact(problem.message));
  if (!listed) complain(redact(`Cannot list the models at ${primary.baseUrl}: ${printable(explained(found))}`));
  return problem ? 78 : listed && !refused ? 0 : 1;
}

function windowsOf(offers: readonly Offer[]) {
  const told = offers.flatMap(({ id, context }) => (context ? [[id, context] as const] : []));
  return told.length ? { context_lengths: Object.fromEntries(told) } : {};
}

/** Without a configured model, the list of models is still shown. */
function find({ endpoints }: ModelsOptions): { endpoints: ShownEndpoint[]; problem?: ConfigError } {
  try {
    return { endpoints: endpoints() };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { endpoints: endpoints("(none)"), problem: error };
  }
}

export function describe({ provider, model, baseUrl, because }: ShownEndpoint): string {
  if (provider === "demo") return `offline demo, a script (${because})`;
  return printable(`${model} via ${provider} at ${baseUrl} (${because})`);
}

const shown = ({ provider, model, baseUrl, context, because }: ShownEndpoint) => ({
  provider,
  model,
  ...(baseUrl && { base_url: baseUrl }),
  context_length: context,
  because,
});
