// dist/, which is all of the package: plain JavaScript of all sources and packages, and the client with its types. Half the time to
// start and two thirds of the memory, because nothing is stripped of types, looked up or parsed that is not used. In a checkout,
// bin/hermes runs it while it is newer than the sources.
// `--if-possible` (from `npm install`): where the bundler is not installed the sources are run instead.
// `--into DIR`: there instead of dist/.
import { execFileSync } from "node:child_process";
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { InputOptions, OutputOptions } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: options } = parseArgs({
  options: { "if-possible": { type: "boolean", default: false }, into: { type: "string", default: `${root}dist` } },
});
const dir = resolve(options.into);
/** Files that are run by themselves, in a thread. */
const THREADS = {
  "sqlite-worker": "src/store/sqlite/sqlite-worker.ts",
  "match-worker": "src/tools/files/match-worker.ts",
  "judge-worker": "src/policy/judge-worker.ts",
};

/** Faster parts that libraries use where they find them. */
const NOT_INSTALLED = ["zlib-sync", "pg-native"];

/** Files that are in dist/. */
const bundled = new Set<string>();

const began = performance.now();
try {
  rmSync(dir, { recursive: true, force: true });
  await buildProgram();
  await buildClient();
  writeFileSync(`${dir}/LICENSES.txt`, (await import("./licenses.ts")).licensesOf(bundled));
  console.log(`build: dist/ in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
} catch (error) {
  rmSync(dir, { recursive: true, force: true });
  if (!options["if-possible"]) throw error;
  console.log("build: left out, hermes runs from its sources");
}

async function buildProgram() {
  await bundle({
    input: { main: "src/main.ts", ...THREADS },
    platform: "node",
    external: [/^node:/, "@vscode/ripgrep", ...NOT_INSTALLED],
    plugins: [
      {
        name: "threads",
        transform: (code) =>
          code.replaceAll(/new URL\("\.\/([\w-]+)\.ts", import\.meta\.url\)/g, 'new URL("./$1.js", import.meta.url)'),
      },
    ],
    output: { dir, minify: { compress: true, mangle: false, codegen: false } },
  });
  cpSync(`${root}src/store/sqlite/migrations`, `${dir}/migrations`, { recursive: true });
  writeFileSync(`${dir}/hermes.1`, execFileSync(process.execPath, [`${dir}/main.js`, "man"]));
  const { modules } = await (await import("./console.ts")).buildConsole(root, `${dir}/console/`);
  for (const id of modules) bundled.add(id);
}

/** For browsers and Node 20 too, so without anything of Node's. */
async function buildClient() {
  await bundle({
    input: "src/client/client.ts",
    platform: "browser",
    transform: { target: "es2022" },
    output: { file: `${dir}/client.js` },
  });
  const types = ["--declaration", "--emitDeclarationOnly", "--outDir", `${dir}/types`, "--rootDir", "src"];
  const reading = ["--ignoreConfig", "--noCheck", "--allowImportingTsExtensions", "--module", "nodenext"];
  execFileSync("tsc", [...reading, ...types, "--target", "esnext", "src/client/client.ts"], {
    cwd: root,
    stdio: "inherit",
  });
  for (const file of globSync(`${dir}/types/**/*.d.ts`))
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(/(from "\.[^"]*)\.ts"/g, '$1.js"'));
}

async function bundle({ output, ...input }: InputOptions & { output: OutputOptions }) {
  const { rolldown } = await import("rolldown");
  const made = await rolldown({ cwd: root, logLevel: "warn", ...input });
  const { output: written } = await made.write({ format: "esm", ...output });
  for (const one of written) if (one.type === "chunk") for (const id of one.moduleIds) bundled.add(id);
}
