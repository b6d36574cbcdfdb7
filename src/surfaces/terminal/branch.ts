// The branch that a directory is on, for the status bar. The agent can write these files, so they are read by the confined
// opener and no git process is started: a repository's configuration can make git run programs.
import { dirname, join, resolve } from "node:path";
import { kindAt, readHead } from "../../platform/confined.ts";

/** A path and the words before it. */
const LONGEST = 4_096;
const LONGEST_NAME = 60;

/** Empty outside of a repository, and where it cannot be read. `dir` is a real path. */
export async function branchOf(dir: string): Promise<string> {
  for (let at = dir; ; at = dirname(at)) {
    const git = join(at, ".git");
    const kind = await kindAt(git);
    if (kind === "directory") return nameIn(await beginningOf(join(git, "HEAD")));
    if (kind === "file") {
      const [, elsewhere] = /^gitdir: (.+)/.exec(await beginningOf(git)) ?? []; // a second work tree, or a submodule
      return elsewhere ? nameIn(await beginningOf(join(resolve(at, elsewhere), "HEAD"))) : "";
    }
    if (dirname(at) === at) return "";
  }
}

const beginningOf = (file: string): Promise<string> =>
  readHead(file, LONGEST)
    .then(({ bytes }) => bytes.toString())
    .catch(() => "");

function nameIn(head: string): string {
  const [, branch, commit] = /^(?:ref: refs\/heads\/(\S+)|([0-9a-f]{7})[0-9a-f]{33,57})\s*$/.exec(head) ?? [];
  return (branch ?? commit ?? "").slice(0, LONGEST_NAME);
}
