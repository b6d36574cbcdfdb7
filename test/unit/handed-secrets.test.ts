// Secrets on their way into the program: the real launcher, by every shell that is here, with a program of the test's behind it.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { handOver } from "../../src/platform/handed-secrets.ts";
import { findProgram } from "../../src/platform/programs.ts";
import { program } from "../fakes/hermes.ts";

const MODULE = fileURLToPath(new URL("../../src/platform/handed-secrets.ts", import.meta.url));
let dir = "";
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-launch-")));
  mkdirSync(join(dir, "bin"));
  mkdirSync(join(dir, "src"));
  copyFileSync(program, join(dir, "bin", "hermes"));
  const main = `import { readFileSync, existsSync } from "node:fs";
    import { takeSecrets } from ${JSON.stringify(MODULE)};
    takeSecrets(process.env);
    const started = existsSync("/proc/self/environ") ? readFileSync("/proc/self/environ", "utf8") : "";
    console.log(JSON.stringify({ env: process.env, started, args: process.argv.slice(2) }));`;
  writeFileSync(join(dir, "src", "main.ts"), main);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const SHELLS = [
  ["/bin/sh"],
  ["bash"],
  ["bash", "--posix"],
  ["dash"],
  ["busybox", "sh"],
  ["zsh", "--emulate", "sh"],
].flatMap(([name = "", ...args]) => {
  const found = existsSync(name) ? name : findProgram(name);
  return found ? [[[found, ...args].join(" ")] as const] : [];
});

function launched(shell: string, env: NodeJS.ProcessEnv) {
  const [command = "", ...args] = shell.split(" ");
  const PATH = `${dirname(process.execPath)}:${process.env["PATH"]}`;
  const line = [...args, join(dir, "bin", "hermes"), "a b", "*"];
  const { stdout, stderr, status } = spawnSync(command, line, { env: { PATH, ...env }, encoding: "utf8", cwd: "/" });
  expect([stderr, status]).toEqual(["", 0]);
  const said: { env: Record<string, string>; started: string; args: string[] } = JSON.parse(stdout);
  return said;
}

const SECRETS = {
  OPENAI_API_KEY: "sk-canary \"$HOME' `id` \\ *",
  SOME_TOKEN: "canary=EOF",
  DB_PASSWORD: "  canary-ü  ",
  AWS_SECRET_ACCESS_KEY: "EOF",
  X_COOKIE: "-n",
};
const PLAIN = { HOME: "/nowhere", LANG: "C", ODD: "a\nexport FAKE_TOKEN='x'\nb", KEYBOARD: "de" };

describe.each(SHELLS)("started by %s", (shell) => {
  it("the program has its secrets as they were, and its environment does not", () => {
    const { env, started, args } = launched(shell, { ...SECRETS, ...PLAIN });
    expect(env).toMatchObject({ ...SECRETS, ...PLAIN });
    expect(Object.keys(env).filter((name) => /FD$|FAKE/.test(name))).toEqual([]);
    expect(started).not.toMatch(/canary|OPENAI_API_KEY|X_COOKIE/);
    expect(args).toEqual(["a b", "*"]);
  });

  it("one with a line end in it, and more than fits into a pipe, stay in the environment", () => {
    const odd = { A_TOKEN: "one\ntwo", B_TOKEN: "x".repeat(5_000), C_TOKEN: "canary" };
    const { env, started } = launched(shell, odd);
    expect(env).toMatchObject(odd);
    expect(started).not.toContain("canary");
  });

  it("without any, nothing is different", () => {
    const { env } = launched(shell, PLAIN);
    expect(env).toMatchObject(PLAIN);
    expect(env).not.toHaveProperty("HERMES_SECRETS_FD");
  });
});

it("what is handed on is all of the environment, in two parts", () => {
  const { env, text } = handOver({ ...SECRETS, ...PLAIN, D_TOKEN: "one\ntwo" });
  expect(env).toEqual({ ...PLAIN, D_TOKEN: "one\ntwo", HERMES_SECRETS_FD: "9" });
  expect(text).toBe(
    Object.entries(SECRETS)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(""),
  );
});
