// Prepares the sandbox of one command: with the network of its session, and with guards for the repositories that exist
// right now.

import { randomBytes } from "node:crypto";
import type { Log } from "../../core/ports.ts";
import { gitSettings } from "../shell/env.ts";
import { run } from "../shell/exec.ts";
import { createNetworks, type NetworkOptions } from "./networks.ts";
import { createRepoWatch } from "./repos.ts";
import type { Sandbox } from "./sandbox.ts";

/** The directories of a session in HERMES_HOME: its /tmp, and its outputs, which it may read. */
export type BoxPlace = { tmp: string; outputs: string };
export type Entered = {
  sandbox: Sandbox | null;
  env: Record<string, string>;
  /** The hosts that the network refused so far, as a note for the model. */
  refused(): string;
  /** Called once when the command is over. Returns notes about it. */
  leave(): Promise<string[]>;
};

const NO_BOX: Entered = { sandbox: null, env: {}, refused: () => "", leave: () => Promise.resolve([]) };

/** The configuration cannot be written in the sandbox, and checking out a remote branch would write it. */
const UNTRACKED = gitSettings({ "branch.autoSetupMerge": "false" });

type Options = {
  /** Null: commands run without a sandbox. */
  sandbox: Sandbox | null;
  network: NetworkOptions;
  /** For our own programs that run inside. */
  env: Record<string, string>;
  owner: string;
  log: Log;
};

export function createBox({ sandbox, network, env, owner, log }: Options) {
  if (!sandbox) return { enter: async () => NO_BOX, close: async () => {} };
  const networks = createNetworks({ owner, log, network });
  const repos = createRepoWatch(sandbox.writable, async (script, args) => {
    const how = { cwd: "/", sandbox, env, owner, marker: randomBytes(8).toString("hex"), timeoutMs: 10_000 };
    return (await run(["/bin/sh", "-c", script, "sh", ...args], how)).output;
  });

  const enter = async (session: string, place: BoxPlace, hosts: readonly string[]): Promise<Entered> => {
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
  };

  return { enter, close: networks.close };
}

export const inside = (sandbox: Sandbox, { tmp, outputs }: BoxPlace): Sandbox => ({
  ...sandbox,
  tmp,
  readable: [...(sandbox.readable ?? []), outputs],
});

/** The command itself saw at most a failed connection. Only we can say which host to ask for, and how. */
const refusedNote = (hosts: string[]): string =>
  hosts.length === 0
    ? ""
    : `no network: refused ${hosts.join(", ")}; call again with network: ${JSON.stringify(hosts)} to ask the user`;
