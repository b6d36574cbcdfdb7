// The workspaces whose skills the user trusts, by their real paths. Whoever can write this file can add text to the
// prompt, so a file that others can write is ignored.
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { codeOf } from "../core/errors.ts";
import type { SkillTrust } from "../core/skills.ts";
import { jsonIn } from "../platform/json.ts";
import { orMissing } from "./disk.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const MOST_BYTES = 1_000_000;
const MOST = 1_000;
const shape = z.strictObject({ trusted: z.array(z.string().startsWith("/")).max(MOST) });

/** `home`: HERMES_HOME. */
export function openTrust(home: string): SkillTrust {
  const file = join(home, "skills-trust.json");

  async function list(): Promise<string[]> {
    const source = await read(file).catch(orMissing);
    if (source === null) return [];
    const { data } = shape.safeParse(jsonIn(source));
    if (data) return data.trusted;
    throw new Error(
      `${file} is damaged, so no workspace is trusted. Repair it, or delete it and trust your workspaces again.`,
    );
  }

  return {
    list,
    async add(dir) {
      const real = await realpath(dir).catch(orMissing);
      if (real === null || !(await stat(real)).isDirectory())
        throw new Error(`${resolve(dir)} is not a directory. Nothing was changed.`);
      const trusted = await list();
      if (trusted.length >= MOST) throw new Error(`${MOST} workspaces are trusted already. Untrust some first.`);
      if (!trusted.includes(real)) await writeWhole(file, linesOf([...trusted, real]));
      return real;
    },
    async remove(dir) {
      // If the directory is gone, it is removed by the name it had.
      const names = new Set([resolve(dir), await realpath(dir).catch(() => null)]);
      const trusted = await list();
      const left = trusted.filter((path) => !names.has(path));
      if (left.length < trusted.length) await writeWhole(file, linesOf(left));
      return left.length < trusted.length;
    },
  };
}

async function read(file: string): Promise<string> {
  await using handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    throw codeOf(error) === "ELOOP" ? unsafe(file, "is a link") : error;
  });
  const stat = await handle.stat();
  if (!stat.isFile() || stat.size > MOST_BYTES) throw unsafe(file, "is not a list of directories");
  if ((stat.mode & 0o022) !== 0) throw unsafe(file, "can be written by others");
  if (process.getuid && stat.uid !== process.getuid()) throw unsafe(file, "belongs to somebody else");
  if (stat.nlink > 1) throw unsafe(file, "has a second name (a hard link)");
  return await handle.readFile("utf8");
}

const unsafe = (file: string, why: string) =>
  new Error(`${file} ${why}, so no workspace is trusted. Delete it and trust your workspaces again.`);

const linesOf = (trusted: readonly string[]) => `${JSON.stringify({ trusted }, null, 2)}\n`;

/** Atomic, and for the owner only. */
export async function writeWhole(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await using handle = await open(draft, "wx", 0o600);
    await handle.writeFile(text);
    await handle.sync();
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}
