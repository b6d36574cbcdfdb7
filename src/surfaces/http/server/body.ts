// What a client sends: read with a bound, checked before anything is made of it.
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type * as z from "zod";
import { messageOf } from "../../../core/errors.ts";
import { type Problem, problem } from "./problem.ts";

export const BODY_LIMIT = 10_000_000;
/** Of another node: what a client sent, and once more what makes it the same. */
export const PEER_BODY_LIMIT = 3 * BODY_LIMIT;
const DEEPEST = 64;
const LONGEST_MESSAGE = 300;
const LONGEST_NAME = 50;
const LONGEST_PATH = 150;
const UNNAMED = "is not valid";

/** The object that was sent, undefined when nothing was; else a Problem. */
export const readJson = async (request: IncomingMessage, limit = BODY_LIMIT): Promise<unknown> => {
  const bytes = await readBytes(request, limit);
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw invalid("the body is not UTF-8");
  // Before it is parsed: the parser would build all of it first.
  if (isTooDeep(bytes)) throw invalid(`the body is nested deeper than ${DEEPEST} levels`);
  const text = bytes.toString();
  const value = parseText(text);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw problem(400, "invalid_body", "The body must be a JSON object.");
  // Written with escapes, the name is in the value only; all of its letters are below \u0100.
  if ((text.includes("__proto__") || text.includes("\\u00")) && namesProto(value))
    throw problem(400, "invalid_body", "The body must not have a field named __proto__.");
  return value;
};

export const bodyTooLarge = (limit: number): Problem =>
  problem(413, "body_too_large", `The body is larger than ${limit} bytes. Send less.`);

export const readBytes = async (request: IncomingMessage, limit: number): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // Destroying the request would take the socket with it, and with that our answer.
    const body: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
    for await (const chunk of body) {
      size += chunk.length;
      if (size > limit) break;
      chunks.push(chunk);
    }
  } catch {
    throw problem(400, "incomplete_body", "The body ended too early. Send it again.");
  }
  if (size <= limit) return Buffer.concat(chunks);
  // What is still to come is thrown away; a client that is cut off while it sends never sees why.
  request.resume();
  throw bodyTooLarge(limit);
};

const isTooDeep = (json: Buffer): boolean => {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) quoted = !quoted;
    else if (quoted) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === BRACKET || byte === BRACE) depth += 1;
    else if (byte === BRACKET_END || byte === BRACE_END) depth -= 1;
    if (depth > DEEPEST) return true;
  }
  return false;
};

const [QUOTE, BACKSLASH, BRACKET, BRACE, BRACKET_END, BRACE_END] = Buffer.from('"\\[{]}');

const parseText = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid(messageOf(error));
  }
};

const invalid = (why: string): Problem => problem(400, "invalid_json", cut(`Invalid JSON: ${why}.`, LONGEST_MESSAGE));

const namesProto = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false;
  return Object.hasOwn(value, "__proto__") || Object.values(value).some(namesProto);
};

// ── Shapes ────────────────────────────────────────────────────────────────────────────────────────────

/** The value as the schema makes it, else a Problem that names the first wrong field and says what it must be. */
export const parse = <T extends z.ZodType>(schema: T, value: unknown): z.output<T> => {
  const result = schema.safeParse(value, { error: need });
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const { path, message } = issue ? innermost(issue) : { path: [], message: UNNAMED };
  const field = cut(path.map((name) => cut(String(name), LONGEST_NAME)).join("."), LONGEST_PATH);
  const text = field ? `${field}: ${message}` : `The body ${message}`;
  throw problem(400, null, cut(text, LONGEST_MESSAGE), { param: field || null });
};

/** The parameters of a query and what they mean, for the documentation. */
export const meaningsIn = ({ shape }: z.ZodObject): Record<string, string> =>
  Object.fromEntries(Object.entries<z.ZodType>(shape).map(([name, { description = "" }]) => [name, description]));

type Complaint = { path: PropertyKey[]; message: string };

/** Of the ways to write a field, the one that fits furthest is the one that was meant; if none fits, all are named. */
const innermost = (issue: z.core.$ZodIssue): Complaint => {
  const { path, message } = issue;
  if (issue.code === "unrecognized_keys") return { path: [...path, ...issue.keys.slice(0, 1)], message };
  if (issue.code !== "invalid_union") return { path, message };
  const ways = issue.errors.flatMap((issues) => issues.slice(0, 1)).map(innermost);
  const [furthest] = ways.toSorted((a, b) => b.path.length - a.path.length);
  if (furthest?.path.length) return { path: [...path, ...furthest.path], message: furthest.message };
  if (message !== UNNAMED || !furthest) return { path, message };
  const each = [...new Set(ways.map((way) => way.message))];
  return { path, message: each.join(" or ").replaceAll("or must be", "or") };
};

const KINDS: Record<string, string> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "an array",
  tuple: "an array",
  object: "an object",
  record: "an object",
  null: "null",
};

/** The messages of fields whose schema has none. */
const need: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${KINDS[issue.expected] ?? issue.expected}`;
    case "too_small":
      if (issue.minimum === 1 && UNITS[issue.origin]) return "must not be empty";
      return amount(issue.origin, issue.inclusive === false ? "more than" : "at least", issue.minimum);
    case "too_big":
      return amount(issue.origin, issue.inclusive === false ? "less than" : "at most", issue.maximum);
    case "invalid_value":
      return `must be ${oneOf(issue.values)}`;
    case "invalid_union":
      return Array.isArray(issue.options) ? `must be ${oneOf(issue.options)}` : UNNAMED;
    case "invalid_format":
      return issue.format === "regex" ? UNNAMED : `must be a valid ${issue.format}`;
    case "unrecognized_keys":
      return "is not a known field";
    default:
      return UNNAMED;
  }
};

const oneOf = (values: readonly unknown[]): string => `${values.length > 1 ? "one of " : ""}${values.join(", ")}`;

const UNITS: Record<string, string> = { string: "characters", array: "items", set: "items", map: "items" };
const amount = (origin: string, compared: string, bound: number | bigint): string => {
  const unit = UNITS[origin];
  return unit ? `must have ${compared} ${bound} ${unit}` : `must be ${compared} ${bound}`;
};

const cut = (text: string, longest: number): string =>
  text.length <= longest ? text : `${text.slice(0, longest - 1)}…`;
