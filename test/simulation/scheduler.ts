// Every wait of the simulated world is a task in one list. A seeded generator picks any ready one; when none is
// ready the clock moves. A task belongs to a process: when that is killed its tasks are gone and its promises
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
type Task = { owner: Owner; label: string; due: number; run: () => void };

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
  let tasks: Task[] = [];
  let now = 1_700_000_000_000;
  let hash = 0x811c9dc5;

  function mark(text: string) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }

  function ready(): Task[] {
    return tasks.filter((task) => task.due <= now && !task.owner.paused);
  }

  return {
    now: () => now,
    hash: () => hash >>> 0,
    add(owner, label, delay, run) {
      const task = { owner, label, due: now + delay, run };
      tasks.push(task);
      return task;
    },
    remove(task) {
      const at = tasks.indexOf(task);
      if (at >= 0) tasks.splice(at, 1);
    },
    step(until) {
      tasks = tasks.filter((task) => task.owner.alive);
      let choice = ready();
      if (!choice.length) {
        const next = Math.min(...tasks.filter((task) => !task.owner.paused).map((task) => task.due));
        if (next > until) return false;
        now = next;
        choice = ready();
      }
      const task = choice[Math.floor(random() * choice.length)];
      if (!task) return false;
      this.remove(task);
      mark(`${task.label}@${now}`);
      trace?.(`${now % 1e8} ${task.label}`);
      task.run();
      runMicrotasks();
      return true;
    },
  };
}
