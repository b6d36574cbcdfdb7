// hermes policy: what would become of a command.
import { join } from "node:path";
import { Command } from "commander";
import type { GrantDesk } from "../compose/grants.ts";
import { homeOf } from "../platform/home.ts";
import { complain, env, print } from "./shared.ts";

export function addPolicy(program: Command): void {
  program
    .command("policy")
    .description("see what the policy says of a command, and what you have allowed")
    .addCommand(
      new Command("check")
        .description("allow, ask or deny, the reason, and the part that decided; nothing is run")
        .argument("[command]", "the command, in quotes")
        .option("--stdin", "one JSON string a line in, one verdict a line out", false)
        .option("--sandbox", "as it is inside a sandbox", false)
        .action(async (command: string | undefined, { stdin, sandbox }: { stdin: boolean; sandbox: boolean }) => {
          const { checkPolicy } = await import("../surfaces/cli/policy.ts");
          const { openHomePolicy } = await import("../policy/home-policy.ts");
          const { escapeOnLine } = await import("../policy/display.ts");
          const { loadConfig } = await import("../config/config.ts");
          const { createInterface } = await import("node:readline");
          const { homedir } = await import("node:os");
          const { mode, allow, deny } = loadConfig({ env }).config.approvals;
          const file = join(homeOf(env).dir, "policy.yaml");
          const lists = { allow, deny };
          const policy = await openHomePolicy({ file, lists, mode, sandbox, userHome: homedir() });
          process.exitCode = await checkPolicy({
            command,
            stdin: stdin ? createInterface({ input: process.stdin }) : undefined,
            judge: (text) => policy.judge(text, process.cwd()),
            escape: escapeOnLine,
            print,
          });
          await policy.close();
        }),
    )
    .addCommand(
      new Command("grants")
        .description("what was allowed for the rest of a session, oldest first; rules for good are in policy.yaml")
        .option("--json", "for programs", false)
        .action(async ({ json }: { json: boolean }) => {
          const { listGrants } = await import("../surfaces/cli/grants.ts");
          await onGrants((desk) => listGrants({ desk, print, complain }, json));
        }),
    )
    .addCommand(
      new Command("revoke")
        .description("take back what was allowed for the rest of a session")
        .argument("<id>", "as `hermes policy grants` shows it, or all")
        .action(async (id: string) => {
          const { revokeGrant } = await import("../surfaces/cli/grants.ts");
          await onGrants((desk) => revokeGrant({ desk, print, complain }, id));
        }),
    );
}

async function onGrants(command: (desk: GrantDesk) => Promise<number>) {
  const { withGrants } = await import("../compose/grants.ts");
  process.exitCode = await withGrants(env, command);
}
