// Settings before validation: nested sections, as in YAML.
import { isObject } from "../platform/json.ts";

export type SettingsTree = Record<string, unknown>;
export type Path = readonly PropertyKey[];

export const isTree = isObject;

export const at = (tree: unknown, path: Path): unknown =>
  path.reduce<unknown>((node, name) => {
    if (Array.isArray(node)) return node[Number(name)];
    return isTree(node) && Object.hasOwn(node, name) ? node[String(name)] : undefined;
  }, tree);

/** Returns false if a scalar is in the place of a section; the schema reports that. */
export const put = (tree: SettingsTree, path: readonly string[], value: unknown): boolean => {
  let node = tree;
  for (const name of path.slice(0, -1)) {
    node[name] ??= {};
    const next = node[name];
    if (!isTree(next)) return false;
    node = next;
  }
  node[path.at(-1) ?? ""] = value;
  return true;
};

/** All values that are set. A list of plain values is one leaf. */
export const leaves = (value: unknown, path: Path = []): { path: Path; value: unknown }[] => {
  const nested = isTree(value) || (Array.isArray(value) && value.some((item) => typeof item === "object"));
  if (nested) return Object.entries(value).flatMap(([name, inner]) => leaves(inner, [...path, name]));
  return value === null || value === undefined ? [] : [{ path, value }];
};

export const freeze = <T>(value: T): T => {
  if (typeof value === "object" && value !== null) for (const inner of Object.values(value)) freeze(inner);
  return Object.freeze(value);
};
