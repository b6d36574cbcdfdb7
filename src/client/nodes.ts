// The nodes of a cluster as a running gateway sees them, over its API.
import type { NodeRow, Nodes } from "../core/store.ts";
import { HermesError, type Wire } from "./wire.ts";

type Listed = Omit<NodeRow, "leaseUntil"> & { lease_until: number };

export const createRemoteNodes = (wire: Wire): Pick<Nodes, "list" | "drain"> => ({
  list: async () =>
    (await wire.json<{ data: Listed[] }>("GET", "/api/nodes")).data.map(
      ({ id, address, version, leaving, lease_until, sessions }) => {
        return { id, address, version, leaving, leaseUntil: lease_until * 1_000, sessions };
      },
    ),
  async drain(id) {
    try {
      await wire.json("POST", `/api/nodes/${encodeURIComponent(id)}/drain`);
      return true;
    } catch (error) {
      if (error instanceof HermesError && error.status === 404) return false;
      throw error;
    }
  },
});
