// hermes import as a person uses it: beside a home of Hermes that stays as it is, and then on with one of its conversations.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { copyHermesHome } from "../fakes/hermes-home.ts";
import { llm, place, useProgram } from "../fakes/program.ts";

useProgram();

const run = async (args: string[], env?: NodeJS.ProcessEnv) => {
  const hermes = place.start(args, env);
  hermes.hangUp();
  const code = await hermes.exit;
  return { code, stdout: hermes.stdout(), stderr: hermes.stderr() };
};

const contentOf = (dir: string) =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(
      ({ parentPath, name }) => `${join(parentPath, name)} ${readFileSync(join(parentPath, name)).toString("base64")}`,
    )
    .toSorted((a, b) => (a < b ? -1 : 1));

it("brings a home over, also after it was killed in the middle, goes on with a conversation, and leaves the old home alone", async () => {
  const old = copyHermesHome();
  try {
    const before = contentOf(old);
    // Theirs is no home for us.
    const refused = await run(["sessions"], { HERMES_HOME: old });
    expect(refused.code).toBe(78);
    expect(refused.stderr).toContain(`hermes import ${old}`);

    const cut = place.start(["import", old]);
    await cut.prints(/^Importing/m);
    cut.kill("SIGKILL");
    await cut.exit;
    const imported = await run(["import", old]);
    expect(imported).toMatchObject({ code: 0, stderr: "" });
    expect(imported.stdout).toMatch(/^Conversations: (?:\d+ imported|21 were here already)/m);
    expect((await run(["import", old])).stdout).toContain("21 were here already");
    expect((await run(["sessions", "-n", "30"])).stdout).toContain("Rozmowa z Alą 🦔");

    const session = "20261115_145838_c6308d";
    const went = await run(["run", "--session", session, "and now?"]);
    expect(went).toMatchObject({ code: 0, stdout: "Hello from the fake model.\n" });
    const sent = JSON.stringify(llm.requests.at(-1)?.body);
    expect(sent).toContain("How many lines are in notes.txt?");
    expect(sent).toContain('"role":"tool"');
    expect(contentOf(old)).toEqual(before);
  } finally {
    rmSync(dirname(old), { recursive: true });
  }
});

describe("the command line of Hermes", () => {
  it("works: -z and chat -q", async () => {
    expect(await run(["-z", "hello there"])).toEqual({ code: 0, stdout: "Hello from the fake model.\n", stderr: "" });
    const asked = await run(["chat", "-Q", "-q", "hello"]);
    expect(asked).toMatchObject({ code: 0, stdout: "Hello from the fake model.\n" });
    const session = /^session_id: (\S+)$/m.exec(asked.stderr)?.[1] ?? "";
    expect((await run(["chat", "-Q", "-q", "and?", "--resume", session])).stderr).toContain(session);
    expect(await run(["chat", "-q", "and?", "--resume", "none"])).toMatchObject({ code: 1, stdout: "" });
  });

  it("works: cron create, edit and tick", async () => {
    const made = await run(["cron", "create", "every 30m", "look", "--name", "looker"]);
    expect(made.stdout).toMatch(/^Created job: [0-9a-f]{12}$/m);
    const id = /[0-9a-f]{12}/.exec(made.stdout)?.[0] ?? "";
    expect((await run(["cron", "edit", id, "--schedule", "0 9 * * *"])).stdout).toContain(`Changed ${id}: looker`);
    expect((await run(["cron", "create", "often", "look"])).code).toBe(1);
    expect((await run(["cron", "tick"])).stdout).toBe("No job is due.\n");
  });

  it("works: -z with its options, sessions rename and export", async () => {
    const file = join(place.dir, "usage.json");
    expect(await run(["--usage-file", file, "-z", "hello there", "-m", "fake-model"])).toMatchObject({
      code: 0,
      stderr: "",
    });
    const usage = JSON.parse(readFileSync(file, "utf8"));
    expect(usage).toMatchObject({ completed: true, failed: false, failure: null, api_calls: 1 });
    expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens);
    expect(await run(["-z", "again", "--resume", usage.session_id])).toMatchObject({ code: 0 });
    expect(await run(["-z", "hello", "-t", "web"])).toMatchObject({ code: 2, stdout: "" });

    expect(await run(["sessions", "rename", usage.session_id, "A new", "title"])).toMatchObject({ code: 0 });
    const lines = (await run(["sessions", "export", "-"])).stdout.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      {
        title: "A new title",
        messages: [{ role: "user" }, { role: "assistant" }, { role: "user" }, { role: "assistant" }],
      },
    ]);
  });

  it("works: config unset and env-path", async () => {
    await run(["config", "set", "display.theme", "dark"]);
    expect(await run(["config", "unset", "display.theme"])).toMatchObject({ code: 0 });
    expect((await run(["config", "unset", "display.theme"])).code).toBe(1);
    expect((await run(["config", "env-path"])).stdout.trim()).toBe(join(place.home, ".env"));
  });
});
