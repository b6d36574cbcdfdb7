// What runs for one session, by key. Wanted and missing: started. Running and no longer wanted: aborted, and
// watched until it is observed dead or the wait for that is over.
import type { Clock } from "../core/ports.ts";
import type { Effect, Event } from "../core/session.ts";

type Flight = {
  effect: Effect;
  abort: AbortController;
  /** `returned`: the work is over, its event is on its way into the session. */
  state: "running" | "dying" | "returned";
  /** Ends the wait for its death. */
  gone: AbortController;
};

/** Until work that ended without an event is tried again; work that threw waits longer each time. */
const AGAIN_MS = 1_000;

export type Inflight = {
  flights: ReadonlyMap<string, Flight>;
  reconcile(wanted: Effect[]): void;
  abortAll(): void;
};

export function createInflight(world: {
  clock: Clock;
  /** How long an aborted piece of work may take to die before it is given up on. */
  graceMs: number;
  /** Null when it was aborted or cannot say anything. */
  run(effect: Effect, signal: AbortSignal): Promise<Event | null>;
  /** Returns the event of work that is given up after so many tries; null: it is tried again. */
  threw(effect: Effect, error: unknown, tries: number): Event | null;
  /** Resolves when the event has been committed or was void. Never rejects. */
  report(event: Event): Promise<void>;
  /** Aborted work is dead, or was given up on (`abandoned`). */
  dead(key: string, abandoned: boolean): void;
  /** A flight is off the list; if its work is still wanted, it must be started again. */
  landed(): void;
}): Inflight {
  const flights = new Map<string, Flight>();

  function reconcile(wanted: Effect[]) {
    const keys = new Set(wanted.map((effect) => effect.key));
    for (const [key, flight] of flights) if (!keys.has(key)) unwanted(key, flight);
    for (const effect of wanted) if (!flights.has(effect.key)) start(effect);
  }

  function start(effect: Effect) {
    const flight: Flight = { effect, abort: new AbortController(), state: "running", gone: new AbortController() };
    flights.set(effect.key, flight);
    void fly(flight);
  }

  async function fly(flight: Flight) {
    const event = await attempt(flight);
    if (flight.state === "dying") return remove(flight, () => world.dead(flight.effect.key, false));
    flight.state = "returned"; // stays listed until its event is in, or the same work would be started again
    await (event ? world.report(event) : world.clock.sleep(AGAIN_MS, flight.abort.signal));
    remove(flight);
  }

  async function attempt({ effect, abort: { signal } }: Flight): Promise<Event | null> {
    for (let tries = 1; ; tries++) {
      try {
        return await world.run(effect, signal);
      } catch (error) {
        const event = signal.aborted ? null : world.threw(effect, error, tries);
        if (event) return event;
      }
      await world.clock.sleep(AGAIN_MS * tries, signal);
      if (signal.aborted) return null;
    }
  }

  function unwanted(key: string, flight: Flight) {
    if (flight.state === "returned") flights.delete(key);
    if (flight.state !== "running") return;
    flight.state = "dying";
    flight.abort.abort();
    void world.clock.sleep(world.graceMs, flight.gone.signal).then(() => remove(flight, () => world.dead(key, true)));
  }

  function remove(flight: Flight, then?: () => void) {
    if (flights.get(flight.effect.key) === flight) {
      flights.delete(flight.effect.key);
      flight.gone.abort("gone"); // with a reason: without one, each makes an exception and its stack
      then?.();
    }
    world.landed();
  }

  function abortAll() {
    for (const flight of flights.values()) {
      if (flight.state === "running") flight.state = "dying";
      flight.abort.abort();
    }
  }

  return { flights, reconcile, abortAll };
}
