// One folder of plain JavaScript from all sources and packages: half the time to start and two thirds of the memory, because
// nothing is stripped of types, looked up or parsed that is not used. bin/hermes runs it while it is newer than the sources.
// `--if-possible` (from `npm install`): where the bundler is not installed the sources are run instead.
import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const dir = `${root}dist`;
/** Files that are run by themselves, in a thread. */
const THREADS = {
  "sqlite-worker": "src/store/sqlite/sqlite-worker.ts",
  "match-worker": "src/tools/files/match-worker.ts",
  "judge-worker": "src/policy/judge-worker.ts",
};

const began = performance.now();
try {
  await build();
  console.log(`build: dist/ in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
} catch (error) {
  rmSync(dir, { recursive: true, force: true });
  if (!process.argv.includes("--if-possible")) throw error;
  console.log("build: left out, hermes runs from its sources");
}

async function build() {
  const { rolldown } = await import("rolldown");
  rmSync(dir, { recursive: true, force: true });
  const bundle = await rolldown({
    cwd: root,
    input: { main: "src/main.ts", ...THREADS },
    platform: "node",
    // Libraries of chat platforms and of PostgreSQL stay outside: few use one, and none starts faster for it.
    external: [/^node:/, /^pg$/, /^@discordjs\//, /^discord-api-types/, /^@slack\//, /^grammy/],
    logLevel: "warn",
    plugins: [
      {
        name: "threads",
        transform: (code) =>
          code.replaceAll(/new URL\("\.\/([\w-]+)\.ts", import\.meta\.url\)/g, 'new URL("./$1.js", import.meta.url)'),
      },
    ],
  });
  await bundle.write({ dir, format: "esm", minify: { compress: true, mangle: false, codegen: false } });
  cpSync(`${root}src/store/sqlite/migrations`, `${dir}/migrations`, { recursive: true });
}
