// All tools together, over a real engine.
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { openSkills } from "../../src/skills/open.ts";
import { openToolbox } from "../../src/tools/toolbox.ts";
import { bootEngine, handClock } from "../fakes/scripted.ts";

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-toolbox-")));
  for (const name of ["home", "work"]) mkdirSync(join(dir, name));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("a background process that ends while the store fails is told of once the store is well; who can be asked is as when it began", async () => {
  const failing = { now: true, times: 0 };
  const asked = Promise.withResolvers<void>();
  const between = (store: Store): Store => ({
    ...store,
    journal: {
      ...store.journal,
      async commit(change) {
        if (!failing.now) return store.journal.commit(change);
        failing.times++;
        asked.resolve();
        throw new StoreFault("no", "the disk failed");
      },
    },
  });
  const clock = handClock();
  const { engine, entry, journal } = await bootEngine({ between, clock });
  const [home, workspace] = [join(dir, "home"), join(dir, "work")];
  const log = () => {};
  const toolbox = await openToolbox({
    home,
    workspace,
    terminal: { timeoutMs: 10_000, sandbox: "off", network: "on", network_allow: [], writable: [], readable: [] },
    approvals: { mode: "off", timeoutMs: 10_000, allow: [], deny: [], unattended: "deny" },
    sandbox: { sandbox: null, why: "", refuse: false },
    clarifyMs: 10_000,
    mcpServers: {},
    cluster: null,
    journal: engine,
    catalog: engine,
    notes: engine.notes,
    search: engine.search,
    runtime: () => engine,
    jobs: () => {
      throw new Error("There are none.");
    },
    skills: openSkills({ home, workspace, clock, log }),
    clock,
    log,
  });
  const terminal = toolbox.tools().find(({ name }) => name === "terminal");
  const args = { command: "true", background: true, notify_on_complete: true };
  const { signal } = new AbortController();
  await terminal?.run(args, { session: "s", turn: "t", call: "c", signal, unattended: "allow" });
  await asked.promise;
  await clock.pass(0);
  expect(journal("s")).toEqual([]);
  failing.now = false;
  await clock.pass(60_000);
  const { input } = await entry("s", "accepted");
  expect(input).toMatchObject({ text: expect.stringContaining("bg_"), unattended: "allow" });
  await toolbox.close();
});
