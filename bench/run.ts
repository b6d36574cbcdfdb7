// npm run bench -- [--quick] [--only turns] : every measurement in a process of its own, then what came of the goals.
import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/errors.ts";
import { type Figure, met } from "./figure.ts";

const PARTS = [
  "turns",
  "growth",
  "idle",
  "start",
  "resident",
  "models",
  "exec",
  "http",
  "gateway",
  "memory",
  "terminal",
  "web",
  "cluster",
  "day",
];
const { values } = read();
if (values.help) {
  console.log(`npm run bench -- [options]
  --quick       a short version, for a first look
  --only NAMES  of ${PARTS.join(", ")}`);
  process.exit(0);
}
const chosen = values.only?.split(",") ?? PARTS;
const unknown = chosen.filter((name) => !PARTS.includes(name));
if (unknown.length) {
  console.error(`--only takes ${PARTS.join(", ")}, not "${unknown.join()}".`);
  process.exit(2);
}

if (!isBuilt())
  console.log("bench: bin/hermes runs the sources, because one is newer than dist/. npm run build first.");
const began = performance.now();
const figures: Figure[] = [];
for (const name of chosen) figures.push(...(await measure(name)));
const goals = figures.filter((figure) => figure.goal);
const missed = goals.filter((figure) => !met(figure));
const seconds = ((performance.now() - began) / 1000).toFixed(0);
console.log(
  `bench: ${figures.length} figures in ${seconds} s, ${goals.length - missed.length} of ${goals.length} goals met` +
    (missed.length ? `; missed: ${missed.map(({ name }) => name).join("; ")}` : ""),
);

/** As bin/hermes looks. From sources, a start takes twice as much. */
function isBuilt(): boolean {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const newer = ["src", "package.json", "-newer", "dist/main.cjs", "-print", "-quit"];
  const { status, stdout } = spawnSync("find", newer, { cwd: root, encoding: "utf8" });
  return status === 0 && stdout === "";
}

async function measure(name: string): Promise<Figure[]> {
  const child = fork(new URL(`./${name}.ts`, import.meta.url), values.quick ? ["--quick"] : [], {
    execArgv: ["--no-warnings"],
  });
  let figures: Figure[] = [];
  child.on("message", (message) => {
    figures = message as Figure[];
  });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`bench/${name}.ts ended with ${code}`);
  return figures;
}

function read() {
  try {
    return parseArgs({
      options: {
        quick: { type: "boolean", default: false },
        only: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    console.error(`${messageOf(error)}\nTry: npm run bench -- --help`);
    process.exit(2);
  }
}
