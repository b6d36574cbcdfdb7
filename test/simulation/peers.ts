// The engines of other nodes as one node reaches them: over a network that loses requests and answers, breaks streams, and may part nodes.
import { messageOf, Refusal } from "../../src/core/errors.ts";
import { PEER_CALLS, type Peer } from "../../src/core/runtime.ts";
import type { Running } from "./boot.ts";
import type { World } from "./world.ts";

const HOP_MS = 5;

export function peerOf(
  world: World,
  self: Running,
  at: (address: string) => Running | undefined,
  address: string,
): Peer {
  const { scheduler, random } = world;
  const hop = () => Math.floor(random() * HOP_MS);
  const isParted = (there: Running) => Math.max(self.partedUntil, there.partedUntil) > scheduler.now();
  const isLost = (there: Running) => isParted(there) || world.chance("peer.lost");

  const call =
    (method: (typeof PEER_CALLS)[number]) =>
    (...args: unknown[]): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const refuse = (refusal: Refusal) => void scheduler.add(self, "peer refuses", hop(), () => reject(refusal));
        /** Somebody closes the connection, or nothing is ever heard. */
        const lose = () => {
          if (random() < 0.5) refuse(broken());
        };
        const there = at(address);
        if (!there?.started) return refuse(broken());
        if (isLost(there)) return lose();
        scheduler.add(there, `peer ${method}`, hop(), () => {
          const asked = there.engine[method] as (...args: unknown[]) => Promise<unknown>;
          void asked(...args).then(
            (value) => {
              if (isLost(there)) lose();
              else scheduler.add(self, "peer answers", hop(), () => resolve(value));
            },
            (error: unknown) => (isLost(there) ? lose() : refuse(overTheWire(error))),
          );
        });
      });

  const follow: Peer["follow"] = async function* (session, cursor, signal) {
    const there = at(address);
    if (!there?.started || isParted(there)) throw broken();
    try {
      for await (const update of there.engine.follow(session, cursor, signal)) {
        await new Promise<void>((arrive) => void scheduler.add(self, "peer update", hop(), arrive));
        if (isLost(there)) throw broken();
        yield update;
      }
    } catch (error) {
      throw overTheWire(error);
    }
  };

  const calls: unknown = Object.fromEntries(PEER_CALLS.map((method) => [method, call(method)]));
  return { ...(calls as Omit<Peer, "follow">), follow };
}

const broken = () => new Refusal("store_unavailable", "the connection is broken");

/** A refusal's name arrives, where to ask instead does not. */
const overTheWire = (error: unknown): Refusal =>
  new Refusal(error instanceof Refusal ? error.code : "store_unavailable", messageOf(error));
