// A real browser for tests and pictures. It comes with `npm install` (@sparticuz/chromium, for Linux on x64), with the libraries that a
// bare machine lacks; it is unpacked once and kept below node_modules. Elsewhere an installed Chromium is used.
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import packed, { inflate } from "@sparticuz/chromium";
import { type Browser, chromium } from "playwright-core";

const cache = fileURLToPath(new URL("../../node_modules/.cache/chromium", import.meta.url));
const bin = fileURLToPath(new URL("../bin", import.meta.resolve("@sparticuz/chromium")));

/** Without a font the browser crashes at the first text field. */
const FONTS = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<dir>${cache}/fonts/fonts</dir><dir>/usr/share/fonts</dir><cachedir>${cache}/fonts-cache</cachedir>
</fontconfig>
`;

/** Tried in this order. */
const PROGRAMS = [
  join(cache, "chromium"),
  "/usr/bin/chromium",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/** Throws in words where none starts. */
export async function openBrowser(): Promise<Browser> {
  if (!existsSync(cache)) await unpack();
  const own = { LD_LIBRARY_PATH: join(cache, "al2023", "lib"), FONTCONFIG_FILE: join(cache, "fonts.conf") };
  const errors: unknown[] = [];
  for (const executablePath of PROGRAMS.filter((program) => existsSync(program))) {
    const env = { ...process.env, ...(executablePath.startsWith(cache) && own) };
    try {
      const args = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"];
      return await chromium.launch({ executablePath, env, args });
    } catch (error) {
      errors.push(error);
    }
  }
  const text = "No browser starts on this machine: not the one of @sparticuz/chromium, and no installed Chromium.";
  throw new AggregateError(errors, `${text} Install Chromium to run the tests of the web console.`);
}

/** Under its name only when it is complete. */
async function unpack(): Promise<void> {
  mkdirSync(join(cache, ".."), { recursive: true });
  const draft = mkdtempSync(`${cache}-`);
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = draft; // where the package unpacks to
  try {
    await Promise.all([packed.executablePath(), inflate(join(bin, "al2023.tar.br"))]);
    writeFileSync(join(draft, "fonts.conf"), FONTS);
    if (!existsSync(cache)) renameSync(draft, cache);
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
    rmSync(draft, { recursive: true, force: true });
  }
}
