// What comes with a message: kept as files that the agent can open, and pictures shown to the model as well.
import { mkdir, open, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Attachment, Recording } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Image } from "../../core/session.ts";

const MOST_BYTES = 20_000_000;
const MOST_FILES = 10;
const MOST_PICTURES = 4;
const LARGEST_PICTURE = 5_000_000;
const LOAD_MS = 60_000;
const PICTURES = /^image\/(?:png|jpeg|gif|webp)$/;

export type KeptAttachments = {
  images: Image[];
  /** The files of the images. */
  pictures: { mime: string; path: string }[];
  recordings: Recording[];
  lines: string[];
};

/** `lines` say what came, for the message's text. One that cannot be had is named too: nothing is dropped silently. */
export async function keepAttachments(
  attachments: readonly Attachment[],
  dir: string,
  newName: () => string,
): Promise<KeptAttachments> {
  const images: Image[] = [];
  const pictures: KeptAttachments["pictures"] = [];
  const recordings: Recording[] = [];
  const lines: string[] = [];
  for (const [index, one] of attachments.entries()) {
    const label = `${one.name || one.kind}${one.mime ? ` (${one.mime})` : ""}`;
    try {
      if (index >= MOST_FILES) throw new Error(`at most ${MOST_FILES} are taken with one message`);
      if (one.size > MOST_BYTES) throw new Error(`it has more than ${MOST_BYTES / 1_000_000} MB`);
      const bytes = await one.load(MOST_BYTES, AbortSignal.timeout(LOAD_MS));
      const isPicture = PICTURES.test(one.mime) && bytes.length <= LARGEST_PICTURE && images.length < MOST_PICTURES;
      const { kind, name, mime } = one;
      const path = await write(dir, newName(), name, bytes);
      if (isPicture) {
        images.push({ mime, data: Buffer.from(bytes).toString("base64") });
        pictures.push({ mime, path });
      }
      if (kind === "voice" || mime.startsWith("audio/")) recordings.push({ path, name, mime });
      lines.push(`[attached ${kind}: ${path} ${mime}]`);
    } catch (error) {
      lines.push(`[attached ${one.kind} ${label}: could not be had, ${messageOf(error)}]`);
    }
  }
  return { images, pictures, recordings, lines };
}

export const isKeptHere = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null;

export const readPictures = (pictures: KeptAttachments["pictures"]): Promise<Image[]> =>
  Promise.all(pictures.map(async ({ mime, path }) => ({ mime, data: await readFile(path, "base64") })));

/** Under a name of ours: what a stranger calls a file does not decide where it goes. */
async function write(dir: string, name: string, given: string, bytes: Uint8Array): Promise<string> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const tail = given
    .replaceAll(/[^\w.-]+/g, "_")
    .replace(/^[._-]+/, "")
    .slice(-60);
  const path = join(dir, `${name}${tail ? `-${tail}` : ""}`);
  await using file = await open(path, "wx", 0o600);
  await file.writeFile(bytes);
  return path;
}
