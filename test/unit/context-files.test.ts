// AGENTS.md and friends, in a workspace whose author wants something else than to be read.
import { linkSync, mkdirSync, mkdtempSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { createContextFiles } from "../../src/platform/context-files.ts";
import { makePipes } from "../fakes/pipe.ts";

let root = "";
let work = "";
const told: string[] = [];

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "hermes-context-")));
  work = join(root, "work");
  mkdirSync(work);
  told.length = 0;
});

const read = () =>
  createContextFiles({
    cwd: work,
    home: join(root, "home"),
    now: () => 0,
    log: (_, event, fields) => told.push(`${event} ${JSON.stringify(fields)}`),
  })();

describe("files for agents in the working directory", () => {
  it("are read, and one that is a link to another of the workspace once", async () => {
    mkdirSync(join(work, "docs"));
    writeFileSync(join(work, "docs", "agents.md"), "Use tabs.");
    symlinkSync("docs/agents.md", join(work, "AGENTS.md"));
    symlinkSync("AGENTS.md", join(work, "CLAUDE.md"));
    writeFileSync(join(work, ".cursorrules"), "Be brief.");
    expect(await read()).toEqual([
      { name: "AGENTS.md", text: "Use tabs." },
      { name: ".cursorrules", text: "Be brief." },
    ]);
    expect(told).toEqual([]);
  });

  it("are read again after two seconds, also when the clock was set back", async () => {
    let now = 10_000;
    const files = createContextFiles({ cwd: work, home: join(root, "home"), now: () => now, log: () => {} });
    const textAt = async (at: number, written: string) => {
      writeFileSync(join(work, "AGENTS.md"), written);
      now = at;
      return (await files())[0]?.text;
    };
    expect(await textAt(10_000, "one")).toBe("one");
    expect(await textAt(11_000, "two")).toBe("one");
    expect(await textAt(12_001, "two")).toBe("two");
    expect(await textAt(5_000, "three")).toBe("three");
  });

  it.each([
    ["our own environment", () => "/proc/self/environ"],
    ["a file outside of it", () => join(root, "notes.md")],
    ["a private key", () => join(work, "id_rsa")],
    ["credentials inside of it", () => join(work, ".ssh", "notes.md")],
    ["hermes' own directory inside of it", () => join(root, "home", "notes.md")],
    ["a device", () => "/dev/zero"],
    ["a directory", () => work],
  ])("are not read through a link to %s, and the log says so", async (_, target) => {
    for (const dir of [join(work, ".ssh"), join(root, "home")]) mkdirSync(dir, { recursive: true });
    const places = [
      join(root, "notes.md"),
      join(work, "id_rsa"),
      join(work, ".ssh", "notes.md"),
      join(root, "home", "notes.md"),
    ];
    for (const place of places) writeFileSync(place, "SECRET");
    symlinkSync(target(), join(work, "AGENTS.md"));
    expect(await read()).toEqual([]);
    expect(told).toHaveLength(1);
    expect(told[0]).toContain("AGENTS.md");
  });

  it("are not read where HERMES_HOME lies in the working directory and a link leads there", async () => {
    const home = join(work, ".state");
    mkdirSync(home);
    writeFileSync(join(home, "key.md"), "SECRET");
    symlinkSync(join(home, "key.md"), join(work, "AGENTS.md"));
    const files = createContextFiles({ cwd: work, home, now: () => 0, log: () => {} });
    expect(await files()).toEqual([]);
  });

  it("are not read through a second name of a file that lies elsewhere", async () => {
    writeFileSync(join(root, "elsewhere"), "SECRET");
    linkSync(join(root, "elsewhere"), join(work, "AGENTS.md"));
    expect(await read()).toEqual([]);
    expect(told[0]).toContain("hard link");
  });

  it("that are pipes hang nobody", async () => {
    const names = ["AGENTS.md", "CLAUDE.md", ".hermes.md", ".cursorrules"].map((name) => join(work, name));
    makePipes(...names);
    expect(await read()).toEqual([]);
    expect(told).toHaveLength(4);
  });

  it("are cut where they are too long, between characters", async () => {
    writeFileSync(join(work, "AGENTS.md"), "é".repeat(50_000));
    const [file] = await read();
    expect(file?.text.startsWith("éééé")).toBe(true);
    expect(file?.text).not.toContain("\uFFFD");
    expect(file?.text.length).toBeLessThan(21_000);
  });
});
