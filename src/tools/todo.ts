// The agent's list of what is to be done, one per session, kept where a restart or a summary cannot lose it.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { Tool } from "../core/ports.ts";
import type { Notes } from "../core/store.ts";
import { defineTool, ok } from "./define.ts";

const item = z.strictObject({
  text: z.string().min(1).max(500),
  status: z.enum(["pending", "in_progress", "done", "dropped"]),
});
const args = z.strictObject({
  items: z
    .array(item)
    .max(100)
    .optional()
    .describe("The whole list as it should be now. Leave it out to read the list."),
});
type TodoItem = z.output<typeof item>;

const MARK = { pending: "[ ]", in_progress: "[~]", done: "[x]", dropped: "[-]" };

/** `dir`: where the lists were files, before they were notes. */
export function createTodo({ notes, dir }: { notes: Notes; dir: string }): {
  tool: Tool;
  forget(session: string): Promise<void>;
} {
  const list = z.array(item);
  const nameOf = (session: string) => `todo/${session}`;

  async function read(session: string): Promise<TodoItem[]> {
    const note = await notes.get(nameOf(session));
    return list.safeParse(note ?? (await fileOf(session))).data ?? [];
  }

  async function fileOf(session: string): Promise<unknown> {
    const name = `${createHash("sha256").update(session).digest("hex").slice(0, 32)}.json`;
    return readFile(join(dir, name), "utf8").then(JSON.parse, () => undefined);
  }

  const tool = defineTool({
    name: "todo",
    description:
      "Your list of what is to be done in this conversation. Write it for work of several steps; keep it true.",
    args,
    repeatable: true,
    run: async ({ items }, { session }) => {
      if (items) await notes.set(nameOf(session), items);
      const now = items ?? (await read(session));
      return ok(now.map(({ text, status }) => `${MARK[status]} ${text}`).join("\n") || "The list is empty.");
    },
  });
  return { tool, forget: (session) => notes.set(nameOf(session), undefined) };
}
