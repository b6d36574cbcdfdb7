// Opens the configured memories as one.
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { Ambient, ToolResult } from "../core/ports.ts";
import type { Journal, Search } from "../core/store.ts";
import { createFilesMemory } from "./files.ts";
import { createHttpMemory } from "./http.ts";
import { createMemory, type LongTermMemory } from "./manager.ts";
import { createMcpMemory, type McpMemorySettings } from "./mcp.ts";
import { openNotebook } from "./notebook.ts";
import type { MemoryProvider } from "./provider.ts";
import { createSessionsMemory } from "./sessions.ts";

/** The section `memory` of the configuration. */
export type MemorySettings = {
  readonly provider: readonly ("files" | "sessions" | "http" | "mcp")[];
  /** Milliseconds. */
  readonly recall_timeout: number;
  readonly http: { readonly url?: string | undefined; readonly token?: string | undefined };
  readonly mcp: McpMemorySettings & { readonly server?: string | undefined };
};

type Options = Ambient & {
  settings: MemorySettings;
  /** HERMES_HOME */
  home: string;
  journal: Pick<Journal, "turn" | "entries">;
  search: Search;
  /** Calls a tool of an MCP server, by the server's own name for the tool. */
  callMcp(server: string, tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ToolResult>;
  /** The session on whose behalf this one works; null if it is its own. */
  originOf?(session: string): Promise<string | null>;
  redact(text: string): string;
};

export function openMemory(options: Options): LongTermMemory {
  const { settings, home, journal, search, callMcp, clock, redact } = options;
  const make: Record<MemorySettings["provider"][number], () => MemoryProvider> = {
    files: () => createFilesMemory({ notebook: openNotebook(notesIn(home)), redact }),
    sessions: () => createSessionsMemory({ journal, search, clock }),
    http: () => {
      const { url, token } = settings.http;
      if (!url)
        throw new ConfigError("memory.provider contains http: set memory.http.url to the address of the memory server");
      return createHttpMemory({ url, token });
    },
    mcp: () => {
      const { server, add_tool, search_tool } = settings.mcp;
      if (!server || !(add_tool || search_tool))
        throw new ConfigError(
          "memory.provider has mcp in it: set memory.mcp.server, and add_tool or search_tool beside it",
        );
      return createMcpMemory((tool, args, signal) => callMcp(server, tool, args, signal), settings.mcp);
    },
  };
  const byOf = async (turn: string) => {
    const [first] = await journal.turn(turn);
    return first?.kind === "accepted" ? first.input.by : undefined;
  };
  const providers = [...new Set(settings.provider)].map((name) => make[name]());
  return createMemory({ ...options, providers, byOf, recallMs: settings.recall_timeout });
}

export const notesIn = (home: string): string => join(home, "memories");
