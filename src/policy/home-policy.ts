// The policy of this HERMES_HOME: rules from the configuration and from policy.yaml, a file that a person can read and
// change. "Always" adds a rule to it.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { ConfigError, messageOf } from "../core/errors.ts";
import { openJudge } from "./judge.ts";
import { addRule, parseRules, rulesOf } from "./rules.ts";
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
export type HomePolicy = {
  /** `sealed`: it would run in a sandbox that reaches no other machine. */
  judge(command: string, cwd: string, sealed?: boolean): Promise<Judgement>;
  /** Whether a rule can express exactly this. */
  canKeep(command: string, cwd: string): Promise<boolean>;
  /** Adds a rule that allows exactly this from now on. Throws if the file cannot be read or written. */
  keep(command: string, cwd: string): Promise<void>;
  close(): Promise<void>;
};

export async function openHomePolicy({ file, lists, mode, sandbox, userHome }: Options): Promise<HomePolicy> {
  const load = async () => [...(await rulesOf(lists)), ...(await parseRules(read(file), file))];
  const policy = await openJudge({ rules: await load(), mode, sandbox });
  let keeping: Promise<unknown> = Promise.resolve();
  const ruleFor = (command: string, cwd: string) => policy.describeAlways(command, { cwd, home: userHome });

  return {
    judge: (command, cwd, sealed) => policy.judge(command, { cwd, home: userHome, sealed }),
    canKeep: async (command, cwd) => (await ruleFor(command, cwd)) !== null,
    keep(command, cwd) {
      // One at a time: two writers that read the same file would lose one rule.
      const kept = keeping.then(async () => {
        const rule = await ruleFor(command, cwd);
        if (!rule) return;
        mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
        writeFileSync(`${file}.new`, addRule(read(file), rule), { mode: 0o600 });
        renameSync(`${file}.new`, file);
        await policy.setRules(await load());
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

/** Only a missing file means that there are no rules: ignoring any other error would drop the user's deny rules. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw new ConfigError(
      `${file} cannot be read (${messageOf(error)}): mend it, or move it away to go on without rules`,
    );
  }
}
