// Which variables a command may set without changing how programs run.
import { oneOf } from "./table.ts";
import type { Arg } from "./types.ts";

/** For one command, or exported: few names, plain values. */
const EXPORTED = /^(?:LC_[A-Z]+|LANG|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|NODE_ENV|TERM)$/;
const PLAIN = /^[\w.@:+-]*$/;
/** Within the shell: names that no environment is likely to contain already, because setting such a name also changes
 *  it for programs. PATH, IFS, HOME, LD_*, GIT_*, *_proxy, npm_* and similar names are not here. */
const LOCAL = oneOf(`
  [a-z][a-z0-9_]* _[a-z0-9_]* [A-Z] DIR DIRS FILE FILES NAME NAMES COUNT TOTAL ROOT SRC LINE RESULT OUT ITEM BASE
  BRANCH VERSION URL ID`);
const CARRIED = /^npm_|_proxy$|^histchars$|^auto_resume$/;

export const mayExport = (name: string, value: Arg): boolean => EXPORTED.test(name) && PLAIN.test(value.value ?? "/");
export const maySet = (name: string): boolean => LOCAL.test(name) && !CARRIED.test(name);
