import type { Runtime } from "../core/runtime.ts";
import type { LongTermMemory } from "./manager.ts";

/** A runtime whose status says of each memory that has still to be told of turns why it was not. */
export function withMemoryHealth<R extends Runtime>(runtime: R, memory: Pick<LongTermMemory, "health">): R {
  const status: Runtime["status"] = async (session) => {
    const found = await runtime.status(session);
    const suspended = memory.health().filter(({ state }) => state === "suspended");
    const named = (by: string) => {
      const trouble = suspended.find(({ name }) => name === by);
      return trouble ? `${by} (left alone for now: ${trouble.lastError})` : by;
    };
    return { ...found, unsaved: found.unsaved.map(named) };
  };
  return { ...runtime, status };
}
