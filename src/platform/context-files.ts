// AGENTS.md and friends of the working directory: read for the model as data, never as configuration.
import { open } from "node:fs/promises";
import { join } from "node:path";

const NAMES = ["AGENTS.md", "CLAUDE.md", ".hermes.md", ".cursorrules"];
const LONGEST = 20_000;

type ContextFile = { name: string; text: string };

/** Read again only after a while: each model call asks for them, and looking for four files that are not there took 7 % of
 *  a run. */
const KEPT_MS = 2_000;

export function createContextFiles(cwd: string, now: () => number): () => Promise<ContextFile[]> {
  let kept: { at: number; files: Promise<ContextFile[]> } | null = null;
  return () => {
    if (!kept || Math.abs(now() - kept.at) > KEPT_MS) kept = { at: now(), files: read(cwd) };
    return kept.files;
  };
}

async function read(cwd: string): Promise<ContextFile[]> {
  const found = await Promise.all(NAMES.map(async (name) => ({ name, text: await head(join(cwd, name)) })));
  const seen = new Set<string>();
  // One is often a copy of, or a link to, another.
  return found.filter(({ text }) => text.trim() !== "" && !seen.has(text) && seen.add(text));
}

async function head(path: string): Promise<string> {
  try {
    await using file = await open(path);
    const { bytesRead, buffer } = await file.read(Buffer.alloc(LONGEST + 4), 0, LONGEST + 4, 0);
    const text = buffer.subarray(0, bytesRead).toString("utf8");
    return text.length > LONGEST ? `${text.slice(0, LONGEST)}\n[… the rest is left out …]` : text;
  } catch {
    return "";
  }
}
