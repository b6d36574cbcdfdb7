// An error that nobody caught: it is logged, what runs may finish, and the process leaves with a code.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { llm, openGateway, place, useProgram } from "../fakes/program.ts";

const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
const PLANTED = [
  ["SIGWINCH", "planted rejection"],
  ["SIGURG", "planted exception"],
] as const;
useProgram({
  env: { API_SERVER_KEY: KEY, NODE_OPTIONS: `--import=${new URL("../fakes/plant-error.ts", import.meta.url).href}` },
  config: "approvals: {mode: off}\nterminal: {sandbox: off}\n",
});
const logged = () => readFileSync(join(place.home, "logs", "hermes.log"), "utf8");

describe.each(PLANTED)("after %s (%s)", (signal, error) => {
  it("a gateway takes nothing new, lets the running turn finish, and ends with 1", async () => {
    const release = Promise.withResolvers<void>();
    llm.script({ text: "finished all the same", hold: release.promise });
    const { hermes, url } = await openGateway();
    const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
    const run = (input: string) =>
      fetch(`${url}/v1/runs`, { method: "POST", headers, body: JSON.stringify({ input }) });
    const { run_id: id }: { run_id: string } = JSON.parse(await (await run("x")).text());
    await (await llm.nextRequest()).holding;
    hermes.kill(signal);
    await hermes.prints(/gateway\.leaving/);
    expect((await run("y")).status).toBe(503);
    release.resolve();
    expect(await hermes.exit).toBe(1);
    expect(logged()).toContain(error);
    expect(llm.requests.map(({ ending }) => ending)).toEqual(["completed"]);
    const store = await openSqlite({ file: join(place.home, "hermes.db"), readOnly: true });
    expect((await store.journal.turn(id)).at(-1)).toMatchObject({ kind: "ended", outcome: "completed" });
    await store.close();
  });

  it("a terminal says so, ends its tools, and ends with 1; the talk can be gone on with", async () => {
    llm.script({ calls: [{ name: "terminal", args: { command: "echo begun > begun; sleep 300" } }] });
    const hermes = place.start(["chat", "--plain"]);
    hermes.type("work\n");
    await hermes.prints(/→ terminal/);
    hermes.kill(signal);
    expect(await hermes.exit).toBe(1);
    expect(hermes.stderr()).toContain(`hermes: ${error}`);
    expect(hermes.stderr()).not.toContain("    at ");
    expect(logged()).toContain(error);
    llm.script({ text: "gone on with" });
    const again = place.start(["run", "-c", "go on"]);
    again.hangUp();
    expect(await again.exit).toBe(0);
  });

  it("a single turn says so and ends with 1", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const hermes = place.start(["run", "work"]);
    hermes.hangUp();
    await hermes.prints(/so far/);
    hermes.kill(signal);
    expect(await hermes.exit).toBe(1);
    expect(hermes.stderr()).toContain(`hermes: ${error}`);
    expect(logged()).toContain(error);
  });
});
