// What the two formats of OpenAI have in common: names, failures and the wording of complaints.
import { z } from "zod";
import type { Failure } from "./reply.ts";
import { bracketed, type Misfit, problem, schemaProblems } from "./validation.ts";
import type { Problem, Told, Wording } from "./wire.ts";

export const nullable = <T extends z.ZodType>(type: T) => type.nullable().optional();
export const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, "must match '^[a-zA-Z0-9_-]{1,64}$'");
export const metadata = nullable(z.record(z.string().max(64), z.string().max(512)));
export const imageUrl = z
  .string()
  .regex(/^(https?:\/\/|data:image\/[a-z+.-]+;base64,[A-Za-z0-9+/=]+$)/, "is no image URL");

export const shapeProblems = (misfits: Misfit[], unknown: (path: string) => string): Problem[] =>
  misfits.map(({ path, message, unknown: isUnknown }) => {
    const param = bracketed(path);
    if (isUnknown) return problem(unknown(param), param, "unknown_parameter");
    return problem(`Invalid value for '${param}': ${message}.`, param, "invalid_value");
  });

/** A strict function also closes every object and requires every property. */
export function parameterProblems(name: string, parameters: unknown, strict: boolean, param: string): Problem[] {
  const wrong = [...schemaProblems(parameters), ...(strict ? looseEnds(parameters, "schema") : [])];
  return wrong.map((why) =>
    problem(`Invalid schema for function '${name}': ${why}.`, param, "invalid_function_parameters"),
  );
}

function looseEnds(schema: unknown, path: string): string[] {
  const object = z.looseObject({ type: z.literal("object"), properties: z.record(z.string(), z.unknown()) });
  const { success, data } = object.safeParse(schema);
  if (!success) return [];
  const required = Array.isArray(data.required) ? data.required : [];
  const keys = Object.keys(data.properties);
  return [
    ...(data.additionalProperties === false ? [] : [`'additionalProperties' is required to be false in ${path}`]),
    ...(keys.every((key) => required.includes(key)) ? [] : [`'required' must have every key of ${path}.properties`]),
    ...keys.flatMap((key) => looseEnds(data.properties[key], `${path}.properties.${key}`)),
  ];
}

const CONTEXT = {
  chat: "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens. Please reduce the length of the messages.",
  responses: "Your input exceeds the context window of this model. Please adjust your input and try again.",
};

type Said = { status: number; message: string; type: string; param?: string; code?: string };
const said = (format: "chat" | "responses"): Record<Failure, Said> => ({
  "bad-request": { status: 400, message: "Bad request.", type: "invalid_request_error" },
  "context-overflow": {
    status: 400,
    message: CONTEXT[format],
    type: "invalid_request_error",
    param: format === "chat" ? "messages" : "input",
    code: "context_length_exceeded",
  },
  auth: {
    status: 401,
    message:
      "Incorrect API key provided: sk-****. You can find your API key at https://platform.openai.com/account/api-keys.",
    type: "invalid_request_error",
    code: "invalid_api_key",
  },
  forbidden: {
    status: 403,
    message: "Country, region, or territory not supported",
    type: "request_forbidden",
    code: "unsupported_country_region_territory",
  },
  "not-found": { status: 404, message: "Invalid URL", type: "invalid_request_error" },
  "rate-limit": {
    status: 429,
    message:
      "Rate limit reached for this model on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
    type: "tokens",
    code: "rate_limit_exceeded",
  },
  quota: {
    status: 429,
    message: "You exceeded your current quota, please check your plan and billing details.",
    type: "insufficient_quota",
    code: "insufficient_quota",
  },
  server: {
    status: 500,
    message: "The server had an error while processing your request. Sorry about that!",
    type: "server_error",
    code: "server_error",
  },
  overloaded: {
    status: 503,
    message: "The engine is currently overloaded, please try again later",
    type: "server_error",
    code: "server_is_overloaded",
  },
});

export function complaint(format: "chat" | "responses", failure: Failure, problem?: Problem) {
  const { status, message, type, param = null, code = null } = { ...said(format)[failure], ...problem };
  return { status, error: { message, type, param, code } };
}

export const told =
  (format: "chat" | "responses") =>
  (failure: Failure, { id }: Pick<Wording, "id">, problem?: Problem): Told => {
    const { status, error } = complaint(format, failure, problem);
    return { status, headers: { "x-request-id": id("req_") }, body: JSON.stringify({ error }, null, 2) };
  };
