// A place in a session's stream: `<entry>` or `<entry>.<characters>`. What the journal does not hold is counted behind a plus sign:
// `+r` characters of reasoning, `+n` notices, `+p` outputs of tools. `+x`: all of the text was taken back.

export type StreamPlace = { seq: number; chars: number; aside: "" | "r" | "n" | "p" | "x"; count: number };

const CURSOR = /^(?<seq>\d{1,15})(?:\.(?<chars>\d{1,15}))?(?:\+(?:(?<aside>[rnp])(?<count>\d{1,15})|(?<reset>x)))?$/;

/** Null: no stream has named such a place. */
export function placeOf(cursor: string): StreamPlace | null {
  const { groups } = CURSOR.exec(cursor) ?? {};
  if (!groups) return null;
  const { seq, chars = 0, aside, count = 0, reset } = groups;
  const kind = aside === "r" || aside === "n" || aside === "p" ? aside : reset ? "x" : "";
  return { seq: Number(seq), chars: Number(chars), aside: kind, count: Number(count) };
}
