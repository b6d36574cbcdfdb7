// hermes policy: shows what the policy decides about a command, and the grants of all sessions.
import { join } from "node:path";
import type { Command } from "commander";
import type { GrantDesk } from "../compose/grants.ts";
import { homeOf } from "../platform/home.ts";
import { complain, env, print } from "./shared.ts";

export function addPolicy(program: Command): void {
  const policy = program
    .command("policy")
    .description("check commands against the policy, and manage grants (docs/policy.md)");
  policy
    .command("check")
    .description("show whether a command is allowed, asked about or denied, and why; runs nothing")
    .argument("[command]", "the command, in quotes")
    .option("--stdin", "read one JSON string per line, print one verdict per line", false)
    .option("--sandbox", "judge as inside a sandbox (default: as commands run here)")
    .option("--no-sandbox", "judge as without a sandbox")
    .action(async (command: string | undefined, { stdin, sandbox }: { stdin: boolean; sandbox?: boolean }) => {
      const { checkPolicy } = await import("../surfaces/cli/policy.ts");
      const { openHomePolicy } = await import("../policy/home-policy.ts");
      const { confinement } = await import("../tools/toolbox.ts");
      const { escapeOnLine } = await import("../policy/display.ts");
      const { loadConfig } = await import("../config/config.ts");
      const { createInterface } = await import("node:readline");
      const { homedir } = await import("node:os");
      const { approvals, terminal } = loadConfig({ env }).config;
      const { mode, allow, deny } = approvals;
      const home = homeOf(env).dir;
      const file = join(home, "policy.yaml");
      const workspace = terminal.cwd ?? process.cwd();
      const here =
        sandbox === undefined
          ? await confinement({ home, workspace, terminal, approvals })
          : { sandbox, sealed: undefined };
      const lists = { allow, deny };
      const policy = await openHomePolicy({ file, lists, mode, sandbox: here.sandbox, userHome: homedir() });
      process.exitCode = await checkPolicy({
        command,
        stdin: stdin ? createInterface({ input: process.stdin }) : undefined,
        judge: (text) => policy.judge(text, process.cwd(), here.sealed),
        escape: escapeOnLine,
        print,
      });
      await policy.close();
    });
  policy
    .command("grants")
    .description(
      "list commands that were allowed for the rest of a conversation, oldest first (permanent rules are in policy.yaml)",
    )
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listGrants } = await import("../surfaces/cli/grants.ts");
      await onGrants((desk) => listGrants({ desk, print, complain }, json));
    });
  policy
    .command("revoke")
    .description("revoke a grant, or all of them")
    .argument("<id>", "an id from `hermes policy grants`, or all")
    .action(async (id: string) => {
      const { revokeGrant } = await import("../surfaces/cli/grants.ts");
      await onGrants((desk) => revokeGrant({ desk, print, complain }, id));
    });
}

async function onGrants(command: (desk: GrantDesk) => Promise<number>) {
  const { withGrants } = await import("../compose/grants.ts");
  process.exitCode = await withGrants(env, command);
}
