// The clipboard of the desktop, by its own programs. Over SSH there is none of them: there the terminal itself is asked to take
// a text (OSC 52).
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { linked } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { findProgram } from "../../platform/programs.ts";
import { LARGEST_MB } from "./attachments.ts";

type ClipboardProgram = { name: string; args: string[]; needs?: string };

const WRITERS: readonly ClipboardProgram[] = [
  { name: "wl-copy", args: [], needs: "WAYLAND_DISPLAY" },
  { name: "xclip", args: ["-selection", "clipboard"], needs: "DISPLAY" },
  { name: "pbcopy", args: [] },
];
const READERS: readonly ClipboardProgram[] = [
  { name: "wl-paste", args: ["--type", "image/png"], needs: "WAYLAND_DISPLAY" },
  { name: "xclip", args: ["-selection", "clipboard", "-t", "image/png", "-o"], needs: "DISPLAY" },
  { name: "pngpaste", args: ["-"] },
];
/** All that such a program needs to know: none of our keys. */
const PASSED = ["HOME", "PATH", "LANG", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];
const ANSWER_MS = 3_000;
const LARGEST = LARGEST_MB * 1_000_000;
/** Characters. Terminals drop a longer sequence, or show it. */
const LONGEST_SEQUENCE = 1_000_000;

/** What became of it, for people. */
export async function copyText(text: string, env: NodeJS.ProcessEnv, terminal: NodeJS.WriteStream): Promise<string> {
  const copied = `Copied the last answer (${text.length} characters).`;
  const sequence = `\x1b]52;c;${Buffer.from(text).toString("base64")}\x07`;
  const isSent = terminal.isTTY && sequence.length <= LONGEST_SEQUENCE;
  if (isSent) terminal.write(sequence);
  const writer = programIn(WRITERS, env);
  if (writer && (await run(writer, env, text)).code === 0) return copied;
  if (!isSent) throw new Error("Nothing was copied: install wl-clipboard (Wayland) or xclip (X11).");
  return `${copied} If it is not in the clipboard, allow OSC 52 in your terminal, or install wl-clipboard or xclip.`;
}

/** The file that the picture in the clipboard is in now. Throws where there is none. */
export async function pasteImage(dir: string, env: NodeJS.ProcessEnv): Promise<string> {
  const reader = programIn(READERS, env);
  if (!reader) throw new Error("To paste a picture, install wl-clipboard (Wayland), xclip (X11) or pngpaste (macOS).");
  const { code, output } = await run(reader, env);
  if (output.length > LARGEST) throw new Error(`The picture in the clipboard has more than ${LARGEST_MB} MB.`);
  if (code !== 0 || !output.length) throw new Error("There is no picture in the clipboard.");
  const folder = join(dir, `pasted-${randomUUID().slice(0, 8)}`); // of its own: old ones are deleted folder by folder
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, "picture.png");
  writeFileSync(file, output, { mode: 0o600 });
  return file;
}

function programIn(programs: readonly ClipboardProgram[], env: NodeJS.ProcessEnv) {
  for (const { name, args, needs } of programs) {
    const path = !needs || env[needs] ? findProgram(name) : null;
    if (path) return { path, args };
  }
  return null;
}

/** At most a little more than a picture may have, and not for long. */
async function run({ path, args }: { path: string; args: string[] }, all: NodeJS.ProcessEnv, input?: string) {
  const env = Object.fromEntries(PASSED.flatMap((name) => (all[name] ? [[name, all[name]]] : [])));
  const limit = linked([], { clock, ms: ANSWER_MS });
  // A program that writes stays behind to serve the clipboard: it must not hold a pipe of ours.
  const output = input === undefined ? "pipe" : "ignore";
  const child = spawn(path, args, { stdio: ["pipe", output, "ignore"], env, signal: limit.signal });
  const ended = new Promise<number>((resolve) => {
    child.on("error", () => resolve(1)).on("exit", (code) => resolve(code ?? 1));
  });
  child.stdin?.on("error", () => {}).end(input);
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of child.stdout ?? []) {
    pieces.push(piece);
    size += piece.length;
    if (size > LARGEST) break; // the pipe closes, and the program ends
  }
  const code = await ended;
  limit.release();
  return { code, output: Buffer.concat(pieces) };
}
