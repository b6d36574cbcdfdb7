// hermes sessions: what was talked about, newest first.
import { shortName } from "../../core/session-key.ts";
import type { Catalog, Journal } from "../../core/store.ts";
import { titleOf } from "../../core/title.ts";
import { printable } from "../../platform/logline.ts";

type Listing = { catalog: Pick<Catalog, "sessions">; journal: Pick<Journal, "entries">; limit: number; json: boolean };

export async function listSessions({ catalog, journal, limit, json }: Listing): Promise<string> {
  const rows = await catalog.sessions({ limit, top: true });
  const lines = await Promise.all(
    rows.map(async ({ session, active, entries, updatedAt, ...row }) => {
      const title = row.title || (await beginning(journal, session));
      const at = new Date(updatedAt).toISOString();
      if (json) return `${JSON.stringify({ session, title, active, entries, updated_at: updatedAt / 1_000 })}\n`;
      const name = printable(shortName(session)).padEnd(14);
      return `${at.slice(0, 16).replace("T", " ")}  ${active ? "●" : " "} ${name} ${printable(title)}\n`;
    }),
  );
  if (!lines.length && !json) return "There are no conversations yet.\n";
  return lines.join("");
}

/** The title that it would have: for conversations from before there were titles (migration 012). */
async function beginning(journal: Listing["journal"], session: string): Promise<string> {
  const [first] = await journal.entries(session, 0, 1);
  return first?.kind === "accepted" ? titleOf(first.input.text) : "";
}
