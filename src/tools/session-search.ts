// The `session_search` tool: what was said in earlier conversations, of those that this one may see.
import * as z from "zod";
import type { Tool } from "../core/ports.ts";
import type { Found, Search } from "../core/store.ts";
import { asData } from "../platform/fence.ts";
import { defineTool, failed, ok } from "./define.ts";

export type SessionSearchOptions = {
  search: Search;
  /** The first parts of the session keys that this session may see (`a:b` is `a:b` and `a:b:…`); null: none. */
  scopeOf(session: string): string | null;
};

const LIMIT = { usual: 8, most: 30 };

export function createSessionSearch({ search, scopeOf }: SessionSearchOptions): Tool {
  return defineTool({
    name: "session_search",
    description:
      "Searches what the user and you said in earlier conversations. Use it when something is mentioned that you should " +
      "know from before. Best matches first, all words if possible; put a phrase in double quotes.",
    args: z.strictObject({
      query: z.string().min(1).max(1_000).describe("Words that were used then."),
      limit: z.int().min(1).max(LIMIT.most).optional().describe(`How many passages (${LIMIT.usual}).`),
    }),
    repeatable: true,
    run: async ({ query, limit = LIMIT.usual }, { session, turn }) => {
      const scope = scopeOf(session)?.replace(/:+$/, "");
      if (!scope) return failed("Earlier conversations cannot be searched from here.");
      // The question itself always fits best, and is no news.
      const found = (await search(query, { session: scope, limit: limit + OWN }))
        .filter((hit) => hit.turn !== turn)
        .slice(0, limit);
      if (found.length === 0) return ok("Nothing was said about that; try other words.");
      return ok(
        asData(
          `${found.length} passage(s) of earlier conversations`,
          found.map((hit) => shown(hit, session)).join("\n\n"),
        ),
      );
    },
  });
}

/** What one turn can have said about its own question: the message, and some thoughts before this call. */
const OWN = 10;

const shown = ({ session, at, text }: Found, here: string) =>
  `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} · ${session === here ? "this conversation" : session}\n${text}`;
