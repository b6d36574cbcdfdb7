// What all formats check alike: the shape of the body, the pairing of calls with results, the schemas of tools.
import { z } from "zod";
import type { Problem } from "./wire.ts";

// ── Shape ─────────────────────────────────────────────────────────────────────────────────────────────

/** Where, what, and whether it is a field that the provider does not know. */
export type Misfit = { path: PropertyKey[]; message: string; unknown: boolean };

export function misfits(error: z.ZodError): Misfit[] {
  return error.issues.flatMap((issue) => flatten(issue, []));
}

function flatten(issue: z.core.$ZodIssue, prefix: PropertyKey[]): Misfit[] {
  const path = [...prefix, ...issue.path];
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => ({ path: [...path, key], message: "is not known", unknown: true }));
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    // The branch that got furthest is the one that was meant.
    const branches = issue.errors.map((branch) => branch.flatMap((inner) => flatten(inner, path)));
    const depth = (branch: Misfit[]) => Math.max(...branch.map((misfit) => misfit.path.length));
    const meant = branches.toSorted((a, b) => depth(b) - depth(a))[0] ?? [];
    if (depth(meant) > path.length) return meant;
    return [
      {
        path,
        message: branches
          .flat()
          .map(({ message }) => message)
          .join(", or "),
        unknown: false,
      },
    ];
  }
  return [{ path, message: issue.message, unknown: false }];
}

/** `messages[0].content`, as OpenAI writes a path. */
export const bracketed = (path: PropertyKey[]): string =>
  path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i ? "." : ""}${String(key)}`)).join("");

/** `messages.0.content`, as Anthropic does. */
export const dotted = (path: PropertyKey[]): string => path.map(String).join(".");

/** A string that says something. */
export const said = z.string().refine((text) => text.trim() !== "", "must say something");

/** The arguments of a call in a transcript: some providers parse them, so they must be the JSON of an object. */
export const argumentsJson = z.string().refine((text) => isRecord(parsed(text)), "must be the JSON of an object");

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// ── Pairing ───────────────────────────────────────────────────────────────────────────────────────────

/** A transcript as far as pairing goes; `at` is its index. */
export type Step = { at: number } & ({ call: string } | { result: string } | { other: true });
export type Unpaired = { at: number; ids: string[]; why: "unanswered" | "orphan" | "call twice" | "result twice" };

/** Every call has exactly one result before anything else comes, and every result has its call. */
export function unpaired(steps: Step[]): Unpaired[] {
  const wrong: Unpaired[] = [];
  const called = new Map<string, number>();
  const answered = new Set<string>();
  const open = new Set<string>();
  const close = () => {
    const at = Math.min(...[...open].map((id) => called.get(id) ?? 0));
    if (open.size > 0) wrong.push({ at, ids: [...open], why: "unanswered" });
    open.clear();
  };
  for (const step of steps) {
    const { at } = step;
    if ("call" in step) {
      if (called.has(step.call)) wrong.push({ at, ids: [step.call], why: "call twice" });
      called.set(step.call, at);
      open.add(step.call);
    } else if ("result" in step) {
      const why = answered.has(step.result) ? "result twice" : "orphan";
      if (!open.delete(step.result)) wrong.push({ at, ids: [step.result], why });
      answered.add(step.result);
    } else close();
  }
  close();
  return wrong;
}

// ── Tools ─────────────────────────────────────────────────────────────────────────────────────────────

export const repeated = (names: string[]): string[] => names.filter((name, i) => names.indexOf(name) < i);

const TYPES = new Set(["object", "array", "string", "number", "integer", "boolean", "null"]);

/** What is wrong with the JSON schema of a tool's arguments; `path` starts each sentence. */
export function schemaProblems(schema: unknown, path = "schema"): string[] {
  if (!isRecord(schema)) return [`${path} is not an object`];
  const top = ["oneOf", "anyOf", "allOf", "enum", "not"].filter((word) => word in schema);
  return [
    ...(schema.type === "object" ? [] : [`${path}.type is not "object"`]),
    ...top.map((word) => `${path} has "${word}" at the top level`),
    ...part(schema, path),
  ];
}

function part(schema: unknown, path: string): string[] {
  if (typeof schema === "boolean") return [];
  if (!isRecord(schema)) return [`${path} is not a schema`];
  const wrong: string[] = [];
  const { type, properties, required, items, additionalProperties, description } = schema;
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type];
  if (types.some((name) => !TYPES.has(String(name)))) wrong.push(`${path}.type is ${JSON.stringify(type)}`);
  if (types.includes("array") && items === undefined) wrong.push(`${path} is an array without "items"`);
  if (description !== undefined && typeof description !== "string") wrong.push(`${path}.description is not a string`);
  if (schema.enum !== undefined && !(Array.isArray(schema.enum) && schema.enum.length > 0))
    wrong.push(`${path}.enum is not a list of values`);
  if (properties !== undefined && !isRecord(properties)) wrong.push(`${path}.properties is not an object`);
  const known = isRecord(properties) ? properties : {};
  for (const [key, inner] of Object.entries(known)) {
    if (!/^[a-zA-Z0-9_.-]{1,64}$/.test(key)) wrong.push(`${path}.properties has the key ${JSON.stringify(key)}`);
    wrong.push(...part(inner, `${path}.properties.${key}`));
  }
  if (required !== undefined) {
    if (!Array.isArray(required)) wrong.push(`${path}.required is not a list`);
    else
      for (const key of required)
        if (!Object.hasOwn(known, String(key))) wrong.push(`${path} requires ${key}, which it does not have`);
  }
  if (items !== undefined) wrong.push(...part(items, `${path}.items`));
  if (additionalProperties !== undefined) wrong.push(...part(additionalProperties, `${path}.additionalProperties`));
  for (const word of ["oneOf", "anyOf", "allOf"]) {
    const branches = schema[word];
    if (branches === undefined) continue;
    if (!Array.isArray(branches) || branches.length === 0) wrong.push(`${path}.${word} is not a list of schemas`);
    else wrong.push(...branches.flatMap((branch, i) => part(branch, `${path}.${word}[${i}]`)));
  }
  return wrong;
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The first sentence of what went wrong is what the provider answers; all of them are recorded. */
export const problem = (message: string, param?: string, code?: string): Problem => ({
  message,
  ...(param === undefined ? {} : { param }),
  ...(code === undefined ? {} : { code }),
});
