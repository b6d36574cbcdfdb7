// Snapshots of the workspace before a turn's first change and after each of its calls, for `/undo`. The store has a
// note for the trees of each turn: `snapshot/<workspace>/<turn>`.
import { basename, join } from "node:path";
import * as z from "zod";
import { CHANGE_FILES } from "../../conversation/rewind.ts";
import { createBounded } from "../../core/bounded.ts";
import { messageOf } from "../../core/errors.ts";
import type { Clock, Log, Tool, ToolCall } from "../../core/ports.ts";
import type { FileChanges, Runtime } from "../../core/runtime.ts";
import type { Notes } from "../../core/store.ts";
import { createSweep, sessionDir } from "../../platform/session-dirs.ts";
import { createLocks } from "../files/locks.ts";
import type { Entered } from "../sandbox/box.ts";
import type { SandboxChoice } from "../sandbox/sandbox.ts";
import { createWorkTree, type TreeChange, type Turning, unquoted } from "./work-tree.ts";

export type Snapshots = {
  /** Wraps a tool with snapshots if it can change files. */
  around(tool: Tool): Tool;
  /** Both: see Runtime. Neither rejects. */
  restore: Runtime["restoreFiles"];
  changes: Runtime["fileChanges"];
  forget(session: string): Promise<void>;
  /** Deletes snapshots that are too old or too many. */
  sweep(now: number): Promise<void>;
  close(): Promise<void>;
};

const MOST_KEPT = 50;
/** If the disk has more than this, only the newest few are kept. */
const MOST_KB = 1_000_000;
const FEW = 5;
const MOST_AGE_MS = 30 * 86_400_000;
/** After a snapshot that took too long or was too large, the next attempt waits this long: each attempt costs
 *  seconds. */
const PAUSE_MS = 3_600_000;
const MOST_REMEMBERED = 1_000;

/** `after` is missing until the end of a call was seen. */
const Kept = z.object({ session: z.string(), before: z.string(), after: z.string().optional(), at: z.number() });
type Kept = z.output<typeof Kept>;

export function createSnapshots(options: {
  /** HERMES_HOME */
  home: string;
  workspace: string;
  choice: SandboxChoice;
  notes: Notes;
  /** The sandbox for a command of the session. */
  enter(session: string): Promise<Entered>;
  /** Makes control and bidi characters visible. */
  display: (text: string) => string;
  owner: string;
  clock: Clock;
  log: Log;
  takeMs?: number;
}): Snapshots {
  const { home, workspace, choice, notes, enter, display, clock, log } = options;
  if (choice.sandbox === null) return none(choice.why);
  const root = join(home, "snapshots");
  const dir = sessionDir(root, workspace);
  const tree = createWorkTree({ ...options, dir, sandbox: choice.sandbox });
  const prefix = `snapshot/${basename(dir)}/`;
  const locked = createLocks();
  /** There is one git index, so its users run one after the other. */
  const inOrder = <T>(work: () => Promise<T>) => locked([dir], work);
  const begun = createBounded<Promise<string>>(MOST_REMEMBERED);
  const told = createBounded<true>(MOST_REMEMBERED);
  const ending = new Set<string>();
  let pause = { until: 0, why: "" };

  const read = async (name: string) => Kept.safeParse(await notes.get(prefix + name)).data ?? null;
  const list = async (): Promise<{ key: string; kept: Kept }[]> =>
    (await notes.list(prefix))
      .flatMap(({ key, value }) => {
        const kept = Kept.safeParse(value).data;
        return kept ? [{ key, kept }] : [];
      })
      .toSorted((a, b) => b.kept.at - a.kept.at);

  async function keep(name: string, kept: Kept): Promise<void> {
    await notes.set(prefix + name, kept);
    await drop(MOST_KEPT);
  }
  async function drop(most: number): Promise<void> {
    for (const { key } of (await list()).slice(most)) await notes.set(key, undefined);
  }

  // ── Taking them ───────────────────────────────────────────────────────────────────────────────────────

  /** Takes the snapshot before a call; parallel calls wait for the same one. Returns a note for the model, or
   *  nothing. */
  async function begin(call: ToolCall): Promise<string> {
    const beginning = begun.get(call.turn);
    if (beginning) {
      await beginning;
      return "";
    }
    const first = inOrder(() => takeFirst(call)).catch((error: unknown) => {
      log("warn", "snapshot.failed", { session: call.session, error: messageOf(error) });
      return "";
    });
    begun.set(call.turn, first);
    return first;
  }

  async function takeFirst({ session, turn, signal }: ToolCall): Promise<string> {
    if (await read(turn)) return ""; // taken before a restart
    if (clock.now() >= pause.until) {
      const taken = await tree.take(signal);
      if ("tree" in taken) {
        await keep(turn, { session, before: taken.tree, at: clock.now() });
        return "";
      }
      if (signal.aborted) return "";
      log(taken.passing ? "debug" : "warn", "snapshot.none", { session, why: taken.why });
      if (taken.passing) return "";
      pause = { until: clock.now() + PAUSE_MS, why: taken.why };
    }
    if (told.get(session)) return "";
    told.set(session, true);
    return `[no snapshot of the workspace, so /undo will not bring files back: ${pause.why}]\n`;
  }

  /** After a call, in the background. A snapshot that waits also sees the changes of later calls. If hermes is killed
   *  before it is taken, the files count as changed by somebody else, and are left alone. */
  function end({ session, turn }: ToolCall): void {
    if (ending.has(turn)) return;
    ending.add(turn);
    const work = async () => {
      ending.delete(turn);
      const kept = await read(turn);
      const taken = kept && (await tree.take());
      if (taken && "tree" in taken && taken.tree !== kept.after)
        await notes.set(prefix + turn, { ...kept, after: taken.tree });
    };
    void inOrder(work).catch((error: unknown) => log("warn", "snapshot.failed", { session, error: messageOf(error) }));
  }

  // ── Bringing files back ───────────────────────────────────────────────────────────────────────────────

  async function restore({ session, turns, preview }: Parameters<Snapshots["restore"]>[0]): Promise<FileChanges> {
    const found = await Promise.all((turns ?? [undoOf(session)]).map(read));
    const kept = found.filter((one) => one !== null);
    const now = await tree.take();
    if ("why" in now) return unrestored(display(now.why));
    if (!kept.length)
      return turns
        ? unrestored("there is no snapshot of that turn")
        : { summary: "No files to bring back.", patch: "" };
    const { changes, left, goal } = await plan(now.tree, kept);
    const patch = preview && changes.length > 0 ? (await tree.diff(now.tree, goal)).patch : "";
    if (changes.length > 0 && !preview) {
      // First store the present state, so that the restore can be undone whatever happens.
      await keep(undoOf(session), { session, before: now.tree, after: goal, at: clock.now() });
      await turn({ from: now.tree, to: goal, session });
    }
    const named = (changes: readonly TreeChange[]) => names(changes.map(({ path }) => display(unquoted(path))));
    const removed = changes.filter(isRemoval);
    const back = changes.filter((change) => !isRemoval(change));
    const missing = found.length - kept.length;
    const words = preview ? PREVIEWED : RESTORED;
    const summary = [
      changes.length + left.length === 0 && words.none,
      back.length > 0 && `${words.back}: ${named(back)}.`,
      removed.length > 0 && `${words.removed}: ${named(removed)}.`,
      left.length > 0 && `${words.left}, since somebody else may have changed them: ${named(left)}.`,
      missing > 0 && `There is no snapshot of ${missing} of these turns: what they changed stays.`,
      changes.length > 0 && !preview && "/undo files takes this back.",
    ];
    return { summary: summary.filter(Boolean).join(" "), patch };
  }

  async function turn(turning: Turning): Promise<void> {
    const entered = await enter(turning.session);
    try {
      if (entered.sandbox) await tree.turnTo(turning, entered.sandbox);
    } finally {
      await entered.leave();
    }
  }

  /** A kill in the middle of a restore leaves some files as they were, and one missing or cut short. What is anything
   *  else by now was changed since, and is left alone. */
  async function finish(): Promise<void> {
    const open = tree.unfinished();
    if (!open) return;
    const { from, to, session } = open;
    const now = await tree.take();
    if ("why" in now) throw new Error(now.why);
    const since = new Map((await tree.compare(from, now.tree)).map(({ path, after }) => [path, after]));
    const ours: TreeChange[] = [];
    for (const change of await tree.compare(from, to)) {
      const is = since.get(change.path);
      if (is === undefined || isNone(is) || (!isRemoval(change) && (await tree.isBeginning(is, change.after))))
        ours.push(change);
    }
    await turn({ from: now.tree, to: ours.length > 0 ? await tree.change(ours) : now.tree, session });
    log("info", "snapshot.finished", { session, files: ours.length });
  }

  /** Takes the turns back one by one, the newest first, without touching a file. What changed between two of them is left alone, and
   *  so is the same file in the turns before. */
  async function plan(now: string, kept: readonly Kept[]) {
    const changes = new Map<string, TreeChange>();
    const left = new Map<string, TreeChange>();
    let goal = now;
    for (const { before, after } of kept) {
      const one = after
        ? planned(await tree.compare(after, before), await tree.compare(after, goal))
        : { changes: [], left: await tree.compare(goal, before) };
      for (const change of one.left) left.set(change.path, change);
      const fresh = one.changes.filter(({ path }) => !left.has(path));
      for (const change of fresh) changes.set(change.path, change);
      if (fresh.length > 0) goal = await tree.change([...changes.values()]);
    }
    const open = new Map((await tree.compare(now, goal)).map((change) => [change.path, change]));
    return { changes: [...open.values()], left: [...left.values()], goal };
  }

  async function changes({ session, turn, all }: Parameters<Snapshots["changes"]>[0]): Promise<FileChanges> {
    const one = turn === undefined ? null : await read(turn);
    if (turn !== undefined && !one?.after) return { summary: "There is no snapshot of that turn.", patch: "" };
    if (one?.after) return differenceOf(one.before, one.after);
    const turns = (await list()).filter(
      ({ key, kept }) => kept.session === session && key !== prefix + undoOf(session),
    );
    const [last] = turns;
    const from = all ? turns.at(-1) : last;
    if (!last || !from)
      return { summary: "There is no snapshot: no tool changed files in this conversation.", patch: "" };
    // The last call may still run, or hermes was killed before it saw its end.
    const now = all || !last.kept.after ? await tree.take() : { tree: last.kept.after };
    if ("why" in now) throw new Error(now.why);
    return differenceOf(from.kept.before, now.tree);
  }

  async function differenceOf(before: string, after: string): Promise<FileChanges> {
    const { summary, patch } = await tree.diff(before, after);
    return { summary: summary || "No files are different.", patch };
  }

  const sweepOthers = createSweep(root);
  void inOrder(finish).catch((error: unknown) => {
    log("warn", "snapshot.unfinished", { error: messageOf(error) });
    tree.giveUp(); // tried once: later, files would change out of the blue
  });
  return {
    around: (tool) =>
      CHANGE_FILES.has(tool.name)
        ? {
            ...tool,
            async run(args, call) {
              const note = await begin(call);
              if (call.signal.aborted) return { ok: false, text: "Not run: the turn was stopped." };
              try {
                const result = await tool.run(args, call);
                return { ...result, text: note + result.text };
              } finally {
                end(call);
              }
            },
          }
        : tool,
    restore: (what) =>
      inOrder(() => restore(what)).catch((error: unknown) => {
        log("warn", "snapshot.unrestored", { ...what, error: messageOf(error) });
        return unrestored(display(messageOf(error)));
      }),
    changes: (what) =>
      inOrder(() => changes(what)).catch((error: unknown) => {
        log("warn", "snapshot.uncompared", { ...what, error: messageOf(error) });
        return { summary: `Not known: ${display(messageOf(error))}.`, patch: "" };
      }),
    async forget(session) {
      for (const { key, value } of await notes.list("snapshot/"))
        if (Kept.safeParse(value).data?.session === session) await notes.set(key, undefined);
    },
    sweep: (now) =>
      inOrder(async () => {
        for (const { key, kept } of await list()) if (now - kept.at > MOST_AGE_MS) await notes.set(key, undefined);
        const treesLeft = async () => (await list()).flatMap(({ kept }) => [kept.before, kept.after ?? []].flat());
        const trees = await treesLeft();
        await sweepOthers(now, trees.length > 0 ? [workspace] : []);
        if (trees.length > 0 && (await tree.keepOnly(trees)) > MOST_KB) {
          await drop(FEW);
          await tree.keepOnly(await treesLeft());
        }
      }),
    close: () => inOrder(async () => {}),
  };
}

const unrestored = (why: string): FileChanges => ({ summary: `Files were not brought back: ${why}.`, patch: "" });
const RESTORED = {
  none: "No files had to be brought back.",
  back: "Files brought back",
  removed: "Files removed",
  left: "Left as they are",
};
const PREVIEWED = {
  none: "No files have to be brought back.",
  back: "Files to bring back",
  removed: "Files to remove",
  left: "To be left as they are",
};

const undoOf = (session: string) => `undo:${session}`;
const isNone = (side: string) => side.startsWith("0 ");
const isRemoval = ({ after }: TreeChange) => isNone(after);

/** `back`: the reverse of the turn's changes; `since`: changes after the turn. */
function planned(
  back: readonly TreeChange[],
  since: readonly TreeChange[],
): { changes: TreeChange[]; left: TreeChange[] } {
  const now = new Map(since.map(({ path, after }) => [path, after]));
  const open = back.filter(({ path, after }) => now.get(path) !== after);
  return { changes: open.filter(({ path }) => !now.has(path)), left: open.filter(({ path }) => now.has(path)) };
}

const MOST_NAMES = 30;
const names = (all: string[]): string =>
  [...all.slice(0, MOST_NAMES), ...(all.length > MOST_NAMES ? [`and ${all.length - MOST_NAMES} more`] : [])].join(", ");

const none = (why: string): Snapshots => ({
  around: (tool) => tool,
  restore: () => Promise.resolve(unrestored(`snapshots need a sandbox, and ${why}`)),
  changes: () => Promise.resolve({ summary: `Not known: snapshots need a sandbox, and ${why}.`, patch: "" }),
  forget: () => Promise.resolve(),
  sweep: () => Promise.resolve(),
  close: () => Promise.resolve(),
});
