// A provider with its line of calls, made ready before the first of them.
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
  // What it offers is known as early as can be; nobody waits for it.
  if (provider.initialize) call(() => Promise.resolve(), { idly: true }).catch(() => {});
  return { provider, lane, call };
}
