// What every route that starts a turn shares: headers, sessions, models, and the door into the runtime.
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import { pagesOf } from "../../../core/pages.ts";
import type { AcceptRequest, Receipt, Runtime } from "../../../core/runtime.ts";
import type { Entry, ModelOptions } from "../../../core/session.ts";
import { RUN } from "../../../core/session-key.ts";
import { missing, type Problem, problem, wrongField } from "../server/problem.ts";
import { type Api, draining } from "../server/route.ts";
import { attemptOf, digestOf } from "./retries.ts";
import type { RunPermit } from "./run-limit.ts";

export const sessionId = z
  .string()
  .min(1, "must not be empty")
  .max(512, "must have at most 512 characters")
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  .regex(/^[^\u0000-\u001f\u007f]+$/, "must not contain control characters");

export const modelOptions = z.looseObject({
  temperature: z.number().min(0).max(2).optional().describe("Sampling temperature"),
  top_p: z.number().min(0).max(1).optional().describe("Nucleus sampling"),
  max_tokens: z.int().min(1).optional().describe("The most output tokens of one model call"),
  reasoning_effort: z.enum(["minimal", "low", "medium", "high"]).optional().describe("How much the model reasons"),
});

export function optionsOf(given: z.output<typeof modelOptions>): ModelOptions | undefined {
  const { temperature, top_p: topP, max_tokens: maxTokens, reasoning_effort: effort } = given;
  const options: ModelOptions = {
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(effort && { effort }),
  };
  return Object.keys(options).length ? options : undefined;
}

/** Undefined: the configured one. */
export function modelOf(
  { settings }: Api,
  model: string | null | undefined,
  provider?: string | null,
): string | undefined {
  const usual = [settings.modelName, "hermes-agent", "default", "auto", ""];
  const named = model && !usual.includes(model) ? model : undefined;
  if (!provider || provider === "auto") return named;
  const of = settings.models.find((one) => one.startsWith(`${provider}:`));
  if (!of) {
    const known = [...new Set(settings.models.map((one) => one.split(":", 1)[0]))].join(", ");
    throw wrongField("provider", `must be one of ${known}`, "provider_not_configured");
  }
  return named ? `${provider}:${named}` : of;
}

/** The name under which a client sees the model that answers. */
export const shownModel = ({ settings }: Api, model: string | null | undefined) => model ?? settings.modelName;

export function sessionKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const key = one(headers["x-hermes-session-key"]);
  if (key === undefined) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (key.length >= 1 && key.length <= 256 && !/[\u0000-\u001f\u007f]/.test(key)) return key;
  const needs = "X-Hermes-Session-Key must have 1 to 256 characters, none of them a control character";
  throw problem(400, "invalid_session_key", needs, { param: "X-Hermes-Session-Key" });
}

export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const key = one(headers["idempotency-key"]);
  if (key === undefined || /^[\x21-\x7e]{1,255}$/.test(key)) return key;
  const needs = "Idempotency-Key must have 1 to 255 visible ASCII characters";
  throw problem(400, "invalid_idempotency_key", needs, { param: "Idempotency-Key" });
}

export const one = (header: string | string[] | undefined): string | undefined =>
  Array.isArray(header) ? header.join(", ") : header;

/** So that a client sees under which key it is remembered, and whether this answer was given before. */
export const echo = (headers: IncomingHttpHeaders, { replayed }: Partial<Receipt> = {}): Record<string, string> => {
  const key = sessionKeyOf(headers);
  return { ...(key && { "X-Hermes-Session-Key": key }), ...(replayed && { "Idempotency-Replayed": "true" }) };
};

/** A status that no client sends again for: openai and ai do for 408, 409, 429 and 5xx, LangChain for all but 400 to 407, 409
 *  and 413. What has begun or ended would be done twice. */
const NEVER_RETRIED = 400;
export const forGood = (code: string, text: string, headers: Record<string, string> = {}): Problem =>
  problem(NEVER_RETRIED, code, text, { type: "run_error", headers: { ...headers, "X-Should-Retry": "false" } });

/** Sent again, this request is the same turn. */
export const isNamed = (headers: IncomingHttpHeaders): boolean =>
  idempotencyKeyOf(headers) !== undefined || attemptOf(headers) !== null;

export async function foundRun(runtime: Runtime, id: string) {
  const run = await runtime.run(id);
  if (!run) throw missing("run", id);
  return run;
}

type Beginning = Omit<AcceptRequest, "source" | "key" | "reply" | "by" | "admit"> & {
  /** The answer to go on from. */
  previous?: string;
  /** In a fork of its own, also where nobody has gone on from there. */
  apart?: boolean;
  /** Where there is no room for another run, it waits for its place, until this aborts. */
  waits?: AbortSignal;
};

/** Accepts one input under the cap of runs at a time. A second delivery is answered like the first, cap or not. */
export async function begin(api: Api, headers: IncomingHttpHeaders, beginning: Beginning): Promise<Receipt> {
  const { runtime, retries } = api;
  if (runtime.draining()) throw draining();
  const by = sessionKeyOf(headers);
  const given = idempotencyKeyOf(headers);
  const attempt = attemptOf(headers);
  if (given !== undefined || attempt === null || beginning.same === undefined)
    return accept(api, given ?? api.newKey(), by, beginning);
  const request = digestOf([beginning.same, by ?? null]);
  for (;;) {
    const key = await retries.keyOf(request, attempt > 0);
    try {
      const receipt = await accept(api, key, by, beginning);
      if (attempt > 0 || !receipt.replayed) return receipt; // else that number was taken
    } catch (error) {
      retries.refused(key);
      throw error;
    }
  }
}

async function accept(
  { runtime, runs, leaving }: Api,
  key: string,
  by: string | undefined,
  { previous, apart = false, waits, ...request }: Beginning,
): Promise<Receipt> {
  const place = runs.place();
  // It came before: then it is answered as before, and needs no place and no fork.
  const known = (previous || waits) && (await runtime.whereabouts(runtime.idOf("api", key)));
  const fork = { made: "" };
  try {
    if (waits && !known) await place.queue([waits, leaving]);
    const session =
      previous && !known ? await continueFrom(runtime, previous, { key, apart, place, fork }) : request.session;
    const receipt = await runtime.accept({
      ...request,
      ...(session && { session }),
      source: "api",
      key,
      reply: "pull",
      ...(by && { by }),
      admit: place.enter,
    });
    if (!receipt.replayed) place.stay(receipt.id);
    return receipt;
  } catch (error) {
    if (fork.made) await runtime.forget(fork.made); // a request that is refused leaves nothing behind
    throw error;
  } finally {
    place.leave();
  }
}

/** The session in which to go on from that answer: its own, or where that has gone on already, a fork of it. */
async function continueFrom(
  runtime: Runtime,
  previous: string,
  { key, apart, place, fork }: { key: string; apart: boolean; place: RunPermit; fork: { made: string } },
): Promise<string> {
  const run = await runtime.run(previous.replace(/^resp_([0-9a-f]{32})(_\d+)?$/, "run_$1"));
  if (!run) {
    const text = `There is no response ${JSON.stringify(previous.slice(0, 50))} to go on from; it may have been deleted.`;
    throw problem(404, "previous_response_not_found", text, { param: "previous_response_id" });
  }
  const session = `${RUN}${createHash("sha256").update(`fork\0${previous}\0${key}`).digest("hex").slice(0, 32)}`;
  const last = (await runtime.turn(run.joined ?? run.id)).at(-1)?.seq ?? 0;
  const isNewer = (entry: Entry) => entry.kind === "accepted" && !entry.input.task;
  let newer = false;
  for await (const page of pagesOf(runtime, run.session, last)) newer ||= page.some(isNewer);
  if (!newer && !apart) return run.session;
  place.enter();
  const made = await runtime.fork({ from: run.session, through: run.joined ?? run.id, session, title: "" });
  if (made === "unknown") {
    const text = "That response is not finished; wait for it, then go on from it.";
    throw problem(409, "previous_response_not_finished", text, { param: "previous_response_id" });
  }
  fork.made = session;
  return session;
}
