// hermes memory: lists, searches, deletes and exports notes.
import { messageOf } from "../../core/errors.ts";
import type { MemoryNotes } from "../../core/ports.ts";
import type { Search } from "../../core/store.ts";
import { printable } from "../../platform/logline.ts";

/** The notes of each scope (`openNotebook`). */
type ShownNotes = MemoryNotes & { forget(scope: string): Promise<boolean> };
type PrintMemory = (text: string) => Promise<void>;
type Looking = { notes: ShownNotes; scope?: string | undefined; json: boolean; print: PrintMemory };
type ShownNote = { scope: string; target: "memory" | "user"; text: string };

export async function listMemory({ notes, scope, json, print }: Looking): Promise<void> {
  const all = await notesOf(notes, scope);
  if (json) return print(all.map(lineOf).join(""));
  if (all.length === 0) return print("There are no notes yet.\n");
  await print(shown(all));
}

/** All notes, one JSON object per line: `scope`, `target`, `text`. */
export async function exportMemory({ notes, scope, print }: Omit<Looking, "json">): Promise<void> {
  for (const note of await notesOf(notes, scope)) await print(lineOf(note));
}

/** Notes that contain all words, then passages of conversations. `store` is null if there are no conversations yet. */
export async function searchMemory(looking: Looking & { words: string; search: Search | null; limit: number }) {
  const { notes, scope, json, print, words, search, limit } = looking;
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ text }: ShownNote) => wanted.every((word) => text.toLowerCase().includes(word));
  const noted = wanted.length === 0 ? [] : (await notesOf(notes, scope)).filter(fits).slice(0, limit);
  const said = scope === undefined ? ((await search?.(words, { limit })) ?? []) : [];
  if (json)
    return print(
      [...noted.map(lineOf), ...said.map(({ session, at, text }) => lineOf({ session, at, text }))].join(""),
    );
  if (noted.length + said.length === 0) return print("Nothing found. Try other words.\n");
  await print(shown(noted));
  for (const { session, at, text } of said)
    await print(`${new Date(at).toISOString().slice(0, 10)} ${printable(session)}\n  ${onLine(text)}\n`);
}

/** The exit code: 0 deleted, 1 if no note or several notes match. */
export async function forgetMemory(forgetting: Omit<Looking, "json"> & { text: string | undefined; all: boolean }) {
  const { notes, scope = "local", text, all, print } = forgetting;
  if (all) {
    const had = await notes.forget(scope);
    await print(had ? `Deleted all notes of ${printable(scope)}.\n` : `There are no notes of ${printable(scope)}.\n`);
    return had ? 0 : 1;
  }
  const wanted = text?.trim() ?? "";
  const entries = await notesOf(notes, scope);
  const exact = entries.filter((note) => note.text === wanted);
  const found = exact.length > 0 ? exact : entries.filter((note) => wanted !== "" && note.text.includes(wanted));
  const [note, ...others] = found;
  if (!note || others.length > 0) {
    const why = note ? "Several notes contain this text; give more of the one you mean" : "No note contains this text";
    await print(`${why}.\n${shown(note ? found : entries)}`);
    return 1;
  }
  try {
    await notes.change(scope, note.target, { action: "remove", find: note.text });
  } catch (error) {
    await print(`${messageOf(error)}\n`);
    return 1;
  }
  await print(`Deleted: ${onLine(note.text)}\n`);
  return 0;
}

async function notesOf(notes: ShownNotes, only: string | undefined): Promise<ShownNote[]> {
  const scopes = only === undefined ? await notes.scopes() : [only];
  const all = await Promise.all(
    scopes.map(async (scope) => (await notes.entries(scope)).map((note) => ({ scope, ...note }))),
  );
  return all.flat();
}

/** By scope; each entry on one line. */
function shown(notes: readonly ShownNote[]): string {
  const byScope = Map.groupBy(notes, ({ scope }) => scope);
  return [...byScope].map(([scope, some]) => `${printable(scope)}\n${some.map(noteLine).join("")}`).join("");
}

const noteLine = ({ target, text }: ShownNote) => `  ${target.padEnd(6)}  ${onLine(text)}\n`;

const onLine = (text: string): string => printable(text.trim().replaceAll(/\s+/g, " "));

const lineOf = (value: object): string => `${JSON.stringify(value)}\n`;
