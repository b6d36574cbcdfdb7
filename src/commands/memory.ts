// hermes memory: what is remembered.
import type { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { env, print, wholeNumber } from "./shared.ts";

export function addMemory(program: Command): void {
  const memory = program.command("memory").description("what is remembered: notes that you can read and change");
  memory
    .command("list")
    .description("all notes")
    .option("--scope <name>", "only whose these are")
    .option("--json", "for programs", false)
    .action(async (options: { scope?: string; json: boolean }) => {
      const { listMemory } = await import("../surfaces/cli/memory.ts");
      await listMemory({ ...options, notes: await notebook(), print });
    });
  memory
    .command("search")
    .description("notes, and what was said in conversations")
    .argument("<words...>")
    .option("--scope <name>", "only whose these are")
    .option("-n, --limit <count>", "how many", wholeNumber, 20)
    .option("--json", "for programs", false)
    .action(async (words: string[], options: { scope?: string; limit: number; json: boolean }) => {
      const { searchMemory } = await import("../surfaces/cli/memory.ts");
      const { openSqlite } = await import("../store/sqlite/sqlite.ts");
      const { existsSync } = await import("node:fs");
      const file = homeOf(env).database;
      const store = existsSync(file) ? await openSqlite({ file, readOnly: true }) : null;
      await searchMemory({
        ...options,
        words: words.join(" "),
        notes: await notebook(),
        search: store?.search ?? null,
        print,
      });
      await store?.close();
    });
  memory
    .command("forget")
    .description("take out a note that has this in it, or with --all every note")
    .argument("[text...]")
    .option("--scope <name>", "whose it is; yours if not given")
    .option("--all", "every note of that scope", false)
    .action(async (text: string[], options: { scope?: string; all: boolean }) => {
      const { forgetMemory } = await import("../surfaces/cli/memory.ts");
      process.exitCode = await forgetMemory({ ...options, text: text.join(" "), notes: await notebook(), print });
    });
  memory
    .command("export")
    .description("all notes, one JSON object a line")
    .option("--scope <name>", "only whose these are")
    .action(async (options: { scope?: string }) => {
      const { exportMemory } = await import("../surfaces/cli/memory.ts");
      await exportMemory({ ...options, notes: await notebook(), print });
    });
}

async function notebook() {
  const { openNotebook } = await import("../memory/notebook.ts");
  const { notesIn } = await import("../memory/open.ts");
  return openNotebook(notesIn(homeOf(env).dir));
}
