// dist/, which is all of the package: plain JavaScript of all sources and packages, and the client with its types. Half the time to
// start and two thirds of the memory, because nothing is stripped of types, looked up or parsed that is not used. In a checkout,
// bin/hermes runs it while it is newer than the sources.
// `--if-possible` (from `npm install`): where the bundler is not installed the sources are run instead.
// `--into DIR`: there instead of dist/.
import { execFileSync } from "node:child_process";
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { InputOptions, OutputOptions, Plugin } from "rolldown";

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

/** What is always loaded together is one file: each file costs a start a third of a millisecond. The first group that a module
 *  belongs to, with all that it imports, has it. */
const GROUPS = [
  { name: "base", tags: ["$initial" as const], test: (id: string) => !id.endsWith("/src/main.ts") }, // main.ts awaits what needs these
  // What every command has a part of, and no library.
  { name: "shared", test: /src\/(?:core|conversation|platform\/(?!log\.ts|setting-kinds\.ts))/ },
  { name: "config", test: /src\/config\/config\.ts$/ },
  { name: "runtime", test: /src\/compose\/(?:runtime|gateway)\.ts$/ },
  // Both are loaded while the store's thread starts.
  {
    name: "tools",
    test: /src\/(?:tools\/toolbox|skills\/open|memory\/open|surfaces\/webhooks\/webhooks|schedule\/scheduler)\.ts$/,
  },
  { name: "api", test: /src\/compose\/api\.ts$/ },
];

/** scripts/bundle/main.ts calls each file of the program like this. */
const WRAPPER = ["(function (exports, require, module, __filename, __dirname) {", "})"] as const;

const threads: Plugin = {
  name: "threads",
  transform: (code) =>
    code.replaceAll(/new URL\("\.\/([\w-]+)\.ts", import\.meta\.url\)/g, 'new URL("./$1.js", import.meta.url)'),
};

/** `import` of a module of Node reads all that it exports, also what is made when it is first read: node:http alone loads a
 *  whole fetch, 70 modules, for its WebSocket. Asked for like this, only what is used is made. */
const builtins: Plugin = {
  name: "builtins",
  resolveId(id, importer, { kind }) {
    if (!isBuiltin(id)) return null;
    // The bundler's own runtime is where all other files begin: it cannot wait for one of them.
    if (kind !== "import-statement" || importer?.startsWith("\0")) return { id, external: true };
    // One for each file: those of several files would be one file more to load.
    return { id: `\0builtin:${id.replace(/^node:/, "")}:${importer}`, moduleSideEffects: false };
  },
  load(id) {
    if (!id.startsWith("\0builtin:")) return null;
    const name = `node:${id.split(":")[1]}`;
    const names = Object.keys(process.getBuiltinModule(name) ?? {}).filter((key) => key !== "default");
    return [
      `const whole = /* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(name)});`,
      ...names.map((key) => `const one_${key} = /* @__PURE__ */ (() => whole.${key})();`),
      "export { whole as default };",
      ...names.map((key) => `export { one_${key} as ${key} };`),
    ].join("\n");
  },
};

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
  // Each thread is one file of its own: what it shares with the program must not make it load the program.
  const node = (input: Record<string, string>, output: OutputOptions) =>
    bundle({
      input,
      platform: "node",
      external: ["@vscode/ripgrep", ...NOT_INSTALLED],
      plugins: [builtins, threads],
      output: { dir, minify: { compress: true, mangle: false, codegen: true }, ...output },
    });
  const script: OutputOptions = { format: "cjs", entryFileNames: "[name].cjs", chunkFileNames: "[name]-[hash].cjs" };
  const [postBanner, postFooter] = WRAPPER;
  await node({ program: "src/main.ts" }, { ...script, postBanner, postFooter, codeSplitting: { groups: GROUPS } });
  await node({ main: "scripts/bundle/main.ts" }, script);
  for (const [name, file] of Object.entries(THREADS)) await node({ [name]: file }, { codeSplitting: { groups: [] } });
  for (const file of globSync(`${dir}/*.{js,cjs}`)) writeFileSync(file, inAscii(readFileSync(file, "utf8")));
  cpSync(`${root}src/store/sqlite/migrations`, `${dir}/migrations`, { recursive: true });
  writeFileSync(`${dir}/hermes.1`, execFileSync(process.execPath, [`${dir}/main.cjs`, "man"]));
  await import("./bundle/bytecode.ts")
    .then(({ makeBytecode }) => makeBytecode(dir))
    .catch((error: unknown) => console.log(`build: no bytecode, a start takes longer: ${String(error)}`));
  const { modules } = await (await import("./console.ts")).buildConsole(root, `${dir}/console/`);
  for (const id of modules) bundled.add(id);
}

/** V8 holds the source of what is loaded: one letter beyond Latin 1 makes two bytes of all of them, 2 MB for a gateway. An escape says
 *  the same, except in a raw text or behind a backslash. */
function inAscii(code: string): string {
  if (/String\.raw`[^`]*[^\0-\x7f]|\\[^\0-\x7f]/.test(code)) return code;
  return code.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
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
