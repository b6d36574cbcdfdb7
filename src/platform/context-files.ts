// AGENTS.md and similar files of the working directory. The model gets them as data, never as configuration. The agent,
// or the author of the repository, can turn them into anything: a link to a private key, or a pipe that nobody writes
// to.
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { createBounded } from "../core/bounded.ts";
import { codeOf, messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import { NotConfined, readHead, realInside, within } from "./confined.ts";
import { fenced } from "./fence.ts";
import { secretPlaces } from "./secret-places.ts";

const NAMES = ["AGENTS.md", "CLAUDE.md", ".hermes.md", ".cursorrules"];
/** Allowed targets of such a link: `CLAUDE.md` is often a link to `AGENTS.md`. */
const NOTES = /\.(?:md|mdc|mdx|txt)$|^\.cursorrules$/i;
const LONGEST = 20_000;

type ContextFile = { name: string; text: string };
/** `home`: HERMES_HOME. */
type Options = { cwd: string; home: string; now: () => number; log: Log };

/** Cached, because every model call needs them: looking for four missing files took 7 % of a run. */
const KEPT_MS = 2_000;
/** Refusals that are not logged again. They name where a link leads, which the agent can change as often as it likes. */
const MOST_REFUSED = 100;

export function createContextFiles({ cwd, home, now, log }: Options): () => Promise<ContextFile[]> {
  let kept: { at: number; files: Promise<ContextFile[]> } | null = null;
  const refused = createBounded<true>(MOST_REFUSED);

  async function read(): Promise<ContextFile[]> {
    const found = await Promise.all(NAMES.map(async (name) => ({ name, text: await textOf(name) })));
    const seen = new Set<string>();
    // One file is often a copy of, or a link to, another.
    return found.filter(({ text }) => text.trim() !== "" && !seen.has(text) && seen.add(text));
  }

  async function textOf(name: string): Promise<string> {
    try {
      return await noteAt(name, cwd, home);
    } catch (error) {
      const why = messageOf(error);
      if (!["ENOENT", "ENOTDIR"].includes(codeOf(error)) && !refused.get(why)) {
        refused.set(why, true);
        log("warn", "context_file.refused", { file: name, why });
      }
      return "";
    }
  }

  return () => {
    if (!kept || Math.abs(now() - kept.at) > KEPT_MS) kept = { at: now(), files: read() };
    return kept.files;
  };
}

/** HEARTBEAT.md of the working directory, else of the home: what is looked after without being asked. Empty: there is none. */
export async function standingText({ cwd, home, log }: Omit<Options, "now">): Promise<string> {
  for (const dir of [cwd, home])
    try {
      const text = await noteAt("HEARTBEAT.md", dir, home);
      if (text.trim()) return fenced(`HEARTBEAT.md of ${dir === cwd ? "the working directory" : "the user"}`, text);
    } catch (error) {
      const missing = ["ENOENT", "ENOTDIR"].includes(codeOf(error));
      if (!missing) log("warn", "context_file.refused", { file: "HEARTBEAT.md", why: messageOf(error) });
    }
  return "";
}

async function noteAt(name: string, cwd: string, home: string): Promise<string> {
  const path = join(cwd, name);
  const real = await realInside(path, [cwd]);
  const isLink = real !== join(await realInside(cwd, []), name);
  if (isLink && (!NOTES.test(basename(real)) || (await isSecret(real, home))))
    throw new NotConfined(`${path} leads to ${real}, which is not a file of notes.`);
  const { bytes, stat } = await readHead(real, 4 * LONGEST);
  if (stat.nlink > 1n)
    throw new NotConfined(`${path} has a second name somewhere else (a hard link). Put a copy there.`);
  const whole = Number(stat.size) <= bytes.length;
  // Drops a character that was cut in two at the end.
  const text = new TextDecoder().decode(bytes, { stream: !whole });
  return text.length > LONGEST || !whole ? `${text.slice(0, LONGEST)}\n[… the rest is left out …]` : text;
}

/** Credentials, or files of hermes: a working directory may contain a home directory. */
async function isSecret(real: string, home: string): Promise<boolean> {
  if (real.split("/").includes(".ssh")) return true;
  const places = [home, ...secretPlaces(homedir())];
  const reals = await Promise.all(places.map((place) => realInside(place, []).catch(() => place)));
  return reals.some((place) => within(place, real));
}
