import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createSweep, removeSessionDir, sessionDir } from "../../src/platform/session-dirs.ts";
import { createPlaces } from "../../src/tools/shell/session-dirs.ts";

const DAY = 86_400;
const NOW = Date.parse("2026-11-20T09:00:00Z");
let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "hermes-dirs-"));
});
afterEach(() => rmSync(root, { recursive: true }));

/** With a file in it, both last changed so many days ago. */
function used(path: string, days: number, fileDays = days): string {
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "file"), "x");
  utimesSync(join(path, "file"), NOW / 1_000 - fileDays * DAY, NOW / 1_000 - fileDays * DAY);
  utimesSync(path, NOW / 1_000 - days * DAY, NOW / 1_000 - days * DAY);
  return path;
}

it("what nobody has used for 30 days goes; what is in use, or was written to, stays", async () => {
  const old = used(sessionDir(root, "old"), 31);
  const kept = [used(sessionDir(root, "new"), 29), used(sessionDir(root, "busy"), 99), used(join(root, "log"), 99, 1)];
  const file = join(root, "old-file");
  writeFileSync(file, "x");
  utimesSync(file, NOW / 1_000 - 31 * DAY, NOW / 1_000 - 31 * DAY);
  await createSweep(root)(NOW, ["busy"]);
  expect([old, file, ...kept].map((path) => existsSync(path))).toEqual([false, false, true, true, true]);
});

it("one pass looks at a thousand, and the next one goes on behind them", async () => {
  const paths = Array.from({ length: 1_500 }, (_, n) => {
    const path = join(root, String(n).padStart(4, "0"));
    const at = NOW / 1_000 - (n < 1_000 ? 1 : 31) * DAY;
    writeFileSync(path, "");
    utimesSync(path, at, at);
    return path;
  });
  const left = () => paths.filter((path) => existsSync(path)).length;
  const sweep = createSweep(root);
  await sweep(NOW, []);
  expect(left()).toBe(1_500);
  await sweep(NOW, []);
  expect(left()).toBe(1_000);
  await sweep(NOW + 30 * DAY * 1_000, []);
  expect(left()).toBe(0);
});

it("a session's files go with it, and no others; what is not there is no trouble", async () => {
  const [one, two] = [used(sessionDir(root, "one"), 0), used(sessionDir(root, "two"), 0)];
  await removeSessionDir(root, "one");
  await removeSessionDir(root, "never");
  expect([one, two].map((path) => existsSync(path))).toEqual([false, true]);
  await createSweep(join(root, "nowhere"))(NOW, []);
});

it("a session that was deleted and begins anew is where all begin", async () => {
  const places = createPlaces(root, () => {});
  places.of("one");
  places.setCwd("one", "/srv");
  expect([places.cwd("one"), createPlaces(root, () => {}).cwd("one")]).toEqual(["/srv", "/srv"]);
  await places.forget("one");
  expect(places.cwd("one")).toBeNull();
});
