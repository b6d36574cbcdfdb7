// The sources of skills: HERMES_HOME/skills, and those of the workspace once the user has trusted it.

import { join } from "node:path";
import { messageOf } from "../core/errors.ts";
import type { Clock, Log } from "../core/ports.ts";
import type { Skills, SkillTrust } from "../core/skills.ts";
import { kindAt, realInside } from "../platform/confined.ts";
import { createLook, type DiskLook, orMissing } from "./disk.ts";
import { createSkills, type SkillSource } from "./skills.ts";
import { openTrust } from "./trust.ts";

/** `home`: HERMES_HOME. */
type Options = {
  home: string;
  workspace: string;
  /** Further directories of the user's. */
  external?: readonly string[];
  clock: Clock;
  log: Log;
};

const IN_WORKSPACE = [".hermes/skills", "skills"];

export function openSkills({ home, workspace, external = [], clock, log }: Options): Skills {
  const own = join(home, "skills");
  const sources: SkillSource[] = [
    ...[own, ...external].map((dir): SkillSource => {
      const look = createLook("hard links");
      return { origin: "user", look: () => look(dir) };
    }),
    { origin: "workspace", look: inWorkspace(workspace, own, openTrust(home)) },
  ];
  return createSkills({ sources, clock, log });
}

function inWorkspace(workspace: string, own: string, trust: SkillTrust): () => Promise<DiskLook> {
  const places = IN_WORKSPACE.map((below) => ({ below, look: createLook("no links") }));
  return async () => {
    const look: DiskLook = { skills: [], notes: [] };
    const root = await realInside(workspace, []).catch(orMissing);
    if (root === null) return look;
    // HERMES_HOME may be the .hermes directory of the workspace; then these are the user's own skills.
    const ownReal = await realInside(own, []).catch(orMissing);
    for (const { below, look: lookIn } of places) {
      const dir = join(root, below);
      const real = await realInside(dir, []).catch(orMissing);
      if (real === null || real === ownReal || (await kindAt(real)) !== "directory") continue;
      if (!(await isTrusted(trust, root, look.notes))) return look;
      if (real !== dir) {
        look.notes.push(`${dir} goes through a link, and links are not followed.`);
        continue;
      }
      const { skills, notes } = await lookIn(dir);
      look.skills.push(...skills);
      look.notes.push(...notes);
    }
    return look;
  };
}

async function isTrusted(trust: SkillTrust, root: string, notes: string[]): Promise<boolean> {
  try {
    if ((await trust.list()).includes(root)) return true;
    notes.push(`${root} has skills that are not used. If you know what is in them: hermes skills trust ${root}`);
  } catch (error) {
    notes.push(messageOf(error));
  }
  return false;
}
