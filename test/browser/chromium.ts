// A real browser for tests and pictures. It comes with `npm install` (@sparticuz/chromium), with the libraries that a bare machine
// lacks; it is unpacked once and kept below node_modules.
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

/** Throws in words where it does not start. */
export async function openBrowser(): Promise<Browser> {
  if (!existsSync(cache)) await unpack();
  try {
    return await chromium.launch({
      executablePath: join(cache, "chromium"),
      // Each frame has its time: a page that streams is measured as its user sees it.
      args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
      env: {
        ...process.env,
        LD_LIBRARY_PATH: join(cache, "al2023", "lib"),
        FONTCONFIG_FILE: join(cache, "fonts.conf"),
      },
    });
  } catch (error) {
    throw new Error("The browser of the package @sparticuz/chromium does not start on this machine.", { cause: error });
  }
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
