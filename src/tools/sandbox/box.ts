// What one command is put into: the sandbox with its session's network, and with the guards for what is there right now.

import { randomBytes } from "node:crypto";
import type { Log } from "../../core/ports.ts";
import { gitSettings } from "../shell/env.ts";
import { run } from "../shell/exec.ts";
import { createNetworks, type NetworkOptions } from "./networks.ts";
import { createRepoWatch } from "./repos.ts";
import type { Sandbox } from "./sandbox.ts";

export type Box = {
  enter(session: string, place: Place, hosts: readonly string[]): Promise<Entered>;
  close(): Promise<void>;
};
/** What of HERMES_HOME is the session's: its /tmp, and what it may read. */
export type Place = { tmp: string; outputs: string };
export type Entered = {
  sandbox: Sandbox | null;
  env: Record<string, string>;
  /** What the network refused it so far, in a word to the model. */
  refused(): string;
  /** When the command is over, once: what there is to say about it. */
  leave(): Promise<string[]>;
};

const NO_BOX: Entered = { sandbox: null, env: {}, refused: () => "", leave: () => Promise.resolve([]) };

/** The configuration cannot be written in there, and a checkout of a remote's branch would want to. */
const UNTRACKED = gitSettings({ "branch.autoSetupMerge": "false" });

/** `sandbox` null: commands run as they are. */
export function createBox({ sandbox, ...options }: Options & { sandbox: Sandbox | null }): Box {
  if (sandbox) return sandboxBox(sandbox, options);
  return { enter: () => Promise.resolve(NO_BOX), close: () => Promise.resolve() };
}

type Options = {
  network: NetworkOptions;
  /** For programs of ours that run inside. */
  env: Record<string, string>;
  owner: string;
  log: Log;
};

function sandboxBox(sandbox: Sandbox, { network, env, owner, log }: Options): Box {
  const networks = createNetworks({ owner, log, network });
  const repos = createRepoWatch(sandbox.writable, async (script, args) => {
    const how = { cwd: "/", sandbox, env, owner, marker: randomBytes(8).toString("hex"), timeoutMs: 10_000 };
    return (await run(["/bin/sh", "-c", script, "sh", ...args], how)).output;
  });

  async function enter(session: string, place: Place, hosts: readonly string[]): Promise<Entered> {
    const [use, guard] = await Promise.all([networks.use(session, hosts), repos.begin()]);
    const refused = () => refusedNote(use.refused());
    return {
      sandbox: { ...inside(sandbox, place), netns: use.netns, guard },
      env: { ...use.env, ...UNTRACKED },
      refused,
      leave: async () => {
        const said = refused();
        use.release();
        const disarmed = await repos.end();
        for (const found of disarmed) log("warn", "repository.disarmed", { session, found });
        return [said, ...disarmed.map((found) => `taken out, since git would run it outside the sandbox: ${found}`)];
      },
    };
  }

  return { enter, close: networks.close };
}

export const inside = (sandbox: Sandbox, { tmp, outputs }: Place): Sandbox => ({
  ...sandbox,
  tmp,
  readable: [...(sandbox.readable ?? []), outputs],
});

/** The command itself saw a failed connection at most; who is to be asked, and how, only we can say. */
const refusedNote = (hosts: string[]): string =>
  hosts.length === 0
    ? ""
    : `no network: refused ${hosts.join(", ")}; call again with network: ${JSON.stringify(hosts)} to ask the user`;
