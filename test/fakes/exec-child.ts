// A process that uses the runner, to be measured or killed from outside.
//   exec-child.ts hold <home> <marker> [sandbox]     runs a command that never ends, says "ready"
//   exec-child.ts gigabyte <file> <marker> [sandbox] takes 1 GB of output, says how its memory grew
//   exec-child.ts plain <dir> <marker>               runs something short
import { ownerHere, run } from "../../src/tools/shell/exec.ts";

const [what, place = "", marker = "", boxed] = process.argv.slice(2);
const sandbox = boxed ? { writable: [], hidden: [] } : null;
const GB = 1024 ** 3;

if (what === "hold") {
  const onOutput = () => console.log("ready");
  const command = "trap '' TERM; sleep 300 & setsid sleep 300 & echo ready; wait; sleep 300";
  await run(command, { cwd: "/", marker, owner: ownerHere(place), sandbox, onOutput });
}

if (what === "plain") {
  const command = "/usr/bin/env sleep 300 & /bin/echo out; /bin/echo err >&2; exit 3";
  const env = { PATH: "/usr/bin:/bin" };
  console.log(JSON.stringify(await run(command, { cwd: place, marker, env })));
}

if (what === "gigabyte") {
  const options = { cwd: "/", marker, sandbox };
  await run("yes | head -c 1000000", options);
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  let most = before;
  const onOutput = () => (most = Math.max(most, process.memoryUsage.rss()));
  const began = performance.now();
  const command = `yes "0123456789 0123456789 0123456789 0123456789" | head -c ${GB}; echo the end`;
  const result = await run(command, { ...options, onOutput, spool: { file: place } });
  const { code, bytes, truncated, output, file, note } = result;
  const ms = performance.now() - began;
  console.log(
    JSON.stringify({
      grown: most - before,
      ms,
      code,
      bytes,
      truncated,
      kept: output.length,
      tail: output.slice(-9),
      file,
      note,
    }),
  );
}
