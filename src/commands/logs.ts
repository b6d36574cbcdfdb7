// hermes logs: shows the log file.
import { type Command, Option } from "commander";
import { homeOf } from "../platform/home.ts";
import { LEVELS, type Level } from "../platform/logline.ts";
import { colour, EXIT, env, print, wholeNumber } from "./shared.ts";

export function addLogs(program: Command): void {
  program
    .command("logs")
    .description("show the log, newest line last")
    .option("-f, --follow", "keep showing new lines until Ctrl+C", false)
    .option("-n, --lines <count>", "number of lines", wholeNumber, 50)
    .option("--json", "print the lines as they are in the file, one JSON object each", false)
    .addOption(new Option("--level <least>", "lowest level to show").choices(LEVELS).default("debug"))
    .action(async (options: { follow: boolean; lines: number; json: boolean; level: Level }) => {
      const { showLogs } = await import("../surfaces/cli/logs.ts");
      const { clock } = await import("../platform/clock.ts");
      const { log: file } = homeOf(env);
      // This command only reads, so it can exit at once.
      process.once("SIGINT", () => process.exit(EXIT.ok));
      const found = await showLogs({ ...options, file, colour, print, clock });
      if (!found) console.error(`There is no log yet: ${file}`);
    });
}
