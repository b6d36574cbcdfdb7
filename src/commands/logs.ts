// hermes logs: what was written down while it ran.
import { type Command, Option } from "commander";
import { homeOf } from "../platform/home.ts";
import { LEVELS, type Level } from "../platform/logline.ts";
import { colour, EXIT, env, print, wholeNumber } from "./shared.ts";

export function addLogs(program: Command): void {
  program
    .command("logs")
    .description("show the log, newest last")
    .option("-f, --follow", "go on showing what is written, until Ctrl+C", false)
    .option("-n, --lines <count>", "how many lines", wholeNumber, 50)
    .option("--json", "the lines as they are in the file", false)
    .addOption(new Option("--level <least>", "nothing below this level").choices(LEVELS).default("debug"))
    .action(async (options: { follow: boolean; lines: number; json: boolean; level: Level }) => {
      const { showLogs } = await import("../surfaces/cli/logs.ts");
      const { clock } = await import("../platform/clock.ts");
      const { log: file } = homeOf(env);
      // It only reads: there is nothing to put in order before it ends.
      process.once("SIGINT", () => process.exit(EXIT.ok));
      const found = await showLogs({ ...options, file, colour, print, clock });
      if (!found) console.error(`There is no log yet: ${file}`);
    });
}
