// hermes web: the console in a browser.
import type { Command } from "commander";
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
      const newCode = async () => {
        const made = await gateway?.ask("POST", "/api/sign-ins/codes");
        if (typeof made === "object" && made !== null && "code" in made && typeof made.code === "string")
          return made.code;
        throw new Error("The server gives no sign-in code. Is it of an older version?");
      };
      const server = gateway && { url: gateway.url, newCode };
      process.exitCode = await openConsole({ server, opens: open, print, complain });
    });
}
