// hermes policy: shows what the policy decides about a command, the grants of all sessions, and the saved rules.
import { join } from "node:path";
import type { Command } from "commander";
import type { GrantDesk } from "../compose/gateway.ts";
import { homeOf } from "../platform/home.ts";
import { complain, env, print } from "./shared.ts";

export function addPolicy(program: Command): void {
  const policy = program
    .command("policy")
    .description("check commands against the policy, and manage grants and saved rules (docs/policy.md)");
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
    .description("list commands that were allowed for the rest of a conversation, oldest first")
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listGrants } = await import("../surfaces/cli/grants.ts");
      await onGrants((desk) => listGrants({ desk, print, complain }, json));
    });
  policy
    .command("rules")
    .description('list the rules and hosts that were saved, with "always" or by hand (policy.yaml, hosts.allow)')
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listRules } = await import("../surfaces/cli/grants.ts");
      await listRules(await (await savedDesk()).list(), json, print);
    });
  policy
    .command("revoke")
    .description("revoke a grant, a saved rule or a saved host; the commands ask again")
    .argument("<id>", "an id from `hermes policy grants` or `hermes policy rules`; all: every grant")
    .action(async (id: string) => {
      if (await (await savedDesk()).forget(id)) return print(`Revoked: ${id}\n`);
      const { revokeGrant } = await import("../surfaces/cli/grants.ts");
      await onGrants((desk) => revokeGrant({ desk, print, complain }, id));
    });
}

async function savedDesk() {
  const { savedRules, forgetRule } = await import("../policy/home-policy.ts");
  const { createKeptHosts } = await import("../tools/sandbox/kept-hosts.ts");
  const { dir } = homeOf(env);
  const file = join(dir, "policy.yaml");
  const hostsFile = join(dir, "hosts.allow");
  const hosts = createKeptHosts(hostsFile, (_level, _event, fields = {}) =>
    complain(`${hostsFile}: ${String(fields["error"])}`),
  );
  return {
    list: async () => [
      ...(await savedRules(file)).map(({ id, effect, text, within, from }) => ({
        id,
        rule: `${effect}: ${text}`,
        within,
        file: from,
      })),
      ...hosts.list().map((host) => ({ id: host, rule: host, within: null, file: hostsFile })),
    ],
    forget: async (id: string) => (await forgetRule(file, id)) || hosts.forget(id),
  };
}

async function onGrants(command: (desk: GrantDesk) => Promise<number>) {
  const { withGrants } = await import("../compose/gateway.ts");
  process.exitCode = await withGrants(env, command);
}
