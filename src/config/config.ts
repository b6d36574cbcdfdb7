// Reads the configuration once, at start. Precedence: flags > environment > HERMES_HOME/.env > config.yaml > defaults.
// All mistakes are reported at once, each with its place and what to do; nothing is guessed. No file of the working
// directory is configuration: a repository must not configure the agent that reads it.
import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from "yaml";
import { ConfigError, codeOf, messageOf } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import { VENDORS } from "../core/providers.ts";
import { isSecretVariable } from "../platform/handed-secrets.ts";
import { homeAt, homeOf } from "../platform/home.ts";
import { createRedactor } from "../platform/redact.ts";
import { asBoolean } from "../platform/setting-kinds.ts";
import { fromHermes } from "./hermes.ts";
import { problemLines, shown } from "./problems.ts";
import { type Config, DRAIN_TIMEOUT, drainTimeout, isSecretKey, knownBelow, schema, VARIABLES } from "./schema.ts";
import { at, freeze, isTree, leaves, type Path, put, type SettingsTree } from "./tree.ts";

/** A command line option that sets a key. An undefined value means that the option was not given. */
export type Flag = { flag: string; key: string; value: unknown };

export const loadConfig = (options: {
  home?: string;
  env: NodeJS.ProcessEnv;
  flags?: readonly Flag[];
  /** Texts by path that replace the content of these files: the configuration as it would be if they were written. */
  drafts?: ReadonlyMap<string, string>;
}) => {
  const { env, flags = [], drafts } = options;
  const home = options.home === undefined ? homeOf(env) : homeAt(options.home);
  const textOf = (file: string) => drafts?.get(file) ?? readFile(file) ?? "";
  const { tree, lineOf } = readConfigFile(home.config, textOf(home.config));
  const variables = readVariables(env, home.env, textOf(home.env));
  takeVariables(tree, variables, (name) => `${home.config}:${lineOf([name])}`);
  const hermes = fromHermes(tree, (name) => variables.get(name)?.value, knownBelow);
  const sources = new Map([...hermes.moved].map(([key, path]) => [key, `${home.config}:${lineOf(path)}`]));

  const set = (key: string, value: unknown, from: string) => {
    if (put(tree, key.split("."), value)) sources.set(key, from);
  };
  for (const [name, { key, read }] of Object.entries(VARIABLES)) {
    const variable = variables.get(name);
    if (!variable || hermes.shadowed.includes(name)) continue;
    const value = read ? read(variable.value) : variable.value;
    if (value !== undefined) set(key, value, variable.from);
  }
  const given = flags.filter(({ value }) => value !== undefined);
  for (const { flag, key, value } of given) set(key, value, `option ${flag}`);
  // The environment also overrides the endpoint of the file. The vendor's key comes with the vendor's address. Alone,
  // it never replaces `model.api_key`, which may belong to another server.
  const format = at(tree, ["model", "provider"]);
  const placed = VENDORS.filter(({ addressVariable }) => addressVariable);
  const vendor = placed.find((one) => one.format === format) ?? placed.find(({ name }) => name === "openai");
  const address = variables.get(vendor?.addressVariable ?? "");
  const vendorKey = variables.get(vendor?.keyVariable ?? "");
  if (address && !given.some(({ key }) => key === "model.base_url")) {
    set("model.base_url", address.value, address.from);
    if (vendorKey) set("model.api_key", vendorKey.value, vendorKey.from);
  }

  const from = (path: Path): string => {
    for (let depth = path.length; depth > 0; depth -= 1) {
      const source = sources.get(path.slice(0, depth).join("."));
      if (source !== undefined) return source;
    }
    return `${home.config}:${lineOf(path)}`;
  };
  const secrets = secretsIn(tree, variables);
  const redactor = createRedactor();
  for (const secret of secrets) redactor.add(secret);

  /** For the log: mistakes that do not prevent the start. */
  const warnings = [
    ...hermes.warnings,
    ...misspelt(variables),
    ...withoutEffect(variables),
    ...repairDrainTimeout(tree, from),
  ].map(redactor.text);
  // An unknown busy mode is an error like any other: falling back to `interrupt` would end turns that should continue.
  const parsed = schema.safeParse(tree);
  const unclear = hermes.problems.map((problem) => `${home.config}: ${problem}`);
  if (!parsed.success || unclear.length) {
    const lines = parsed.error?.issues.flatMap((issue) => problemLines(issue, tree, from)) ?? [];
    throw new ConfigError([...new Set([...unclear, ...lines])].map(redactor.text).join("\n"));
  }
  const config: Config = freeze(parsed.data);
  /** The values that are not the default, safe to show, and where each came from. */
  const settings = leaves(tree).map(({ path }) => {
    const key = path.join(".");
    return { key, value: redactor.text(shown(key, at(config, path))), from: from(path) };
  });
  return { config, warnings, settings, secrets };
};

/** The only wrong value with which hermes starts: a typo here must not prevent a restart. */
const repairDrainTimeout = (tree: SettingsTree, from: (path: Path) => string): string[] => {
  const path = DRAIN_TIMEOUT.key.split(".");
  const value = at(tree, path);
  if (value === undefined || value === null || drainTimeout.safeParse(value).success) return [];
  put(tree, path, null);
  const needs = `must be a number of seconds of at least 0; using the default, ${DRAIN_TIMEOUT.default}`;
  return [`Invalid restart_drain_timeout ${JSON.stringify(value)} (${from(path)}): ${needs}`];
};

const readFile = (file: string): string | null => {
  try {
    return readFileSync(file, "utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw new ConfigError(`${file}: cannot be read: ${messageOf(error)}`);
  }
};

const readConfigFile = (file: string, source: string): { tree: SettingsTree; lineOf: (path: Path) => number } => {
  const lines = new LineCounter();
  // Discord's ids are larger than a double can hold.
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false, intAsBigInt: true });
  const faults = [...document.errors, ...document.warnings].map(({ pos, message }) => {
    const { line, col } = lines.linePos(pos[0]);
    return `${file}:${line}:${col}: not valid YAML: ${withoutQuotes(message)}`;
  });
  if (faults.length > 0) throw new ConfigError(faults.join("\n"));

  const lineOf = (path: Path): number => {
    let node: unknown = document.contents;
    let offset = 0;
    for (const name of path) {
      const pair = isMap(node) ? node.items.find(({ key }) => String(key) === name) : undefined;
      const item = isSeq(node) ? node.items[Number(name)] : pair?.key;
      if (isScalar(item) || isMap(item)) offset = item.range?.[0] ?? offset;
      node = pair ? pair.value : item;
    }
    return lines.linePos(offset).line;
  };
  try {
    return { tree: toTree(document.toJS(), file), lineOf };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`${file}: not valid YAML: ${withoutQuotes(messageOf(error))}`); // aliases that are undefined or expand without limit
  }
};

/** The parser quotes the file, and the quote may contain a part of a secret. */
const withoutQuotes = (message: string): string => message.replace(/(:\s| ").*/s, "");

const toTree = (value: unknown, file: string): SettingsTree => {
  const plain = plainNumbers(value) ?? {};
  if (!isTree(plain)) throw new ConfigError(`${file}:1: must contain sections such as "model:" with keys below them`);
  // `hermes config set model` used to write `model: some/model`.
  return typeof plain.model === "string" ? { ...plain, model: { default: plain.model } } : plain;
};

const plainNumbers = (value: unknown): unknown => {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (Array.isArray(value)) return value.map(plainNumbers);
  if (!isTree(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plainNumbers(inner)]));
};

type SettingVariables = Map<string, { value: string; from: string }>;

const readVariables = (env: NodeJS.ProcessEnv, file: string, text: string): SettingVariables => {
  const variables: SettingVariables = new Map();
  const add = (values: NodeJS.Dict<string>, from: (name: string) => string) => {
    for (const [name, value = ""] of Object.entries(values))
      if (value.trim() !== "") variables.set(name, { value: value.trim(), from: from(name) });
  };
  add(parseEnv(text), (name) => `${file}: ${name}`);
  add(env, (name) => `environment variable ${name}`);
  return variables;
};

/** Hermes puts some variables into config.yaml: upper-case names at the top. Everything else that sets them is stronger. */
const takeVariables = (tree: SettingsTree, variables: SettingVariables, from: (name: string) => string): void => {
  for (const [name, value] of Object.entries(tree)) {
    if (!/^[A-Z][A-Z0-9_]*$/.test(name) || isTree(value) || Array.isArray(value)) continue;
    delete tree[name];
    const text = typeof value === "string" ? value.trim() : value === null ? "" : JSON.stringify(value);
    if (text !== "" && !variables.has(name)) variables.set(name, { value: text, from: from(name) });
  }
};

/** Variables of Hermes that open or close a door there. Silence about them would be wrong. */
const withoutEffect = (variables: SettingVariables): string[] => {
  const found = [...variables].filter(
    ([name, { value }]) =>
      name === "GATEWAY_ALLOWED_USERS" || (name.endsWith("_ALLOW_ALL_USERS") && asBoolean(value) !== false),
  );
  if (!found.length) return [];
  const names = found.map(([name]) => name).join(", ");
  return [`${names} has no effect here: list the people of each platform, as in TELEGRAM_ALLOWED_USERS.`];
};

/** Variables of other programs are ignored, but a name one letter off one of ours is probably a typo. */
const misspelt = (variables: SettingVariables): string[] =>
  [...variables].flatMap(([name, { from }]) => {
    if (!/^(HERMES|API_SERVER)_/.test(name) || name === "HERMES_HOME" || name in VARIABLES) return [];
    const meant = nearest(name, Object.keys(VARIABLES));
    return meant === null ? [] : [`Unknown variable (${from}): did you mean ${meant}?`];
  });

/** Of an address: a server may repeat it without the rest. */
const passwordIn = (value: unknown): string[] => {
  const { password = "" } = typeof value === "string" && URL.canParse(value) ? new URL(value) : {};
  return password === "" ? [] : [password, decodeURIComponent(password)];
};

/** Includes variables of other programs: nothing in our environment that looks like a secret may reach the log. */
const secretsIn = (tree: SettingsTree, variables: SettingVariables): string[] => [
  ...leaves(tree).flatMap(({ path, value }) =>
    isSecretKey(path.join(".")) ? [String(value), ...passwordIn(value)] : [],
  ),
  ...[...variables].flatMap(([name, { value }]) => (isSecretVariable(name) ? [value] : [])),
];
