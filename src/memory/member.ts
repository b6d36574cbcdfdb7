// A provider with its queue of calls; initialised before the first call.
import type { Lane } from "./lane.ts";
import type { MemoryProvider } from "./provider.ts";

export type Member = { provider: MemoryProvider; lane: Lane; call: Lane["call"] };

export function createMember(provider: MemoryProvider, lane: Lane): Member {
  let ready = false;
  const call: Lane["call"] = (work, how) =>
    lane.call(async (signal) => {
      if (!ready) await provider.initialize?.(signal);
      ready = true;
      return work(signal);
    }, how);
  // Initialise early, so that its tools are known early; nobody waits for it.
  if (provider.initialize) call(() => Promise.resolve(), { idly: true }).catch(() => {});
  return { provider, lane, call };
}
