// What one command may take of the machine.
import { expect, it } from "vitest";
import { sandboxed } from "../fakes/sandboxed.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox");

const box = sandboxed();
const MB = 2 ** 20;

boxed.describe("a command in the sandbox", () => {
  it("that eats memory is ended, and the result says so", async () => {
    const { sh } = box.terminal({}, { limits: { memoryBytes: 100 * MB, processes: 1000 } });
    const eat =
      "python3 -c 'import time; a = [bytearray(1000000) for i in range(400)]; print(\"full\", flush=True); time.sleep(20)'";
    const { ok, text } = await sh(`echo begun; (${eat}) & wait`);
    expect(ok).toBe(false);
    expect(text).toMatch(/^\[exit 137 .*ended, since it used more than 100 MB of memory\]\nbegun\n/);
  });

  it("may have as much as it shares, and files that it only maps", async () => {
    const { sh } = box.terminal({}, { limits: { memoryBytes: 150 * MB, processes: 1000 } });
    const fork =
      "import os, time; a = bytearray(80000000); p = [os.fork() for i in range(2)]; time.sleep(1.2); print('fine')";
    expect((await sh(`python3 -c "${fork}"`)).ok).toBe(true);
  });

  it("that multiplies is ended, in the background too", async () => {
    const { sh } = box.terminal({}, { limits: { memoryBytes: 2000 * MB, processes: 60 } });
    // At most 200 of them: what is tested is not to harm the machine.
    const bomb = "echo begun; for i in $(seq 200); do sleep 20 & done; wait";
    expect((await sh(bomb)).text).toMatch(/had more than 60 processes|Resource temporarily unavailable/);
    const { text } = await sh({ command: bomb, background: true });
    expect(text).toContain("bg_");
  });

  it("is what the kernel takes first when there is no memory left", async () => {
    const { text } = await box.terminal().sh("sh -c 'cat /proc/self/oom_score_adj'; ulimit -u");
    expect(text).toMatch(/\n800\n4096\n$/);
  });
});
