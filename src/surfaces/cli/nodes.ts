// hermes nodes: the processes that share the store.
import type { NodeRow, Nodes } from "../../core/store.ts";
import type { Print } from "./gateway.ts";

export type NodeDesk = Pick<Nodes, "list" | "drain">;

export async function listNodes(desk: NodeDesk, now: number, json: boolean, print: Print): Promise<number> {
  const nodes = (await desk.list()).filter(({ address }) => address !== ""); // without one it has the store for itself
  if (json) await print(`${JSON.stringify(nodes)}\n`);
  else if (!nodes.length)
    await print("No node of a cluster runs on this store. docs/cluster.md says how to start one.\n");
  else for (const node of nodes) await print(`${lineOf(node, now)}\n`);
  return 0;
}

const lineOf = ({ id, address, version, leaving, leaseUntil, sessions }: NodeRow, now: number) => {
  const lease = Math.round((leaseUntil - now) / 1_000);
  const state = leaving ? "leaving" : lease > 0 ? `lease ${lease} s` : "does not answer";
  return `${id}  ${address}  ${version}  ${sessions} at work  ${state}`;
};

export async function drainNode(desk: NodeDesk, id: string, print: Print): Promise<number> {
  const found = await desk.drain(id);
  await print(found ? `${id} hands its sessions over and exits.\n` : `There is no node ${id}. See: hermes nodes\n`);
  return found ? 0 : 1;
}
