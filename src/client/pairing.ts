// The pairing desk of a running gateway, over its API.
import type { PairingDesk } from "../core/chat.ts";
import { HermesError, type Wire } from "./wire.ts";

export const createRemotePairing = (wire: Wire): PairingDesk => ({
  newCode: (platform) => wire.json("POST", "/api/pairing", { body: { platform } }),
  paired: async () =>
    (await wire.json<{ data: Awaited<ReturnType<PairingDesk["paired"]>> }>("GET", "/api/pairing")).data,
  approve: (platform, code) => orNull(wire.json("POST", "/api/pairing/approve", { body: { platform, code } })),
  unpair: async (platform, id) =>
    (await orNull(wire.json("DELETE", `/api/pairing/${platform}/${encodeURIComponent(id)}`))) !== null,
});

/** Null: there is no such thing. */
const orNull = <T>(answer: Promise<T>): Promise<T | null> =>
  answer.catch((error: unknown) => {
    if (error instanceof HermesError && error.status === 404) return null;
    throw error;
  });
