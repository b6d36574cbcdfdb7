// hermes memory: shows and changes the notes of long-term memory.
import type { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { env, print, wholeNumber } from "./shared.ts";

export function addMemory(program: Command): void {
  const memory = program.command("memory").description("show and change what the agent remembers (docs/memory.md)");
  memory
    .command("list")
    .description("list all notes")
    .option("--scope <name>", "only notes of this scope")
    .option("--json", "print JSON", false)
    .action(async (options: { scope?: string; json: boolean }) => {
      const { listMemory } = await import("../surfaces/cli/memory.ts");
      await listMemory({ ...options, notes: await notebook(), print });
    });
  memory
    .command("search")
    .description("search notes and conversations")
    .argument("<words...>")
    .option("--scope <name>", "only notes of this scope")
    .option("-n, --limit <count>", "number of results", wholeNumber, 20)
    .option("--json", "print JSON", false)
    .action(async (words: string[], options: { scope?: string; limit: number; json: boolean }) => {
      const { searchMemory } = await import("../surfaces/cli/memory.ts");
      const { readStore } = await import("../compose/store.ts");
      const store = await readStore(env);
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
    .description("delete the one note that contains this text, or all notes with --all")
    .argument("[text...]")
    .option("--scope <name>", "scope of the note (default: local, the terminal)")
    .option("--all", "delete every note of the scope", false)
    .action(async (text: string[], options: { scope?: string; all: boolean }) => {
      const { forgetMemory } = await import("../surfaces/cli/memory.ts");
      process.exitCode = await forgetMemory({ ...options, text: text.join(" "), notes: await notebook(), print });
    });
  memory
    .command("export")
    .description("print all notes, one JSON object per line")
    .option("--scope <name>", "only notes of this scope")
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
