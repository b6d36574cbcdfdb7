// Values whose shape is not known yet.
import { attempt } from "./attempt.ts";

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const toObject = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});
export const toList = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Undefined: it is not JSON. */
export const jsonIn = (text: string): unknown => attempt((): unknown => JSON.parse(text));
