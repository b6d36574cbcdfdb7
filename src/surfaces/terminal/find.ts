// Which conversation a person means: by its name, its key, its title, or a part of its title.
import type { Runtime } from "../../core/runtime.ts";
import { fullName, shortName, TERMINAL } from "../../core/session-key.ts";
import type { SessionSummary } from "../../core/store.ts";
import { printable } from "../../platform/logline.ts";

type SessionFinder = Pick<Runtime, "sessions" | "summary">;

/** Titles looked through: more than anybody gives the same words. */
const MOST = 1_000;
/** Of several that fit, those that are listed. */
const SHOWN = 10;

/** Never begins one: a slip of the pen must not leave an empty conversation. */
export async function findSession(runtime: SessionFinder, wanted: string): Promise<string> {
  const words = wanted.trim();
  const fitting = words ? await thoseThatFit(runtime, words) : [];
  const [found] = fitting;
  if (!found) throw new Error(`There is no conversation ${quoted(words)}. List them with: hermes sessions`);
  if (fitting.length > 1) throw new Error(`Several conversations fit ${quoted(words)}. Say which:${listed(fitting)}`);
  return found.session;
}

/** The conversation of a terminal that was last talked in. */
export async function newestSession(runtime: Pick<Runtime, "sessions">): Promise<string | null> {
  const [newest] = await runtime.sessions({ prefix: TERMINAL, top: true, limit: 1 });
  return newest?.session ?? null;
}

async function thoseThatFit(runtime: SessionFinder, words: string): Promise<SessionSummary[]> {
  // Also as it is: a key of the API may look like a name of the terminal.
  const named = (await runtime.summary(fullName(words))) ?? (await runtime.summary(words));
  if (named) return [named];
  const wanted = words.toLowerCase();
  const rows = await runtime.sessions({ limit: MOST, top: true, titled: longestAscii(words) });
  const exact = rows.filter(({ title }) => title.toLowerCase() === wanted);
  return exact.length > 0 ? exact : rows.filter(({ title }) => title.toLowerCase().includes(wanted));
}

/** The store's own look at titles knows no case beyond A to Z, so it is given the part that it cannot miss. */
const longestAscii = (words: string): string =>
  (words.match(/[ -~]+/g) ?? []).reduce((longest, part) => (part.length > longest.length ? part : longest), "");

function listed(fitting: readonly SessionSummary[]): string {
  const lines = fitting
    .slice(0, SHOWN)
    .map(({ session, title }) => `\n  ${printable(shortName(session)).padEnd(14)} ${printable(title)}`);
  const rest = fitting.length - lines.length;
  return lines.join("") + (rest > 0 ? `\n  … and ${rest} more: hermes sessions` : "");
}

const quoted = (words: string): string => `"${printable(words)}"`;
