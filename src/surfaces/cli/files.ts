// Edits single values of config.yaml and .env. Everything else in the files stays, including comments.
import { randomBytes } from "node:crypto";
import { existsSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual, parseEnv } from "node:util";
import { type Document, isCollection, isScalar, parseDocument } from "yaml";
import { ConfigError } from "../../core/errors.ts";

/** Keys are a section, a dot and a name; undefined removes the value. */
export type Changes = Record<string, string | number | Record<string, number> | undefined>;

export const editYaml = (source: string, changes: Changes): string =>
  Object.entries(changes).reduce((text, [key, value]) => {
    const [, section = "", name = ""] = /^([^.]+)\.(.+)$/.exec(key) ?? []; // names of models contain dots
    return editPath(text, [section, name], value);
  }, source);

/** One value; undefined removes it. */
export function editPath(source: string, path: readonly string[], value: unknown): string {
  // Discord's ids are larger than a double can hold.
  const document = parseDocument(source, { intAsBigInt: true });
  if (document.errors.length)
    throw new ConfigError("config.yaml is not valid YAML. Nothing was changed; fix it with: hermes config edit");
  const before: unknown = document.getIn(path);
  if ((typeof before === "bigint" ? Number(before) : before) === (typeof value === "bigint" ? Number(value) : value))
    return source;
  if (value === undefined) document.deleteIn(path);
  else {
    for (let depth = 1; depth < path.length; depth += 1) makeSection(document, path.slice(0, depth));
    document.setIn(path, value);
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function makeSection(document: Document.Parsed, path: readonly string[]): void {
  const node = document.getIn(path, true);
  if (node === undefined || isCollection(node)) return;
  const name = path.join(".");
  if (!isScalar(node)) throw new ConfigError(`config.yaml: the section "${name}:" can only be changed by hand.`);
  // `model:` with nothing below it, or `model: some/model`, which is short for its default.
  const section = document.createNode(name === "model" && node.value ? { default: node.value } : {});
  section.commentBefore = node.commentBefore ?? null;
  section.comment = node.comment ?? null;
  document.setIn(path, section);
}

export function editEnv(source: string, name: string, value: string): string {
  const line = `${name}=${/^[\w.~+/=:@-]+$/.test(value) ? value : `'${value}'`}`;
  const ours = new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`);
  const lines = source.replace(/\n$/, "").split("\n");
  const first = lines.findIndex((text) => ours.test(text));
  const kept = lines.filter((text, at) => at === first || !ours.test(text));
  const edited = source.trim() === "" ? [line] : first < 0 ? [...kept, line] : kept.with(first, line);
  const text = `${edited.join("\n")}\n`;
  // A value over several lines may contain text that only looks like our line.
  if (isDeepStrictEqual({ ...parseEnv(text) }, { ...parseEnv(source), [name]: value })) return text;
  throw new ConfigError(`setup cannot change .env safely; set ${name} in it by hand.`);
}

/** Atomic, and for the owner only. A link stays a link. */
export function writePrivate(file: string, text: string | Uint8Array): void {
  const target = existsSync(file) ? realpathSync(file) : file;
  const draft = `${target}.${randomBytes(6).toString("hex")}`;
  try {
    writeFileSync(draft, text, { mode: 0o600, flag: "wx", flush: true });
    renameSync(draft, target);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}
