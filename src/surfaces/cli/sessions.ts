// hermes sessions: what was talked about, newest first.
import type { Store } from "../../core/ports.ts";

type Listing = { store: Pick<Store, "sessions" | "entries">; limit: number; json: boolean };

export async function listSessions({ store, limit, json }: Listing): Promise<string> {
  // Children belong to the conversation that made them.
  const rows = (await store.sessions({ limit: limit * 3 }))
    .filter(({ session }) => !session.includes("/child/"))
    .slice(0, limit);
  const lines = await Promise.all(
    rows.map(async ({ session, active, entries, updatedAt }) => {
      const [first] = await store.entries(session, 0, 1);
      const title = first?.kind === "accepted" ? titleOf(first.input.text) : "";
      const at = new Date(updatedAt).toISOString();
      if (json) return `${JSON.stringify({ session, title, active, entries, updated_at: updatedAt / 1_000 })}\n`;
      return `${at.slice(0, 16).replace("T", " ")}  ${active ? "●" : " "} ${shortName(session).padEnd(14)} ${title}\n`;
    }),
  );
  if (!lines.length && !json) return "There are no conversations yet.\n";
  return lines.join("");
}

const TERMINAL = "agent:main:terminal:dm:";

export const isTerminal = (session: string): boolean => session.startsWith(TERMINAL);
/** Conversations of the terminal go by their last part. */
export const shortName = (session: string): string =>
  session.startsWith(TERMINAL) ? session.slice(TERMINAL.length) : session;
export const fullName = (name: string): string =>
  name.includes(":") || name.startsWith("run_") ? name : TERMINAL + name;

/** The first message, on one line. */
function titleOf(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}
