// The draft in the person's own editor: a file in HERMES_HOME, which stays there if anything goes wrong.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readHead } from "../../platform/confined.ts";
import { runEditor } from "../../platform/editor.ts";

/** Bytes that come back; the editor on the screen is slow long before. */
const LONGEST = 1_000_000;

/** The changed text. Throws, with what to do, where there is none. */
export async function editDraft(text: string, home: string, env: NodeJS.ProcessEnv, signal: AbortSignal) {
  const editor = env["VISUAL"] || env["EDITOR"];
  if (!editor) throw new Error('Set VISUAL or EDITOR to the command of your editor, for example: export EDITOR="nano"');
  const file = join(home, `draft-${process.pid}.md`);
  writeFileSync(file, `${text}\n`, { mode: 0o600 });
  const code = await runEditor(editor, file, signal);
  if (code === 127) throw new Error(`The editor (${editor}) was not found. Your draft is unchanged.`);
  if (code !== 0) throw new Error(`The editor (${editor}) failed with exit code ${code}. Your draft is unchanged.`);
  const { bytes } = await readHead(file, LONGEST + 1);
  if (bytes.length > LONGEST) throw new Error(`The draft is too long for the screen. It is in ${file}`);
  rmSync(file);
  return bytes.toString("utf8").replace(/\n+$/, "");
}
