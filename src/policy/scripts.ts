// Which sed and awk programs only read and print. Both can write files and run commands, so a program is accepted only
// if every token is known to be harmless. What versions read differently is not accepted.
import { oneOf } from "./table.ts";

/** With one of several delimiters, which ends it wherever it is unescaped; no other flags. */
const SUBSTITUTION = new RegExp(
  String.raw`^[sy]([/,#|@!%:_])((?:\\[^\n]|(?!\1)[^\\\n])*)\1((?:\\[^\n]|(?!\1)[^\\\n])*)\1` +
    String.raw`([gpiI\d]*)(?=\s*(?:[;}\n#]|$))`,
);

/** One sed command with its addresses. Commands that write, read another file or run something are left out. */
export const isHarmlessSed = (script: string): boolean => {
  let rest = script;
  const take = (pattern: RegExp): boolean => {
    const found = pattern.exec(rest);
    if (found) rest = rest.slice(found[0].length);
    return found !== null;
  };
  const regex = (): boolean => {
    const found = /^(?:\/((?:\\[^\n]|[^/\\\n])*)\/|\\([,#|@!%])((?:\\[^\n]|(?!\2)[^\\\n])*)\2)[IM]*/.exec(rest);
    if (!found || !closedBrackets(found[1] ?? found[3] ?? "")) return false;
    rest = rest.slice(found[0].length);
    return true;
  };
  const address = (): boolean => take(/^(?:\d+(?:~\d+)?|\$)/) || regex();

  while (rest !== "") {
    if (take(/^[\s;{}]+/) || take(/^#[^\n]*/)) continue;
    if (address()) {
      take(/^\s+/);
      if (take(/^,\s*/) && !take(/^[+~]?\d+/) && !address()) return false;
    }
    take(/^\s*!?\s*/);
    if (take(/^\{/)) continue;
    if (take(/^[=dDgGhHnNpPxzF](?=\s*(?:[;}\n#]|$))/)) continue;
    if (take(/^[qQl]\s*\d*(?=\s*(?:[;}\n#]|$))/)) continue;
    if (take(/^[btT]\s*\w*(?=\s*(?:[;\n}]|$))/) || take(/^:\s*\w+(?=\s*(?:[;\n]|$))/)) continue;
    if (!substitution()) return false;
  }
  return true;

  function substitution(): boolean {
    const found = SUBSTITUTION.exec(rest);
    if (!found || !closedBrackets(found[2] ?? "")) return false;
    rest = rest.slice(found[0].length);
    return true;
  }
};

/** Versions disagree whether a delimiter ends an expression inside brackets, so none may be open. They also disagree
 *  where brackets end: `[]` and `[^]` are empty for some; for others the `]` is the first character inside, as is
 *  `\]` for some. */
const closedBrackets = (regex: string): boolean => {
  let inside = false;
  for (let at = 0; at < regex.length; at++) {
    const char = regex[at];
    if (char === "\\") {
      at += 1;
      if (at >= regex.length || (inside && /[[\]^]/.test(regex.charAt(at)))) return false;
    } else if (!inside && char === "[") {
      if (regex[at + 1] === "^") at += 1;
      if (regex[at + 1] === "]") return false;
      inside = true;
    } else if (inside && char === "[") {
      CHARACTER_CLASS.lastIndex = at;
      const found = CHARACTER_CLASS.exec(regex);
      if (!found) return false;
      at += found[0].length - 1;
    } else if (inside && char === "]") inside = false;
  }
  return !inside;
};
const CHARACTER_CLASS = /\[:[a-z]+:\]/y;

/** After these, or after `length` without parentheses, awks disagree whether `/` divides. */
const KEYWORD = oneOf(`
  print printf return in case else do if while for delete exit next nextfile switch default func function length BEGIN
  END BEGINFILE ENDFILE break continue`);

const TOKEN = new RegExp(
  [
    /\s+|#[^\n]*|"(?:\\[^\n]|[^"\\\n])*"|[A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?/,
    /&&|\|\||[-+*/%^]=|\+\+|--|[<>=!]=|!~|[{}()[\],;$!~?:<>=+*%^-]|\//,
  ]
    .map(({ source }) => `^(?:${source})`)
    .join("|"),
);

/** An awk program without output to files, pipes or commands, and without loading anything. */
export const isHarmlessAwk = (program: string): boolean => {
  if (/system|getline|close|fflush|@|\\\n|extension|PROCINFO|ARG[VC]|SYMTAB|FUNCTAB/.test(program)) return false;
  const depth = { brace: 0, paren: 0 };
  let before = "";
  let rest = program;
  while (rest !== "") {
    const found = TOKEN.exec(rest);
    if (!found) return false;
    const [token] = found;
    rest = rest.slice(token.length);
    if (token === "/" || token === "/=") {
      // After a value it divides; after an operator it begins an expression. Anything else is unclear.
      if (/^(?:[\w.]+|\]|")$/.test(before) && !KEYWORD.test(before)) {
        before = "/";
        continue;
      }
      if (token === "/=" || !/^(?:|[({,;!~?:}\n]|&&|\|\||print|return|[=!]=|!~)$/.test(before)) return false;
      const regex = /^((?:\\[^\n]|[^/\\\n])*)\//.exec(rest);
      if (!regex || !closedBrackets(regex[1] ?? "")) return false;
      rest = rest.slice(regex[0].length);
      before = '"';
      continue;
    }
    if (token === "{") depth.brace += 1;
    if (token === "}") depth.brace -= 1;
    if (token === "(" || token === "[") depth.paren += 1;
    if (token === ")" || token === "]") depth.paren -= 1;
    if (depth.brace < 0 || depth.paren < 0) return false;
    // Inside a statement and outside parentheses, `>` sends output to a file.
    if ((token === ">" || token === ">=") && depth.brace > 0 && depth.paren === 0) return false;
    if (/^\s|^#/.test(token)) {
      if (token.includes("\n") && depth.paren > 0) return false;
      if (token.includes("\n")) before = "\n";
    } else before = token.startsWith('"') ? '"' : token;
  }
  return depth.brace === 0 && depth.paren === 0;
};
