// hermes setup: asks for the settings, tests them, then writes them. Nothing is changed before the last step. The key goes into
// .env, everything else into config.yaml. The test uses exactly the configuration that will be written.
import { text as readAll } from "node:stream/consumers";
import { ConfigError, NO_SERVER } from "../../core/errors.ts";
import { checkModel } from "../../core/model-names.ts";
import type { Clock, FaultKind, Offer } from "../../core/ports.ts";
import { alternatives, formats, PROVIDERS, providerNamed, VENDORS, vendorAt } from "../../core/providers.ts";
import { linked } from "../../core/wait.ts";
import { type Home, makeHome } from "../../platform/home.ts";
import { printable } from "../../platform/logline.ts";
import { createRedactor } from "../../platform/redact.ts";
import { type Answers, type Current, draftsOf, problemOfKey, readText } from "./answers.ts";
import { writePrivate } from "./files.ts";
import { describe, type ShownEndpoint } from "./models.ts";

export type SetupFlags = { provider?: string; model?: string; baseUrl?: string; keyStdin: boolean; yes: boolean };
type Outlook = {
  config: {
    readonly approvals: { readonly mode: Current["guards"]["approvals"] };
    readonly terminal: { readonly sandbox: Current["guards"]["sandbox"] };
  };
  settings: { key: string; from: string }[];
  secrets: string[];
  endpoints(): ShownEndpoint[];
};
type SetupOptions = {
  flags: SetupFlags;
  home: Home;
  /** The configuration that these texts would give; throws a ConfigError. */
  look(drafts?: ReadonlyMap<string, string>): Outlook;
  clock: Clock;
};
export type Teller = Record<"step" | "success" | "warn", (text: string) => void>;

/** A local server may have to load the model first. */
const TEST_MS = 60_000;
const LIST_MS = 10_000;
const ADVICE: Record<FaultKind, string> = {
  auth: "The provider refused the key: check that it is complete and belongs to this provider.",
  quota: "The account has no credit left, or the key has a limit: see the provider's website.",
  rate_limited: "The key works, but there were too many calls: try again in a minute.",
  bad_request: "Usually the model does not exist, or the address is wrong.",
  network: NO_SERVER,
  unavailable: "The provider has a problem: try again in a minute.",
  stalled: "The server is slow, or still loads the model: try again.",
  incomplete: "The server sends incomplete answers: is this a chat model?",
  empty: "The server sends empty answers: is this a chat model?",
  exhausted: "The model used all its output tokens for reasoning: raise the limit at the server.",
  garbled: "The server sends answers in another format: is the address right? It often ends in /v1.",
  oversized: "The answer is too long: is this a chat model?",
  too_long: "The context window of this model is too small: choose another model.",
  filtered: "The provider filtered the answer: choose another model.",
};

/** Returns the exit code. */
export async function setUp(options: SetupOptions): Promise<number> {
  const { flags, home, look } = options;
  const { yes, keyStdin, provider } = flags;
  const interactive = !yes && !keyStdin && process.stdin.isTTY && process.stdout.isTTY;
  if (!interactive && !(yes && provider)) return refuse(howTo(home));
  if (provider && !providerNamed(provider)) return refuse(`--provider takes ${NAMES.join(", ")}, not "${provider}".`);
  process.once("SIGINT", () => {
    process.stdout.write("\nNothing was changed.\n");
    process.exit(130);
  });
  const current = currentOf(options);
  const redactor = createRedactor();
  const clean = (text: string) => printable(redactor.text(text));
  const lookAt = (answers: Answers): Outlook => {
    const outlook = look(draftsOf(home, current, answers));
    for (const secret of outlook.secrets) redactor.add(secret);
    return outlook;
  };

  if (!interactive) {
    const answers = await fromFlags(options, current);
    if (typeof answers === "string") return refuse(answers);
    const line = (text: string) => void process.stdout.write(`${clean(text)}\n`);
    const teller = { step: line, success: line, warn: line };
    const outlook = lookAt(answers);
    const offers = await offersOf(answers, outlook);
    const unknown = offers && checkModel({ names: offers.map(({ id }) => id) }, answers.model).refused;
    const failure = unknown ?? (await tryOut(options, answers, outlook, teller));
    if (failure) return refuse(`${clean(failure)}\nNothing was changed.`, 1);
    save(options, current, withOffer(answers, offers), teller);
    return 0;
  }

  const { openPrompts } = await import("./prompts.ts");
  const prompts = openPrompts({ flags, clean, primaryOf: (answers) => primaryOf(lookAt(answers)) });
  let answers = await prompts.ask(current);
  while (answers) {
    const outlook = lookAt(answers);
    const failure = await tryOut(options, answers, outlook, prompts.teller);
    const next = failure ? await prompts.askWhatNow(failure) : "save";
    if (next === "leave") break;
    if (next === "save") {
      save(options, current, failure ? answers : withOffer(answers, await offersOf(answers, outlook)), prompts.teller);
      return prompts.end("Start with: hermes", 0);
    }
    answers = await prompts.ask(current, answers);
  }
  return prompts.end("Nothing was changed.", 130);
}

const NAMES = PROVIDERS.map(({ name }) => name);

function currentOf({ look, home }: SetupOptions): Current {
  try {
    const { config, endpoints } = look();
    const guards = { approvals: config.approvals.mode, sandbox: config.terminal.sandbox };
    return { endpoint: endpointOf(endpoints), guards };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(`${error.message}\nNothing was changed: fix ${home.config} or ${home.env} first.`);
  }
}

function endpointOf(endpoints: Outlook["endpoints"]): Current["endpoint"] {
  try {
    const [primary] = endpoints();
    if (!primary) return null;
    const { baseUrl, model } = primary;
    const format = formats.find((one) => one === primary.provider) ?? "demo";
    const routed = format === "openai-compatible" ? vendorAt(format, baseUrl) : undefined;
    const provider = routed ?? providerNamed(format);
    return provider ? { provider, baseUrl, model } : null;
  } catch {
    return null; // an unusable endpoint is the reason to run setup
  }
}

function primaryOf({ endpoints }: Outlook): ShownEndpoint {
  const [primary] = endpoints();
  if (!primary) throw new ConfigError("No model is configured.");
  return primary;
}

/** A string is an error message that says what is missing. */
async function fromFlags({ flags, home }: SetupOptions, current: Current): Promise<Answers | string> {
  const provider = providerNamed(flags.provider);
  if (!provider) return howTo(home);
  if (provider.format === "demo") return { provider, baseUrl: "", model: "", key: "" };
  const vendor = provider.usual;
  const before = current.endpoint?.provider === provider ? current.endpoint : null;
  const baseUrl = flags.baseUrl ?? before?.baseUrl ?? vendor?.baseUrl;
  if (!baseUrl) return "--base-url is missing: give the address of the server, such as http://127.0.0.1:11434/v1";
  const model = flags.model ?? (before?.baseUrl === baseUrl ? before.model : vendor?.model);
  if (!model) return "--model is missing: name the model that the server should use.";
  const key = flags.keyStdin ? (await readAll(process.stdin)).trim() : "";
  if (flags.keyStdin && !key) return "--key-stdin: stdin is empty.";
  return problemOfKey(key) ?? { provider, baseUrl, model, key };
}

/** Returns undefined if the test passed, else the reason. */
async function tryOut(
  { clock, home }: SetupOptions,
  { provider, baseUrl, model, key }: Answers,
  outlook: Outlook,
  teller: Teller,
): Promise<string | undefined> {
  if (provider.format === "demo") return undefined;
  const endpoint = primaryOf(outlook);
  const elsewhere = !endpoint.baseUrl.startsWith(baseUrl.replace(/\/+$/, "")); // it may have got its /v1
  if (endpoint.model !== model || elsewhere || (key && endpoint.apiKey !== key)) {
    const ours = [home.config, `${home.env}: ${provider.keyVariable}`];
    const stronger = outlook.settings.filter(
      ({ key, from }) => /^(model|providers)\./.test(key) && !ours.some((place) => from.startsWith(place)),
    );
    teller.warn(`These settings override your choice: ${[...new Set(stronger.map(({ from }) => from))].join(", ")}`);
  }
  teller.step(`Testing ${describe(endpoint)} …`);
  const tooLong = linked([], { clock, ms: TEST_MS });
  const began = performance.now();
  const messages = [{ role: "user" as const, text: "Answer with one word: ok" }];
  const request = { session: "setup", system: "", messages, tools: [], final: true };
  const hear = { text: () => {}, reasoning: () => {}, alive: () => {} };
  const result = await endpoint.open().call(request, hear, tooLong.signal);
  tooLong.release();
  if (result.end === "aborted") return `The test failed: no answer in ${TEST_MS / 1_000} s. ${ADVICE.stalled}`;
  if (result.end === "fault") return `The test failed: ${result.reason.replace(/\.$/, "")}. ${ADVICE[result.kind]}`;
  teller.success(`The test passed: answered in ${((performance.now() - began) / 1_000).toFixed(1)} s.`);
  return undefined;
}

/** Null if the server does not list its models. */
async function offersOf({ provider }: Answers, outlook: Outlook): Promise<Offer[] | null> {
  const found = provider.format === "demo" ? null : await primaryOf(outlook).list(LIST_MS);
  return Array.isArray(found) && found.length > 0 ? found : null;
}

/** Adds the context window and the price of the model, if its server lists them. */
function withOffer(answers: Answers, offers: Offer[] | null): Answers {
  const offer = offers?.find(({ id }) => id === answers.model);
  return offer ? { ...answers, offer } : answers;
}

function save({ home }: SetupOptions, current: Current, answers: Answers, teller: Teller): void {
  makeHome(home);
  for (const [file, text] of draftsOf(home, current, answers)) {
    if (text === readText(file)) continue;
    writePrivate(file, text);
    teller.success(`Wrote ${file}`);
  }
}

function refuse(text: string, code = 2): number {
  process.stderr.write(`${text.replace(/^/gm, "hermes: ")}\n`);
  return code;
}

const howTo = (home: Home) => `setup needs a terminal for its questions. Without one, give the answers as options:
  hermes setup --provider ${NAMES.join("|")} [--model NAME] [--base-url URL] [--key-stdin] --yes
or set ${alternatives(VENDORS.map(({ keyVariable }) => keyVariable))} in the environment or in ${home.env},
and model.provider, model.default and model.base_url in ${home.config}`;
