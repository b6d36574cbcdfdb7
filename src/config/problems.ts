// Error messages for the configuration: where the mistake is, which key it is, what is wrong and what to do.
import type { z } from "zod";
import { nearest } from "../core/nearest.ts";
import { isSecretKey, knownKeys } from "./schema.ts";
import { at, type Path, type SettingsTree } from "./tree.ts";

export const problemLines = (issue: z.core.$ZodIssue, tree: SettingsTree, from: (path: Path) => string): string[] => {
  if (issue.code === "unrecognized_keys") return issue.keys.map((name) => unknownKey([...issue.path, name], from));
  // For an item of a list that was given as text, show the whole text.
  const whole = issue.path.slice(0, -1);
  const path = at(tree, issue.path) === undefined && typeof at(tree, whole) === "string" ? whole : issue.path;
  const key = path.join(".");
  const value = at(tree, path);
  if (value === undefined) return [`${from(path)}: ${key} is missing: it ${issue.message}`];
  // A value in the place of a section may be anything, including a secret, so it is not shown.
  const misplaced = issue.code === "custom" || ("expected" in issue && /^(object|record)$/.test(issue.expected));
  return [`${from(path)}: ${key} ${issue.message}${misplaced ? "" : `, not ${shown(key, value)}`}`];
};

export const shown = (key: string, value: unknown): string =>
  isSecretKey(key) ? "[redacted]" : (JSON.stringify(value) ?? "nothing");

const unknownKey = (path: Path, from: (path: Path) => string): string =>
  `${from(path)}: ${path.join(".")} is not a known key; ${hint(path)}`;

/** What may have been meant by an unknown key. */
export const hint = (path: Path): string => {
  const typed = path.join(".");
  // Every key and section, with the user's own name or number in the place of `*`.
  const known = new Set<string>();
  for (const key of knownKeys()) {
    const names: string[] = [];
    for (const name of key.split(".")) {
      const ours = names.every((above, depth) => above === String(path[depth]));
      names.push(name === "*" && ours ? String(path[names.length]) : name);
      known.add(names.join("."));
    }
  }
  const elsewhere = [...known].find((key) => key.endsWith(`.${String(path.at(-1))}`));
  const meant = nearest(typed, [...known]) ?? elsewhere;
  if (meant !== undefined) return `did you mean ${meant}?`;
  const section = path
    .slice(0, -1)
    .map((name) => `${String(name)}.`)
    .join("");
  const beside = [...known].filter((key) => key.startsWith(section) && !key.slice(section.length).includes("."));
  return `known keys here: ${beside.map((key) => key.slice(section.length)).join(", ")}`;
};
