// The pairing desk of a running gateway, over its API.
import type { PairingDesk } from "../core/chat.ts";
import { HermesError, type Wire } from "./wire.ts";

export const createRemotePairing = (wire: Wire): PairingDesk => ({
  newCode: (platform) => wire.json("POST", "/api/pairing", { body: { platform } }),
  paired: async () =>
    (await wire.json<{ data: Awaited<ReturnType<PairingDesk["paired"]>> }>("GET", "/api/pairing")).data,
  async unpair(platform, id) {
    try {
      await wire.json("DELETE", `/api/pairing/${platform}/${encodeURIComponent(id)}`);
      return true;
    } catch (error) {
      if (error instanceof HermesError && error.status === 404) return false;
      throw error;
    }
  },
});
