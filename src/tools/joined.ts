import type { Tool } from "../core/ports.ts";

/** The tools of several lists. It is another array only when one of the lists is: what a model is told of the tools is counted
 *  once for each array. */
export function joined(...lists: (() => readonly Tool[])[]): () => readonly Tool[] {
  let parts: (readonly Tool[])[] = [];
  let all: readonly Tool[] = [];
  return () => {
    const now = lists.map((list) => list());
    if (now.some((list, i) => list !== parts[i])) [parts, all] = [now, now.flat()];
    return all;
  };
}
