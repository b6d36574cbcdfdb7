// The types of settings. Variables are always text and YAML values are often quoted, so every type also reads its text form.
import * as z from "zod";

// Most schemas read one value in the life of a process. Compiling each of them would take 10 ms of a start.
z.config({ jitless: true });

const asNumber = (value: unknown) =>
  typeof value === "string" && /^\s*-?\d+(\.\d+)?\s*$/.test(value) ? Number(value) : value;
export const asBoolean = (value: unknown) => {
  const text = String(value).trim().toLowerCase();
  if (["true", "yes", "on", "1"].includes(text)) return true;
  return ["false", "no", "off", "0"].includes(text) ? false : value;
};
export const onOff = (value: unknown) => {
  const on = asBoolean(value);
  return typeof on === "boolean" ? (on ? "on" : "off") : value;
};
/** YAML 1.1 reads `off` as false, and programs that use it write it back so. */
export const offWord = (value: unknown) => (value === false ? "off" : value);
const asWord = (value: unknown) => (typeof value === "string" ? value.trim().toLowerCase() : value);
export const asList = (value: unknown) => {
  if (typeof value === "number") return [value];
  if (typeof value !== "string") return value;
  return value
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
};

const within = (kind: string, min: number, max: number) =>
  `must be ${kind} ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
export const whole = (min: number, max = Number.MAX_SAFE_INTEGER) => {
  const needs = within("a whole number", min, max);
  return z.preprocess(asNumber, z.int(needs).min(min, needs).max(max, needs));
};
const number = (kind: string, min: number) => {
  const needs = within(kind, min, Number.MAX_SAFE_INTEGER);
  return z.preprocess(asNumber, z.number(needs).min(min, needs));
};
export const seconds = (min: number) => number("a number of seconds", min);
/** US dollars per million tokens. */
export const price = () => number("a number", 0);
// One for all settings of a kind where it has no parameters: a start made 350 objects more.
const YES_NO = z.preprocess(asBoolean, z.boolean("must be true or false"));
export const yesNo = () => YES_NO;
export const oneOf = <const T extends readonly string[]>(...words: T) =>
  z.preprocess(asWord, z.enum(words, `must be ${words.length > 1 ? "one of " : ""}${words.join(", ")}`));
const TEXT = z.string("must be text (in quotes, if it looks like a number)").trim().min(1, "must not be empty");
export const text = () => TEXT;
export const rules = () => z.array(text(), "must be a list").default([]);
const NEEDS_ADDRESS = "must be an address such as http://127.0.0.1:9999/v1";
const WEB_ADDRESS = z
  .string(NEEDS_ADDRESS)
  .trim()
  .regex(/^https?:\/\/[^\s/]+/, NEEDS_ADDRESS);
export const webAddress = () => WEB_ADDRESS;
export const databaseAddress = () => {
  const needs = "must be an address such as postgres://user:password@host:5432/hermes";
  return z
    .string(needs)
    .trim()
    .regex(/^postgres(ql)?:\/\/\S+$/, needs)
    .refine((address) => URL.canParse(address), needs);
};
export const texts = () => z.preprocess(asList, z.array(text(), "must be a list")).default([]);
/** Ids never change owners; user names can. */
export const ids = (shape: RegExp, needs: string) =>
  z
    .preprocess(asList, z.array(z.preprocess(String, z.string().regex(shape, `must be ${needs}`)), "must be a list"))
    .default([]);

/** An absent or empty section gets its defaults, an empty value counts as not set, and an unknown key is an error. */
export const section = <T extends z.ZodRawShape>(shape: T) =>
  z.preprocess(
    (value) => {
      if (value === null || value === undefined) return {};
      if (typeof value !== "object" || Array.isArray(value)) return value;
      return Object.fromEntries(
        Object.entries(value).filter(([key, v]) => (v !== null && v !== "") || !Object.hasOwn(shape, key)),
      );
    },
    z.strictObject(shape, { error: "must be a section: keys and values, indented below it" }),
  );

/** Which tool calls are shown. */
export const toolProgress = () =>
  z.preprocess((value) => (value === true ? "all" : offWord(value)), oneOf("off", "new", "all", "verbose"));
