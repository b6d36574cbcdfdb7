// The options of a campaign's command: whole numbers, each with what it means and what it is if not given.
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/errors.ts";

/** Ends the process after `--help`, and with 2 after anything that cannot be read. */
export function readNumbers<Name extends string>(
  command: string,
  options: Readonly<Record<Name, { meaning: string; usual: number }>>,
): Record<Name, number> {
  const rows = Object.entries<{ meaning: string; usual: number }>(options);
  const given = read();
  if (given["help"]) {
    const lines = rows.map(([name, { meaning, usual }]) => `  --${`${name} N`.padEnd(12)}${meaning} (${usual})`);
    console.log(`npm run ${command} -- [options]\n${lines.join("\n")}`);
    process.exit(0);
  }
  const numbers = rows.map(([name, { usual }]) => [
    name,
    given[name] === undefined ? usual : number(name, given[name]),
  ]);
  return Object.fromEntries(numbers) as Record<Name, number>;

  function read(): Record<string, unknown> {
    try {
      const texts = rows.map(([name]) => [name, { type: "string" as const }]);
      return parseArgs({ options: { ...Object.fromEntries(texts), help: { type: "boolean", short: "h" } } }).values;
    } catch (error) {
      console.error(`${messageOf(error)}\nTry: npm run ${command} -- --help`);
      return process.exit(2);
    }
  }
}

function number(name: string, text: unknown): number {
  const n = Number(text);
  if (Number.isSafeInteger(n) && n > 0) return n;
  console.error(`--${name} must be a whole number above 0, not "${String(text)}".`);
  return process.exit(2);
}
