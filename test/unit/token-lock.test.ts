// One process for each token, with real processes and real files.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { lockToken } from "../../src/platform/token-lock.ts";

let user = "";
let home = "";
beforeEach(() => {
  user = realpathSync(mkdtempSync(join(tmpdir(), "hermes-lock-")));
  home = join(user, "home");
  mkdirSync(home);
  vi.stubEnv("HOME", user);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(user, { recursive: true, force: true });
});

const children = new Set<ReturnType<typeof spawn>>();
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
});

const MODULE = new URL("../../src/platform/token-lock.ts", import.meta.url).href;

/** Another process, with another HERMES_HOME, that says whether it got the lock and stays. */
function other(token: string) {
  const script = `
    const { lockToken } = await import(${JSON.stringify(MODULE)});
    const got = lockToken(${JSON.stringify(token)}, ${JSON.stringify(join(user, "other"))}) ? "mine" : "taken";
    setTimeout(() => (gc(), setImmediate(() => console.log(got)))); // who drops what unlocks still has the lock
    setInterval(() => {}, 1000);`;
  const args = ["--disable-warning=ExperimentalWarning", "--expose-gc", "--input-type=module", "-e", script];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  const said = once(child.stdout, "data").then(([data]) => String(data).trim());
  const kill = async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return { said, kill };
}

it("has one owner, whatever its home, until that one lets go or is killed", async () => {
  const first = other("1:token");
  expect(await first.said).toBe("mine");
  expect(lockToken("1:token", home)).toBe(null);
  const unlock = lockToken("2:token", home);
  expect(unlock).not.toBe(null);
  unlock?.();
  await first.kill();
  const mine = lockToken("1:token", home);
  expect(mine).not.toBe(null);
  const second = other("1:token");
  expect(await second.said).toBe("taken");
  await second.kill();
  mine?.();
  const third = lockToken("1:token", home);
  expect(third).not.toBe(null);
  third?.();
});

it("cannot be kept from us by another user who knows the token's name", async () => {
  const name = `hermes-${userInfo().uid}-${createHash("sha256").update("1:token").digest("hex").slice(0, 32)}`;
  const squatters = ["\0", `${tmpdir()}/`].map((before) => createServer().listen(`${before}${name}`));
  await Promise.all(squatters.map((server) => once(server, "listening")));
  const unlock = lockToken("1:token", home);
  expect(unlock).not.toBe(null);
  unlock?.();
  for (const server of squatters) server.close();
});

it("lies where only we can look, and names no token", () => {
  const unlock = lockToken("1:token", home);
  const dir = join(user, ".hermes", "locks");
  expect([statSync(join(user, ".hermes")), statSync(dir)].map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o700]);
  expect(readdirSync(dir).join()).not.toContain("token");
  unlock?.();
});

it("does without the user's directory where that is a link, a file or not there to be made", () => {
  mkdirSync(join(user, ".hermes"));
  mkdirSync(join(user, "elsewhere"));
  symlinkSync(join(user, "elsewhere"), join(user, ".hermes", "locks"));
  lockToken("1:token", home)?.();
  expect(readdirSync(join(user, "elsewhere"))).toEqual([]);
  expect(readdirSync(join(home, "locks"))).toHaveLength(1);
  vi.stubEnv("HOME", join(user, "file"));
  writeFileSync(join(user, "file"), "");
  lockToken("2:token", home)?.();
  expect(readdirSync(join(home, "locks"))).toHaveLength(2);
});
