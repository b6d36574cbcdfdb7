// A home of Hermes, as the real program made it, with what an importer should find in it: test/data/hermes-home/README.md.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

export const HERMES_FIXTURE = fileURLToPath(new URL("../data/hermes-home", import.meta.url));

/** A copy that may be written to, with its database. */
export function copyHermesHome(): string {
  const dir = join(mkdtempSync(join(tmpdir(), "hermes-old-")), "home");
  cpSync(join(HERMES_FIXTURE, "home"), dir, { recursive: true });
  rmSync(join(dir, "state.db.gz"));
  writeFileSync(join(dir, "state.db"), gunzipSync(readFileSync(join(HERMES_FIXTURE, "home", "state.db.gz"))));
  return dir;
}
