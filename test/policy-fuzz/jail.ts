// Runs commands with a real bash in a jail: everything is read-only but a home with secrets and planted programs, there is no
// network, and each has half a second. Afterwards the home must be what it was, and no secret may have been printed.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type Jail = {
  /** The commands that changed something, ran something planted, or printed a secret. */
  escaped(commands: readonly string[]): Promise<{ command: string; how: string }[]>;
  close(): void;
};

const [BUBBLEWRAP, BUSYBOX] = ["bwrap", "busybox"];
const SECRET = "SECRET-7f3a91";
const RUN = `#!/bin/sh\ntouch /home/me/project/EXECUTED\n`;
/** Programs that busybox has, too, and reads differently. */
const TWICE = /\b(?:awk|sed|find|grep|sort|xargs|tr|cut|od|xxd|diff|tar|env|timeout|less|uniq)\b/;
const DRIVER = String.raw`
ulimit -f 500
while IFS= read -r -d '' number <&3 && IFS= read -r -d '' path <&3 && IFS= read -r -d '' command <&3; do
  env -i PATH="$path" HOME=/home/me CANARY=/home/me/canary GIT_OPTIONAL_LOCKS=0 LC_ALL=C.UTF-8 \
    timeout -s KILL 0.5 bash -c "$command" < /dev/null > "/out/$number" 2>&1
done 2> /dev/null
echo done > /out/done`;

/** Null, with what it means, where there is no bubblewrap or it may not work here. */
export const openJail = (): Jail | null => {
  if (spawnSync(BUBBLEWRAP, ["--ro-bind", "/", "/", "--unshare-all", "true"]).status !== 0) return null;
  const root = mkdtempSync(join(tmpdir(), "policy-fuzz-"));
  const [clean, busybox] = [join(root, "clean"), join(root, "busybox")];
  plant(clean);
  linkBusybox(busybox);
  const before = picture(clean);
  let made = 0;

  return {
    async escaped(commands) {
      const { changed, printed } = await run(commands);
      if (!changed && printed.size === 0) return [];
      if (commands.length === 1)
        return commands.map((command) => ({
          command,
          how: changed ? "it changed or ran something" : "it printed a secret",
        }));
      // Which one it was shows when each has a home of its own.
      const half = Math.ceil(commands.length / 2);
      const found = [...(await this.escaped(commands.slice(0, half))), ...(await this.escaped(commands.slice(half)))];
      return found.length > 0 ? found : [{ command: commands.join("\n---\n"), how: "together they changed something" }];
    },
    close: () => rmSync(root, { recursive: true, force: true }),
  };

  async function run(commands: readonly string[]): Promise<{ changed: boolean; printed: Set<string> }> {
    made += 1;
    const [home, out] = [join(root, `home-${made}`), join(root, `out-${made}`)];
    cpSync(clean, home, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    mkdirSync(out);
    const runs = commands.flatMap((command) => [
      { path: "/usr/bin:/bin", command },
      ...(TWICE.test(command) ? [{ path: "/busybox:/usr/bin:/bin", command }] : []),
    ]);
    const input = runs.map(({ path, command }, index) => `${index}\0${path}\0${command}\0`).join("");
    writeFileSync(join(out, "commands"), input);
    await jailed(home, out);
    const names = readdirSync(out);
    const printed = new Set(
      runs.flatMap(({ command }, index) =>
        names.includes(String(index)) && readFileSync(join(out, String(index))).includes(SECRET) ? [command] : [],
      ),
    );
    const changed = picture(home) !== before || !names.includes("done");
    for (const dir of [home, out]) rmSync(dir, { recursive: true, force: true });
    return { changed, printed };
  }

  function jailed(home: string, out: string): Promise<void> {
    const system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"].flatMap((dir) => ["--ro-bind-try", dir, dir]);
    const own = ["--bind", join(home, "me"), "/home/me", "--bind", join(home, "tmp"), "/tmp", "--bind", out, "/out"];
    const argv = [...system, "--proc", "/proc", "--dev", "/dev", ...own, "--ro-bind", busybox, "/busybox"];
    const limits = [
      "--unshare-all",
      "--cap-drop",
      "ALL",
      "--die-with-parent",
      "--new-session",
      "--chdir",
      "/home/me/project",
    ];
    const child = spawn(BUBBLEWRAP, [...argv, ...limits, "bash", "-c", `exec 3< /out/commands\n${DRIVER}`], {
      // What a command could find in /proc: the environment of those who started it.
      env: { PATH: process.env["PATH"], HERMES_KEY: SECRET },
      stdio: "ignore",
    });
    return new Promise((resolve, reject) => child.on("error", reject).on("exit", () => resolve()));
  }
};

function plant(dir: string): void {
  const write = (path: string, text: string) => {
    mkdirSync(join(dir, path, ".."), { recursive: true });
    writeFileSync(join(dir, path), text);
  };
  for (const path of [".ssh/id_rsa", ".netrc", ".aws/credentials", ".config/gh/hosts.yml"])
    write(`me/${path}`, `machine x\n${SECRET}\n`);
  write("me/project/f.txt", "a\n./evil\ntouch /home/me/project/EXECUTED\n/home/me/.ssh/id_rsa\n");
  write("me/project/g.txt", "a b c\n/home/me/.netrc\n");
  write("me/project/evil.txt", "./evil\nsh evil\n");
  write("me/project/src/a.ts", "const a = 1;\n");
  write("me/project/evil", RUN);
  write("me/project/a b", "x\n");
  mkdirSync(join(dir, "tmp"));
  const project = join(dir, "me/project");
  chmodSync(join(project, "evil"), 0o755);
  execFileSync("tar", ["-cf", "a.tar", "f.txt", "src"], { cwd: project });
  const git = ["-c", "user.name=x", "-c", "user.email=x@x"];
  spawnSync("git", ["init", "-q"], { cwd: project });
  spawnSync("git", ["add", "."], { cwd: project });
  spawnSync("git", [...git, "commit", "-qm", "/home/me/.netrc"], { cwd: project });
}

function linkBusybox(dir: string): void {
  mkdirSync(dir);
  const { stdout, status } = spawnSync(BUSYBOX, ["--list"], { encoding: "utf8" });
  if (status !== 0) return;
  const path = execFileSync("sh", ["-c", `command -v ${BUSYBOX}`], { encoding: "utf8" }).trim();
  for (const name of stdout.trim().split("\n")) if (!/^(?:ba|a)?sh$/.test(name)) symlinkSync(path, join(dir, name));
}

/** Where git notes when it last looked at a file, npm what it was called with, top nothing, and java that it runs. */
const NOTED = /\.git\/index$|^me\/\.npm(?:\/|$)|^me\/\.config\/procps$|^tmp\/hsperfdata_/;

/** Every file with what it holds. When a directory was changed does not matter, only what is in it. */
function picture(dir: string): string {
  const entries = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((name) => !NOTED.test(name));
  return entries
    .toSorted()
    .map((name) => {
      const path = join(dir, name);
      const stat = lstatSync(path);
      if (stat.isDirectory()) return `${name}/ ${stat.mode}`;
      const text = stat.isSymbolicLink() ? readlinkSync(path) : stat.isFile() ? readFileSync(path, "base64") : "?";
      return `${name} ${stat.mode} ${Math.floor(stat.mtimeMs / 1_000)} ${text}`;
    })
    .join("\n");
}
