// Every wait of the simulated world is a task. A seeded generator picks any one that is due; when none is, the clock
// moves. A task belongs to a process: when that is killed its tasks are gone and its promises
// never resume; while it is paused they wait.

export type Random = () => number;

export function createRandom(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let t = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    t = Math.imul(t ^ (t >>> 15), 0x735a2d97);
    return ((t ^ (t >>> 15)) >>> 0) / 2 ** 32;
  };
}

export type Owner = { alive: boolean; paused: boolean };
type Task = { owner: Owner; label: string; due: number; run: () => void; removed: boolean };

export type Scheduler = {
  now(): number;
  /** Changes with every task that ran and when: the same seed gives the same one. */
  hash(): number;
  add(owner: Owner, label: string, delay: number, run: () => void): Task;
  remove(task: Task): void;
  /** Runs one task and everything that follows from it at once; false when nothing is left to do. */
  step(until: number): boolean;
};

export function createScheduler(
  random: Random,
  runMicrotasks: () => void,
  trace: ((line: string) => void) | null,
): Scheduler {
  /** The one that is due first is last. */
  const later: Task[] = [];
  /** Those that can run now. */
  let due: Task[] = [];
  /** Those of paused processes: they do not move the clock. */
  let asleep: Task[] = [];
  let now = 1_700_000_000_000;
  let hash = 0x811c9dc5;

  function sort(task: Task) {
    if (task.removed || !task.owner.alive) return;
    if (task.owner.paused) asleep.push(task);
    else if (task.due <= now) due.push(task);
    else {
      let at = later.length;
      while (at > 0 && (later[at - 1] as Task).due < task.due) at--;
      later.splice(at, 0, task);
    }
  }

  /** Whatever has happened since. */
  function lookAround() {
    if (asleep.length > 0) {
      const woken = asleep;
      asleep = [];
      woken.forEach(sort);
    }
    if (due.some(({ removed, owner }) => removed || !owner.alive || owner.paused)) {
      const before = due;
      due = [];
      before.forEach(sort);
    }
    for (let next = later.at(-1); next && next.due <= now; next = later.at(-1)) {
      later.pop();
      sort(next);
    }
  }

  /** When the next one is due that can run then. */
  function nextDue(): number | null {
    for (let next = later.at(-1); next; next = later.at(-1)) {
      if (!next.removed && next.owner.alive && !next.owner.paused) return next.due;
      later.pop();
      sort(next);
    }
    return null;
  }

  return {
    now: () => now,
    hash: () => hash >>> 0,
    add(owner, label, delay, run) {
      const task = { owner, label, due: now + delay, run, removed: false };
      sort(task);
      return task;
    },
    remove(task) {
      task.removed = true;
    },
    step(until) {
      lookAround();
      if (due.length === 0) {
        const next = nextDue();
        if (next === null || next > until) return false;
        now = next;
        lookAround();
      }
      const at = Math.floor(random() * due.length);
      const task = due[at];
      if (!task) return false;
      due.splice(at, 1);
      hash = Math.imul(hash ^ hashOf(task.label), 0x01000193);
      hash = Math.imul(hash ^ (now | 0), 0x01000193);
      trace?.(`${now % 1e8} ${task.label}`);
      task.run();
      runMicrotasks();
      return true;
    },
  };
}

const hashes = new Map<string, number>();

/** Of a label: there are few. */
function hashOf(text: string): number {
  let hash = hashes.get(text);
  if (hash !== undefined) return hash;
  hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hashes.set(text, hash);
  return hash;
}
