// Ends what the tools of a node have started when the node is killed. A single hermes does that at its next start (sweepOrphans); of
// several nodes another one goes on with the session at once, while nobody may start on this machine for long.
import { spawn } from "node:child_process";

/** Waits until our end of the pipe is closed, by our death too, and kills whatever carries the mark, until nothing does. One grep for all: two
 *  programs for each process took seconds on a busy machine. */
const SCRIPT = `
read -r _
for round in 1 2 3 4 5; do
  found=$(grep -lsF -- "=$1;" /proc/[0-9]*/environ)
  [ -n "$found" ] || exit 0
  for file in $found; do
    dir=\${file%/environ}
    kill -KILL "\${dir#/proc/}" 2>/dev/null
  done
done`;

/** `owner`: `ownerHere(home)`. Returns how to end the watch, when everything has been ended in good order. Linux only. */
export function watchOver(owner: string): () => void {
  if (process.platform !== "linux") return () => {};
  const watcher = spawn("/bin/sh", ["-c", SCRIPT, "hermes watcher", owner], {
    cwd: "/",
    env: { PATH: "/usr/bin:/bin" },
    detached: true, // a signal to our group is not for it
    stdio: ["pipe", "ignore", "ignore"],
  });
  watcher.on("error", () => {}); // there is no shell: as before
  watcher.stdin.on("error", () => {});
  watcher.unref();
  return () => void watcher.kill("SIGKILL");
}
