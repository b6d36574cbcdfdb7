import { StoreFault } from "../../core/errors.ts";

/** `what`: for people, what cannot be read. */
export function parsed<T>(json: string, what: string): T {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new StoreFault("no", `${what} is damaged; restore the file from a backup`, { cause: error });
  }
}
