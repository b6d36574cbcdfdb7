// File errors, in words that a model can act on.
import { codeOf, messageOf } from "../../core/errors.ts";
import { NotConfined } from "../../platform/confined.ts";

/** The model gets this message as it is. */
export class Trouble extends Error {
  override readonly name = "Trouble";
}

const WORDS: Record<string, string> = {
  ENOENT: "there is no such file or directory",
  EACCES: "permission denied",
  EPERM: "the system does not permit it",
  EISDIR: "it is a directory",
  ENOTDIR: "a part of this path is a file, not a directory",
  ELOOP: "it is a symbolic link, or links that go in circles",
  ENAMETOOLONG: "the name is too long",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EROFS: "the file system is read-only",
  EIO: "the disk reports an error",
  EMFILE: "too many files are open; try again",
  ENXIO: "it is not a regular file",
};

export const troubleOf = (error: unknown, path: string): string => {
  if (error instanceof Trouble || error instanceof NotConfined) return error.message;
  const code = codeOf(error);
  return `${path}: ${WORDS[code] ?? messageOf(error)}${code ? ` (${code})` : ""}`;
};

/** The value, or null if the file does not exist. */
export async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}
