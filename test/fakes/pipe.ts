// Named pipes that nobody writes to: whoever opens one plainly waits for ever.
import { execFileSync } from "node:child_process";

export const makePipes = (...paths: string[]): void => void execFileSync("sh", ["-c", 'mkfifo "$@"', "sh", ...paths]);
