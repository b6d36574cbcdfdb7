// hermes config, sessions and completion, and a command line that is not quite right, as a person uses them.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import pkg from "../../package.json" with { type: "json" };
import { EXIT_CODES } from "../../src/commands/shared.ts";
import { configure, llm, openTerminal, place, useProgram } from "../fakes/program.ts";

useProgram({ knowsProvider: false });

const run = async (args: string[], env?: NodeJS.ProcessEnv) => {
  const hermes = place.start(args, env);
  hermes.hangUp();
  const code = await hermes.exit;
  return { code, stdout: hermes.stdout(), stderr: hermes.stderr() };
};
const configFile = () => join(place.home, "config.yaml");
const configText = () => readFileSync(configFile(), "utf8");

describe("the command line", () => {
  it.each([["version"], ["-v"], ["-V"], ["--version"]])("%s shows the version", async (word) => {
    expect(await run([word])).toEqual({ code: 0, stdout: `${pkg.version}\n`, stderr: "" });
  });

  it("help explains a command, and a command of a command", async () => {
    expect((await run(["help"])).stdout).toBe((await run(["--help"])).stdout);
    expect((await run(["help", "logs"])).stdout).toBe((await run(["logs", "--help"])).stdout);
    expect((await run(["help", "gateway", "status"])).stdout).toContain("Usage: hermes gateway status");
  });

  it("help names no default that is only an absence", async () => {
    for (const command of ["chat", "run", "setup", "logs"])
      expect((await run([command, "--help"])).stdout).not.toMatch(/default: (false|\[\])/);
  });

  it.each([
    [["gateway", "stauts"], "unknown command 'stauts'", "Did you mean status?"],
    [["cron", "lits"], "unknown command 'lits'", "Did you mean list?"],
    [["help", "logz"], "unknown command 'logz'", "Did you mean logs?"],
    [["policy", "check", "--stdni"], "unknown option '--stdni'", "Did you mean --stdin?"],
    [["completion", "tcsh"], "'tcsh' is invalid", "bash, zsh, fish"],
    [["sessions", "delete"], "missing required argument 'name'", "hermes --help"],
  ])("refuses %j with a hint and exit 2", async (args, problem, hint) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(problem);
    expect(stderr).toContain(hint);
  });

  it("a message in quotes opens a chat that begins with it", async () => {
    const screen = openTerminal(["please say this"]);
    await screen.shows("You said: please say this");
  });

  it("--image takes one file, so the prompt after it stays the prompt", async () => {
    const { code, stderr } = await run(["run", "--image", "no-such.png", "what is this?"]);
    expect(code).toBe(1);
    expect(stderr).toContain("no-such.png");
    expect(stderr).not.toContain("prompt is missing");
  });

  it.each(["/proc/no-home", "/dev/null/home"])("says at once that HERMES_HOME cannot be %s", async (home) => {
    for (const args of [["run", "hello"], ["chat"], ["cron", "list"]]) {
      const { code, stderr } = await run(args, { HERMES_HOME: home });
      expect(code).toBe(78);
      expect(stderr).toContain(home);
    }
  });
});

describe("hermes config", () => {
  it("sets a value, keeps the comments, and gets it back", async () => {
    configure("# my settings", "model:", "  default: one # the first");
    expect(await run(["config", "set", "model.default", "two"])).toMatchObject({ code: 0, stderr: "" });
    expect(await run(["config", "set", "gateway.api_server.port", "9000"])).toMatchObject({ code: 0 });
    expect(configText()).toBe(
      "# my settings\nmodel:\n  default: two # the first\ngateway:\n  api_server:\n    port: 9000\n",
    );
    expect((await run(["config", "get", "model.default"])).stdout).toBe("two\n");
    expect((await run(["config", "get", "display.theme"])).stdout).toBe("auto\n");
    expect((await run(["config", "get"])).stdout).toContain("gateway.api_server.port = 0"); // the environment wins
    expect((await run(["config", "path"])).stdout).toBe(`${configFile()}\n`);
  });

  it("makes the file if there is none, and takes a number for text where text is wanted", async () => {
    expect(await run(["config", "set", "model.default", "4"])).toMatchObject({ code: 0 });
    expect((await run(["config", "get", "model.default"])).stdout).toBe("4\n");
  });

  it("a name of the user's may have dots", async () => {
    expect(await run(["config", "set", "prices.gpt-5.1", "{input: 3, output: 4}"])).toMatchObject({ code: 0 });
    expect(await run(["config", "set", "prices.gpt-5.1.output", "5"])).toMatchObject({ code: 0 });
    const { stdout } = await run(["config", "get", "prices"]);
    expect(stdout).toMatch(/^prices\.gpt-5\.1\.input = 3 .*\nprices\.gpt-5\.1\.output = 5 /);
  });

  it("writes nothing that does not load", async () => {
    configure("model:", "  default: one");
    const { code, stderr } = await run(["config", "set", "display.theme", "pink"]);
    expect(code).toBe(78);
    expect(stderr).toMatch(/display\.theme must be .*not "pink"/);
    expect(stderr).toContain("Nothing was changed.");
    expect(configText()).toBe("model:\n  default: one\n");
  });

  it("says what may have been meant by an unknown key", async () => {
    for (const args of [
      ["get", "displya.theme"],
      ["set", "displya.theme", "dark"],
    ]) {
      const { code, stderr } = await run(["config", ...args]);
      expect(code).toBe(2);
      expect(stderr).toBe("hermes: displya.theme is not a known key; did you mean display.theme?\n");
    }
  });

  it("never shows a secret", async () => {
    configure("model:", "  api_key: sk-very-secret-1234567890");
    for (const args of [[], ["model"], ["model.api_key"]]) {
      const { stdout } = await run(["config", "get", ...args]);
      expect(stdout).toContain("[redacted]");
      expect(stdout).not.toContain("very-secret");
    }
  });

  it("says which setting overrides the one that was set", async () => {
    const { code, stderr } = await run(["config", "set", "model.default", "two"], { LLM_MODEL: "three" });
    expect(code).toBe(0);
    expect(stderr).toBe("hermes: environment variable LLM_MODEL overrides this setting.\n");
  });

  describe("edit", () => {
    /** An editor that puts this text into the file. */
    const editorThatWrites = (text: string) => {
      const source = join(place.dir, "new.yaml");
      writeFileSync(source, text);
      return { EDITOR: `cp ${source}` };
    };

    it("keeps what loads", async () => {
      configure("model:", "  default: one");
      const { code, stdout } = await run(["config", "edit"], editorThatWrites("model:\n  default: two\n"));
      expect({ code, stdout }).toEqual({ code: 0, stdout: `Wrote ${configFile()}\n` });
      expect(configText()).toBe("model:\n  default: two\n");
    });

    it("discards what does not load where nobody can be asked, and says why", async () => {
      configure("model:", "  default: one");
      const { code, stderr } = await run(["config", "edit"], editorThatWrites("modle: [\n"));
      expect(code).toBe(78);
      expect(stderr).toContain("not valid YAML");
      expect(configText()).toBe("model:\n  default: one\n");
      expect(existsSync(`${configFile()}.draft.yaml`)).toBe(false);
    });
  });
});

describe("hermes sessions", () => {
  const talked = () => run(["run", "--session", "tea", "make some tea"], llm.env);

  it("shows and exports a conversation", async () => {
    expect((await run(["sessions", "show", "tea"])).stderr).toBe("hermes: There are no conversations yet.\n");
    await talked();
    const { code, stdout } = await run(["sessions", "show", "some tea"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^# make some tea\n[^]*## User[^]*make some tea[^]*## Assistant[^]*Hello from the fake model/,
    );
    expect(JSON.parse((await run(["sessions", "show", "tea", "--json"])).stdout)).toMatchObject({
      title: "make some tea",
    });
    const file = join(place.dir, "tea.json");
    expect(await run(["sessions", "export", "tea", file])).toMatchObject({ code: 0, stdout: `Wrote ${file}\n` });
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ title: "make some tea" });
    expect(await run(["sessions", "export", "tea", file])).toMatchObject({ code: 1 }); // never over a file
    expect(await run(["sessions", "export", "tea"])).toMatchObject({ code: 0 });
    expect(readFileSync(join(place.dir, "hermes-tea.md"), "utf8")).toBe(stdout);
  });

  it("deletes a conversation, but none that is not there, and not without a yes", async () => {
    await talked();
    for (const command of ["show", "export", "delete"]) {
      const { code, stderr } = await run(["sessions", command, "coffee"]);
      expect(code).toBe(1);
      expect(stderr).toContain('There is no conversation "coffee"');
    }
    const refused = await run(["sessions", "delete", "tea"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("Add --yes");
    expect((await run(["sessions"])).stdout).toContain("make some tea");
    expect(await run(["sessions", "delete", "tea", "--yes"])).toMatchObject({
      code: 0,
      stdout: "Deleted tea (make some tea).\n",
    });
    expect((await run(["sessions"])).stdout).toBe("There are no conversations yet.\n");
  });
});

describe("hermes completion", () => {
  it("completes commands, their commands and options in bash", async () => {
    const { stdout } = await run(["completion", "bash"]);
    const completed = (...words: string[]) => {
      const script = `${stdout}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _hermes; echo "\${COMPREPLY[@]}"`;
      return execFileSync("bash", ["-c", script, "bash", "hermes", ...words], { encoding: "utf8" }).trim();
    };
    expect(completed("ga")).toBe("gateway");
    expect(completed("gateway", "st")).toBe("start status stop");
    expect(completed("completion", "z")).toBe("zsh");
    expect(completed("gateway", "run", "--p")).toBe("--port");
    expect(completed("run", "--model", "x", "--qu")).toBe("--quiet");
  });

  it.each(["zsh", "fish"])("has every command in its script for %s", async (shell) => {
    const { code, stdout } = await run(["completion", shell]);
    expect(code).toBe(0);
    for (const word of ["chat", "sessions", "status", "completion"]) expect(stdout).toContain(word);
  });
});

describe("hermes man", () => {
  it("has every command, and the exit codes as docs/cli.md has them", async () => {
    const { code, stdout } = await run(["man"]);
    expect(code).toBe(0);
    const plain = stdout.replaceAll("\\-", "-");
    for (const words of ["hermes policy revoke <id>", "hermes sessions export <name> [file]", "--image <file>"])
      expect(plain).toContain(`\\fB${words}\\fR`);
    expect(stdout.split("\n").filter((line) => /^['.](?!TH|SH|SS|TP|P$|B |br$)/.test(line))).toEqual([]);
    const guide = readFileSync(new URL("../../docs/cli.md", import.meta.url), "utf8");
    const rows = [...guide.slice(guide.indexOf("## Exit codes")).matchAll(/^\| (\d+) \| (.*) \|$/gm)];
    expect(rows.map(([, number = "", meaning = ""]) => [Number(number), meaning])).toEqual(
      Object.entries(EXIT_CODES).map(([number, meaning]) => [Number(number), meaning]),
    );
  });
});
