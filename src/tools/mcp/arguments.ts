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
  return firstOf(Object.entries(value).values(), ([name, field]) => {
    if (Object.hasOwn(known, name)) return check(known[name], field, at(name), budget);
    return closed ? `${at(name)} is not known` : null;
  });
}

type SchemaFields = Record<string, unknown>;

const firstOf = <T>(items: IteratorObject<T>, complaint: (item: T) => string | null): string | null =>
  items.map(complaint).find((found) => found !== null) ?? null;

const TYPES = new Map<string, (value: unknown) => boolean>([
  ["object", isObject],
  ["array", Array.isArray],
  ["null", (value) => value === null],
  ["integer", Number.isInteger],
  ...["string", "number", "boolean"].map((type) => [type, (value: unknown) => typeof value === type] as const),
]);
/** Also true of a type that we do not know. */
const isOf = (type: string, value: unknown): boolean => TYPES.get(type)?.(value) ?? true;

const isScalar = (value: unknown): boolean => value === null || typeof value !== "object";
