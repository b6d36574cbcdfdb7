// hermes backup and restore, as real processes beside a gateway that works; and a restore that is cut off at each of its steps.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, watch, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { homeAt } from "../../src/platform/home.ts";
import { restoreBackup } from "../../src/store/sqlite/restore.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { llm, openGateway, place, useProgram } from "../fakes/program.ts";

useProgram({ config: "display: {theme: dark}" });

const hermes = async (args: string[], env: NodeJS.ProcessEnv = {}) => {
  const child = place.start(args, env);
  child.hangUp();
  return { code: await child.exit, stdout: child.stdout(), stderr: child.stderr() };
};
const put = (name: string, bytes: string | Buffer, home = place.home) => {
  mkdirSync(dirname(join(home, name)), { recursive: true, mode: 0o700 });
  writeFileSync(join(home, name), bytes, { mode: 0o600 });
};
const read = (name: string, home = place.home) => readFileSync(join(home, name), "utf8");

describe("hermes backup", () => {
  it("copies a home in use into one private file, and restore brings all of it back elsewhere", async () => {
    put("skills/tea/SKILL.md", "how to make tea");
    put(".env", "SOME_KEY=secret\n");
    symlinkSync("tea", join(place.home, "skills", "drink"));
    const { hermes: gateway, url } = await openGateway();
    const client = createClient({ url, key: read("api_key").trim() });
    llm.script(({ messages }) => ({ text: `to ${JSON.stringify(messages.at(-1))}`, chunkDelayMs: 5 }));
    const before = await client.start("green tea", { session_id: "before" });
    await client.wait(before.run_id);
    const during = await client.start("black tea", { session_id: "during" });

    const file = join(place.dir, "b.db");
    const made = await hermes(["backup", file]);
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(made.stdout).toContain("It contains your API keys");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await client.wait(during.run_id)).toMatchObject({ status: "completed" });
    expect(await hermes(["backup", file])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("exists already"),
    });
    expect(await hermes(["restore", "--replace", file])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`already running (PID ${gateway.pid})`),
    });

    const elsewhere = join(place.dir, "elsewhere");
    expect(await hermes(["restore", file], { HERMES_HOME: elsewhere })).toMatchObject({ code: 0, stderr: "" });
    for (const name of ["skills/tea/SKILL.md", "skills/drink/SKILL.md", ".env", "config.yaml", "api_key"])
      expect(read(name, elsewhere)).toBe(read(name));
    expect((await hermes(["sessions"], { HERMES_HOME: elsewhere })).stdout).toContain("green tea");
    gateway.kill("SIGTERM");
    await gateway.exit;
  });

  it("leaves no backup behind when it is killed, and the next one works", async () => {
    expect(await hermes(["run", "hello"])).toMatchObject({ code: 0 });
    for (let i = 0; i < 5; i++) put(`attachments/a/${i}`, randomBytes(4_000_000));
    const [file, partial] = [join(place.dir, "b.db"), join(place.dir, "b.db.partial")];
    const changes = watch(place.dir);
    const killed = place.start(["backup", file]);
    while (!(statSync(partial, { throwIfNoEntry: false })?.size ?? 0)) await once(changes, "change");
    killed.kill("SIGKILL");
    changes.close();
    expect(await killed.exit).toBe("SIGKILL");
    expect(existsSync(file)).toBe(false);
    expect(await hermes(["backup", file])).toMatchObject({ code: 0 });
    expect(existsSync(partial)).toBe(false);
  });
});

describe("hermes restore", () => {
  /** A backup of a home that answered "hello", and that home with other files in it. */
  async function prepared() {
    await hermes(["run", "hello"]);
    put("notes/a", "old note");
    const file = join(place.dir, "b.db");
    expect(await hermes(["backup", file])).toMatchObject({ code: 0 });
    put("notes/a", "new note");
    put("notes/b", "another");
    put("later.txt", "later");
    return file;
  }

  it("replaces nothing without being told, and then keeps what was there", async () => {
    const file = await prepared();
    const refused = await hermes(["restore", file]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("--replace") });
    expect(read("notes/a")).toBe("new note");

    expect(await hermes(["restore", "--replace", file])).toMatchObject({ code: 0, stderr: "" });
    expect(read("notes/a")).toBe("old note");
    expect(readdirSync(join(place.home, "notes"))).toEqual(["a"]);
    const [replaced = ""] = readdirSync(join(place.home, "backups"));
    expect(read(`backups/${replaced}/later.txt`)).toBe("later");
    expect(read(`backups/${replaced}/notes/a`)).toBe("new note");
    expect((await hermes(["sessions"])).stdout).toContain("hello");
  });

  it("refuses what is no backup, is damaged, or names files outside of the home", async () => {
    const file = await prepared();
    const bad = (name: string, bytes: Buffer) => (put(name, bytes, place.dir), join(place.dir, name));
    const whole = readFileSync(file);
    const cut = bad("cut.db", whole.subarray(0, whole.length - 8_192));
    const text = bad("text.db", Buffer.from("not a database"));
    const escaping = bad("escaping.db", whole);
    const db = new DatabaseSync(escaping);
    db.exec("UPDATE sqlar SET name = '../escaped' WHERE name = 'notes/a'");
    db.close();
    for (const one of [cut, text, escaping, join(place.dir, "missing.db"), join(place.home, "hermes.db")])
      expect((await hermes(["restore", "--replace", one])).code, one).not.toBe(0);
    expect(read("notes/a")).toBe("new note");
    expect(readdirSync(place.home).filter((name) => name.startsWith(".restore"))).toEqual([]);
  });

  it("cut off at any step, either leaves the old home or is finished by the next restore; nothing starts in between", async () => {
    const file = await prepared();
    const home = homeAt(place.home);
    for (let step = 1, done = false; !done; step++) {
      put("notes/a", "new note");
      let steps = 0;
      const progress = (line: string) => {
        if (/checking|moving/.test(line) && ++steps === step) throw new Error("cut off");
      };
      const options = { replace: true, replaced: join(place.dir, `replaced-${step}`) };
      const restored = restoreBackup(home, { file, progress, ...options });
      done = await restored.then(
        () => true,
        () => false,
      );
      if (!done && readdirSync(home.dir).some((name) => name.startsWith(".restore-"))) {
        await expect(openSqlite({ file: home.database })).rejects.toThrow("finish it with: hermes restore");
        await restoreBackup(home, {
          ...options,
          file: null,
          progress: () => {},
          replaced: `${options.replaced}-again`,
        });
      } else if (!done) {
        expect(read("notes/a"), `step ${step}`).toBe("new note");
        continue;
      }
      expect(read("notes/a"), `step ${step}`).toBe("old note");
      const store = await openSqlite({ file: home.database });
      expect(await store.check()).toEqual([]);
      expect(await store.catalog.sessions({ limit: 5 })).toHaveLength(1);
      await store.close();
    }
  });
});
