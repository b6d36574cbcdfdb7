// Decides about a shell command: allow, ask or deny. In this order: what never runs, the user's deny rules, the
// user's allow rules, our own judgement. Everything here is computed from the text; nothing is run or looked up.
import { ConfigError } from "../../core/errors.ts";
import { findDanger } from "./dangerous.ts";
import { escapeOnLine } from "./display.ts";
import { findHardline } from "./hardline.ts";
import { type Allowed, findHarm } from "./harmless.ts";
import { loadParser } from "./parser.ts";
import { createReader, type Parser, readScript, type Simple, tooLong } from "./reading.ts";
import { allows, denies, type NewRule, type Rule } from "./rules.ts";
import type { Judgement, Mode, Place } from "./types.ts";

export type PolicyOptions = {
  rules: readonly Rule[];
  mode: Mode;
  /** Whether commands run inside one. */
  sandbox: boolean;
};
export type Policy = {
  judge(command: string, place?: Place): Judgement;
  /** The narrowest rules that let exactly this command run unasked; null: no rule can. */
  describeAlways(command: string, place?: Place): NewRule[] | null;
};

/** Throws a ConfigError where an example of a rule does not come out as written. */
export const createPolicy = async ({ rules, mode, sandbox }: PolicyOptions): Promise<Policy> => {
  const parse = await loadParser();
  const judge = judgeWith(parse, rules, mode, sandbox);
  const asWritten = judgeWith(parse, rules, "manual", false);
  for (const { from, effect, text, within, examples } of rules)
    for (const { command, verdict } of examples) {
      const found = asWritten(command, { cwd: within ?? undefined });
      if (found.verdict !== verdict)
        throw new ConfigError(
          `${from}: the rule "${effect}: ${text}" says ${verdict} for ${escapeOnLine(command)}, ` +
            `but it comes out as ${found.verdict}: ${found.reason}`,
        );
    }
  return {
    judge,
    describeAlways: (command, place = {}) => alwaysFor(command, place, parse, rules, mode, sandbox),
  };
};

type Judge = Policy["judge"];

const judgeWith =
  (parse: Parser, rules: readonly Rule[], mode: Mode, sandbox: boolean): Judge =>
  (command, place = {}) => {
    try {
      return weigh(command, place, parse, rules, mode, sandbox);
    } catch {
      // Whatever the parser stumbles over was not understood.
      return verdictOf(mode === "off" ? "deny" : "ask", "this command could not be checked", command.slice(0, 80));
    }
  };

const weigh = (
  command: string,
  place: Place,
  parse: Parser,
  rules: readonly Rule[],
  mode: Mode,
  sandbox: boolean,
): Judgement => {
  const long = tooLong(command);
  if (long) return verdictOf(mode === "off" ? "deny" : "ask", long.reason, long.source);
  const read = createReader(parse);
  const { hardline, reach } = findHardline(command, place, read);
  if (hardline) return { verdict: "deny", ...hardline, hardline: true };
  for (const reached of reach.commands) {
    const rule = reached.guess ? undefined : rules.find((rule) => denies(rule, reached.argv));
    if (rule) return verdictOf("deny", rule.reason ?? `your rule "deny: ${rule.text}" forbids it`, reached.part);
  }
  if (mode === "off") {
    const unread = reach.doubts.find(({ level }) => level === "unreadable");
    if (unread) return verdictOf("deny", `${unread.reason}, so nothing can be ruled out`, unread.source);
    return verdictOf("allow", "asking is switched off", "");
  }
  const allowed: Allowed = (argv, cwd) => rules.some((rule) => allows(rule, argv, cwd));
  const harm = findHarm(read(command), place, allowed);
  if (!harm) return verdictOf("allow", "everything in it only looks, or is allowed by your rules", "");
  if (!sandbox) return verdictOf("ask", harm.reason, harm.part);
  const danger = findDanger(reach, place, allowed);
  if (danger) return verdictOf("ask", danger.reason, danger.part);
  return verdictOf("allow", "its effects stay inside the sandbox", "");
};

const verdictOf = (verdict: Judgement["verdict"], reason: string, part: string): Judgement => ({
  verdict,
  reason: `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${/[.!?]$/.test(reason) ? "" : "."}`,
  part: part.trim(),
  hardline: false,
});

const alwaysFor = (
  command: string,
  place: Place,
  parse: Parser,
  rules: readonly Rule[],
  mode: Mode,
  sandbox: boolean,
): NewRule[] | null => {
  const added: Rule[] = [];
  const judge = judgeWith(parse, rules, mode, sandbox);
  if (judge(command, place).verdict !== "ask") return null;
  for (const step of readScript(command, parse).steps) {
    if (step.step !== "command" || step.command.argv.length === 0) continue;
    if (judge(step.command.source, place).verdict === "allow") continue;
    const rule = exactly(step.command, place, parse);
    if (!rule) return null;
    added.push(rule);
  }
  // What no rule can grant (a file that is written, a variable that is set) still asks with them.
  const then = judgeWith(parse, [...rules, ...added], mode, sandbox)(command, place);
  const unique = [...new Set(added.map(({ text }) => text))];
  return then.verdict === "allow" && unique.length > 0
    ? unique.map((text) => ({ effect: "allow", text, ...(place.cwd === undefined ? {} : { within: place.cwd }) }))
    : null;
};

const exactly = ({ argv }: Simple, { cwd }: Place, parse: Parser): Rule | null => {
  const words = argv.flatMap(({ value }) => (value === null ? [] : [value]));
  if (words.length !== argv.length || words.length > 200) return null;
  const text = words.map(quoted).join(" ");
  // A program may be called like a keyword: what is written must be read as it is meant.
  const [step, ...more] = readScript(text, parse).steps;
  const same = step?.step === "command" && step.command.argv.every(({ value }, index) => value === words[index]);
  if (!same || more.length > 0) return null;
  const patterns = words.map((word) => [word]);
  return {
    effect: "allow",
    text,
    reason: null,
    from: "",
    words: patterns,
    open: false,
    within: cwd ?? null,
    examples: [],
  };
};

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
