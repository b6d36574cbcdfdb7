// The agent's list of what is to be done, one per session, kept where a restart or a summary cannot lose it.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { Tool } from "../core/ports.ts";
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

export function createTodo(dir: string): Tool {
  const fileOf = (session: string) =>
    join(dir, `${createHash("sha256").update(session).digest("hex").slice(0, 32)}.json`);

  function read(session: string): TodoItem[] {
    try {
      return z.array(item).parse(JSON.parse(readFileSync(fileOf(session), "utf8")));
    } catch {
      return []; // none yet
    }
  }

  function write(session: string, items: TodoItem[]) {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const file = fileOf(session);
    writeFileSync(`${file}.tmp`, JSON.stringify(items), { mode: 0o600 });
    renameSync(`${file}.tmp`, file);
  }

  return defineTool({
    name: "todo",
    description:
      "Your list of what is to be done in this conversation. Write it for work of several steps; keep it true.",
    args,
    repeatable: true,
    run: ({ items }, { session }) => {
      if (items) write(session, items);
      const now = items ?? read(session);
      return Promise.resolve(
        ok(now.map(({ text, status }) => `${MARK[status]} ${text}`).join("\n") || "The list is empty."),
      );
    },
  });
}
