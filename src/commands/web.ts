// hermes web: the console in a browser.
import { join } from "node:path";
import type { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { findProgram } from "../platform/programs.ts";
import { complain, env, print } from "./shared.ts";

export function addWeb(program: Command): void {
  program
    .command("web")
    .description("open the web console of the running server (docs/console.md)")
    .option("--no-open", "only print the link")
    .action(async ({ open }: { open: boolean }) => {
      const { openConsole } = await import("../surfaces/cli/web.ts");
      const { gatewayOf } = await import("../compose/gateway.ts");
      const gateway = await gatewayOf(env);
      const server = gateway && {
        url: gateway.url,
        newCode: async () => (await gateway.wire.json<{ code: string }>("POST", "/api/sign-ins/codes")).code,
      };
      const program = open ? (findProgram("xdg-open") ?? findProgram("open")) : null;
      const file = join(homeOf(env).dir, "open-console.html");
      process.exitCode = await openConsole({ server, program, file, print, complain });
    });
}
