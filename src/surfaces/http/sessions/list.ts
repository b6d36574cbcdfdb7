// Pages of the list of sessions: by their last change, by what is in their titles, then by what was said in them.
import * as z from "zod";
import type { Runtime } from "../../../core/runtime.ts";
import type { SessionPage, SessionPlace, SessionSummary } from "../../../core/store.ts";
import { wrongField } from "../server/problem.ts";
import { sourceOf } from "./hermes.ts";

export type SessionItem = SessionSummary & { snippet?: string };

/** Behind this session, or behind so many of those in which it was said. */
type PagePlace = SessionPlace | { said: number };
type Which = Required<Pick<SessionPage, "top" | "active" | "prefix">>;
type SessionQuery = { place: PagePlace | null; limit: number; q: string; which: Which };

/** Some of them left out, and only those from one source: both by reading on. */
export async function listFrom(
  runtime: Runtime,
  asked: SessionQuery,
  { offset, source }: { offset: number; source: string },
): Promise<{ rows: SessionItem[]; next: PagePlace | null }> {
  if (!offset && !source) return list(runtime, asked);
  const rows: SessionItem[] = [];
  let { place } = asked;
  do {
    const page = await list(runtime, { ...asked, place, limit: PAGE });
    rows.push(...page.rows.filter(({ session }) => !source || sourceOf(session) === source));
    place = page.next;
  } while (place && rows.length <= offset + asked.limit);
  const last = rows[offset + asked.limit - 1];
  const more = rows.length > offset + asked.limit || place !== null;
  const next = more && last ? { updatedAt: last.updatedAt, session: last.session } : null;
  return { rows: rows.slice(offset, offset + asked.limit), next };
}
const PAGE = 200;

async function list(runtime: Runtime, { place, limit, q, which }: SessionQuery) {
  const said = place && "said" in place ? place.said : null;
  const after = place && "session" in place ? { after: place } : {};
  const titled = q ? { titled: q } : {};
  const rows = said === null ? await runtime.sessions({ ...after, ...titled, ...which, limit: limit + 1 }) : [];
  if (rows.length > limit) {
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return { rows: page, next: last ? { updatedAt: last.updatedAt, session: last.session } : null };
  }
  if (!q) return { rows, next: null };
  const all = await saidIn(runtime, q, which);
  const upTo = (said ?? 0) + limit - rows.length;
  return { rows: [...rows, ...all.slice(said ?? 0, upTo)], next: upTo < all.length ? { said: upTo } : null };
}

/** Entries looked at: more than anybody leafs through. */
const HITS = 200;

/** Sessions in which it was said, best match first, without those that have it in their title. */
async function saidIn(runtime: Runtime, q: string, { top, active, prefix }: Which): Promise<SessionItem[]> {
  const snippets = new Map<string, string>();
  for (const { session, text } of await runtime.search(q, { limit: HITS }))
    if (!snippets.has(session)) snippets.set(session, text);
  const rows = await Promise.all(
    [...snippets].map(async ([session, snippet]) => {
      const summary = await runtime.summary(session);
      return summary && { ...summary, snippet };
    }),
  );
  const isOther = ({ title }: SessionItem) => !lower(title).includes(lower(q));
  const isWanted = (row: SessionItem) =>
    !(top && row.parent) && (row.active || !active) && row.session.startsWith(prefix) && isOther(row);
  return rows.filter((row) => row !== null).filter(isWanted);
}

/** Only A to Z, as SQLite compares titles: one that it does not find must not be left out here. */
const lower = (text: string) => text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

const placeShape = z.union([
  z.strictObject({ updatedAt: z.number(), session: z.string() }),
  z.strictObject({ said: z.int().min(0) }),
]);

export const cursorOf = (place: PagePlace): string => Buffer.from(JSON.stringify(place)).toString("base64url");

export function placeIn(cursor: string | undefined): PagePlace | null {
  if (cursor === undefined) return null;
  try {
    return placeShape.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
  } catch {
    throw wrongField("after", "is not a place in this list; use `next` of the page before", "invalid_cursor");
  }
}
