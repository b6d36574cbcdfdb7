// The file tools: read_file, write_file, patch, search_files.
import type { Log, Tool } from "../../core/ports.ts";
import type { Files, RunProgram } from "./common.ts";
import { type ConfineOptions, createConfine } from "./confine.ts";
import { createLocks } from "./locks.ts";
import { createPatch } from "./patch.ts";
import { createReadFile } from "./read.ts";
import { createSearchFiles } from "./search.ts";
import { createMarks } from "./seen.ts";
import { createWriteFile } from "./write.ts";

export type FileToolsOptions = ConfineOptions & {
  /** Null if there is none here; then searches take longer. */
  ripgrep: RunProgram | null;
  log: Log;
};

export function createFileTools({ ripgrep, log, ...places }: FileToolsOptions): Tool[] {
  const confine = createConfine(places);
  if (confine.forbidden(confine.workspace)) log("warn", "files.workspace_forbidden", { workspace: confine.workspace });
  const files: Files = { confine, marks: createMarks(), locked: createLocks(), ripgrep };
  return [createReadFile(files), createWriteFile(files), createPatch(files), createSearchFiles(files)];
}
