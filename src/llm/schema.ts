// The schema of a tool's arguments in the words that all providers know. Arguments are still judged by the original: this
// one may allow more than the tool does, never less.
import { isObject, toList, toObject } from "../platform/json.ts";

type Schema = Record<string, unknown>;

/** Gemini refuses every word that it does not know; these, and those that are written below, are known to all. */
const PLAIN_WORDS = "title default minimum maximum minItems maxItems minLength maxLength pattern".split(" ");
const TYPES = new Set(["object", "array", "string", "number", "integer", "boolean"]);
const KEY = /^[a-zA-Z0-9_.-]{1,64}$/;
const DEEPEST = 12;
/** References are written out where they stand: what is short with them could be without end. */
const MOST_PARTS = 2_000;

const known = new WeakMap<Schema, Schema>();

/** The same for the same schema: it is asked for with every model call, and providers keep what does not change. */
export function commonSchema(schema: Schema): Schema {
  const before = known.get(schema);
  if (before) return before;
  const common = written(schema);
  known.set(schema, common);
  return common;
}

function written(root: Schema): Schema {
  let parts = 0;

  function part(value: unknown, depth: number, above: readonly string[]): Schema {
    if (++parts > MOST_PARTS || depth > DEEPEST) return {};
    const { schema, refs } = resolved(value, above);
    const inner = (one: unknown) => part(one, depth + 1, refs);
    const words = wordsOf(schema);
    const alternatives = [...toList(schema["anyOf"]), ...toList(schema["oneOf"])]
      .map((one) => resolved(one, refs).schema)
      .filter(({ type }) => type !== "null");
    // At the top there must be an object, and one that has properties cannot be a choice of others too.
    if (depth === 0 || isObject(schema["properties"])) return { ...words, ...objectOf(schema, alternatives, inner) };
    if (alternatives.length === 1) return { ...inner(alternatives[0]), ...words };
    if (alternatives.length > 1) return { ...words, anyOf: alternatives.map(inner) };
    const types = typesOf(schema);
    if (types.length > 1) return { ...words, anyOf: types.map((type) => inner({ ...schema, type })) };
    const [type] = types;
    if (type === "object") return { ...words, ...objectOf(schema, [], inner) };
    if (type === "array") return { ...words, type, items: itemsOf(inner(schema["items"])) };
    return { ...words, ...(type && { type }), ...choicesOf(schema, words) };
  }

  /** With what it refers to, and all that it must be at once, in one. What refers to itself has no end: it is anything. */
  function resolved(value: unknown, above: readonly string[]): { schema: Schema; refs: readonly string[] } {
    const { $ref: ref, allOf, ...own } = toObject(value);
    const isRef = typeof ref === "string";
    if (!isRef && !Array.isArray(allOf)) return { schema: own, refs: above };
    if (above.length > DEEPEST || (isRef && above.includes(ref))) return { schema: own, refs: above };
    const refs = isRef ? [...above, ref] : [...above, ""];
    const together = [...(isRef ? [target(root, ref)] : []), ...toList(allOf)].map((one) => resolved(one, refs));
    return { schema: [...together.map(({ schema }) => schema), own].reduce(both, {}), refs };
  }

  return part(root, 0, []);
}

/** The properties of all alternatives; of what they require, what all of them do. */
function objectOf(schema: Schema, alternatives: Schema[], inner: (one: unknown) => Schema): Schema {
  const given = Object.assign({}, ...alternatives.map(({ properties }) => toObject(properties)), schema["properties"]);
  const entries = Object.entries(given).filter(([key]) => KEY.test(key));
  const properties = Object.fromEntries(entries.map(([key, value]) => [key, inner(value)]));
  const shared = toList(alternatives[0]?.["required"]).filter((key) =>
    alternatives.every(({ required }) => toList(required).includes(key)),
  );
  const required = [...new Set([...toList(schema["required"]), ...shared])].filter(
    (key) => typeof key === "string" && Object.hasOwn(properties, key),
  );
  return { type: "object", properties, ...(required.length && { required }) };
}

function wordsOf(schema: Schema): Schema {
  const words = PLAIN_WORDS.filter((word) => schema[word] !== undefined && schema[word] !== null);
  const { description, format } = schema;
  return {
    ...(typeof description === "string" && { description }),
    ...Object.fromEntries(words.map((word) => [word, schema[word]])),
    ...(format === "date-time" && { format }),
  };
}

function typesOf(schema: Schema): string[] {
  const { type, items } = schema;
  const named = (Array.isArray(type) ? type : [type]).filter((one) => typeof one === "string" && TYPES.has(one));
  if (named.length) return named;
  if (items !== undefined) return ["array"];
  return valuesOf(schema).some((value) => typeof value === "string") ? ["string"] : [];
}

/** Gemini wants to know of what a list is. */
const itemsOf = (items: Schema): Schema => (items["type"] || items["anyOf"] ? items : { ...items, type: "string" });

const valuesOf = (schema: Schema): unknown[] =>
  (schema["const"] === undefined ? toList(schema["enum"]) : [schema["const"]]).filter((value) => value !== null);

/** For Gemini choices are texts; all others are told in words. */
function choicesOf(schema: Schema, { description }: Schema): Schema {
  const values = valuesOf(schema);
  if (!values.length) return {};
  if (values.every((value) => typeof value === "string")) return { type: "string", enum: values };
  const words = `One of: ${values.map((value) => JSON.stringify(value)).join(", ")}`;
  return { description: typeof description === "string" ? `${description} (${words})` : words };
}

/** `#/$defs/Name`: what is elsewhere is not fetched. */
function target(root: Schema, ref: string): unknown {
  if (!ref.startsWith("#/")) return {};
  const keys = ref.slice(2).split("/");
  return keys.reduce<unknown>((at, key) => toObject(at)[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

function both(one: Schema, other: Schema): Schema {
  const properties = { ...toObject(one["properties"]), ...toObject(other["properties"]) };
  const required = [...toList(one["required"]), ...toList(other["required"])];
  const has = (word: string) => one[word] !== undefined || other[word] !== undefined;
  return { ...one, ...other, ...(has("properties") && { properties }), ...(has("required") && { required }) };
}
