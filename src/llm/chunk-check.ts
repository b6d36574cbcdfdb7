// The library for OpenAI-compatible servers checks each chunk of an answer against a schema. That took a tenth of a turn. A chunk
// that has nothing in it but a piece of text is checked here instead; every other one is checked by the library.

type StandardSchema = { "~standard": { version: 1; vendor: string; validate(value: unknown): unknown } };
type Check = (value: unknown) => boolean;

const isMissing: Check = (value) => value === undefined || value === null;
const isText: Check = (value) => isMissing(value) || typeof value === "string";
const isNumber: Check = (value) => isMissing(value) || typeof value === "number";
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const fits = (value: unknown, checks: Record<string, Check>, others: Check): boolean =>
  isObject(value) &&
  Object.entries(value).every(([key, one]) => (Object.hasOwn(checks, key) ? checks[key] : others)?.(one));

const DELTA = {
  role: (role: unknown) => isMissing(role) || role === "assistant" || role === "",
  content: isText,
  reasoning: isText,
  reasoning_content: isText,
};
const CHOICE = { delta: (delta: unknown) => fits(delta, DELTA, isMissing), finish_reason: isText };
const always: Check = () => true;
const CHUNK = {
  id: isText,
  model: isText,
  created: isNumber,
  choices: (choices: unknown) =>
    Array.isArray(choices) && choices.length === 1 && choices.every((choice) => fits(choice, CHOICE, always)),
  usage: isMissing,
  error: () => false,
};

export const isPlainChunk: Check = (chunk) => isObject(chunk) && "choices" in chunk && fits(chunk, CHUNK, always);

/** `model`: of the library. The name of the field is its own: where it has another one, nothing becomes quicker or wrong. */
export function checkedQuickly<M extends object>(model: M): M {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a schema of zod, which follows the Standard Schema
  const own = Reflect.get(model, "chunkSchema") as StandardSchema | undefined;
  if (!own) return model;
  const validate = (value: unknown) => (isPlainChunk(value) ? { value } : own["~standard"].validate(value));
  Reflect.set(model, "chunkSchema", {
    "~standard": { version: 1, vendor: "hermes", validate },
  } satisfies StandardSchema);
  return model;
}
