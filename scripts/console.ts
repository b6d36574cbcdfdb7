// The web console as static files: a script, a style sheet, and the page that names them by their digests. Each has a
// compressed copy beside it, so that the server compresses nothing.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";
import { rolldown } from "rolldown";

/** `root` and `dir` end with a slash. `bytes`: compressed, of a first load. */
export async function buildConsole(root: string, dir: string): Promise<{ bytes: number; modules: string[] }> {
  const app = `${root}src/surfaces/web/app/`;
  const bundle = await rolldown({
    cwd: root,
    input: `${app}main.tsx`,
    platform: "browser",
    transform: { target: "es2022" },
    logLevel: "warn",
  });
  const { output } = await bundle.generate({ format: "esm", minify: true, codeSplitting: false });
  const files = new Map<string, string>([["app.js", output[0].code]]);
  files.set("app.css", readFileSync(`${app}app.css`, "utf8"));
  const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 12);
  const versions = [...files].map(([name, text]) => [`/console/${name}`, digest(text)] as const);
  const icon = encodeURIComponent(readFileSync(`${app}icon.svg`, "utf8"));
  let page = readFileSync(`${app}index.html`, "utf8").replace("icon.svg", `data:image/svg+xml,${icon}`);
  for (const [path, version] of versions) page = page.replaceAll(`"${path}"`, `"${path}?v=${version}"`);
  files.set("index.html", page);

  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  let size = 0;
  for (const [name, text] of files) {
    const packed = brotliCompressSync(text);
    size += packed.length;
    writeFileSync(`${dir}${name}`, text);
    writeFileSync(`${dir}${name}.br`, packed);
  }
  return { bytes: size, modules: output[0].moduleIds };
}
