// Clients that others have written, each a small program in its own language (cases/): what it needs is in its first lines, it finds the
// gateway in its environment, and it passes if it exits with 0.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Reply } from "../fakes/llm/reply.ts";
import type { LlmRequest } from "../fakes/llm/server.ts";

export type ClientCase = {
  name: string;
  file: string;
  language: "python" | "node";
  /** By name, from PyPI or npm. */
  packages: string[];
  /** Programs that must be on the machine. */
  needs: string[];
};

const DIR = fileURLToPath(new URL("cases/", import.meta.url));
const CASE_MS = 240_000;

export const clientCases = (): ClientCase[] =>
  readdirSync(DIR)
    .sort()
    .map((name) => {
      const file = join(DIR, name);
      const head = readFileSync(file, "utf8").slice(0, 500);
      const listed = (what: string) =>
        new RegExp(`^(?:#|//) ${what}: (.*)$`, "m").exec(head)?.[1]?.split(" ").filter(Boolean) ?? [];
      return {
        name: basename(name).replace(/\.\w+$/, ""),
        file,
        language: name.endsWith(".py") ? "python" : "node",
        packages: listed("packages"),
        needs: listed("needs"),
      };
    });

/** What is wrong; null: nothing. */
export async function runCase(
  command: string,
  { file, cwd, env }: { file: string; cwd: string; env: NodeJS.ProcessEnv },
): Promise<string | null> {
  const child = spawn(command, [file], { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: CASE_MS });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-6_000);
    });
  const ended = await new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) => resolve(code === 0 ? "" : `ended with ${code ?? signal}`));
  });
  return ended && `${ended}\n${output.trim()}`.trim() ? `${ended}\n${output.trim()}` : null;
}

/** The fake model does what the message asks for: `play:[…]` lists its replies (test/fakes/llm/reply.ts), one for each model call of the
 *  turn. */
export function playReply({ messages }: LlmRequest): Reply | undefined {
  const asked = messages.findLastIndex(({ role, text }) => role === "user" && text.includes("play:["));
  const [, play] = /play:(\[.*\])/.exec(messages[asked]?.text ?? "") ?? [];
  if (play === undefined) return undefined;
  const replies: Reply[] = JSON.parse(play);
  return (
    replies[messages.slice(asked).filter(({ role }) => role === "assistant").length] ?? { text: "The play is over." }
  );
}
