import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { expect } from "vitest";
import { needs } from "../needs.ts";

const { it } = await needs("proc");

it("what a killed node's tools have started is ended, whatever it has done with its group", async () => {
  const owner = `0123456789abcdef:${process.pid}:1`;
  const script = `
    import { spawn } from "node:child_process";
    import { watchOver } from ${JSON.stringify(new URL("../../src/tools/shell/watcher.ts", import.meta.url).href)};
    watchOver(${JSON.stringify(owner)});
    const env = { PATH: process.env.PATH, HERMES_OWNER: ${JSON.stringify(`${owner};`)} };
    const tool = spawn("setsid", ["sleep", "1000"], { env, detached: true, stdio: "ignore" });
    const other = spawn("sleep", ["1000"], { stdio: "ignore" });
    console.log(tool.pid, other.pid);`;
  const node = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(node.stdout, "data")) as [Buffer];
  const [tool = 0, other = 0] = line.toString().trim().split(" ").map(Number);
  node.kill("SIGKILL");
  await expect.poll(() => existsSync(`/proc/${tool}`), { timeout: 10_000 }).toBe(false);
  expect(existsSync(`/proc/${other}`)).toBe(true);
  process.kill(other, "SIGKILL");
});
