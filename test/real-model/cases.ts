// What a user does with hermes, on a real model: `hermes run`, the plain terminal and the HTTP API, in every wire format. A model
// this small says nothing of worth, so nothing is asked of its words: only that they arrive, stop when told to, and survive what
// happens to the server.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { type Client, createClient, type RunEvent } from "../../src/client/client.ts";
import { startFakeTelegram } from "../fakes/chat/telegram.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { MODEL, type Server, WINDOW } from "./servers.ts";

/** Where a model is, and in which format it is asked. */
type Endpoint = {
  name: string;
  provider: "openai-compatible" | "anthropic" | "openai";
  url: string;
  key: string;
  /** It says at the end of a stream how many tokens it took. llama-cpp-python does not. */
  tellsUsage: boolean;
};
export type Case = { name: string; run(): Promise<void> };

const STORY = "Tell me a long story about a lighthouse and the people who live in it.";
const GREETING = "Say hello in one short sentence.";
/** A stop is over in less than this, however slow the model is. */
const STOP_MS = 3_000;
/** The longest case summarises a conversation on one slow core. */
const CASE_MS = 900_000;
/** A run's answer is not longer. */
const SHORT = { model_options: { max_tokens: 40 } };

export function casesOf(endpoint: Endpoint): Case[] {
  const named = (what: string, run: (place: Place) => Promise<void>): Case => ({
    name: `${endpoint.name}: ${what}`,
    run: () => inPlace(endpoint, {}, run),
  });
  return [
    named("hermes run answers", async (place) => {
      const hermes = place.start(["run", GREETING]);
      hermes.hangUp();
      must((await hermes.exit) === 0, `it ended with ${await hermes.exit}: ${hermes.stderr()}`);
      must(hermes.stdout().trim() !== "", "there is no answer");
    }),
    named("the plain terminal: a message interrupts the answer, a command stops the next one", async (place) => {
      const hermes = place.start(["chat", "--plain"]);
      hermes.type(`${STORY}\n`);
      await hermes.prints(/Ctrl\+D leaves\.\n\s*\S+\s\S/);
      hermes.type("No, about a fox.\n");
      await hermes.prints(/Interrupting current task/);
      await hermes.prints(/Interrupted by a newer message\.\n\s*\S+\s\S/);
      hermes.type("/stop\n");
      await hermes.prints(/\[cut off\]\s+Stopping…/);
      hermes.type("/quit\n");
      must((await hermes.exit) === 0, `it ended with ${await hermes.exit}`);
    }),
    named("a run over HTTP, with its events", async (place) => {
      const { client } = await startGateway(place);
      const { run_id } = await client.start(GREETING, SHORT);
      const events = await collect(client, run_id);
      const last = events.at(-1);
      must(last?.event === "run.completed", `it ended with ${JSON.stringify(last)}`);
      must(last.output !== "" && textOf(events) === last.output, "the deltas are not the output");
      must(last.usage.output_tokens > 0 || !endpoint.tellsUsage, "the usage was not told");
    }),
    named("a run over HTTP is stopped while it speaks, and the session goes on", async (place) => {
      const { client } = await startGateway(place);
      const { run_id, session_id } = await client.start(STORY);
      for await (const { event } of client.events(run_id)) if (event === "message.delta") break;
      const asked = performance.now();
      await client.stop(run_id);
      const { status } = await client.wait(run_id);
      must(status === "cancelled", `it is ${status}`);
      must(performance.now() - asked < STOP_MS, `the stop took ${Math.round(performance.now() - asked)} ms`);
      const next = await client.start(GREETING, { session_id, ...SHORT });
      must((await client.wait(next.run_id)).status === "completed", "the next run did not complete");
    }),
    named("Chat Completions, streamed to the SDK of OpenAI", async (place) => {
      const { url, key } = await startGateway(place);
      const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
      const messages = [{ role: "user" as const, content: GREETING }];
      const stream = openai.chat.completions.stream({ model: "hermes-agent", messages, max_tokens: 40 });
      must((await stream.finalContent())?.trim() !== "", "there is no answer");
    }),
    named("a chat: a message interrupts the answer, /stop stops the next one, and the chat goes on", async (place) => {
      const anna = { id: 999, name: "Anna" };
      await using telegram = await startFakeTelegram();
      const { token, apiRoot } = telegram;
      const env = { TELEGRAM_BOT_TOKEN: token, TELEGRAM_API_ROOT: apiRoot, TELEGRAM_ALLOWED_USERS: String(anna.id) };
      await startGateway(place, env);
      const typing = () => telegram.calls.filter(({ method }) => method === "sendChatAction").length;
      const shows = (text: RegExp) => telegram.until(() => telegram.sent(anna.id).some((one) => text.test(one.text)));
      telegram.say({ from: anna, text: STORY });
      await telegram.until(() => typing() > 0);
      telegram.say({ from: anna, text: `No, about a fox. ${STORY}` });
      await shows(/Interrupting/);
      telegram.say({ from: anna, text: "/stop" });
      await shows(/Stopp/);
      const before = telegram.sent(anna.id).length;
      telegram.say({ from: anna, text: GREETING });
      await telegram.until(() =>
        telegram
          .sent(anna.id)
          .slice(before)
          .some((one) => one.text.trim() !== ""),
      );
      must(telegram.violations.length === 0, JSON.stringify(telegram.violations));
    }),
  ];
}

/** What only the server itself can do to a turn. `restart`: takes the place of a server that was killed. */
export function breaksOf(endpoint: Endpoint, server: () => Server, restart: () => Promise<void>): Case[] {
  return [
    {
      name: `${endpoint.name}: a conversation that outgrows the server's window is made shorter`,
      // The window is said to be larger than it is, so that the server has to say no.
      run: () =>
        inPlace(endpoint, { context_length: WINDOW * 4 }, async (place) => {
          const { client } = await startGateway(place);
          const session_id = "long";
          let summarised = false;
          for (const n of [1, 2, 3]) {
            const { run_id } = await client.start(`${n}. ${longText()} ${GREETING}`, { session_id, ...SHORT });
            const events = await collect(client, run_id);
            must(events.at(-1)?.event === "run.completed", `message ${n}: ${JSON.stringify(events.at(-1))}`);
            summarised ||= events.some((one) => one.event === "run.notice" && one.text.startsWith("Summarising"));
          }
          must(summarised, "no summary was made");
        }),
    },
    {
      name: `${endpoint.name}: the server is killed while it speaks; the turn waits for it, and goes on when it is back`,
      run: () =>
        inPlace(endpoint, {}, async (place) => {
          const { client } = await startGateway(place);
          const { run_id } = await client.start(STORY, SHORT);
          const seen: string[] = [];
          let killed = false;
          let back: Promise<void> | null = null;
          for await (const event of client.events(run_id)) {
            seen.push(event.event);
            if (event.event === "message.delta" && !killed) {
              killed = true;
              await server().kill();
            }
            if (event.event === "run.notice" && /network/.test(event.text)) back ??= restart();
          }
          must(back !== null, `it did not wait for the network: ${seen.join()}`);
          await back;
          must(seen.at(-1) === "run.completed", `it ended with ${seen.at(-1)}`);
          must(seen.includes("message.reset"), "the words of the broken stream were not taken back");
        }),
    },
  ];
}

// ── What a case needs ─────────────────────────────────────────────────────────────────────────────────

function must(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}

/** A home of its own, with nothing in it but who answers. */
async function inPlace(
  { provider, url, key }: Endpoint,
  more: Record<string, unknown>,
  run: (place: Place) => Promise<void>,
): Promise<void> {
  const place = makePlace();
  const model = { provider, base_url: url, default: MODEL, api_key: key, context_length: WINDOW, ...more };
  mkdirSync(place.home, { recursive: true, mode: 0o700 });
  writeFileSync(join(place.home, "config.yaml"), JSON.stringify({ model }), { mode: 0o600 }); // JSON is YAML
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`it is not over after ${CASE_MS / 60_000} minutes`)), CASE_MS);
  try {
    await Promise.race([run(place), late.promise]);
  } finally {
    clearTimeout(timer);
    place.clear();
  }
}

async function startGateway(
  place: Place,
  env: NodeJS.ProcessEnv = {},
): Promise<{ client: Client; url: string; key: string }> {
  const hermes = place.start(["gateway", "--port", "0"], env);
  await hermes.prints(/^hermes gateway ready on http:\S+\n/m);
  const url = /ready on (http:\S+)\n/.exec(hermes.stdout())?.[1] ?? "";
  const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
  return { client: createClient({ url, key }), url, key };
}

async function collect(client: Client, run: string): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of client.events(run)) events.push(event);
  return events;
}

/** What a viewer has at the end. */
const textOf = (events: readonly RunEvent[]): string =>
  events.reduce(
    (text, event) =>
      event.event === "message.delta" ? text + event.delta : event.event === "message.reset" ? "" : text,
    "",
  );

/** About 3,500 tokens. */
const longText = () =>
  Array.from({ length: 350 }, (_, n) => `Line ${n}: the lamp was lit and the sea was calm.`).join("\n");
