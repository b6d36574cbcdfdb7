// Programs that we start ourselves, and what a hostile directory or repository can make of them.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { clock } from "../../src/platform/clock.ts";
import { distrustPrograms, findProgram, pathWithout } from "../../src/platform/programs.ts";
import { notifyService } from "../../src/surfaces/gateway/service.ts";
import { run } from "../../src/tools/shell/exec.ts";
import { needs } from "../needs.ts";

let dir = "";
const canary = () => join(dir, "canary");
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-programs-")));
});
afterEach(() => {
  vi.unstubAllEnvs();
  distrustPrograms([]);
  rmSync(dir, { recursive: true, force: true });
});

function plant(...names: string[]): string {
  const bin = join(dir, "bin");
  mkdirSync(bin, { recursive: true });
  for (const name of names) {
    writeFileSync(join(bin, name), `#!/bin/sh\ntouch '${canary()}'\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return bin;
}

const shell = (command: string) => run(command, { cwd: dir, marker: `programs-${dir}` });

describe("a program of the system", () => {
  it("is the system's, whatever stands first in our PATH", async () => {
    const bin = plant("mkfifo", "bash", "ps", "bwrap");
    vi.stubEnv("PATH", `${bin}:${process.env["PATH"]}`);
    expect((await run(["/bin/echo", "hi"], { cwd: dir, marker: "programs" })).output).toBe("hi\n");
    expect((await shell("echo hi")).output).toBe("hi\n");
    expect(existsSync(canary())).toBe(false);
    expect(findProgram("mkfifo")).toMatch(/^\/(?:usr\/)?bin\/mkfifo$/);
  });

  it("counts for nothing where the agent may write in the system's directories", () => {
    expect(findProgram("sh")).not.toBe(null);
    distrustPrograms(["/usr", "/bin"]);
    expect(findProgram("sh")).toBe(null);
    distrustPrograms([]);
    expect(findProgram("sh")).not.toBe(null);
  });

  it("is none that is not there", () => {
    expect(findProgram("no-such-program")).toBe(null);
  });
});

it("commands have a PATH without the places that they may write, by whatever name those go", () => {
  mkdirSync(join(dir, "work", "bin"), { recursive: true });
  symlinkSync(join(dir, "work", "bin"), join(dir, "alias"));
  symlinkSync(join(dir, "work"), join(dir, "linked"));
  const path = ["/usr/bin", "bin", "", join(dir, "work", "bin"), join(dir, "alias"), join(dir, "other"), "/bin"].join(
    ":",
  );
  expect(pathWithout([join(dir, "work")], path)).toBe(`/usr/bin:${join(dir, "other")}:/bin`);
  expect(pathWithout([join(dir, "linked")], path)).toBe(`/usr/bin:${join(dir, "other")}:/bin`);
  expect(pathWithout([join(dir, "x"), join(dir, "other")], "/usr/bin:/a/..:/bin")).toBe("/usr/bin:/a/..:/bin");
});

(await needs("git")).describe("git in a repository that somebody else wrote", () => {
  const evil = () => `touch '${canary()}'; false`;
  const git = (command: string, where = dir) => shell(`cd '${where}' && git ${command}`);

  it("runs nothing of a bare one that lies in a clone", async () => {
    const buried = join(dir, "docs");
    for (const place of ["objects", "refs", "tree"]) mkdirSync(join(buried, place), { recursive: true });
    writeFileSync(join(buried, "HEAD"), "ref: refs/heads/main\n");
    const config = `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = tree\n\tfsmonitor = "${evil()}"\n`;
    writeFileSync(join(buried, "config"), config);
    expect((await git("status", buried)).code).not.toBe(0);
    expect(existsSync(canary())).toBe(false);
    expect((await git("--git-dir=. rev-parse --git-dir", buried)).code).toBe(0); // named, it is used
  });

  it("runs no monitor of its choice, also not in a submodule", async () => {
    await shell(
      "git init -q main && git init -q sub && git -C sub -c user.name=x -c user.email=x@x commit -q --allow-empty -m x",
    );
    const added = await git("-c protocol.file.allow=always submodule add -q ../sub part", join(dir, "main"));
    expect(added.code).toBe(0);
    await shell(`git -C main config core.fsmonitor "${evil()}"; git -C main/part config core.fsmonitor "${evil()}"`);
    expect((await git("status", join(dir, "main"))).code).toBe(0);
    expect((await git("status", join(dir, "main", "part"))).code).toBe(0);
    expect(existsSync(canary())).toBe(false);
  });

  it("runs no program to look at signatures, and takes no command for an address", async () => {
    await shell("git init -q . && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x");
    await shell(`git config log.showSignature true; git config gpg.program '${plant("gpg")}/gpg'`);
    await shell("git config protocol.ext.allow always");
    await git("log -1");
    expect((await git(`ls-remote 'ext::touch ${canary()}'`)).code).not.toBe(0);
    expect(existsSync(canary())).toBe(false);
  });

  it("does what is said on its command line", async () => {
    await shell("git init -q .");
    await git(`-c core.fsmonitor="${evil()}" status`);
    expect(existsSync(canary())).toBe(true);
  });
});

describe("a service manager", () => {
  it("is told when we are ready, that we are alive, and that we are leaving, by a program that sees nothing of ours", async () => {
    const told = join(dir, "told.txt");
    const notify = join(dir, "notify");
    writeFileSync(notify, `#!/bin/sh\necho "$@" >> '${told}'\necho "$NOTIFY_SOCKET $SECRET_TOKEN" >> '${told}'\n`);
    chmodSync(notify, 0o755);
    const env = { NOTIFY_SOCKET: "/run/nobody", WATCHDOG_USEC: "40000", SECRET_TOKEN: "canary" };
    const service = notifyService({ env, notify, clock, log: () => {} });
    const lines = async () => (await shell(`cat '${told}' 2>/dev/null`)).output.trim().split("\n");
    const times = { timeout: 10_000, interval: 20 };
    await expect
      .poll(async () => (await lines()).filter((line) => line === "WATCHDOG=1").length, times)
      .toBeGreaterThan(2);
    service.stopping();
    await expect.poll(lines, times).toContain("STOPPING=1");
    expect(await lines()).toContain(`--ready MAINPID=${process.pid}`);
    expect(await lines()).toContain("/run/nobody ");
    expect((await lines()).join()).not.toContain("canary");
  });

  it("that cannot be told is no reason not to run", () => {
    const said: string[] = [];
    const log = (_: string, event: string) => void said.push(event);
    notifyService({ env: { NOTIFY_SOCKET: "/run/nobody" }, notify: null, clock, log }).stopping();
    expect(said).toEqual(["service.untold"]);
  });
});
