// Values of files that another program wrote: nothing about them is certain.

export const recordOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};

export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

/** A JSON object, or an empty one. */
export function parsed(json: unknown): Record<string, unknown> {
  try {
    return recordOf(JSON.parse(textOf(json) || "{}"));
  } catch {
    return {};
  }
}
