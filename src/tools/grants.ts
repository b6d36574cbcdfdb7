// What a person has allowed, and what the policy says without them. "once" is the decided call itself and needs no keeping;
// "session" lasts as long as this process; "always" is a rule in a file that a person can read and change.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import { createPolicy } from "./policy/policy.ts";
import { addRule, parseRules, rulesOf } from "./policy/rules.ts";
import type { Judgement, Mode } from "./policy/types.ts";

type Options = {
  /** HERMES_HOME/policy.yaml */
  file: string;
  /** From the configuration. */
  lists: { allow: readonly string[]; deny: readonly string[] };
  mode: Mode;
  sandbox: boolean;
  userHome: string;
  log: Log;
};
export type Grants = {
  judge(command: string, cwd: string, session: string): Judgement;
  /** Remembers a yes. Returns what it comes to, for the person who said it. */
  grant(command: string, cwd: string, session: string, how: "session" | "always"): Promise<void>;
};

export async function openGrants({ file, lists, mode, sandbox, userHome, log }: Options): Promise<Grants> {
  const read = () => {
    try {
      return readFileSync(file, "utf8");
    } catch {
      return ""; // there are none yet
    }
  };
  const load = async () =>
    createPolicy({ rules: [...(await rulesOf(lists)), ...(await parseRules(read(), file))], mode, sandbox });
  let policy = await load();
  const granted = new Set<string>();
  const keyOf = (command: string, cwd: string, session: string) => JSON.stringify([session, cwd, command]);

  return {
    judge(command, cwd, session) {
      const judged = policy.judge(command, { cwd, home: userHome });
      if (judged.verdict !== "ask" || !granted.has(keyOf(command, cwd, session))) return judged;
      return { ...judged, verdict: "allow", reason: "You allowed exactly this for the session." };
    },
    async grant(command, cwd, session, how) {
      granted.add(keyOf(command, cwd, session));
      const rules = how === "always" ? policy.describeAlways(command, { cwd, home: userHome }) : null;
      if (!rules) return;
      try {
        mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
        writeFileSync(`${file}.new`, rules.reduce(addRule, read()), { mode: 0o600 });
        renameSync(`${file}.new`, file);
        policy = await load();
      } catch (error) {
        log("error", "policy.unwritten", { file, error: messageOf(error) });
      }
    },
  };
}
