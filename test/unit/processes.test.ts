import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ownerHere } from "../../src/tools/shell/exec.ts";
import { createProcesses } from "../../src/tools/shell/processes.ts";
import { localStateIn } from "../fakes/local-state.ts";

it("of finished processes the last hundred are remembered, over all sessions, and of a forgotten session none", async () => {
  const dir = mkdtempSync(join(tmpdir(), "hermes-processes-"));
  const processes = createProcesses({
    owner: ownerHere(dir),
    log: () => {},
    notes: localStateIn(dir),
    onComplete: () => {},
  });
  const start = async (session: string, command: string) => {
    const begun = await processes.start(session, command, {
      cwd: dir,
      sandbox: null,
      outputs: dir,
      notify: false,
      onEnd: async () => {},
    });
    if (typeof begun === "string") throw new Error(begun);
    return begun;
  };
  const server = await start("server", "exec sleep 300");
  for (let n = 0; n < 102; n++) await (await start(`s${n}`, ":")).running.done;
  const remembered = Array.from({ length: 102 }, (_, n) => processes.list(`s${n}`).length);
  expect(remembered.slice(0, 3)).toEqual([0, 0, 1]);
  expect(processes.list("server")).toEqual([server]);
  expect(processes.running().map(({ session }) => session)).toEqual(["server"]);
  await processes.forget("server");
  expect([processes.list("server"), processes.running().map(({ session }) => session)]).toEqual([[], []]);
  await processes.close();
  rmSync(dir, { recursive: true });
}, 60_000);
