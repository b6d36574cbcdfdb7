// Whether a channel is connected, and when its platform was last heard.
import type { ChatHealth } from "../../core/chat.ts";
import type { Ambient } from "../../core/ports.ts";

export function createHealth(platform: string, { clock, log }: Ambient) {
  const health: ChatHealth = { platform, connected: false, heardAt: null, error: "" };
  /** The platform has answered. */
  const alive = (): void => {
    health.heardAt = clock.now();
  };
  return {
    alive,
    changed(connected: boolean, error: string): void {
      if (connected) alive();
      if (connected && !health.connected) log("info", "chat.connected", { platform });
      Object.assign(health, { connected, error });
    },
    now: (): ChatHealth => ({ ...health }),
  };
}
