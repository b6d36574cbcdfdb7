// Pictures that a typed message names by their path: the model is shown them. The text stays as it was typed. Other
// files are not read here: the model has a tool for that.
import { homedir } from "node:os";
import { extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "../../core/errors.ts";
import type { Image } from "../../core/session.ts";
import { kindAt, NotConfined, readHead, realInside } from "../../platform/confined.ts";

const ENDINGS = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
/** The most that providers take. */
export const LARGEST_MB = 5;
/** As many as the API takes with one message. */
const MOST = 20;

// As terminals write a file that is dropped on them: 'it'\''s.png', my\ pic.png. Only these blanks end a word: macOS puts
// others (U+202F) into the names of its screenshots.
const QUOTED = String.raw`(?=["'])(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\\.)+`;
const PLAIN = String.raw`(?:\\.|[^ \t\r\n"'${"`"}<>\\])+`;
const PATH = String.raw`(?:\/|~\/|\.{1,2}\/|file:\/\/)`;
const BEFORE = String.raw`(?<![^\s([{<"'${"`"}])`;
const MENTION = new RegExp(
  `${BEFORE}(?:@(?<named>${QUOTED}|${PLAIN})|(?=["']?${PATH})(?<bare>${QUOTED}|${PLAIN}))`,
  "g",
);
/** What follows the name are the sentence's own marks. */
const PICTURE = /^(.+\.(?:png|jpe?g|gif|webp))[^\w/]*$/i;

/** Those that exist, each once. Throws when one of them cannot be sent, and says which and why. `roots`: where the agent may
 *  write; a name in there that leads out of it is not a picture that a person meant. */
export async function attachmentsIn(
  text: string,
  cwd: string,
  roots: readonly string[] = [cwd],
): Promise<{ images: Image[]; names: string[] }> {
  const found = new Map<string, { name: string; image: Image }>();
  for (const { groups = {} } of text.matchAll(MENTION)) {
    const [, name = ""] = PICTURE.exec(unquoted(groups["named"] ?? groups["bare"] ?? "")) ?? [];
    const path = name && pathOf(name, cwd);
    if (!path || found.has(path) || !(await isFile(path, roots))) continue;
    if (found.size === MOST) throw new Error(`More than ${MOST} pictures are named: send them in several messages.`);
    found.set(path, { name, image: await readImage(path, roots) });
  }
  const all = [...found.values()];
  return { images: all.map(({ image }) => image), names: all.map(({ name }) => name) };
}

export async function readImage(path: string, roots: readonly string[]): Promise<Image> {
  if (!ENDINGS.includes(extname(path).toLowerCase()))
    throw new Error(`${path}: only ${ENDINGS.join(", ")} are pictures that models read.`);
  const bytes = await contentOf(path, roots);
  const mime = mimeOf(bytes);
  if (!mime) throw new Error(`${path}: its content is not a PNG, JPEG, GIF or WebP picture.`);
  return { mime, data: bytes.toString("base64") };
}

async function contentOf(path: string, roots: readonly string[]): Promise<Buffer> {
  const most = LARGEST_MB * 1_000_000;
  const { bytes, stat } = await realInside(path, roots)
    .then((real) => readHead(real, most + 1))
    .catch((error: unknown) => {
      throw new Error(`${path}: cannot be read: ${messageOf(error)}`, { cause: error });
    });
  if (bytes.length <= most) return bytes;
  const size = (Number(stat.size) / 1_000_000).toFixed(1);
  throw new Error(`${path}: has ${size} MB, more than ${LARGEST_MB}; make it smaller.`);
}

/** By what is in it: a provider refuses what it is told wrongly, and then every later turn that shows it again. */
function mimeOf(bytes: Buffer): string | null {
  const head = bytes.toString("latin1", 0, 12);
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(head)) return "image/gif";
  return /^RIFF.{4}WEBP/s.test(head) ? "image/webp" : null;
}

function unquoted(word: string): string {
  const pieces = /"((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)/g;
  return word.replaceAll(pieces, (_, double?: string, single?: string, escaped?: string) =>
    double === undefined ? (single ?? escaped ?? "") : double.replaceAll(/\\(.)/g, "$1"),
  );
}

function pathOf(name: string, cwd: string): string | null {
  if (name.startsWith("~/")) return join(homedir(), name.slice(2));
  if (!name.startsWith("file://")) return resolve(cwd, name);
  try {
    return fileURLToPath(name);
  } catch {
    return null; // another machine's, or no address at all
  }
}

async function isFile(path: string, roots: readonly string[]): Promise<boolean> {
  try {
    return (await kindAt(await realInside(path, roots))) === "file";
  } catch (error) {
    if (error instanceof NotConfined) throw error;
    return false;
  }
}
