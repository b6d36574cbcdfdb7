// Any MCP server that can store and find texts, as a memory. Such a server may not know scopes. Unless it takes the
// scope as an argument, only the terminal uses it (I25).
import type { ToolResult } from "../core/ports.ts";
import type { MemoryProvider, RememberedTurn, Whose } from "./provider.ts";

/** Of the server, and its names for the arguments. If the server takes a key, a turn that is sent twice is stored once, also after a crash. */
type McpNames = "add_tool" | "search_tool" | "text_argument" | "query_argument" | "scope_argument" | "key_argument";
export type McpMemorySettings = Readonly<Partial<Record<McpNames, string | undefined>>>;
/** Calls a tool of the server; never throws for an error of the server. */
type CallMcp = (tool: string, args: Record<string, unknown>, signal: AbortSignal) => Promise<ToolResult>;

export function createMcpMemory(call: CallMcp, settings: McpMemorySettings): MemoryProvider {
  const { add_tool: addTool, search_tool: searchTool } = settings;
  const { text_argument: text = "text", query_argument: query = "query" } = settings;
  const { scope_argument: scopeName, key_argument: keyName } = settings;
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

/** What was cut or failed is no answer: it must not be found again as if it were one. */
function noteOf({ user, assistant, outcome }: RememberedTurn): string {
  if (outcome !== "completed") return `User: ${user}\n[The turn was ${outcome} before it was answered.]`;
  return assistant ? `User: ${user}\nAssistant: ${assistant}` : `User: ${user}`;
}

/** Results of tools are marked as data for a model. Here they are marked later, together with the text of the other
 *  memories. */
function unmarked(text: string): string {
  const body = /^\[[^\n]*"(end of data [0-9a-f]+)"\]\n([\s\S]*)\n\[\1\]$/.exec(text)?.[2] ?? text;
  return body === "(empty)" ? "" : body;
}
