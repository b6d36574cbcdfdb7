// Reads skills from the disk. Files in a workspace can be turned into links at any time, also while we read. So no link
// below a source is followed, and the real path of the opened file counts (SECURITY 11).
import { isUtf8 } from "node:buffer";
import type { Dirent } from "node:fs";
import { join } from "node:path";
import { codeOf, messageOf } from "../core/errors.ts";
import { openDir, readHead, realInside, stampOf } from "../platform/confined.ts";
import { type Header, headerOf, NAME } from "./header.ts";

type FoundSkill = Header & {
  /** The real path. */
  folder: string;
};
export type DiskLook = {
  skills: FoundSkill[];
  /** For people: which skills were left out, and why. */
  notes: string[];
};
/** A hard link can give a file from elsewhere a name in the workspace. In the user's own directory a hard link is
 *  intended. */
export type Links = "hard links" | "no links";

export const MOST_SKILLS = 200;
export const MOST_BYTES = 100_000;
/** `skills/tea/SKILL.md` and `skills/kitchen/tea/SKILL.md`. */
const DEPTH = 2;
const MOST_FOLDERS = 2_000;
const MOST_ENTRIES = 5_000;
const MOST_FILES = 100;
const MOST_NOTES = 20;

/** Scans a directory in order of names. Files that did not change since the last scan are not read again. */
export function createLook(links: Links): (dir: string) => Promise<DiskLook> {
  let read = new Map<string, ReadSkill>();

  return async (dir) => {
    const now = new Map<string, ReadSkill>();
    const skills: FoundSkill[] = [];
    const notes: string[] = [];
    const note = (text: string) => notes.length < MOST_NOTES && notes.push(text);
    let looked = 0;

    async function visit(place: string, depth: number): Promise<void> {
      for (const entry of await entriesIn(place)) {
        if (!entry.isDirectory() || entry.name.startsWith(".")) {
          if (entry.isSymbolicLink()) note(`${join(place, entry.name)} is a link, and links are not followed.`);
          continue;
        }
        if (skills.length >= MOST_SKILLS || looked >= MOST_FOLDERS) {
          note(`${dir} has more than ${MOST_SKILLS} skills or ${MOST_FOLDERS} folders; the rest is left out.`);
          return;
        }
        looked++;
        await take(join(place, entry.name), entry.name, depth);
      }
    }

    async function take(folder: string, name: string, depth: number): Promise<void> {
      const file = join(folder, "SKILL.md");
      const stamp = await stampOf(file);
      if (stamp === null) {
        if (depth < DEPTH) await visit(folder, depth + 1).catch((error: unknown) => note(messageOf(error)));
        return;
      }
      const before = read.get(file);
      const found = before?.stamp === stamp ? before : { stamp, ...(await skillIn(folder, name, links)) };
      now.set(file, found);
      if (found.skill) skills.push(found.skill);
      else note(found.why);
    }

    const real = await realInside(dir, []).catch(orMissing);
    if (real === null) return { skills, notes };
    await visit(real, 1);
    read = now;
    return { skills, notes };
  };
}

type ReadSkill = { stamp: string } & ({ skill: FoundSkill } | { skill: null; why: string });

async function skillIn(folder: string, name: string, links: Links) {
  try {
    const header = headerOf(await readText(join(folder, "SKILL.md"), links), name);
    if (header) return { skill: { ...header, folder } };
    return { skill: null, why: `${folder} is left out: a skill's name is ${NAME}.` };
  } catch (error) {
    return { skill: null, why: `${folder} is left out: ${messageOf(error)}` };
  }
}

/** The files of a skill's folder besides SKILL.md, as arguments for `skill_view`. */
export async function filesIn(folder: string): Promise<string[]> {
  const files: string[] = [];
  async function visit(place: string, below: string, depth: number): Promise<void> {
    for (const entry of await entriesIn(place)) {
      if (files.length >= MOST_FILES) return;
      const path = below + entry.name;
      if (UNSEEN.test(entry.name)) continue;
      if (entry.isFile() && path !== "SKILL.md") files.push(path);
      // A directory that cannot be read does not prevent the skill from being read.
      if (entry.isDirectory() && depth < DEPTH)
        await visit(join(place, entry.name), `${path}/`, depth + 1).catch(() => {});
    }
  }
  await visit(folder, "", 0);
  return files;
}
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

/** Throws an error that says what is wrong with the file. */
export async function readText(real: string, links: Links): Promise<string> {
  // The file may grow while it is read; one extra byte shows that.
  const { bytes, stat } = await readHead(real, MOST_BYTES + 1).catch(orLink(real));
  if (links === "no links" && stat.nlink > 1n)
    throw new Error(`${real} has a second name (a hard link). Replace it with a copy.`);
  if (bytes.length > MOST_BYTES) throw new Error(`${real} is larger than ${MOST_BYTES / 1_000} kB. Make it shorter.`);
  if (!isUtf8(bytes)) throw new Error(`${real} is not UTF-8 text.`);
  return bytes.toString("utf8");
}

async function entriesIn(real: string): Promise<Dirent[]> {
  await using dir = await openDir(real).catch(orLink(real));
  return await dir.entries(MOST_ENTRIES);
}

/** For `catch`: turns a link into an error that a person understands. */
const orLink = (real: string) => (error: unknown) => {
  throw codeOf(error) === "ELOOP" ? new Error(`${real} is a link, and links are not followed.`) : error;
};

/** For `catch`: null if the file does not exist. */
export function orMissing(error: unknown): null {
  if (["ENOENT", "ENOTDIR"].includes(codeOf(error))) return null;
  throw error;
}
