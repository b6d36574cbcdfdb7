// The built-in memory: notes that the agent keeps and a person can read and change. Every system prompt contains all of
// them, so they are short.
import * as z from "zod";
import { plain, UNSEEN } from "../platform/fence.ts";
import { type Notebook, type NotesTarget, TARGETS } from "./notebook.ts";
import { count, entriesOf, lengthOf, type NotesChange, Unfit } from "./notes.ts";
import type { Handled, MemoryProvider, MemoryTool } from "./provider.ts";

type Options = { notebook: Pick<Notebook, "read" | "change">; redact(text: string): string };

const args = z.strictObject({
  action: z.enum(["add", "replace", "remove"]),
  target: z
    .enum(["memory", "user"])
    .describe("memory: facts and lessons about the work. user: who they are, what they like."),
  text: z.string().max(10_000).optional().describe("add and replace: the entry, as it should stand there."),
  find: z
    .string()
    .max(1_000)
    .optional()
    .describe("replace and remove: a part of the entry's text that no other entry has."),
});

const TOOL: MemoryTool = {
  name: "memory",
  description:
    "Your notes for later conversations; all of them are in your instructions from then on. Note what will still " +
    "matter: what the user prefers or corrected, how things are done here, what you learned the hard way. Not what " +
    "is being done today, nor what can be looked up. One short fact an entry. When it is full, replace or remove what " +
    "matters least. Never secrets.",
  schema: z.toJSONSchema(args),
  repeatable: true, // an existing entry is not added again
};
const TOOLS = [TOOL];
const TITLES = { memory: "Your notes", user: "About the user" };

export function createFilesMemory({ notebook, redact }: Options): MemoryProvider {
  async function block(scope: string, target: NotesTarget): Promise<string> {
    const source = await notebook.read(scope, target);
    const entries = entriesOf(source);
    if (entries.length === 0) return "";
    const { most } = TARGETS[target];
    const size = lengthOf(source.trim());
    const shown = size <= most ? entries.join("\n§\n") : `${source.trim().slice(0, most)}\n[… too long: shorten it …]`;
    return `${TITLES[target]} (${target}, ${count(size)} of ${count(most)} characters, entries parted by §):\n${shown}`;
  }

  async function handle(given: unknown, scope: string): Promise<Handled> {
    const parsed = args.safeParse(given);
    if (!parsed.success)
      return no(parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "));
    const { action, target, text = "", find = "" } = parsed.data;
    const why = action === "remove" ? null : unfitToKeep(text, redact);
    if (why) return no(why);
    try {
      const change: NotesChange =
        action === "add" ? { action, text } : action === "replace" ? { action, text, find } : { action, find };
      const { source, before, unchanged } = await notebook.change(scope, target, change);
      const full = `${count(lengthOf(source.trim()))} of ${count(TARGETS[target].most)} characters used`;
      if (unchanged) return { ok: true, text: `It is there already (${full}).` };
      const wrote = { action, target, text: text.trim(), ...(before !== undefined && { before }) };
      return { ok: true, text: `${DONE[action]} (${full}).`, wrote };
    } catch (error) {
      if (error instanceof Unfit) return no(error.message);
      throw error;
    }
  }

  return {
    name: "files",
    isAvailable: () => true,
    toolSchemas: () => TOOLS,
    handleToolCall: (_tool, given, { scope }) => handle(given, scope),
    async systemPromptBlock({ scope }) {
      const blocks = await Promise.all([block(scope, "memory"), block(scope, "user")]);
      return blocks.filter(Boolean).join("\n\n");
    },
  };
}

const DONE = { add: "Noted", replace: "Replaced", remove: "Removed" };

const no = (why: string): Handled => ({ ok: false, text: `Not done: ${why}` });

/** Text that must not be in every prompt. This catches accidents and simple attacks; the model gets notes as data
 *  anyway. */
function unfitToKeep(text: string, redact: (text: string) => string): string | null {
  if (redact(text) !== text) return "it looks like a secret. Note where the secret is kept instead.";
  if (text.replaceAll("\r", "").search(UNSEEN) >= 0 || INVISIBLE.test(text))
    return "it has characters in it that cannot be seen. Write it as plain text.";
  const words = plain(text).normalize("NFKC").replaceAll(/\s+/g, " ");
  if (COMMANDS.some((pattern) => pattern.test(words)))
    return "it reads like an instruction to a model. Note the fact, in words of your own.";
  return null;
}

const INVISIBLE = /[\u200b\u2060-\u2064\ufeff]/;
const DROP = "\\b(ignore|disregard|forget|override|bypass)\\b";
const WHICH = "\\b(previous|prior|above|earlier|all|any|your|system)\\b";
const RULES = "\\b(instructions?|prompts?|rules?|guidelines?|messages?)\\b";
const COMMANDS = [
  new RegExp(`${DROP}.{0,30}${WHICH}.{0,30}${RULES}`, "i"),
  /\byou (are|act|must act) (now|from now on)\b/i,
  /\bfrom now on,? you (are|must|will)\b|\bpretend (to be|that you are)\b/i,
  /\b(do not|don't|never) (tell|inform|mention|reveal)\b.{0,40}\b(the )?(user|human|person|anyone|anybody)\b/i,
  /<\/?\s*(system|assistant|user|recalled|memory|instructions?)\b[^>]*>/i,
  /<\|[a-z_]+\|>|\[\/?INST\]|^\s*(system|assistant)\s*:/i,
  /\b(reveal|print|repeat|show|send)\b.{0,30}\b(system prompt|hidden instructions|api keys?|credentials|passwords?)\b/i,
  /\b(curl|wget)\b.{0,80}\$\{?\w*(key|token|secret|password)\w*/i,
];
