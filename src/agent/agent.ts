// Calls the executor of each effect; there is one file per effect.
import type { Ambient, Channel, Memory, Model, Perform, Random, Tool } from "../core/ports.ts";
import type { Effect } from "../core/session.ts";
import type { Transcript } from "../core/transcript.ts";
import { act } from "./act.ts";
import { ask } from "./ask.ts";
import type { Breaker } from "./breaker.ts";
import { compact } from "./compact.ts";
import { deliver } from "./deliver.ts";
import { remember } from "./remember.ts";
import { think } from "./think.ts";

export type Agent = Ambient & {
  /** The first one is called first; the others if it fails. */
  models: readonly Model[];
  /** Another model by its name, for those who ask for one. */
  modelNamed(name: string): Model | null;
  system(session: string, begun: Transcript["begun"]): Promise<string>;
  breaker: Breaker;
  /** Milliseconds of silence after which a call is given up, if configured. */
  staleMs?: number;
  tools: readonly Tool[];
  /** Hides our secrets in what a tool returned, before it is kept or anybody sees it. */
  redact?(text: string): string;
  channel: Channel | null;
  memory: Memory | null;
  random: Random;
};

export function createPerform(agent: Agent): Perform {
  return (effect, cx) => {
    switch (effect.do) {
      case "think":
        return think(agent, effect, cx);
      case "compact":
        return compact(agent, effect, cx);
      case "act":
        return act(agent, effect, cx);
      case "ask":
        return ask(agent, effect, cx);
      case "deliver":
        return deliver(agent, effect, cx);
      case "remember":
        return remember(agent, effect, cx);
    }
  };
}

export type EffectOf<Do extends Effect["do"]> = Extract<Effect, { do: Do }>;
