// Entries and live text of a session from any place on. Deltas are not stored: while a model call runs its
// text so far is held here, when it ends the whole text is in its entry, and a viewer's place is
// `<entry>.<characters>`, so that any resume is a slice: no gap, no double (I20).
//
// A viewer pulls, so a slow viewer delays nobody and fills no buffer.
import { placeOf } from "../core/cursor.ts";
import type { Update } from "../core/runtime.ts";
import type { CallKind, Entry, InputKind, RecoveryKind } from "../core/session.ts";
import { onAbort } from "../core/wait.ts";
import type { Live, Prints } from "./live.ts";
import { lengthOf, nextIn, nextOf } from "./live-text.ts";

const ALL = -1;
/** Whether an entry of this kind ends the model call in flight. Entries of other kinds can be written while it runs. */
function endsCall({ kind }: Entry): boolean {
  switch (kind) {
    case "thought":
    case "cut":
    case "failed":
    case "retracted":
    case "stopping":
    case "restarted":
    case "ended":
      return true;
    default:
      kind satisfies InputKind | CallKind | RecoveryKind | "forked" | "compacted";
      return false;
  }
}

type StreamSource = {
  /** False: this process sends nothing more. */
  open(): boolean;
  ready(): Promise<unknown>;
  /** The last entry there is, read together with `live`. */
  seq(): number;
  live(): Live | null;
  prints(): Prints;
  entries(after: number): Promise<Entry[]>;
  watchers: Set<() => void>;
};

export async function* follow(source: StreamSource, cursor: string, signal: AbortSignal): AsyncGenerator<Update> {
  let { seq, chars, heard, noticed, printed } = startOf(cursor);
  let step = -1;
  let shown = "";
  const at = () => (chars ? `${seq}.${chars}` : `${seq}`);

  while (!signal.aborted) {
    await source.ready();
    if (seq < source.seq()) {
      for (const entry of await source.entries(seq)) {
        if (entry.seq > source.seq()) break; // on the disk already, but the text it replaces is still live
        const said = entry.kind === "thought" || entry.kind === "cut" ? entry.text : "";
        while (chars < said.length) {
          const delta = nextIn(said, chars);
          chars += delta.length;
          yield { cursor: at(), delta, at: entry.at };
          if (signal.aborted) return;
        }
        if ((entry.kind === "restarted" || entry.kind === "retracted") && chars) {
          yield { cursor: `${at()}+x`, reset: true, at: entry.at };
          chars = 0;
          if (signal.aborted) return;
        }
        if (said) chars = 0;
        seq = entry.seq;
        yield { cursor: at(), entry };
        if (endsCall(entry)) [heard, noticed] = [0, 0];
        if (signal.aborted) return;
      }
      continue;
    }
    // A node that stood still knows less than a viewer who comes from another one: what is live here is over there.
    const isBehind = seq > source.seq();
    const live = isBehind ? null : source.live();
    if (live && step !== -1 && live.step !== step) [heard, noticed] = [0, 0];
    if (live) ({ step } = live);
    if (live && heard === ALL) heard = lengthOf(live.reasoning);
    const reasoning = live ? nextOf(live.reasoning, heard) : ""; // before the text: it was thought first
    if (reasoning) {
      heard += reasoning.length;
      yield { cursor: `${at()}+r${heard}`, reasoning };
      continue;
    }
    const delta = live ? nextOf(live.text, chars) : "";
    if (delta) {
      chars += delta.length;
      yield { cursor: at(), delta };
      continue;
    }
    const notice = live?.notice ?? "";
    if (notice && noticed === live?.notices) shown = notice; // told by whoever told of this place
    if (notice !== shown) {
      shown = notice;
      yield { cursor: `${at()}+n${live?.notices ?? 0}`, notice };
      continue;
    }
    const prints = source.prints();
    if (printed > prints.count) printed = 0; // another process had counted
    const next = isBehind ? undefined : nextPrinted(prints, printed);
    if (next) {
      printed = next.at;
      yield { cursor: `${at()}+p${printed}`, printed: next.text, call: next.call };
      continue;
    }
    if (signal.aborted || !source.open()) return;
    await woken(source.watchers, signal);
  }
}

/** The oldest output that was not shown yet. */
function nextPrinted({ calls }: Prints, shown: number): { call: string; text: string; at: number } | undefined {
  return Array.from(calls, ([call, print]) => ({ call, ...print }))
    .filter(({ at }) => at > shown)
    .toSorted((a, b) => a.at - b.at)[0];
}

function startOf(cursor: string) {
  const { seq, chars, aside, count } = placeOf(cursor) ?? { seq: 0, chars: 0, aside: "", count: 0 };
  if (aside === "x") return { seq, chars: 0, heard: 0, noticed: 0, printed: 0 };
  // A viewer that has seen words or a notice has seen the reasoning before them.
  const heard = chars || aside === "n" ? ALL : aside === "r" ? count : 0;
  return { seq, chars, heard, noticed: aside === "n" ? count : 0, printed: aside === "p" ? count : 0 };
}

async function woken(watchers: Set<() => void>, signal: AbortSignal): Promise<void> {
  const { promise, resolve: wake } = Promise.withResolvers<void>();
  watchers.add(wake);
  const release = onAbort(signal, wake);
  await promise;
  release();
  watchers.delete(wake);
}
