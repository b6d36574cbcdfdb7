// What tests ask of a screen that has `hermes chat` on it, and of the processes behind it.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Place } from "./hermes.ts";
import type { Screen } from "./pty.ts";

/** What stands in the editor. */
export function typed(screen: Screen): string {
  const rows = screen.rows();
  const bottom = rows.findLastIndex((row) => /^─+$/.test(row));
  const top = rows.findLastIndex((row, at) => at < bottom && row.startsWith("──"));
  return rows
    .slice(top + 1, bottom)
    .join("\n")
    .trim();
}
export const holds = (screen: Screen, text: string) =>
  screen.until(() => typed(screen) === text, `"${text}" in the editor`);

export const isWorking = (screen: Screen) => /^(?:working|waiting for you)/m.test(screen.text());
export const rests = (screen: Screen) => screen.until(() => !isWorking(screen), "the end of the turn");

/** The commands of this place's processes: the program, its tools, its servers. */
export const alive = (place: Place): string[] => processesOf(place, "");
/** Of its tools only. */
export const toolsOf = (place: Place): string[] => processesOf(place, "HERMES_CALL=");

function processesOf(place: Place, mark: string): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      const environ = readFileSync(`/proc/${pid}/environ`, "latin1");
      if (!environ.includes(`HOME=${place.dir}\0`) || !environ.includes(mark)) return [];
      return [readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim()];
    } catch {
      return []; // no process, or gone
    }
  });
}

/** For what tells nobody when it changes, like the process table. */
export async function eventually(holds: () => boolean, patienceMs = 10_000): Promise<void> {
  for (const end = performance.now() + patienceMs; !holds(); await sleep(20))
    if (performance.now() > end) throw new Error(`not within ${patienceMs} ms: ${String(holds)}`);
}
