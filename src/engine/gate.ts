// Room for turns in flight, first come, first served. A session gets a place for one turn and goes to the
// back of the line with its next one, so that nobody's long queue keeps others waiting. A turn that waits for
// a person, or between two attempts at an answer, gives its place back.

export type TurnGate = {
  /** Whether this turn of the session may work now. `works`: it wants to. */
  admit(session: string, turn: string | null, works: boolean): boolean;
  /** Whether the session waits in line. */
  holds(session: string): boolean;
  /** How many more could come in at once. */
  free(): number;
  /** From now on only turns that have worked before may work. */
  close(): void;
  /** The same, until it is taken back. */
  pause(on: boolean): void;
};

export function createGate(room: number, comeIn: (session: string) => void): TurnGate {
  const inside = new Map<string, string>();
  const line = new Set<string>();
  const begun = new Map<string, string>();
  let open = true;
  let paused = false;

  function admit(session: string, turn: string | null, works: boolean): boolean {
    if (turn === null) begun.delete(session);
    if (turn !== null && works && inside.get(session) === turn) return true;
    const left = inside.delete(session);
    const idle = turn === null || !works;
    if (idle) line.delete(session);
    const admitted = idle || enter(session, turn);
    if (left) next();
    return admitted;
  }

  function enter(session: string, turn: string): boolean {
    const resumes = begun.get(session) === turn;
    const [first = session] = line;
    const may = open && !paused ? first === session : resumes;
    if (!may || inside.size >= room) {
      line.add(session);
      return false;
    }
    line.delete(session);
    inside.set(session, turn);
    begun.set(session, turn);
    return true;
  }

  function next() {
    for (const session of line) {
      if (inside.size >= room) return;
      comeIn(session);
    }
  }

  return {
    admit,
    holds: (session) => line.has(session),
    free: () => Math.max(0, room - inside.size - line.size),
    close: () => (open = false),
    pause(on) {
      paused = on;
      if (!on) next();
    },
  };
}
