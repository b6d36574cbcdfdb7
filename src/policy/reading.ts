// Turns the text of a command into what it would do: its simple commands, where their output goes, and every doubt. The
// result of the parser is checked: each character must belong to something that it named, or be a separator, a keyword
// or a comment. An error, an unknown kind of node, or a character left over is a doubt.
import type {
  ArrayValue,
  Assignment,
  Command,
  ParsedScript,
  Redirection,
  Statement,
  TestCommand,
  TestExpression,
  Word,
} from "unbash";
import { type Arg, type Doubt, LIMITS } from "./types.ts";
import { type Finder, readArithmetic, readHeredoc, readOperand, readSubscript, readWord, UNREADABLE } from "./words.ts";

type Assign = {
  name: string;
  value: Arg;
  /** One word, or the words of an array. */
  words: readonly Word[];
  source: string;
  plain: boolean;
};
export type Redirect = {
  operator: string;
  target: Arg | null;
  word: Word | null;
  /** The text of a here-document or here-string, if it is constant. */
  text: string | null;
  source: string;
};
export type Simple = {
  argv: Arg[];
  words: Word[];
  assigns: Assign[];
  redirects: Redirect[];
  source: string;
  /** The previous command in the pipeline. */
  from: Simple | null;
  piped: boolean;
  background: boolean;
  /** Its output becomes a part of another command. */
  captured: boolean;
  /** The subshells around it, outermost first: a `cd` lasts as long as its subshell. */
  scopes: readonly number[];
  /** The function of which it is the body. */
  within: string | null;
};
type Step =
  | { step: "command"; command: Simple }
  | { step: "loop"; name: string; words: Word[] | null; source: string }
  /** `sure`: it is defined whatever happens before. */
  | { step: "function"; name: string; sure: boolean };
export type CommandReading = { steps: Step[]; redirects: Redirect[]; doubts: Doubt[] };

export type Parser = (source: string) => ParsedScript;
let loading: Promise<Parser> | null = null;

/** Loaded when the first command is judged: `hermes --help` must not pay for it. */
export const loadParser = (): Promise<Parser> => (loading ??= import("unbash").then(({ parse }) => parse));

const DOUBTS = 50;
const UNPRINTABLE = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
const KEYWORDS = "if|then|elif|else|fi|for|in|do|done|while|until|case|esac|select|function|coproc|time|-p|--";
/** One thing that may occur between the pieces. One at a time: a pattern for all of them would try every way to split
 *  them. */
const BETWEEN = new RegExp(String.raw`[ \t\n;&|]+|\\\n|(?<=^|[\s;&|()])#[^\n]*|(?:${KEYWORDS})(?![\w-])`, "y");
const FUNCTION_NAME = /^[A-Za-z_][\w-]*$/;
/** The parser reads the text after an opening bracket again for each bracket around it, and the text after a line for
 *  each here-document that begins on it: 64 kB of `$(` or `<<a` take it seconds. */
const OPEN = 100;

type Around = Pick<Simple, "scopes" | "background" | "piped" | "captured" | "within"> & { depth: number };

export const tooLong = (source: string): Doubt | null =>
  source.length > LIMITS.length
    ? { reason: "the command is too long to be checked", source: source.slice(0, 80), level: "unreadable" }
    : null;

/** Reads the scripts of one judgement. */
export type ReadCommand = (script: string) => CommandReading;

/** Results are cached, and their total is limited: nested scripts are read again and again. */
export const createReader = (parse: Parser): ReadCommand => {
  const known = new Map<string, CommandReading>();
  let left = LIMITS.reading;
  return (script) => {
    const before = known.get(script);
    if (before) return before;
    left -= script.length + 50;
    const reading = left < 0 ? { steps: [], redirects: [], doubts: [tooIntricate(script)] } : readScript(script, parse);
    known.set(script, reading);
    return reading;
  };
};

const tooIntricate = (source: string): Doubt => ({
  reason: "the command is too intricate to be checked",
  source: source.slice(0, 80),
  level: "unreadable",
});

export const readScript = (source: string, parse: Parser): CommandReading => {
  const reading: CommandReading = { steps: [], redirects: [], doubts: [] };
  const counts = { unproven: 0, unclear: 0, unreadable: 0 };
  const long = tooLong(source);
  if (long) return { ...reading, doubts: [long] };
  if (opensTooMuch(source)) return { ...reading, doubts: [tooIntricate(source)] };
  const hidden = UNPRINTABLE.exec(source);
  if (hidden) doubtful("it contains a character that cannot be seen", around(source, hidden.index), "unclear");
  let scopes = 0;
  let commands = 0;

  const top = { depth: 0, scopes: [], background: false, piped: false, captured: false, within: null };
  readNested(parse(source), source, 0, source.length, top);
  return reading;

  function doubtful(reason: string, part: string, level: Doubt["level"] = "unproven"): void {
    // Many findings of one kind must never displace a worse one.
    counts[level] += 1;
    if (counts[level] <= DOUBTS) reading.doubts.push({ level, reason, source: part });
  }

  function tooDeep(part: string): void {
    doubtful("it is nested too deeply to be checked", part.slice(0, 80), "unreadable");
  }

  /** One script and its text in `text`, between `from` and `to`. */
  function readNested(script: ParsedScript, text: string, from: number, to: number, at: Around): void {
    if (at.depth > LIMITS.depth) return tooDeep(text.slice(from));
    for (const error of script.errors ?? [])
      doubtful(`the shell grammar does not allow this (${error.message})`, around(text, error.pos), "unreadable");
    const claimed: [number, number][] = [];
    for (const statement of script.commands) readStatement(statement, at, at.depth === 0);

    let end = from;
    for (const [pos, until] of [...claimed.sort(([a], [b]) => a - b), [to, to] as const]) {
      const gap = text.slice(end, pos);
      // Right after a word, `#` is a part of it.
      const glued = gap.startsWith("#") && end > from && !/[\s;&|()]/.test(text.charAt(end - 1));
      if (pos < end || glued || !onlyBetween(gap))
        doubtful(UNREADABLE, gap.trim() || text.slice(pos, until), "unreadable");
      end = Math.max(end, until);
    }

    function claim(node: { pos: number; end: number }): void {
      if (node.end > node.pos) claimed.push([node.pos, node.end]);
    }

    /** The brackets around it. */
    function ends(node: { pos: number; end: number }): void {
      claim({ pos: node.pos, end: node.pos + 1 });
      claim({ pos: node.end - 1, end: node.end });
    }

    function cut(node: { pos: number; end: number }): string {
      return text.slice(node.pos, node.end);
    }

    function finder(at: Around): Finder {
      return {
        doubt: doubtful,
        script: (inner, part) => {
          if (!inner) return doubtful(UNREADABLE, part.text, "unreadable");
          const own = inner.source;
          const inside = { ...subshell(at), captured: true };
          if (own !== undefined) return readNested(inner, own, 0, own.length, inside);
          const opening = part.text.startsWith("`") ? 1 : 2;
          readNested(inner, text, part.pos + opening, part.end - 1, inside);
        },
      };
    }

    function subshell(at: Around): Around {
      scopes += 1;
      return { ...at, depth: at.depth + 1, scopes: [...at.scopes, scopes] };
    }

    function list(body: { commands: readonly Statement[] }, at: Around): void {
      for (const statement of body.commands) readStatement(statement, at, false);
    }

    function readStatement(statement: Statement, at: Around, top: boolean): void {
      if (at.depth > LIMITS.depth) return tooDeep(cut(statement));
      const background = statement.background === true;
      if (background) doubtful("it goes on in the background", cut(statement));
      const inner = background ? { ...subshell(at), background } : at;
      readNode(statement.command, inner, top && !background);
    }

    function readNode(
      node: Statement["command"],
      at: Around,
      top: boolean,
      before: Simple | null = null,
    ): Simple | null {
      const deeper = { ...at, depth: at.depth + 1 };
      if (deeper.depth > LIMITS.depth) {
        tooDeep(cut(node));
        return null;
      }
      switch (node.type) {
        case "Command":
          return readCommand(node, at, before);
        case "Pipeline": {
          for (const prefix of node.prefixes) claim(prefix);
          const many = node.commands.length > 1;
          let previous: Simple | null = null;
          for (const command of node.commands)
            previous = readNode(command, many ? { ...subshell(at), piped: true } : deeper, top && !many, previous);
          return null;
        }
        case "AndOr":
          for (const [index, command] of node.commands.entries()) readNode(command, deeper, top && index === 0);
          return null;
        case "Redirected":
          for (const redirect of node.redirects) readRedirect(redirect, at);
          return readNode(node.command, deeper, false, before);
        case "If":
          list(node.clause, deeper);
          list(node.then, deeper);
          for (const branch of node.elif) {
            list(branch.clause, deeper);
            list(branch.then, deeper);
          }
          if (node.else) list(node.else, deeper);
          return null;
        case "While":
          list(node.clause, deeper);
          list(node.body, deeper);
          return null;
        case "For":
        case "Select": {
          claim(node.name);
          for (const word of node.wordlist ?? []) readOne(word, at);
          if (node.type === "Select") doubtful("it waits for an answer", cut(node.name));
          const words = node.type === "For" && node.wordlist ? [...node.wordlist] : null;
          reading.steps.push({ step: "loop", name: node.name.text, words, source: cut(node.name) });
          list(node.body, deeper);
          return null;
        }
        case "ArithmeticFor":
          claim({ pos: node.pos, end: node.body.pos });
          for (const part of [node.initialize, node.test, node.update])
            if (part) readArithmetic(part, cut(node).slice(0, 80), finder(at));
          doubtful("it sets a variable", cut(node).slice(0, 80));
          list(node.body, deeper);
          return null;
        case "Subshell":
          ends(node);
          list(node.body, subshell(at));
          return null;
        case "BraceGroup":
          ends(node);
          list(node.body, deeper);
          return null;
        case "Case":
          readOne(node.word, at);
          for (const item of node.items) {
            for (const pattern of item.pattern) readOne(pattern, at);
            // `(a | b)`, of which the first parenthesis may be missing.
            if (text[item.pos] === "(") claim({ pos: item.pos, end: item.pos + 1 });
            const close = text.indexOf(")", item.pattern.at(-1)?.end ?? item.pos);
            claim({ pos: close, end: close + 1 });
            list(item.body, deeper);
          }
          return null;
        case "TestCommand":
          claim(node);
          readTestCommand(node, at);
          return null;
        case "ArithmeticCommand":
          claim(node);
          readArithmetic(node.expression, cut(node), finder(at));
          return null;
        case "Function": {
          claim(node.name);
          if (/^\s*\(\s*\)/.test(text.slice(node.name.end, node.body.pos)))
            claim({ pos: node.name.end, end: text.indexOf(")", node.name.end) + 1 });
          readWord(node.name, finder(at));
          // Quotes in a function name belong to the name, unlike anywhere else: `t\ouch() { :; }` leaves `touch`
          // unchanged.
          const name = cut(node.name);
          const literal = FUNCTION_NAME.test(name);
          if (!literal) doubtful("the name of this function could not be read reliably", name, "unreadable");
          if (at.within !== null) doubtful("this function could not be followed", name);
          reading.steps.push({ step: "function", name, sure: top && literal });
          const inside = { ...subshell(at), within: name };
          if (node.body.type === "CompoundList") {
            doubtful("this function could not be read reliably", cut(node), "unreadable");
            list(node.body, inside);
          } else readNode(node.body, inside, false);
          return null;
        }
        case "Coproc":
          doubtful("it goes on in the background", cut(node));
          if (node.name) claim(node.name);
          if (node.body.type === "CompoundList") {
            doubtful(UNREADABLE, cut(node), "unreadable");
            list(node.body, subshell(at));
          } else readNode(node.body, { ...subshell(at), background: true }, false);
          return null;
        default:
          doubtful("this kind of command is unknown", text.slice(from, to), "unreadable");
          return null;
      }
    }

    function readOne(word: Word, at: Around): Arg {
      claim(word);
      return readWord(word, finder(at));
    }

    function readCommand(node: Command, at: Around, before: Simple | null): Simple {
      commands += 1;
      if (commands > LIMITS.commands) doubtful("it has too many commands to be checked", cut(node), "unreadable");
      const lists = { argv: [], words: [], assigns: [], redirects: [] };
      const simple: Simple = { ...at, ...lists, source: cut(node), from: before };
      const words = node.prefix.length + node.suffix.length;
      if (words > LIMITS.words) doubtful("it has too many words to be checked", cut(node).slice(0, 80), "unreadable");
      if (commands > LIMITS.commands || words > LIMITS.words) return simple;
      const add = (word: Word) => {
        simple.argv.push(readOne(word, at));
        simple.words.push(word);
      };
      const take = (part: Command["prefix"][number] | Command["suffix"][number]) => {
        if (part.type === "Word") add(part);
        else if (part.type === "Assignment") simple.assigns.push(readAssignment(part, at));
        else simple.redirects.push(readRedirect(part, at));
      };
      const parts = [...node.prefix, ...(node.name ? [node.name] : []), ...node.suffix];
      let end = node.pos;
      for (const part of parts) {
        take(part);
        // The parser skips a stray parenthesis; the shell does not.
        if (!/^(?:[ \t]|\\\n)*$/.test(text.slice(end, part.pos))) doubtful(UNREADABLE, cut(node), "unreadable");
        end = part.end;
      }
      if (end !== node.end) doubtful(UNREADABLE, cut(node), "unreadable");
      reading.steps.push({ step: "command", command: simple });
      return simple;
    }

    function readAssignment(node: Assignment, at: Around): Assign {
      claim(node);
      const { value, index } = node;
      const find = finder(at);
      if (index) {
        readSubscript(index, find);
        find.doubt("it sets a variable by a subscript", cut(node));
      }
      if (value.type === "ArrayValue") readArray(value, node, at);
      const word = value.type === "Word" ? value : null;
      const arg = word ? readWord(word, find) : { source: "", value: null, operand: false, prefix: "", many: true };
      const words = value.type === "Word" ? [value] : value.elements;
      return { name: node.name, value: arg, words, source: cut(node), plain: !index && word !== null };
    }

    function readArray(value: ArrayValue, node: Assignment, at: Around): void {
      const find = finder(at);
      find.doubt("it sets an array, whose subscripts are evaluated", cut(node));
      if (value.end !== node.end) find.doubt(UNREADABLE, cut(node), "unreadable");
      for (const element of value.elements) readWord(element, find);
    }

    function readRedirect(node: Redirection, at: Around): Redirect {
      claim(node);
      const find = finder(at);
      const source = cut(node);
      if (source.includes("\\\n")) find.doubt("a line ends in the middle of this", source, "unclear");
      if (node.descriptor?.type === "FileDescriptorVariable") find.doubt("it sets a variable", source);
      const redirect: Redirect = { operator: node.operator, target: null, word: null, text: null, source };
      if (node.type === "HereDoc") {
        if (node.closing) claim({ pos: node.body.pos, end: node.closing.end });
        else claim(node.body);
        redirect.text = readHeredoc(node, find);
      } else if (!node.target) find.doubt(UNREADABLE, source, "unreadable");
      else {
        redirect.word = node.target;
        redirect.target = readWord(node.target, find);
        if (node.type === "HereString")
          redirect.text = redirect.target.value === null ? null : `${redirect.target.value}\n`;
        // The shell ends `>&-` after the dash; what follows is another word.
        else if (node.operator.endsWith("&") && /^-./s.test(node.target.text))
          find.doubt(UNREADABLE, source, "unreadable");
      }
      reading.redirects.push(redirect);
      return redirect;
    }

    function readTestCommand(node: TestCommand, at: Around): void {
      const operands: Word[] = [];
      readTest(node.expression, at, operands);
      let end = node.pos;
      for (const operand of [...operands, { pos: node.end, end: node.end }]) {
        if (/[$`;"']/.test(text.slice(end, operand.pos))) doubtful(UNREADABLE, cut(node), "unreadable");
        end = Math.max(end, operand.end);
      }
    }

    function readTest(node: TestExpression, at: Around, inner: Word[]): void {
      const find = finder(at);
      const plain = (word: Word, fits: RegExp, reason: string) => {
        if (!fits.test(word.text)) find.doubt(reason, cut(node));
      };
      switch (node.type) {
        case "TestUnary":
          readOperand(node.operand, find);
          inner.push(node.operand);
          if (/^-[vR]$/.test(node.operator)) plain(node.operand, /^[A-Za-z_]\w*$/, "a subscript is evaluated");
          return;
        case "TestBinary":
          for (const word of [node.left, node.right]) {
            readOperand(word, find);
            inner.push(word);
            if (/^-(?:eq|ne|lt|le|gt|ge)$/.test(node.operator))
              plain(word, /^(?:-?\d+|"?\$(?:[?#]|\{#\w+\})"?)$/, "it calculates with a value that could run commands");
          }
          return;
        case "TestLogical":
          for (const operand of node.operands) readTest(operand, at, inner);
          return;
        case "TestNot":
          return readTest(node.operand, at, inner);
        case "TestGroup":
          return readTest(node.expression, at, inner);
        default:
          find.doubt("this kind of test is unknown", text.slice(from, to), "unreadable");
      }
    }
  }
};

/** Quotes are ignored: a command that needs so many brackets can ask. */
const opensTooMuch = (source: string): boolean => {
  let open = 0;
  for (const [bracket] of source.matchAll(/\(|\$[[{]|[)}]/g)) {
    open = Math.max(0, open + (/[)}]/.test(bracket) ? -1 : 1));
    if (open > OPEN) return true;
  }
  return source.split("\n").some((line) => line.split("<<").length > OPEN);
};

const onlyBetween = (gap: string): boolean => {
  BETWEEN.lastIndex = 0;
  while (BETWEEN.lastIndex < gap.length) if (!BETWEEN.test(gap)) return false;
  return true;
};

const around = (text: string, pos: number): string => text.slice(Math.max(0, pos - 20), pos + 20);
