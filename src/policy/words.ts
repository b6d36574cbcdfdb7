// What one word of the shell may become. The parser says what is in it. Every character that it calls literal is
// checked again here, so that an expansion it overlooked becomes a doubt and never a literal.
import type {
  ArithmeticExpression,
  DoubleQuotedChild,
  HereDoc,
  ParameterExpansionPart,
  ParsedScript,
  Word,
  WordPart,
} from "unbash";
import { type Arg, type Doubt, LIMITS } from "./types.ts";

/** Where words report what they contain. */
export type Finder = {
  doubt(reason: string, source: string, level?: Doubt["level"]): void;
  /** Commands inside an expansion, which run before the word exists. */
  script(script: ParsedScript | undefined, part: { pos: number; end: number; text: string }): void;
};

/** `$` before one of these begins an expansion. */
const EXPANDS = /[\w{([*@#?$!'"-]/;
const NUMBER = /^(?:0[xX][\da-fA-F]+|\d+(?:#\w+)?)$/;
const NUMERIC = /^\$(?:[?#$!]|\{#\w+(?:\[[@*]\])?\})$/;
const INTRICATE = "this word has too many parts to be checked";
export const UNREADABLE = "this piece could not be read reliably";

/** The parser names no parts of a word that is only literal. */
export const partsOf = (word: Word): readonly WordPart[] =>
  word.parts ?? [{ type: "Literal", pos: word.pos, end: word.end, text: word.text, value: word.value }];

export const readWord = (word: Word, found: Finder): Arg => {
  const parts = partsOf(word);
  if (!tiles(parts, word.pos, word.end)) found.doubt(UNREADABLE, word.text, "unreadable");
  if (parts.length > LIMITS.parts) found.doubt(INTRICATE, word.text.slice(0, 80), "unreadable");
  if (isBroken(word.text)) found.doubt("a line ends in the middle of this word", word.text, "unclear");

  let value: string | null = "";
  let prefix = "";
  let known = true;
  let many = false;
  let splits = false;
  let numeric = false;
  const add = (text: string) => {
    if (value !== null) value += text;
    if (known) prefix += text;
  };
  const unknown = () => {
    value = null;
    known = false;
  };
  for (const [index, part] of parts.entries()) {
    const last = index === parts.length - 1;
    switch (part.type) {
      case "Literal": {
        const read = bare(part.text, last);
        if (read.bad || read.value !== part.value) found.doubt(UNREADABLE, part.text, "unreadable");
        if (index === 0 && read.tilde) {
          add(read.value);
          value = null;
        } else if (read.pattern || (read.brace && /,|\.\./.test(word.text))) {
          add(read.before);
          unknown();
          many = true;
        } else add(read.value);
        break;
      }
      case "SingleQuoted":
        if (part.text !== `'${part.value}'`) found.doubt(UNREADABLE, part.text, "unreadable");
        add(part.value);
        break;
      case "AnsiCQuoted":
        add(part.value);
        break;
      case "LocaleString":
        found.doubt('the shell may replace $"…" by a translation', part.text);
        readQuoted(part.parts, found);
        unknown();
        break;
      case "DoubleQuoted": {
        const text = readQuoted(part.parts, found);
        add(text.prefix);
        if (!text.whole) unknown();
        if (text.many) many = true;
        break;
      }
      case "Glob":
      case "BraceExpansion":
        for (const inner of part.parts ?? []) readPart(inner, found);
        unknown();
        many = true;
        break;
      case "ProcessSubstitution":
        found.script(part.script, part);
        if (part.operator === ">") found.doubt("another command would receive what is written there", part.text);
        add("/dev/fd/");
        unknown();
        break;
      default:
        readPart(part, found);
        if (NUMERIC.test(part.text)) numeric = parts.length === 1;
        else if (isHome(part)) {
          add("~");
          value = null;
          break;
        } else splits = true;
        unknown();
    }
  }
  // Bash expands `~` also after `=` and `:` in an argument that looks like an assignment.
  if (/^[A-Za-z_]\w*\+?=/.test(word.text) && /[=:]~/.test(word.text)) value = null;
  if (splits) prefix = "";
  const operand = numeric || (prefix !== "" && !prefix.startsWith("-")) || value === "";
  return { source: word.text, value, operand, prefix, many: many || splits };
};

/** The text of a here-document if it is constant, else null. */
export const readHeredoc = (doc: HereDoc, found: Finder): string | null => {
  if (!doc.closing || !doc.delimiter)
    found.doubt("the here-document has no end", doc.body.text.slice(0, 80), "unclear");
  if (/\\\n/.test(doc.delimiter?.text ?? "")) found.doubt(UNREADABLE, doc.delimiter?.text ?? "", "unclear");
  if (doc.delimiter?.quoted) return doc.body.text;
  if (isBroken(doc.body.text))
    found.doubt("a line ends in the middle of this text", doc.body.text.slice(0, 80), "unclear");
  const parts: readonly WordPart[] = doc.body.parts ?? [
    { type: "Literal", pos: doc.body.pos, end: doc.body.end, text: doc.body.text, value: doc.body.text },
  ];
  let text: string | null = "";
  for (const [index, part] of parts.entries()) {
    if (part.type === "Literal") {
      const read = quoted(part.text, index === parts.length - 1, '"');
      if (read === null) found.doubt(UNREADABLE, part.text, "unreadable");
      if (text !== null) text += read ?? "";
    } else {
      readPart(part, found);
      text = null;
    }
  }
  return text;
};

const readQuoted = (parts: readonly DoubleQuotedChild[], found: Finder) => {
  if (parts.length > LIMITS.parts) found.doubt(INTRICATE, parts[0]?.text.slice(0, 80) ?? "", "unreadable");
  let prefix = "";
  let whole = true;
  let many = false;
  for (const [index, part] of parts.entries()) {
    if (part.type === "Literal") {
      const read = quoted(part.text, index === parts.length - 1);
      if (read === null || read !== part.value) found.doubt(UNREADABLE, part.text, "unreadable");
      if (whole) prefix += read ?? "";
      continue;
    }
    readPart(part, found);
    if (whole && isHome(part)) prefix += "~";
    if (whole && part.text === "$PWD") prefix += "/";
    whole = false;
    many ||= /^\$(?:@|\{@|\{!?\w+\[@\])/.test(part.text);
  }
  return { prefix, whole, many };
};

/** Everything that an expansion can do besides becoming text. */
const readPart = (part: WordPart, found: Finder): void => {
  switch (part.type) {
    case "Literal":
      if (hides(part.text)) found.doubt(UNREADABLE, part.text, "unreadable");
      return;
    case "SingleQuoted":
      // Inside "${x:-'…'}" these quotes are only characters.
      if (/[$`]/.test(part.text)) found.doubt(UNREADABLE, part.text, "unreadable");
      return;
    case "AnsiCQuoted":
      return;
    case "DoubleQuoted":
    case "LocaleString":
      return void readQuoted(part.parts, found);
    case "SimpleExpansion":
      if (!/^\$(?:[A-Za-z_]\w*|[\d@*#?$!_-])$/.test(part.text)) found.doubt(UNREADABLE, part.text, "unreadable");
      return;
    case "ParameterExpansion":
      return readParameter(part, found);
    case "CommandExpansion":
      if (part.text.startsWith("${")) found.doubt("shells disagree about ${ …; }", part.text, "unclear");
      return found.script(part.script, part);
    case "ArithmeticExpansion":
      return readArithmetic(part.expression, part.text, found);
    case "ProcessSubstitution":
      return found.script(part.script, part);
    case "Glob":
    case "BraceExpansion":
      for (const inner of part.parts ?? []) readPart(inner, found);
      return;
    case "ExtendedGlob":
      return found.doubt("shells disagree about patterns like this", part.text, "unclear");
    default:
      found.doubt("this kind of expansion is unknown", "", "unreadable");
  }
};

const readParameter = (part: ParameterExpansionPart, found: Finder): void => {
  const { parameter, prefix, index, operation, text } = part;
  if (!/^(?:[A-Za-z_]\w*|\d+|[@*#?$!_-])$/.test(parameter)) found.doubt(UNREADABLE, text, "unreadable");
  if (prefix === "!") found.doubt("it uses the variable that another variable names", text);
  if (index) readSubscript(index, found);
  switch (operation?.type) {
    case undefined:
      return;
    case "Default":
      if (operation.operator.endsWith("=")) found.doubt("it sets a variable while it is expanded", text);
      return readOperand(operation.operand, found);
    case "Remove":
      return readOperand(operation.operand, found);
    case "Replace":
      readOperand(operation.pattern, found);
      return readOperand(operation.replacement, found);
    case "Slice":
      for (const bound of [operation.offset, operation.length]) {
        if (!bound) continue;
        readOperand(bound, found);
        if (!/^\s*-?\d+\s*$/.test(bound.text)) found.doubt("it calculates with a value that could run commands", text);
      }
      return;
    case "CaseModification":
      if (operation.operand) readOperand(operation.operand, found);
      return;
    case "Transform":
      if (!/^[QULu]$/.test(operation.operand.text)) found.doubt("it could run commands hidden in a variable", text);
      return;
    default:
      found.doubt("this kind of expansion is unknown", text, operation?.type === "Names" ? "unproven" : "unclear");
  }
};

export const readOperand = (word: Word, found: Finder): void => {
  if (!word.parts && hides(word.text)) found.doubt(UNREADABLE, word.text, "unreadable");
  for (const part of word.parts ?? []) readPart(part, found);
};

export const readSubscript = (index: Word, found: Finder): void => {
  readOperand(index, found);
  if (!/^(?:[@*]|\d+)$/.test(index.text)) found.doubt("a subscript is evaluated and could run commands", index.text);
};

/** The value of a variable is evaluated again, with its own subscripts and substitutions: only numbers are harmless. */
export const readArithmetic = (expression: ArithmeticExpression | undefined, text: string, found: Finder): void => {
  if (!expression) return found.doubt(UNREADABLE, text, "unreadable");
  switch (expression.type) {
    case "ArithmeticBinary":
      if (/^(?:[-+*/%&|^]|<<|>>)?=$/.test(expression.operator)) found.doubt("it sets a variable", text);
      readArithmetic(expression.left, text, found);
      return readArithmetic(expression.right, text, found);
    case "ArithmeticUnary":
      if (/^(?:\+\+|--)$/.test(expression.operator)) found.doubt("it sets a variable", text);
      return readArithmetic(expression.operand, text, found);
    case "ArithmeticTernary":
      readArithmetic(expression.test, text, found);
      readArithmetic(expression.consequent, text, found);
      return readArithmetic(expression.alternate, text, found);
    case "ArithmeticGroup":
      return readArithmetic(expression.expression, text, found);
    case "ArithmeticWord":
      for (const part of expression.parts ?? []) readPart(part, found);
      if (!expression.parts && /[$`]/.test(expression.value)) found.doubt(UNREADABLE, text, "unreadable");
      if (!NUMBER.test(expression.value) && !NUMERIC.test(expression.value))
        found.doubt("it calculates with a variable, whose value could run commands", text);
      return;
    case "ArithmeticCommandExpansion":
      found.script(expression.script, expression);
      return found.doubt("it calculates with a value that could run commands", text);
    default:
      found.doubt("this kind of calculation is unknown", text, "unreadable");
  }
};

/** A backslash at the end of a line joins it with the next one before the shell sees a word, so `$` and `(` on two
 *  lines are a substitution. Between words that is common; inside a word it is a trick. Nothing is joined in single
 *  quotes. */
const isBroken = (text: string): boolean => {
  const open = text.replace(/(?<![\\$"])'[^']*'/g, "");
  return /[^\s\\](?:\\\\)*\\(?:\n|$)/.test(open);
};

const isHome = (part: WordPart): boolean => "text" in part && (part.text === "$HOME" || part.text === "${HOME}");

const tiles = (parts: readonly WordPart[], from: number, to: number): boolean => {
  let at = from;
  for (const part of parts) {
    if (part.pos !== at || part.end < part.pos) return false;
    at = part.end;
  }
  return at === to;
};

/** Whether text that should be literal contains an expansion. */
const hides = (text: string): boolean => {
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === "\\") at += 1;
    else if (char === "`" || (char === "$" && at + 1 < text.length && EXPANDS.test(text.charAt(at + 1)))) return true;
  }
  return false;
};

/** Literal text outside quotes. `before` is the text before the first pattern character. */
const bare = (text: string, last: boolean) => {
  let value = "";
  let before: string | null = null;
  let bad = false;
  let brace = false;
  let pattern = false;
  const closing = text.lastIndexOf("]");
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === "\\") {
      at += 1;
      // A backslash at the very end stays; one before a line end joins the lines.
      if (text[at] !== "\n") value += text[at] ?? "\\";
      continue;
    }
    if (char === "$")
      bad ||= at + 1 < text.length ? EXPANDS.test(text.charAt(at + 1)) || text.startsWith("\\\n", at + 1) : !last;
    else if (/["'`\s;|&()<>]/.test(char)) bad = true;
    else if (char === "*" || char === "?" || (char === "[" && at < closing)) {
      pattern = true;
      before ??= value;
    } else if (char === "{") {
      brace = true;
      before ??= value;
    }
    value += char;
  }
  return { value, before: before ?? value, bad, brace, pattern, tilde: text.startsWith("~") };
};

/** Literal text inside double quotes or a here-document (where `"` is an ordinary character); null if there is more
 *  in it. */
const quoted = (text: string, last: boolean, plain = ""): string | null => {
  let value = "";
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    const next = text[at + 1];
    if (char === "\\" && next !== undefined && /[$`"\\\n]/.test(next) && next !== plain) {
      at += 1;
      if (next !== "\n") value += next;
      continue;
    }
    if (char === "`" || (char === '"' && plain !== '"')) return null;
    if (char === "$" && text.startsWith("\\\n", at + 1)) return null;
    if (char === "$" && (next === undefined ? !last : EXPANDS.test(next) && !(plain && /['"]/.test(next)))) {
      // `"$"` followed by the closing quote is only a dollar; so is one before a quote in a here-document.
      return null;
    }
    value += char;
  }
  return value;
};
