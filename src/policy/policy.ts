// Decides about a shell command: allow, ask or deny. Order: commands that never run, the user's deny rules, the user's
// allow rules, the built-in judgement. Everything is computed from the text; nothing is run or looked up.
import { ConfigError } from "../core/errors.ts";
import { attempt } from "../platform/attempt.ts";
import { covered, findDangers } from "./dangerous.ts";
import { escapeOnLine } from "./display.ts";
import { findHardline } from "./hardline.ts";
import { type Allowed, type Finding, findHarms } from "./harmless.ts";
import { reach } from "./reach.ts";
import { createReader, loadParser, type Parser, tooLong } from "./reading.ts";
import { allows, allowsExactly, denies, type NewRule, type PolicyRule } from "./rules.ts";
import { findSecretReads } from "./secret-reads.ts";
import type { ApprovalMode, CommandPlace, Judgement } from "./types.ts";

export type PolicyOptions = {
  rules: readonly PolicyRule[];
  mode: ApprovalMode;
  /** Whether commands run inside a sandbox. */
  sandbox: boolean;
};
type CommandJudge = (command: string, place?: CommandPlace) => Judgement;

/** Throws a ConfigError if an example of a rule is judged differently. */
export const createPolicy = async ({ rules, mode, sandbox }: PolicyOptions) => {
  const parse = await loadParser();
  const judge = judgeWith({ parse, rules, mode, sandbox });
  const asWritten = judgeWith({ parse, rules, mode: "manual", sandbox: false });
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
    /** The rule that lets exactly this command run unasked in exactly this directory; null if there is nothing to allow. */
    describeAlways: (command: string, place: CommandPlace = {}): NewRule | null => {
      const { cwd } = place;
      // A text that is too long is never checked, so a rule would not help: it would still ask.
      if (cwd === undefined || tooLong(command) || judge(command, place).verdict !== "ask") return null;
      return { effect: "allow_exact", text: command, within: cwd };
    },
  };
};

type JudgeMeans = PolicyOptions & { parse: Parser };

/** An error in the parser means that the command was not understood. */
const judgeWith =
  (means: JudgeMeans): CommandJudge =>
  (command, place = {}) =>
    attempt(() => weigh(command, place, means)) ?? unjudged("this command could not be checked", command, means.mode);

/** For commands that could not be judged at all: asks, or refuses if nobody is asked. */
export const unjudged = (reason: string, command: string, mode: ApprovalMode): Judgement =>
  verdictOf(mode === "off" ? "deny" : "ask", [{ reason, part: command.slice(0, 80) }]);

const weigh = (command: string, place: CommandPlace, { parse, rules, mode, sandbox }: JudgeMeans): Judgement => {
  const long = tooLong(command);
  if (long) return unjudged(long.reason, command, mode);
  const read = createReader(parse);
  const reached = reach(command, place, read);
  const hardline = findHardline(reached, read);
  if (hardline) return { ...verdictOf("deny", [hardline]), hardline: true };
  for (const { argv, part, guess } of reached.commands) {
    const rule = guess ? undefined : rules.find((rule) => denies(rule, argv));
    if (rule) return verdictOf("deny", [{ reason: rule.reason ?? `your rule "deny: ${rule.text}" forbids it`, part }]);
  }
  if (rules.some((rule) => allowsExactly(rule, command, place.cwd))) return allowed("you allowed exactly this, here");
  if (mode === "off") {
    const unread = reached.doubts.find(({ level }) => level === "unreadable");
    if (unread)
      return verdictOf("deny", [{ reason: `${unread.reason}, so nothing can be ruled out`, part: unread.source }]);
    return allowed("asking is switched off");
  }
  const byRule: Allowed = (argv, cwd) => rules.some((rule) => allows(rule, argv, cwd));
  const reading = read(command);
  const harms = findHarms(reading, place, byRule);
  if (!sandbox) harms.push(...findSecretReads(reached, reading, place, (one) => covered(one, byRule)));
  if (harms.length === 0) return allowed("everything in it only looks, or is allowed by your rules");
  const asked = sandbox ? findDangers(reached, place, byRule) : harms;
  return asked.length > 0 ? verdictOf("ask", asked) : allowed("its effects stay inside the sandbox");
};

const allowed = (reason: string): Judgement => ({ ...verdictOf("allow", [{ reason, part: "" }]), parts: [] });

/** The first finding decides. */
const verdictOf = (verdict: Judgement["verdict"], findings: readonly Finding[]): Judgement => {
  const [first = { reason: "", part: "" }] = findings;
  const parts = findings
    .slice(0, 10 * MOST_PARTS)
    .map(({ reason, part }) => ({ reason: sentence(reason), text: part.trim().slice(0, LONGEST_PART) }));
  const unique = new Map(parts.map((one) => [`${one.reason}\n${one.text}`, one]));
  return {
    verdict,
    reason: sentence(first.reason),
    part: first.part.trim(),
    parts: [...unique.values()].slice(0, MOST_PARTS),
    hardline: false,
  };
};
const MOST_PARTS = 20;
const LONGEST_PART = 1_000;

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
