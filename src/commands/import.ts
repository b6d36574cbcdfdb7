// hermes import: brings a home of Hermes over.
import type { Command } from "commander";
import { homeOf, makeDir, makeHome, mustBeOurs, oldHomeOf } from "../platform/home.ts";
import { complain, env, print } from "./shared.ts";

export function addImport(program: Command): void {
  program
    .command("import")
    .description("bring conversations, notes, skills, jobs, pairings and settings over from Hermes (docs/hermes.md)")
    .argument("[directory]", "the home of Hermes (default: ~/.hermes)")
    .action(async (directory: string | undefined) => {
      process.exitCode = await runImport(directory);
    });
}

/** At the first start beside a home of Hermes. Asks where somebody can answer. */
export async function offerImport(): Promise<void> {
  const { existsSync } = await import("node:fs");
  const old = oldHomeOf(env);
  if (!old || existsSync(homeOf(env).database)) return;
  if (!process.stdin.isTTY || !process.stdout.isTTY)
    return complain(`${old} is a home of Hermes. To bring it over: hermes import`);
  const { confirm, isCancel } = await import("@clack/prompts");
  const yes = await confirm({ message: `${old} is a home of Hermes. Import its conversations and settings?` });
  if (yes && !isCancel(yes)) await runImport(old);
}

async function runImport(directory: string | undefined): Promise<number> {
  const { importHome } = await import("../import/import.ts");
  const { ConfigError } = await import("../core/errors.ts");
  const { dirname, resolve } = await import("node:path");
  const { writePrivate } = await import("../surfaces/cli/files.ts");
  const { openNotebook } = await import("../memory/notebook.ts");
  const { notesIn } = await import("../memory/open.ts");
  const { withImportWorld } = await import("../compose/gateway.ts");
  const home = homeOf(env);
  mustBeOurs(home);
  const from = directory ?? oldHomeOf(env);
  if (!from)
    throw new ConfigError("There is no home of Hermes at ~/.hermes. Name its directory: hermes import DIRECTORY");
  makeHome(home);
  const notebook = openNotebook(notesIn(home.dir));
  const wide = process.stdout.isTTY;
  return importHome({
    from: resolve(from),
    home,
    write: (file, text) => {
      makeDir(dirname(file));
      writePrivate(file, text);
    },
    open: (use) => withImportWorld(env, use),
    addNote: (scope, target, text) => notebook.change(scope, target, { action: "add", text }),
    say: (line) => void print(`${wide ? "\r\x1b[K" : ""}${line}\n`),
    progress: (text) => {
      if (wide) void print(`\r\x1b[K${text}`);
    },
  });
}
