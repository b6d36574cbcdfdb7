// The files of the console, as the build left them, each with its digest and its compressed copies. They are read once.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

export type ConsoleFile = { name: string; type: string; plain: Buffer; br: Buffer | null };

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
};
/** Beside the bundle; seen from the sources, in the folder of the bundle. */
const PLACES = ["./console", "../../../dist/console"].map((place) => fileURLToPath(new URL(place, import.meta.url)));

/** None where the console was not built. */
export function readConsole(): ConsoleFile[] {
  const dir = PLACES.find((place) => existsSync(join(place, "index.html")));
  if (!dir) return [];
  return readdirSync(dir).flatMap((name) => {
    const type = TYPES[extname(name)];
    const packed = join(dir, `${name}.br`);
    return type
      ? [{ name, type, plain: readFileSync(join(dir, name)), br: existsSync(packed) ? readFileSync(packed) : null }]
      : [];
  });
}
