// How a client reaches a session through any node: it asks there, and goes where that node says the session is.
import { Elsewhere, Refusal } from "../../src/core/errors.ts";
import type { Runtime } from "../../src/core/runtime.ts";
import type { Running } from "./boot.ts";
import type { Owner } from "./scheduler.ts";
import type { World } from "./world.ts";

const AGAIN_MS = 50;
/** A node that does not answer for so long is asked again, or another one. */
const SILENT_MS = 1_000;
const HOLD_MS = 8_000;
/** A session whose node is changing just now is asked for again. */
const CHANGING_MS = 500;

type Door = Pick<Runtime, "accept" | "stop" | "answer" | "withdraw" | "move" | "status" | "forget" | "follow">;

export function doorTo(self: Running, all: readonly Running[], { scheduler }: World, client: Owner): Door {
  if (!self.address) return self.engine;
  const sleep = (ms: number) =>
    new Promise<null>((resolve) => void scheduler.add(client, "door", ms, () => resolve(null)));

  async function at<T>(call: (engine: Runtime) => Promise<T>): Promise<T> {
    const until = scheduler.now() + HOLD_MS;
    for (let owner: Running = self; ; ) {
      try {
        const answer = await Promise.race([call(owner.engine).then((value) => ({ value })), sleep(SILENT_MS)]);
        if (answer) return answer.value;
        owner = self;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        const there = error instanceof Elsewhere && all.find(({ address }) => address === error.address);
        const changing = error.code === "store_unavailable" && scheduler.now() < until - HOLD_MS + CHANGING_MS;
        if (owner === self && !there && !changing) throw error;
        owner = there && there !== owner ? there : self;
      }
      if (scheduler.now() > until) throw new Refusal("store_unavailable", "nobody has it");
      await sleep(AGAIN_MS);
    }
  }

  async function* follow(session: string, cursor: string, signal: AbortSignal) {
    let place = cursor;
    for (let owner = self; !signal.aborted; ) {
      try {
        for await (const update of owner.engine.follow(session, place, signal)) {
          place = update.cursor;
          yield update;
        }
        return;
      } catch (error) {
        if (!(error instanceof Elsewhere)) throw error;
        owner = all.find(({ address }) => address === error.address) ?? self;
        await sleep(AGAIN_MS);
      }
    }
  }

  return {
    accept: (request) => at((node) => node.accept(request)),
    stop: (stop) => at((node) => node.stop(stop)),
    answer: (answer) => at((node) => node.answer(answer)),
    withdraw: (session, input) => at((node) => node.withdraw(session, input)),
    move: (session, input, to) => at((node) => node.move(session, input, to)),
    status: (session) => at((node) => node.status(session)),
    forget: (session) => at((node) => node.forget(session)),
    follow,
  };
}
