// What OpenAI's clients may set for a model: handed on where the endpoint of the model has a field for it, refused by name where
// not. Fields without any effect are named in the header X-Hermes-Ignored.
import * as z from "zod";
import { FORMATS, isFormat, type Takes } from "../../../core/providers.ts";
import type { ModelOptions } from "../../../core/session.ts";
import { modelOptions, optionsOf } from "../runs/start.ts";
import { wrongField } from "../server/problem.ts";
import type { Api } from "../server/route.ts";

/** What both protocols call by the same names. */
export const sampling = {
  temperature: modelOptions.shape.temperature.nullish(),
  top_p: modelOptions.shape.top_p.nullish(),
  parallel_tool_calls: z.boolean().nullish().describe("Whether the model may call several tools at once"),
};
export const tokens = modelOptions.shape.max_tokens.nullish();
export const effort = z
  .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
  .nullish()
  .describe("How much the model reasons");
/** What our models have, nearest to what OpenAI's have. */
const EFFORTS = { none: "minimal", xhigh: "high", max: "high" } as const;

export const unsupported = z
  .null("is not supported here; leave it out")
  .optional()
  .describe("Not supported: leave it out");
const penalty = z.number().min(-2).max(2).nullish().describe("Makes the model repeat itself less");
const schema = {
  name: z.string().max(200).nullish(),
  description: z.string().max(10_000).nullish(),
  schema: z.record(z.string(), z.unknown()),
  strict: z.boolean().nullish(),
};
const plainFormats = [
  z.looseObject({ type: z.literal("text") }),
  z.looseObject({ type: z.literal("json_object") }),
] as const;

/** The options of a chat completion that a response does not have. */
export const chatOptions = {
  stop: z
    .union([z.string(), z.array(z.string()).max(16)])
    .nullish()
    .describe("Texts at which the answer ends"),
  seed: z.int().nullish().describe("The seed of the sampling"),
  presence_penalty: penalty,
  frequency_penalty: penalty,
  response_format: z
    .union([...plainFormats, z.looseObject({ type: z.literal("json_schema"), json_schema: z.looseObject(schema) })])
    .nullish()
    .describe("The format of the answer: text, JSON, or JSON by a schema"),
  logprobs: z
    .literal(false, "must be false: the models are not asked for them")
    .nullish()
    .describe("Not supported: `false`"),
  top_logprobs: z.literal(0, "must be 0: the models are not asked for them").nullish().describe("Not supported: `0`"),
  modalities: z.array(z.literal("text", "must be text")).nullish().describe("Only `text`"),
  logit_bias: unsupported,
  audio: unsupported,
  prediction: unsupported,
  functions: unsupported,
  function_call: unsupported,
  web_search_options: unsupported,
};
/** The options of a response that a chat completion does not have. */
export const textOptions = z
  .looseObject({
    format: z.union([...plainFormats, z.looseObject({ type: z.literal("json_schema"), ...schema })]).nullish(),
  })
  .nullish()
  .describe("`format`: the format of the answer: text, JSON, or JSON by a schema");

type ChatOnly = z.output<
  z.ZodObject<Pick<typeof chatOptions, "stop" | "seed" | "presence_penalty" | "frequency_penalty">>
>;
type JsonFormat = { type: string; [field: string]: unknown } | null | undefined;
type WantedOptions = z.output<z.ZodObject<typeof sampling & { tokens: typeof tokens; effort: typeof effort }>> &
  Partial<ChatOnly> & { json?: JsonFormat; jsonParam: string };

/** `model`: as it was asked for; undefined: the configured one. */
export function wantedOf(api: Api, model: string | undefined, wanted: WantedOptions): ModelOptions {
  const { temperature, top_p, tokens: max_tokens, effort: given, stop, seed, parallel_tool_calls } = wanted;
  const asked = given ?? undefined;
  const reasoning_effort = asked === "none" || asked === "xhigh" || asked === "max" ? EFFORTS[asked] : asked;
  const { presence_penalty, frequency_penalty } = wanted;
  const json = jsonOf(wanted.json);
  const takes = takenBy(api, model);
  if (stop?.length) takes("stop", "stop");
  if (isSet(seed)) takes("seed", "seed");
  if (presence_penalty) takes("penalties", "presence_penalty");
  if (frequency_penalty) takes("penalties", "frequency_penalty");
  if (json) takes(json.schema ? "json_schema" : "json_object", wanted.jsonParam);
  return {
    ...optionsOf({
      temperature: temperature ?? undefined,
      top_p: top_p ?? undefined,
      max_tokens: max_tokens ?? undefined,
      reasoning_effort,
    }),
    ...(stop?.length && { stop: typeof stop === "string" ? [stop] : stop }),
    ...(isSet(seed) && { seed }),
    ...(presence_penalty && { presencePenalty: presence_penalty }),
    ...(frequency_penalty && { frequencyPenalty: frequency_penalty }),
    ...(json && { json }),
    ...(parallel_tool_calls === false && { oneCall: true }),
  };
}

const isSet = <T>(value: T | null | undefined): value is T => value !== null && value !== undefined;

function jsonOf(format: JsonFormat): ModelOptions["json"] {
  if (!format || format.type === "text") return undefined;
  const given = z
    .looseObject(schema)
    .partial()
    .parse(format["json_schema"] ?? format);
  return {
    ...(given.name && { name: given.name }),
    ...(given.description && { description: given.description }),
    ...(given.schema && { schema: given.schema }),
  };
}

/** Refuses what the endpoint of that model has no field for. */
function takenBy({ settings }: Api, model: string | undefined): (what: Takes, param: string) => void {
  const known = settings.models.find((one) => one === model || one.endsWith(`:${model}`)) ?? settings.models[0] ?? "";
  const [format = ""] = (model && isFormat(model.split(":", 1)[0] ?? "") ? model : known).split(":", 1);
  const taken: readonly Takes[] = isFormat(format) ? FORMATS[format].takes : [];
  return (what, param) => {
    if (taken.includes(what)) return;
    const needs = `the endpoint of this model (${format}) does not take it; leave it out`;
    throw wrongField(param, needs, "unsupported_parameter");
  };
}

const MOST_NAMED = 20;

/** Names what of a request has no effect. */
export function ignoredIn(body: Record<string, unknown>, known: Record<string, unknown>): Record<string, string> {
  const names = Object.keys(body).filter((name) => !Object.hasOwn(known, name) && /^[\w.-]{1,40}$/.test(name));
  return names.length ? { "X-Hermes-Ignored": names.slice(0, MOST_NAMED).join(", ") } : {};
}
