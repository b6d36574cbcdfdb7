// Values whose shape is not known yet.

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const toObject = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});
export const toList = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Undefined: it is not JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
