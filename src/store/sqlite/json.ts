import { StoreFault } from "../../core/errors.ts";

/** `what`: for people, what cannot be read if `parse` throws. */
export function undamaged<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new StoreFault("no", `${what} is damaged; restore the file from a backup`, { cause: error });
  }
}
