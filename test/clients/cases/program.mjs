// The packed and globally installed program: every way to use it that needs no other client.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { HERMES, HERMES_VERSION, HERMES_URL, PROVIDER_URL, ...rest } = process.env;
const dir = mkdtempSync(join(tmpdir(), "hermes-program-"));
const env = {
  ...rest,
  HERMES_HOME: join(dir, "home"),
  LLM_MODEL: "m",
  OPENAI_BASE_URL: PROVIDER_URL,
  OPENAI_API_KEY: "k",
};
const hermes = (...args) =>
  execFileSync(HERMES, args, { env, cwd: dir, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

assert.equal(hermes("--version").trim(), HERMES_VERSION);
assert.equal((await (await fetch(`${HERMES_URL}/health`)).json()).version, HERMES_VERSION);
assert.match(hermes("help"), /gateway/);
assert.equal(hermes("run", 'play:[{"text": ["o", "ne"]}]').trim(), "one");
assert.match(hermes("sessions"), /play/);
assert.match(hermes("doctor"), /has no errors/);
hermes("backup", join(dir, "b.db"));
env.HERMES_HOME = join(dir, "elsewhere");
hermes("restore", join(dir, "b.db"));
assert.match(hermes("sessions"), /play/);
