// Reading a journal of any length: page by page, since a page is bounded in entries and in characters (store.ts).
import type { Entry } from "./session.ts";
import type { Journal } from "./store.ts";

/** Entries asked for at once. */
const PAGE = 1_000;

/** The entries behind `after`, up to and with `upTo`. */
export async function* pagesOf(
  journal: Pick<Journal, "entries">,
  session: string,
  after = 0,
  upTo = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<Entry[]> {
  for (let seq = after; seq < upTo; ) {
    const page = await journal.entries(session, seq, Math.min(PAGE, upTo - seq));
    const last = page.at(-1);
    if (!last) return;
    yield page;
    seq = last.seq;
  }
}

/** All of them in one list: for the last few entries, or where all are wanted at once. */
export const entriesOf = async (...which: Parameters<typeof pagesOf>): Promise<Entry[]> =>
  (await Array.fromAsync(pagesOf(...which))).flat();
