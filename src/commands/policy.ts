// hermes policy: what would become of a command.
import { join } from "node:path";
import { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { env, print } from "./shared.ts";

export function addPolicy(program: Command): void {
  program
    .command("policy")
    .description("see what the policy says of a command, before trusting it")
    .addCommand(
      new Command("check")
        .description("allow, ask or deny, the reason, and the part that decided; nothing is run")
        .argument("[command]", "the command, in quotes")
        .option("--stdin", "one JSON string a line in, one verdict a line out", false)
        .option("--sandbox", "as it is inside a sandbox", false)
        .action(async (command: string | undefined, { stdin, sandbox }: { stdin: boolean; sandbox: boolean }) => {
          const { checkPolicy } = await import("../surfaces/cli/policy.ts");
          const { openGrants } = await import("../tools/grants.ts");
          const { escapeOnLine } = await import("../tools/policy/display.ts");
          const { loadConfig } = await import("../config/config.ts");
          const { createInterface } = await import("node:readline");
          const { homedir } = await import("node:os");
          const { mode, allow, deny } = loadConfig({ env }).config.approvals;
          const file = join(homeOf(env).dir, "policy.yaml");
          const lists = { allow, deny };
          const grants = await openGrants({ file, lists, mode, sandbox, userHome: homedir(), log: () => {} });
          process.exitCode = await checkPolicy({
            command,
            stdin: stdin ? createInterface({ input: process.stdin }) : undefined,
            judge: (text) => grants.judge(text, process.cwd(), ""),
            escape: escapeOnLine,
            print,
          });
        }),
    );
}
