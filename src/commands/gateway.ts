// hermes gateway, pairing: the server, and who may talk to it from a chat app.
import type { Command } from "commander";
import pkg from "../../package.json" with { type: "json" };
import { homeOf, makeDir } from "../platform/home.ts";
import { offerImport } from "./import.ts";
import { env, print } from "./shared.ts";

/** `launcher`: the file that starts this program. */
export function addGateway(program: Command, launcher: string): void {
  const gateway = program.command("gateway").description("serve chat apps and the HTTP API (docs/gateway.md)");

  gateway
    .command("run")
    .description("serve in the foreground (the default)")
    .option("--host <address>", "address on which the API listens")
    .option("--port <number>", "port on which the API listens; 0 picks a free one")
    .option("--replace", "stop the gateway that runs first; its running turns may finish", false)
    .action(async ({ host, port, replace }: { host?: string; port?: string; replace: boolean }) => {
      await offerImport();
      const { stopGateway } = await import("../surfaces/cli/gateway.ts");
      const stopped = replace ? await stopGateway(await somewhere(), await longestDrain()) : 0;
      if (stopped !== 0) process.exit(stopped);
      const { runGateway } = await import("../compose/gateway.ts");
      const flags = [
        { flag: "--host", key: "gateway.api_server.host", value: host },
        { flag: "--port", key: "gateway.api_server.port", value: port },
      ];
      const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
      process.exitCode = await runGateway({
        env,
        flags,
        version: pkg.version,
        print: (line) => console.log(line),
        again,
      });
      process.exit();
    });

  gateway
    .command("start")
    .description("start it in the background, if it does not run")
    .action(async () => {
      const { owner } = await somewhere();
      const pid = owner();
      if (pid !== null) return print(`The gateway runs already (PID ${pid}).\n`);
      await longestDrain(); // a wrong configuration is said here, where somebody reads it
      const { startAgain } = await import("../surfaces/gateway/lifecycle.ts");
      startAgain(process.pid, [process.execPath, ...process.execArgv, process.argv[1] ?? "", "gateway", "run"], env);
      await print("The gateway starts in the background. Look at it with: hermes gateway status, hermes logs -f\n");
      process.exit(); // it waits until we are gone, and the pipe to it would keep us
    });

  gateway
    .command("status")
    .alias("list")
    .description("show whether the gateway runs, and what it is doing")
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { gatewayStatus } = await import("../surfaces/cli/gateway.ts");
      const { gatewayOf } = await import("../compose/gateway.ts");
      const health = async () =>
        (await gatewayOf(env))?.wire.json<Record<string, unknown>>("GET", "/health/detailed") ?? null;
      process.exitCode = await gatewayStatus(await somewhere(), health, json);
    });

  gateway
    .command("stop")
    .description("let running turns finish, then stop the gateway")
    .action(async () => {
      const { stopGateway } = await import("../surfaces/cli/gateway.ts");
      process.exitCode = await stopGateway(await somewhere(), await longestDrain());
    });

  gateway
    .command("restart")
    .description("let running turns finish, then restart the gateway")
    .action(async () => {
      const { restartGateway } = await import("../surfaces/cli/gateway.ts");
      process.exitCode = await restartGateway(await somewhere(), await longestDrain());
    });

  gateway
    .command("install")
    .description("write a systemd unit for this user")
    .action(async () => {
      const { installService, unitFile } = await import("../surfaces/cli/gateway.ts");
      const { serviceUnit } = await import("../surfaces/gateway/service.ts");
      const { dir: home } = homeOf(env);
      const { lockDir } = await import("../platform/token-lock.ts");
      makeDir(lockDir()); // the unit may write only to directories that exist
      const unit = serviceUnit({ program: launcher, home, workspace: process.cwd() });
      process.exitCode = await installService({ file: unitFile(env, home), unit, print });
    });

  const pairing = program.command("pairing").description("manage who may talk to the agent from a chat app");
  pairing
    .command("create")
    .description("create a pairing code for one person, valid once and for ten minutes")
    .argument("<platform>", "a chat platform such as telegram")
    .action(async (platform: string) => {
      const { makePairingCode } = await import("../surfaces/cli/gateway.ts");
      const { withPairing } = await import("../compose/gateway.ts");
      process.exitCode = await withPairing(env, (desk) => makePairingCode(desk, platform, print));
    });
  pairing
    .command("list")
    .description("list paired people")
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listPaired } = await import("../surfaces/cli/gateway.ts");
      const { withPairing } = await import("../compose/gateway.ts");
      process.exitCode = await withPairing(env, (desk) => listPaired(desk, json, print));
    });
  pairing
    .command("approve")
    .description("pair the person whom the bot has given this code")
    .argument("<platform>", "a chat platform such as telegram")
    .argument("<code>", "the code that the person got")
    .action(async (platform: string, code: string) => {
      const { approvePairing } = await import("../surfaces/cli/gateway.ts");
      const { withPairing } = await import("../compose/gateway.ts");
      process.exitCode = await withPairing(env, (desk) => approvePairing(desk, platform, code, print));
    });
  pairing
    .command("remove")
    .alias("revoke")
    .description("remove a pairing")
    .argument("<platform>")
    .argument("<id>", "an id from `hermes pairing list`")
    .action(async (platform: string, id: string) => {
      const { endPairing } = await import("../surfaces/cli/gateway.ts");
      const { withPairing } = await import("../compose/gateway.ts");
      process.exitCode = await withPairing(env, (desk) => endPairing(desk, platform, id, print));
    });
}

async function somewhere() {
  const { ownerPid } = await import("../store/sqlite/file.ts");
  const { clock } = await import("../platform/clock.ts");
  return { owner: () => ownerPid(homeOf(env).database), clock, print };
}

/** The longest time that a gateway may need to stop, plus a margin. */
async function longestDrain(): Promise<number> {
  const { loadConfig } = await import("../config/config.ts");
  const { restart_drain_timeout: drain, exit_watchdog: watchdog } = loadConfig({ env }).config.agent;
  return (drain + watchdog + 5) * 1_000;
}
