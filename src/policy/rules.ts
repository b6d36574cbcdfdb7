// The user's rules: which simple commands run unasked, and which never run.
//
// A rule is a command with wildcards, written as in a shell: `*` in a word matches any characters, `*` alone matches one
// word, and `*` at the end matches any further words; quoted text is literal. An allow rule must match the whole command,
// word for word. A deny rule also matches longer commands, other paths of the program, and options in between. An
// allow_exact rule has no wildcards: it is one whole text, possibly of several commands, in one directory.
import type { ParsedScript } from "unbash";
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, Scalar, stringify } from "yaml";
import { ConfigError } from "../core/errors.ts";
import { baseName } from "./carriers.ts";
import { absolute } from "./paths.ts";
import { UNKNOWN } from "./possible.ts";
import { loadParser, type Parser, readScript } from "./reading.ts";
import type { Arg, PolicyVerdict } from "./types.ts";

/** Literal pieces of a word; anything may be between them. */
type Pattern = string[];
type Example = { command: string; verdict: PolicyVerdict };
type RuleEffect = "allow" | "allow_exact" | "deny";
export type PolicyRule = {
  effect: RuleEffect;
  text: string;
  reason: string | null;
  /** Where the rule was written, for people. */
  from: string;
  words: Pattern[];
  /** Allows any further words. */
  open: boolean;
  /** Only in this directory and, unless the rule is exact, below it; null for anywhere. */
  within: string | null;
  examples: Example[];
};
/** A rule as it is written to the file. */
export type NewRule = { effect: RuleEffect; text: string; within?: string; reason?: string };

const EFFECTS = ["allow", "allow_exact", "deny"] as const;
const KEYS = [...EFFECTS, "in", "reason", "examples"];
const VERDICTS = ["allow", "ask", "deny"] as const;

export const parseRules = async (text: string, file: string): Promise<PolicyRule[]> => {
  const parse = await loadParser();
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const at = (node: unknown) => `${file}:${lines.linePos(rangeOf(node)).line}`;
  const [error] = document.errors;
  if (error)
    throw new ConfigError(`${file}:${lines.linePos(error.pos[0]).line}: ${error.message.split("\n")[0] ?? ""}`);
  const root = document.contents;
  if (root === null || (isScalar(root) && root.value === null)) return [];
  const list = isMap(root) ? root.get("rules", true) : undefined;
  const odd = isMap(root) ? root.items.find(({ key }) => textOf(key) !== "rules") : undefined;
  if (odd)
    throw new ConfigError(
      `${at(odd.key)}: ${textOf(odd.key) ?? "this"} is not known here; a rules file has one key, rules`,
    );
  if (isScalar(list) && list.value === null) return [];
  if (!isSeq(list)) throw new ConfigError(`${file}: a rules file is a list under the key rules`);

  return list.items.map((item) => {
    if (!isMap(item)) throw new ConfigError(`${at(item)}: a rule is "allow: …", "allow_exact: …" or "deny: …"`);
    const fields = new Map(item.items.map(({ key, value }) => [textOf(key) ?? "", value]));
    const effects = EFFECTS.filter((effect) => fields.has(effect));
    const [effect] = effects;
    const pattern = effect ? textOf(fields.get(effect)) : null;
    if (effects.length !== 1 || !effect || pattern === null)
      throw new ConfigError(
        `${at(item)}: a rule has one of "allow: <command>", "allow_exact: <command>" and "deny: <command>"`,
      );
    const where = `${at(item)}: the rule "${effect}: ${pattern}"`;
    for (const key of fields.keys())
      if (!KEYS.includes(key)) throw new ConfigError(`${where} has an unknown key ${key}; known: ${KEYS.join(", ")}`);
    const reason = fields.has("reason") ? textOf(fields.get("reason")) : null;
    const within = fields.has("in") ? textOf(fields.get("in")) : null;
    if (fields.has("reason") && reason === null) throw new ConfigError(`${where}: reason must be text`);
    if (fields.has("in") && (!within?.startsWith("/") || effect === "deny"))
      throw new ConfigError(`${where}: in must be an absolute path, and only an allow rule can have it`);
    if (effect === "allow_exact" && within === null)
      throw new ConfigError(`${where} needs the directory it is for: "in: <absolute path>"`);
    const rule = compile({ effect, text: pattern }, where, parse);
    if (isRelative(rule) && within === null)
      throw new ConfigError(
        `${where} names a file by a relative path: add "in: <directory>", or write the file's absolute path`,
      );
    return { ...rule, reason, within, from: at(item), examples: examplesOf(fields.get("examples"), where) };
  });
};

/** `approvals.allow` and `approvals.deny` of the configuration. */
export const rulesOf = async (lists: { allow: readonly string[]; deny: readonly string[] }): Promise<PolicyRule[]> => {
  const parse = await loadParser();
  return (["deny", "allow"] as const).flatMap((effect) =>
    lists[effect].map((text, index) => {
      const from = `approvals.${effect}[${index}]`;
      const rule = compile({ effect, text }, `${from}: "${text}"`, parse);
      if (isRelative(rule))
        throw new ConfigError(`${from}: "${text}" names a file by a relative path: write its absolute path`);
      return { ...rule, from };
    }),
  );
};

/** Comments stay; spaces may change. */
export const removeRule = (text: string, index: number): string => {
  const document = parseDocument(text);
  document.deleteIn(["rules", index]);
  return document.toString({ lineWidth: 0 });
};

/** Adds a rule to a rules file and leaves everything else unchanged, including comments and spaces. */
export const addRule = (text: string, { effect, text: pattern, within, reason }: NewRule): string => {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error) throw new ConfigError(`the rules file cannot be changed: ${error.message.split("\n")[0] ?? ""}`);
  const fields = {
    [effect]: pattern,
    ...(within === undefined ? {} : { in: within }),
    ...(reason === undefined ? {} : { reason }),
  };
  // In a YAML block, a line of spaces would be read as an empty line.
  const command = new Scalar(pattern);
  if (/^[ \t]+$/m.test(pattern)) command.type = "QUOTE_DOUBLE";
  const written = { ...fields, [effect]: command };
  const root = document.contents;
  if (root !== null && !isMap(root)) throw new ConfigError("the rules file cannot be changed: it has no key rules");
  const list = document.get("rules");
  const items = isSeq(list) ? list.items : [];
  if (items.some((item) => isMap(item) && item.get(effect) === pattern && item.get("in") === within)) return text;

  const key = root?.items.find((pair) => textOf(pair.key) === "rules")?.key;
  const block = isSeq(list) && !list.flow;
  const last = block ? items.at(-1) : list === null ? key : null;
  if (isNode(last)) {
    const end = last.range?.[1] ?? text.length;
    const at = text[end - 1] === "\n" ? end : text.indexOf("\n", end) + 1 || text.length;
    const start = block ? (list.range?.[0] ?? 0) : 0;
    const indent = " ".repeat(block ? start - (text.lastIndexOf("\n", start) + 1) : 2);
    const added = stringify([written], { lineWidth: 0 }).replace(/^(?=.)/gm, indent);
    const changed = `${text.slice(0, at)}${at > 0 && text[at - 1] !== "\n" ? "\n" : ""}${added}${text.slice(at)}`;
    if (holds(changed, items.length, fields)) return changed;
  }
  // The list is on one line, or there is none yet: write it again.
  if (!isSeq(list)) document.set("rules", document.createNode([]));
  const whole = document.get("rules");
  if (!isSeq(whole)) throw new ConfigError("the rules file cannot be changed: rules is not a list");
  whole.flow = false;
  whole.add(document.createNode(written));
  return document.toString({ lineWidth: 0 });
};

/** Whether the text parses as `before` rules followed by this one. */
const holds = (text: string, before: number, fields: Record<string, string>): boolean => {
  const document = parseDocument(text);
  const list = document.get("rules");
  const added: unknown = isSeq(list) && list.items.length === before + 1 ? list.items[before] : null;
  return (
    document.errors.length === 0 &&
    isMap(added) &&
    added.items.length === Object.keys(fields).length &&
    Object.entries(fields).every(([key, value]) => added.get(key) === value)
  );
};

/** Whether exactly this text was allowed in exactly this directory. */
export const allowsExactly = (rule: PolicyRule, command: string, cwd: string | undefined): boolean =>
  rule.effect === "allow_exact" &&
  rule.text === command &&
  rule.within !== null &&
  cwd !== undefined &&
  absolute(rule.within, {}) === absolute(cwd, {});

/** `cwd`: where the command would run, if known. */
export const allows = (rule: PolicyRule, argv: readonly Pick<Arg, "value">[], cwd: string | undefined): boolean =>
  rule.effect === "allow" &&
  (rule.within === null || isBelow(cwd, rule.within)) &&
  (rule.open ? argv.length >= rule.words.length : argv.length === rule.words.length) &&
  rule.words.every((pattern, index) => {
    const value = argv[index]?.value ?? null;
    if (value === null || value.includes(UNKNOWN)) return false;
    return index === 0 ? sameProgram(rule, value, cwd) : fits(pattern, value);
  });

/** `./t.sh` is a different file in each directory: a path means the file relative to the rule's directory. */
const sameProgram = (rule: PolicyRule, value: string, cwd: string | undefined): boolean => {
  const program = rule.words[0]?.[0] ?? "";
  if (!program.includes("/") || !value.includes("/")) return program === value;
  // Behind a link, `..` leads elsewhere than the text says.
  if (value.split("/").includes("..")) return false;
  const file = absolute(program, { cwd: rule.within ?? undefined });
  return file !== null && file === absolute(value, { cwd });
};

const isRelative = ({ effect, words }: PolicyRule): boolean =>
  effect === "allow" && /^[^/]+\//.test(words[0]?.[0] ?? "");

const isBelow = (cwd: string | undefined, dir: string): boolean => {
  const [here, there] = [cwd === undefined ? null : absolute(cwd, {}), absolute(dir, {})];
  return here !== null && (here === there || here.startsWith(`${there === "/" ? "" : there}/`));
};

export const denies = (rule: PolicyRule, argv: readonly string[]): boolean => {
  if (rule.effect !== "deny") return false;
  const [program = [""], ...rest] = rule.words;
  const [name = "", ...args] = argv;
  if (!fits(program, program.join("").includes("/") ? name : baseName(name)) && !fits(program, name)) return false;
  const options = rest.filter((pattern) => pattern[0]?.startsWith("-"));
  const letters = new Set(args.flatMap((arg) => (/^-\w+$/.test(arg) ? arg.slice(1).split("") : [])));
  const given = options.every((pattern) => {
    const [word = "", ...more] = pattern;
    if (args.some((arg) => fits(pattern, arg))) return true;
    return more.length === 0 && /^-\w+$/.test(word) && new Set(word.slice(1)).isSubsetOf(letters);
  });
  const operands = rest.filter((pattern) => !options.includes(pattern));
  return given && inOrder(operands, args);
};

/** Operands in this order; between them only options, each with an optional value. */
const inOrder = (patterns: readonly Pattern[], args: readonly string[]): boolean => {
  let reached = new Set([0]);
  for (const [index, arg] of args.entries()) {
    if (reached.has(patterns.length)) return true;
    const next = new Set<number>();
    const option = arg.startsWith("-");
    const value = (args[index - 1] ?? "").startsWith("-");
    for (const at of reached) {
      if (option || value) next.add(at);
      const pattern = patterns[at];
      if (!option && pattern && fits(pattern, arg)) next.add(at + 1);
    }
    reached = next;
  }
  return reached.has(patterns.length);
};

const fits = (pattern: Pattern, text: string): boolean => {
  const [first = "", ...rest] = pattern;
  if (rest.length === 0) return text === first;
  const last = rest.at(-1) ?? "";
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let at = first.length;
  for (const piece of rest.slice(0, -1)) {
    const found = text.indexOf(piece, at);
    if (found < 0 || found + piece.length > text.length - last.length) return false;
    at = found + piece.length;
  }
  return true;
};

const compile = ({ effect, text }: NewRule, where: string, parse: Parser): PolicyRule => {
  const rule = { effect, text, reason: null, from: where, within: null, examples: [] };
  if (effect === "allow_exact") return { ...rule, words: [], open: false };
  const words = patternsOf(text, where, parse);
  const last = words.at(-1);
  const open = words.length > 1 && last?.length === 2 && last.join("") === "";
  const [program = []] = words;
  if (program.length !== 1) throw new ConfigError(`${where} must name the program: its first word cannot have a *`);
  return { ...rule, words: open ? words.slice(0, -1) : words, open };
};

const patternsOf = (text: string, where: string, parse: Parser): Pattern[] => {
  const script: ParsedScript = parse(text);
  const command = script.commands[0]?.command;
  const single = script.commands.length === 1 && !script.commands[0]?.background;
  if (script.errors?.length || !single || command?.type !== "Command" || !command.name || command.prefix.length > 0)
    throw new ConfigError(`${where} must be one simple command`);
  if (readScript(text, parse).doubts.some(({ level }) => level === "unreadable"))
    throw new ConfigError(`${where} cannot be read`);
  return [command.name, ...command.suffix].map((word) => {
    if (word.type !== "Word") throw new ConfigError(`${where} must be one simple command, without redirections`);
    const pattern: Pattern = [""];
    const add = (piece: string) => pattern.push((pattern.pop() ?? "") + piece);
    for (const part of word.parts ?? [{ type: "Literal", value: word.value } as const]) {
      if (part.type === "Glob" && part.kind === "star") pattern.push("");
      else if (part.type === "Literal" || part.type === "SingleQuoted" || part.type === "AnsiCQuoted") add(part.value);
      else if (part.type === "Glob") add(part.text);
      else if (part.type === "DoubleQuoted" && part.parts.every(({ type }) => type === "Literal"))
        add(part.parts.map((inner) => (inner.type === "Literal" ? inner.value : "")).join(""));
      else throw new ConfigError(`${where} cannot have ${part.text}: quote it if it is meant literally`);
    }
    return pattern;
  });
};

const examplesOf = (node: unknown, where: string): Example[] => {
  if (node === undefined) return [];
  if (!isMap(node)) throw new ConfigError(`${where}: examples are lists under allow, ask and deny`);
  return node.items.flatMap(({ key, value }) => {
    const verdict = VERDICTS.find((name) => name === textOf(key));
    if (!verdict || !isSeq(value)) throw new ConfigError(`${where}: examples are lists under allow, ask and deny`);
    return value.items.map((item) => {
      const command = textOf(item);
      if (command === null) throw new ConfigError(`${where}: an example is a command in quotes`);
      return { command, verdict };
    });
  });
};

const textOf = (node: unknown): string | null => (isScalar(node) && typeof node.value === "string" ? node.value : null);
const rangeOf = (node: unknown): number => (isNode(node) ? (node.range?.[0] ?? 0) : 0);
const isNode = (node: unknown): node is Node => isScalar(node) || isMap(node) || isSeq(node);
