// Any MCP server that can keep and find texts, as a memory. It may know nothing of scopes: unless it is told them in an
// argument, only whoever sits at the terminal uses it (I25).
import type { ToolResult } from "../core/ports.ts";
import type { MemoryProvider, Told, Whose } from "./provider.ts";

type Options = {
  /** Of the server; never throws for trouble with it. */
  call(tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ToolResult>;
  addTool?: string | undefined;
  searchTool?: string | undefined;
  /** What the server calls the arguments. */
  argument?: {
    text?: string | undefined;
    query?: string | undefined;
    scope?: string | undefined;
    /** Where it takes one, a turn that is told twice is there once, also after a crash. */
    key?: string | undefined;
  };
};

export function createMcpMemory({ call, addTool, searchTool, argument = {} }: Options): MemoryProvider {
  const { text = "text", query = "query", scope: scopeName, key: keyName } = argument;
  const within = ({ scope }: Whose) => (scopeName ? { [scopeName]: scope } : {});
  const isOurs = ({ scope }: Whose) => scopeName !== undefined || scope === "local";

  async function use(tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<string> {
    const result = await call(tool, args, signal);
    if (!result.ok) throw new Error(`${tool}: ${result.text.slice(0, 500)}`);
    return unmarked(result.text);
  }

  return {
    name: "mcp",
    isAvailable: () => addTool !== undefined || searchTool !== undefined,
    ...(searchTool !== undefined && {
      prefetch: async (about, whose, signal) =>
        isOurs(whose) ? await use(searchTool, { [query]: about, ...within(whose) }, signal) : "",
    }),
    ...(addTool !== undefined && {
      async syncTurn(told, whose, signal) {
        if (!isOurs(whose) || !told.user) return;
        const key = keyName ? { [keyName]: told.key } : {};
        await use(addTool, { [text]: noteOf(told), ...within(whose), ...key }, signal);
      },
    }),
  } satisfies MemoryProvider;
}

const noteOf = ({ user, assistant }: Told): string =>
  assistant ? `User: ${user}\nAssistant: ${assistant}` : `User: ${user}`;

/** Results of tools come marked as data, for a model. Here they are marked later, together with what others recall. */
function unmarked(text: string): string {
  const body = /^\[[^\n]*"(end of data [0-9a-f]+)"\]\n([\s\S]*)\n\[\1\]$/.exec(text)?.[2] ?? text;
  return body === "(empty)" ? "" : body;
}
