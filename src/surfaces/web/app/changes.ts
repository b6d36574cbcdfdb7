// What changes in all sessions. Browsers allow six connections to a server over all their tabs, so one tab listens and tells the
// others.
import { signal } from "@preact/signals";
import type { RemoteRow } from "../../../client/remote.ts";
import { messageOf } from "../../../core/errors.ts";
import type { Status } from "../../../core/runtime.ts";
import { get, wire } from "./server.ts";

export type WorkingSession = RemoteRow & { status: Status };
export type NowState = { data: WorkingSession[]; draining: boolean };

/** Rises whenever something has changed anywhere. */
export const changeCount = signal(0);
export const nowState = signal<NowState | null>(null);
/** Empty: the server answers. */
export const trouble = signal("");

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("hermes") : null;

export function followChanges(signal: AbortSignal): void {
  channel?.addEventListener("message", () => void changed(), { signal });
  const listen = () => listenUntil(signal);
  // Not there over plain HTTP from another machine: then each tab listens.
  if (navigator.locks) void navigator.locks.request("hermes.changes", { signal }, listen).catch(() => {});
  else void listen();
  void changed();
}

async function listenUntil(signal: AbortSignal): Promise<void> {
  try {
    for await (const next of wire.stream("/api/changes", { after: "", signal })) {
      if ("broken" in next) trouble.value = "The connection to the server is broken; trying again.";
      else if ("opened" in next) trouble.value = "";
      else {
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has none
        channel?.postMessage("changed");
        void changed();
      }
    }
  } catch (error) {
    trouble.value = messageOf(error);
  }
}

let reading = false;
let again = false;

/** One request at a time, and one more when something has changed meanwhile. */
export async function changed(): Promise<void> {
  again = true;
  if (reading) return;
  reading = true;
  try {
    while (again) {
      again = false;
      nowState.value = await get<NowState>("/api/now");
      changeCount.value += 1;
    }
  } catch {
    // The stream says when the server is back.
  } finally {
    reading = false;
  }
}
