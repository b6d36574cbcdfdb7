// The policy of this HERMES_HOME: rules from the configuration and from policy.yaml, a file that a person can read and
// change at any time. "Always" adds a rule to it; `hermes policy revoke` removes one.
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { ConfigError, codeOf, messageOf } from "../core/errors.ts";
import { replaceFile } from "../platform/home.ts";
import { openJudge } from "./judge.ts";
import { unjudged } from "./policy.ts";
import { addRule, type PolicyRule, parseRules, removeRule, rulesOf } from "./rules.ts";
import type { ApprovalMode, Judgement } from "./types.ts";

type Options = {
  /** HERMES_HOME/policy.yaml */
  file: string;
  /** From the configuration. */
  lists: { allow: readonly string[]; deny: readonly string[] };
  mode: ApprovalMode;
  sandbox: boolean;
  userHome: string;
};

export async function openHomePolicy({ file, lists, mode, sandbox, userHome }: Options) {
  const load = async () => [...(await rulesOf(lists)), ...(await parseRules(read(file), file))];
  let seen = stampOf(file);
  const policy = await openJudge({ rules: await load(), mode, sandbox });
  let keeping: Promise<unknown> = Promise.resolve();
  const ruleFor = (command: string, cwd: string) => policy.describeAlways(command, { cwd, home: userHome });

  /** A rule that was revoked holds no longer, in a process that runs for weeks too. */
  async function reload(): Promise<void> {
    const now = stampOf(file);
    if (now === seen) return;
    await policy.setRules(await load());
    seen = now;
  }

  return {
    /** `sealed`: it would run in a sandbox that reaches no other machine. */
    async judge(command: string, cwd: string, sealed?: boolean): Promise<Judgement> {
      try {
        await reload();
      } catch (error) {
        return unjudged(`the rules cannot be used: ${messageOf(error)}`, command, mode);
      }
      return policy.judge(command, { cwd, home: userHome, sealed });
    },
    /** Whether a rule can express exactly this. */
    canKeep: async (command: string, cwd: string) => (await ruleFor(command, cwd)) !== null,
    /** Adds a rule that allows exactly this from now on. Throws if the file cannot be read or written. */
    keep(command: string, cwd: string): Promise<void> {
      // One at a time: two writers that read the same file would lose one rule.
      const kept = keeping.then(async () => {
        const rule = await ruleFor(command, cwd);
        if (!rule) return;
        replaceFile(file, addRule(read(file), rule));
        await reload();
      });
      keeping = kept.catch(() => {});
      return kept;
    },
    async close() {
      await keeping;
      await policy.close();
    },
  };
}

/** The rules in policy.yaml, each with an id that stays the same as long as the rule does. */
export const savedRules = async (file: string): Promise<(PolicyRule & { id: string })[]> =>
  (await parseRules(read(file), file)).map((rule) => ({ ...rule, id: idOf(rule) }));

/** False if there is no such rule. */
export async function forgetRule(file: string, id: string): Promise<boolean> {
  const index = (await savedRules(file)).findIndex((rule) => rule.id === id);
  if (index >= 0) replaceFile(file, removeRule(read(file), index));
  return index >= 0;
}

const idOf = ({ effect, text, within }: PolicyRule) =>
  createHash("sha256")
    .update(JSON.stringify([effect, text, within]))
    .digest("hex")
    .slice(0, 8);

/** Changes with every change of the file. */
function stampOf(file: string): string {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat ? `${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}` : "";
}

/** Only a missing file means that there are no rules: ignoring any other error would drop the user's deny rules. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return "";
    throw new ConfigError(
      `${file} cannot be read (${messageOf(error)}): mend it, or move it away to go on without rules`,
    );
  }
}
