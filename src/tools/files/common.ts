// What the file tools share.
import * as z from "zod";
import type { Gate, ToolResult } from "../../core/ports.ts";
import { escapeForDisplay as display } from "../../policy/display.ts";
import { failed } from "../define.ts";
import type { Confine, PathAccess } from "./confine.ts";
import type { Locked } from "./locks.ts";
import { showDiff } from "./preview.ts";
import type { Marks } from "./seen.ts";
import { plain } from "./text.ts";
import { Trouble, troubleOf } from "./trouble.ts";

/** Runs a program with these arguments, without a shell, and returns all of its output. A code of 126 or more means
 *  that it could not be started. */
export type RunProgram = (
  args: readonly string[],
  options: { cwd: string; signal: AbortSignal },
) => Promise<{ code: number; output: string; truncated: boolean }>;

export type Files = {
  confine: Confine;
  marks: Marks;
  locked: Locked;
  ripgrep: RunProgram | null;
};

export const Path = z
  .string()
  .min(1, "is empty: give a path")
  .max(4_096, "is too long for a path")
  .refine((path) => !path.includes("\0"), "contains a NUL character: leave it out");
/** Text that is not valid Unicode would be changed silently when it is written as UTF-8. */
export const Content = (most: number) =>
  z
    .string()
    .max(most, `is longer than ${most} characters: write it in parts or with the terminal tool`)
    .refine((text) => text.isWellFormed(), "contains half a character (a lone surrogate): leave it out");

const APPROVAL_MS = 300_000;

/** `preview`: what would be written, as lines of a diff, for the person who is asked. */
export async function gateOf(
  { confine }: Files,
  wish: {
    tool: string;
    session: string;
    access: PathAccess;
    paths: readonly string[];
    preview?: () => Promise<string[]>;
  },
): Promise<Gate> {
  const asked: string[] = [];
  for (const path of new Set(wish.paths)) {
    const verdict = await confine.locate(path, wish.access, wish.session);
    if (verdict.is === "no") return { gate: "refuse", result: `Not run: ${plain(verdict.why)}` };
    if (verdict.is === "ask") asked.push(`${display(verdict.real)}\n  (${display(verdict.why)})`);
  }
  if (asked.length === 0) return { gate: "run" };
  const preview = wish.preview ? `\n\n${showDiff(await wish.preview())}` : "";
  const text = `${wish.tool} wants to ${wish.access}:\n${asked.join("\n")}${preview}`;
  return { gate: "ask", kind: "approval", text, choices: ["once", "deny"], timeoutMs: APPROVAL_MS };
}

/** The real path. If approval was needed, it was given before (C2 in confine.ts). */
export async function reach({ confine }: Files, path: string, access: PathAccess, session: string): Promise<string> {
  const verdict = await confine.locate(path, access, session);
  if (verdict.is === "no") throw new Trouble(`Not run: ${verdict.why}`);
  return verdict.real;
}

/** An error of the disk is a result, too. */
export async function settled(path: string, work: () => Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    return failed(plain(troubleOf(error, path)));
  }
}
