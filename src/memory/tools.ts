// The tools of memories, as tools of the agent.
import { messageOf } from "../core/errors.ts";
import type { Tool } from "../core/ports.ts";
import type { Member } from "./lane.ts";
import type { Handled, MemoryTool, MemoryWrite } from "./provider.ts";
import type { RecallScope, WhoseOf } from "./recall.ts";

type Options = {
  members: readonly Member[];
  whoseOf: WhoseOf;
  /** A tool call does not say who began its turn. */
  byOf?: ((turn: string) => Promise<string | undefined>) | undefined;
  redact(text: string): string;
  wrote(write: MemoryWrite, about: RecallScope): Promise<void>;
};

/** A new array only if the tools changed. */
export function createTools({ members, whoseOf, byOf, redact, wrote }: Options): () => readonly Tool[] {
  let lists: (readonly MemoryTool[])[] = [];
  let tools: readonly Tool[] = [];

  function toolOf({ provider, call }: Member, { name, description, schema, repeatable = false }: MemoryTool): Tool {
    return {
      name,
      description,
      schema,
      repeatable,
      judge: () => ({ gate: "run" }),
      async run(args, { session, turn, signal }) {
        try {
          const about = { session, by: await byOf?.(turn) };
          const whose = await whoseOf(about);
          const handle = (inner: AbortSignal) =>
            provider.handleToolCall?.(name, args, whose, inner) ?? Promise.resolve(NOBODY);
          const handled = await call(handle, { signal, first: true, patient: true });
          if (handled.wrote) await wrote({ ...handled.wrote, by: provider.name }, about);
          return { ok: handled.ok, text: redact(handled.text) };
        } catch (error) {
          return { ok: false, text: `Not done: ${redact(messageOf(error))}` };
        }
      },
    };
  }

  return () => {
    const now = members.map(({ provider }) => provider.toolSchemas?.() ?? NONE);
    if (now.every((list, at) => list === lists[at])) return tools;
    const named = new Map<string, Tool>();
    for (const [at, member] of members.entries())
      for (const spec of now[at] ?? NONE) if (!named.has(spec.name)) named.set(spec.name, toolOf(member, spec));
    lists = now;
    tools = [...named.values()];
    return tools;
  };
}

const NONE: readonly MemoryTool[] = [];
const NOBODY: Handled = { ok: false, text: "Not done: this memory has no tools." };
