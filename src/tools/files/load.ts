// Reads a text file that is to be changed.
import type { BigIntStats } from "node:fs";
import { openFile } from "../../platform/confined.ts";
import type { Confine } from "./confine.ts";
import { hashOf, type Mark } from "./seen.ts";
import { decode } from "./text.ts";
import { orNull, Trouble } from "./trouble.ts";

export const LARGEST = 5 * 1024 * 1024;

type LoadedFile = { text: string; bom: string; stat: BigIntStats; mark: Mark };

/** Null: there is no such file. */
export async function loadText(confine: Confine, real: string, name: string): Promise<LoadedFile | null> {
  const opened = await orNull(openFile(real));
  if (!opened) return null;
  await using file = opened;
  const { stat, handle } = file;
  if (stat.isDirectory()) throw new Trouble(`${name} is a directory.`);
  if (await confine.isSecretTwin(file))
    throw new Trouble(`${name} is another name of a file with credentials, which file tools never touch.`);
  if (stat.size > LARGEST)
    throw new Trouble(`${name} has ${stat.size} bytes, too many to patch. Use the terminal tool.`);
  const bytes = await handle.readFile();
  const decoded = decode(bytes);
  if (!decoded || decoded.text.includes("\0")) throw new Trouble(`${name} is not UTF-8 text. Use the terminal tool.`);
  return { ...decoded, stat, mark: { size: bytes.length, mtimeNs: stat.mtimeNs, hash: hashOf(bytes) } };
}
