// Entries and live text of a session from any place on. Deltas are not stored: while a model call runs its
// text so far is held here, when it ends the whole text is in its entry, and a viewer's place is
// `<entry>.<characters>`, so that any resume is a slice: no gap, no double (I20).
//
// A viewer pulls: one that is slow holds nothing back and fills nothing up.

import type { Update } from "../core/runtime.ts";
import type { Entry } from "../core/session.ts";
import { type Live, textFrom } from "./live.ts";

const ALL = -1;
/** Others can be written while a model call goes on. */
const ENDS_CALL = new Set<Entry["kind"]>(["thought", "cut", "failed", "restarted", "stopping", "ended"]);

type Source = {
  /** False: nothing more will come from here. */
  open(): boolean;
  ready(): Promise<unknown>;
  /** The last entry there is, read together with `live`. */
  seq(): number;
  live(): Live | null;
  entries(after: number): Promise<Entry[]>;
  watchers: Set<() => void>;
};

export async function* follow(source: Source, cursor: string, signal: AbortSignal): AsyncGenerator<Update> {
  let { seq, chars, heard, noticed } = placeOf(cursor);
  let step = -1;
  let shown = "";
  const at = () => (chars ? `${seq}.${chars}` : `${seq}`);

  while (!signal.aborted) {
    await source.ready();
    if (seq < source.seq()) {
      for (const entry of await source.entries(seq)) {
        if (entry.seq > source.seq()) break; // on the disk already, but the text it replaces is still live
        const said = entry.kind === "thought" || entry.kind === "cut" ? entry.text : "";
        if (chars < said.length) {
          const delta = said.slice(chars);
          chars = said.length;
          yield { cursor: at(), delta };
          if (signal.aborted) return;
        }
        if (entry.kind === "restarted" && chars) {
          yield { cursor: `${at()}+x`, reset: true };
          chars = 0;
          if (signal.aborted) return;
        }
        if (said) chars = 0;
        seq = entry.seq;
        yield { cursor: at(), entry };
        if (ENDS_CALL.has(entry.kind)) [heard, noticed] = [0, 0];
        if (signal.aborted) return;
      }
      continue;
    }
    const live = source.live();
    if (live && step !== -1 && live.step !== step) [heard, noticed] = [0, 0];
    if (live) ({ step } = live);
    if (live && heard === ALL) heard = live.reasoning?.length ?? 0;
    // Before the text: it was thought first.
    const reasoning = heard === ALL ? "" : textFrom(live?.reasoning, live?.reasoningTail, heard);
    if (reasoning) {
      heard += reasoning.length;
      yield { cursor: `${at()}+r${heard}`, reasoning };
      continue;
    }
    if (live && live.text.length > chars) {
      const delta = textFrom(live.text, live.tail, chars);
      chars = live.text.length;
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
    if (signal.aborted || !source.open()) return;
    await woken(source.watchers, signal);
  }
}

/** A place is `<entry>.<characters>`. What is not part of the record stands aside of one: `+r` and how much was thought,
 *  `+n` and how many notices there were; `+x`: all of the text was taken back. */
function placeOf(cursor: string): { seq: number; chars: number; heard: number; noticed: number } {
  const [place = "", aside = ""] = cursor.split("+", 2);
  const [seq = 0, chars = 0] = place.split(".").map(Number);
  const count = (kind: string) => (aside.startsWith(kind) ? Number(aside.slice(1)) : 0);
  // Who was told of words, or of a notice, was told of the thoughts before them.
  const heard = chars || aside.startsWith("n") ? ALL : count("r");
  return { seq, chars: aside === "x" ? 0 : chars, heard: aside === "x" ? 0 : heard, noticed: count("n") };
}

function woken(watchers: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      watchers.delete(wake);
      signal.removeEventListener("abort", wake);
      resolve();
    };
    watchers.add(wake);
    signal.addEventListener("abort", wake);
  });
}
