// Whether arguments fit a schema that somebody else wrote. Only what takes no longer than the arguments are long is looked
// at: types, what is required, lists of allowed values, and the same below. A pattern, a reference or an alternative of a
// server's is never evaluated: `^(a+)+$` and 30 letters kept us busy for minutes. Those are the server's to enforce.
import { isObject, toObject } from "../../platform/json.ts";

/** What is wrong with the arguments; null: nothing. */
export function complaintOf(schema: unknown): (args: unknown) => string | null {
  return (args) => check(schema, args, "", { left: MOST_STEPS });
}

const MOST_STEPS = 10_000;
type Budget = { left: number };

function check(schema: unknown, value: unknown, path: string, budget: Budget): string | null {
  if (!isObject(schema) || budget.left-- <= 0) return null;
  const name = path || "the arguments";
  const types = [schema["type"]].flat().filter((type) => typeof type === "string");
  if (types.length > 0 && !types.some((type) => isOf(type, value))) return `${name} must be ${types.join(" or ")}`;
  const allowed = "const" in schema ? [schema["const"]] : schema["enum"];
  if (Array.isArray(allowed) && allowed.every(isScalar) && !allowed.includes(value))
    return `${name} must be one of ${JSON.stringify(allowed).slice(0, 300)}`;
  if (isObject(value)) return checkFields(schema, value, path, budget);
  if (!Array.isArray(value)) return null;
  return firstOf(value.entries(), ([index, item]) => check(schema["items"], item, `${path}[${index}]`, budget));
}

function checkFields(
  { required, properties, additionalProperties, patternProperties }: SchemaFields,
  value: SchemaFields,
  path: string,
  budget: Budget,
): string | null {
  const at = (name: string) => (path ? `${path}.${name}` : name);
  const known = toObject(properties);
  const missing = Array.isArray(required) ? required.find((name) => !Object.hasOwn(value, String(name))) : undefined;
  if (missing !== undefined) return `${at(String(missing))} is missing`;
  const closed = additionalProperties === false && patternProperties === undefined;
  return firstOf(Object.entries(value), ([name, field]) => {
    if (Object.hasOwn(known, name)) return check(known[name], field, at(name), budget);
    return closed ? `${at(name)} is not known` : null;
  });
}

type SchemaFields = Record<string, unknown>;

function firstOf<T>(items: Iterable<T>, complaint: (item: T) => string | null): string | null {
  for (const item of items) {
    const found = complaint(item);
    if (found !== null) return found;
  }
  return null;
}

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "null":
      return value === null;
    case "integer":
      return Number.isInteger(value);
    case "string":
    case "number":
    case "boolean":
      return typeof value === type;
    default:
      return true; // no type that we know
  }
}

const isScalar = (value: unknown): boolean => value === null || typeof value !== "object";
