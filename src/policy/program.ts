// How a program that reads and shows is judged: by its options and operands, never by its name alone.

import { type Parsed, type Problem, parseArgs, wasGiven } from "./options.ts";
import { entries, own } from "./table.ts";
import type { Arg } from "./types.ts";

export type Program = {
  /** Options known to be harmless, in the notation of options.ts. */
  options?: string;
  /** No option can write or run anything in any version, so every word is allowed. */
  loose?: boolean;
  /** Maximum number of operands; by default any number. */
  most?: number;
  /** Reads names and sizes, never the content of files. */
  names?: boolean;
  /** The first word is a subcommand. */
  subs?: Record<string, Program>;
  /** Without a subcommand it only shows something. */
  bare?: boolean;
  /** Restricts the order of options and operands; see options.ts. */
  order?: "first" | "stop";
  check?: (parsed: Parsed) => Problem | null;
};

export const judgeProgram = (name: string, program: Program, args: readonly Arg[]): Problem | null => {
  if (program.loose) return null;
  const { subs } = program;
  if (subs) {
    const parsed = parseArgs(name, args, program.options ?? "", "stop");
    if ("reason" in parsed) return parsed;
    const [first, ...rest] = parsed.operands;
    if (!first) return program.bare || wasGiven(parsed.given, "--version", "-v", "-V") ? null : unknown(name, "");
    const sub = first.value === null ? undefined : own(subs, first.value);
    if (!sub) return unknown(`${name} ${first.source}`, "");
    return judgeProgram(`${name} ${first.source}`, sub, rest);
  }
  const { most } = program;
  const order = program.order ?? (most === undefined ? "any" : "first");
  const parsed = parseArgs(name, args, program.options ?? "", order);
  if ("reason" in parsed) return parsed;
  const over =
    most !== undefined && (parsed.operands.length > most || (most > 0 && parsed.operands.some(({ many }) => many)));
  if (over)
    return {
      reason: `with these words ${name} could write or change something`,
      source: parsed.operands.map(({ source }) => source).join(" "),
    };
  return program.check?.(parsed) ?? null;
};

/** A program, or a subcommand of one, that is not known to only read. */
export const unknown = (name: string, source: string): Problem => ({
  reason: `\`${name}\` ${own(EFFECTS, name) ?? "may do more than read"}, so approval is needed`,
  source,
});

const EFFECTS: Record<string, string> = {
  ...entries("rm rmdir unlink shred truncate", "can delete files"),
  ...entries("touch mkdir cp mv ln tee dd install patch", "can change files"),
  ...entries("chmod chown chgrp", "can change the rights of files"),
  ...entries("kill pkill killall", "can stop programs"),
  "git push": "can change another repository",
};
