// The entry of dist/ (scripts/build.ts): runs the files of the program from the bytecode beside them. Node's own cache of compiled code
// has no function that is compiled when it is first called, and that is most of a start. V8 refuses bytecode that another version
// of it made, or other flags; the file is compiled then.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { constants, Script } from "node:vm";

type Wrapped = (exports: object, require: NodeJS.Require, module: object, filename: string, dirname: string) => void;

const dir = import.meta.dirname;
const outside = createRequire(import.meta.url);
const loaded = new Map<string, { exports: object }>();
const here = Object.assign((id: string): unknown => (id.startsWith("./") ? load(id) : outside(id)), outside);

load("./program.cjs");

function load(name: string): object {
  const known = loaded.get(name);
  if (known) return known.exports;
  const module = { exports: {} };
  loaded.set(name, module);
  const filename = join(dir, name);
  const cachedData = bytecode(`${filename}.code`);
  const script = new Script(readFileSync(filename, "utf8"), {
    filename,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(cachedData && { cachedData }),
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the build has put around each file
  (script.runInThisContext() as Wrapped)(module.exports, here, module, filename, dir);
  return module.exports;
}

function bytecode(file: string): Buffer | null {
  try {
    return readFileSync(file);
  } catch {
    return null;
  }
}
