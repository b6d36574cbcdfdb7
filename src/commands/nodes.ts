// hermes nodes: the processes that share the store.
import type { Command } from "commander";
import { env, print } from "./shared.ts";

export function addNodes(program: Command): void {
  const nodes = program.command("nodes").description("show and drain the nodes of a cluster (docs/cluster.md)");
  nodes
    .command("list")
    .description("list the nodes that share the store, with the number of sessions at work (the default)")
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listNodes } = await import("../surfaces/cli/nodes.ts");
      const { withNodes } = await import("../compose/gateway.ts");
      process.exitCode = await withNodes(env, (desk) => listNodes(desk, Date.now(), json, print));
    });
  nodes
    .command("drain")
    .description("let a node hand its sessions over to the others and exit")
    .argument("<id>", "an id from `hermes nodes`")
    .action(async (id: string) => {
      const { drainNode } = await import("../surfaces/cli/nodes.ts");
      const { withNodes } = await import("../compose/gateway.ts");
      process.exitCode = await withNodes(env, (desk) => drainNode(desk, id, print));
    });
}
