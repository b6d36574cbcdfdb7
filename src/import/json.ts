// Values of files that another program wrote: nothing about them is certain.
import { jsonIn, toObject } from "../platform/json.ts";

export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

/** A JSON object, or an empty one. */
export const parsed = (json: unknown): Record<string, unknown> => toObject(jsonIn(textOf(json)));
