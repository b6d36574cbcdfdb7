// /api/nodes: the processes that share the store, for `hermes nodes`.
import type { NodeRow, Nodes } from "../../../core/store.ts";
import { problem } from "../server/problem.ts";
import { list, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

/** `self`: the id of the node that answers. */
export function nodeRoutes(
  nodes: Pick<Nodes, "list" | "drain">,
  { self, unreachable }: { self(): string; unreachable(): readonly string[] },
): Route[] {
  /** A process that has the store for itself has no address, and nobody to hand its sessions to. */
  const members = async () => (await nodes.list()).filter(({ address }) => address !== "");
  const shown = ({ id, address, version, leaving, leaseUntil, sessions }: NodeRow) => ({
    id,
    object: "hermes.node",
    address,
    version,
    leaving,
    lease_until: leaseUntil / 1_000,
    sessions,
    self: id === self(),
    reachable: !unreachable().includes(address),
  });
  return [
    route("GET", "/api/nodes", {
      summary: "List the nodes that share the store, and how many sessions are at work on each",
      answers: { 200: "The list" },
      handle: async () => list((await members()).map(shown)),
    }),
    route("POST", "/api/nodes/:id/drain", {
      summary: "Let a node hand its sessions over to the others and exit",
      answers: { 202: "It begins within a second", 404: "No node has this id" },
      async handle({ params: { id = "" } }) {
        if (!(await members()).some((node) => node.id === id) || !(await nodes.drain(id)))
          throw problem(404, "node_not_found", `There is no node ${JSON.stringify(id.slice(0, 60))}.`);
        return { status: 202, body: { id, object: "hermes.node", leaving: true } };
      },
    }),
  ];
}
