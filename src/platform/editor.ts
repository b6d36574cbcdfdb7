// The person's own editor, on this terminal.
import { spawn } from "node:child_process";
import { once } from "node:events";

/** Its exit code; 127 where there is no such program. */
export async function runEditor(editor: string, file: string, signal?: AbortSignal): Promise<number> {
  const before = process.listeners("SIGINT");
  process.removeAllListeners("SIGINT").on("SIGINT", ignored);
  try {
    // By a shell, because the variable may contain options: EDITOR="code --wait". Ctrl+C reaches the shell too, and must not
    // end it before the editor.
    const child = spawn("/bin/sh", ["-c", `trap : INT; ${editor} "$1"`, "sh", file], { stdio: "inherit", signal });
    const [code] = await once(child, "exit");
    return typeof code === "number" ? code : 1;
  } finally {
    process.off("SIGINT", ignored);
    for (const listener of before) process.on("SIGINT", listener);
  }
}

const ignored = () => {}; // Ctrl+C is for the editor
