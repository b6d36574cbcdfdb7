// What is kept of sessions that are at rest is weighed, not counted: the engine on a real store, over HTTP.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { startApi } from "../fakes/api.ts";

const MB = 1_000_000;
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** External memory is given back after a collection, not in it: one collection alone saw between 52 and 78 MB here. */
async function held(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 5; look++) {
    collect();
    await new Promise(setImmediate);
    const { heapUsed, external } = process.memoryUsage();
    least = Math.min(least, heapUsed + external);
  }
  return least;
}

it("60 runs with a picture of 2 MB each, all over, leave little behind, and go on with their pictures", async () => {
  const dir = mkdtempSync(join(tmpdir(), "hermes-idle-"));
  const store = await openSqlite({ file: join(dir, "hermes.db") });
  const api = await startApi({ between: () => store });
  const picture = (n: number) => Buffer.alloc(2 * MB, n + 1).toString("base64");
  const see = (n: number) => ({
    role: "user",
    content: [
      { type: "text", text: "look" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${picture(n)}` } },
    ],
  });
  const before = await held();
  for (let n = 0; n < 60; n++) {
    const id = await api.run({ input: [see(n)], session_id: `s${n}` });
    (await api.model.next()).answer("seen");
    (api.model.all as unknown[])[n] = null; // the desk would keep what it was asked
    await api.ended(`s${n}`, id);
  }
  expect((await held()) - before).toBeLessThan(60 * MB);

  await api.run({ input: "and now?", session_id: "s0" });
  const [first] = (await api.model.next()).request.messages;
  expect(first?.role === "user" && first.images?.[0]?.data === picture(0)).toBe(true);
  await api.close();
  await store.close();
  rmSync(dir, { recursive: true });
}, 60_000);
