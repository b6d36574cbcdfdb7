// What a sandboxed command can read of the user's home: the programs in it, and nothing else.
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { sandboxed } from "../fakes/sandboxed.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox");

const box = sandboxed();
const write = (name: string, text = "canary") => {
  const file = join(box.user, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
};

boxed.describe("the user's home in the sandbox", () => {
  it("is empty but for the programs in it and what they need", async () => {
    for (const file of [".Xauthority", ".ssh/id", "other-project/.env", "Documents/letter", ".config/app/token"])
      write(file);
    for (const file of [".cargo/credentials.toml", ".local/share/app/key", ".bash_history"]) write(file);
    write(".cargo/bin/tool", "#!/bin/sh\necho runs");
    write(".gitconfig", "[user]\n\tname = Somebody\n");
    const { sh } = box.terminal();
    const { text } = await sh(
      `find ${box.user} -type f | xargs cat; ${box.user}/.cargo/bin/tool; echo x > ${box.user}/new`,
    );
    expect(text).not.toContain("canary");
    expect(text).toContain("name = Somebody");
    expect(text).toContain("runs");
    expect(text).toContain("Read-only file system");
  });

  it("shows a project in it that is worked in, also by its parents' names, and not the one beside it", async () => {
    write("code/other/secret");
    write("code/mine/file", "visible");
    const workspace = join(box.user, "code/mine");
    const { sh } = box.terminal({ writable: [workspace] }, { workspace });
    const { text } = await sh(`cat file; echo y > made; ls ${box.user}/code ${box.user}`);
    expect(text).toContain("visible");
    expect(text).not.toContain("other");
  });

  it("shows what is in PATH with its installation, never a secret place for being there", async () => {
    write("tools/lang/bin/lang", "#!/bin/sh\ncat $(dirname $0)/../lib/words");
    write("tools/lang/lib/words", "words");
    write("tools/secret");
    write(".ssh/bin/x");
    const path = ["tools/lang/bin", ".ssh/bin"].map((dir) => join(box.user, dir)).join(":");
    const { text } = await box
      .terminal({ path })
      .sh(`${box.user}/tools/lang/bin/lang; find ${box.user} -type f | xargs cat`);
    expect(text).toContain("words");
    expect(text).not.toContain("canary");
  });

  it("follows the links of a user who keeps such files elsewhere", async () => {
    write("dotfiles/gitconfig", "linked");
    write("dotfiles/secret");
    symlinkSync(join(box.user, "dotfiles/gitconfig"), join(box.user, ".gitconfig"));
    const { text } = await box.terminal().sh(`cat ${box.user}/.gitconfig ${box.user}/dotfiles/*`);
    expect(text).toContain("linked");
    expect(text).not.toContain("canary");
  });

  it.each([
    [
      "a link among what is protected",
      "ln -s $secret .vscode; git init -q; rm -rf .git/hooks; ln -s $secret .git/hooks",
    ],
    ["a path of hooks", "git init -q; printf '[x]\\n\\thookspath = %s\\n' $secret >> .git/config"],
    [
      "a repository that is said to be elsewhere",
      "mkdir -p w/worktrees/x; echo gitdir: $PWD/w/worktrees/x > .git; echo $PWD/.git > w/worktrees/x/gitdir; echo $secret > w/worktrees/x/commondir",
    ],
  ])("is not shown by %s", async (_, plant) => {
    const secret = dirname(write(".ssh/id"));
    for (const name of ["HEAD", "objects/x", "refs/x"]) write(`.ssh/${name}`);
    const { sh } = box.terminal();
    await sh(`secret=${secret}; ${plant}`);
    expect((await sh(`find ${box.user} -type f | xargs cat`)).text).not.toContain("canary");
  });

  it("is not shown by a link in the place of a program", async () => {
    const secret = dirname(write(".ssh/id"));
    write(".local/bin/tool");
    const workspace = join(box.user, ".local");
    const { sh } = box.terminal({ writable: [workspace] }, { workspace });
    await sh(`rm -rf bin; ln -s ${secret} bin`);
    expect((await sh(`find ${box.user} -type f | xargs cat`)).text).not.toContain("canary");
  });

  it("shows what the configuration says", async () => {
    write("data/table", "shown");
    const readable = [join(box.user, "data")];
    expect((await box.terminal({ readable }).sh(`cat ${box.user}/data/table`)).text).toContain("shown");
  });
});
