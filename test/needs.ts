// What a test needs of the machine besides bash and what `npm install` brings. The only way to leave a test out: each one that is carries its
// reason in its name, and the last lines of the suite (not-tested.ts) say how many there were of each.
import { spawnSync } from "node:child_process";
import { describe, it } from "vitest";
import { probeSandbox } from "../src/tools/shell/exec.ts";

/** Why it is not there; empty: it is. */
type Lack = () => Promise<string>;

const program =
  (name: string, args: readonly string[], lack = `no ${name}`): Lack =>
  async () =>
    spawnSync(name, args, { stdio: "ignore" }).status === 0 ? "" : lack;

const NEEDS = {
  diff: program("diff", ["--version"]),
  git: program("git", ["--version"]),
  /** Another one than ours: what is found must not depend on the version. */
  ripgrep: program("rg", ["--version"]),
  /** util-linux's: it makes a terminal. */
  script: program("script", ["--version"]),
  sandbox: async () => {
    const probe = await probeSandbox();
    return probe.usable ? "" : `no sandbox: ${probe.why}`;
  },
  /** Where the environment of a process can be read. */
  proc: async () => (process.platform === "linux" ? "" : "no /proc"),
  root: async () => (process.getuid?.() === 0 ? "" : "not root"),
  systemd: program("systemd-analyze", ["--version"], "no systemd"),
  tmpfs: program("unshare", ["--mount", "mount", "-t", "tmpfs", "none", "/mnt"], "no tmpfs can be mounted"),
} satisfies Record<string, Lack>;

/** How a test that was left out says why, in its name. */
export const NOT_TESTED = /\[not tested: (.+?)\]/;

/** `it` and `describe` for what needs all of these. Skipped only where the machine lacks one: the reason is in the test's name,
 *  and the suite's last lines list it (not-tested.ts). */
export async function needs(...names: (keyof typeof NEEDS)[]) {
  const lacks = (await Promise.all(names.map((name) => NEEDS[name]()))).filter(Boolean);
  const reason = (name: string) => `${name} [not tested: ${lacks.join(", ")}]`;
  return {
    it: (name: string, body: () => unknown) => (lacks.length ? it.skip(reason(name), body) : it(name, body)),
    describe: (name: string, body: () => void) =>
      lacks.length ? describe.skip(reason(name), body) : describe(name, body),
  };
}
