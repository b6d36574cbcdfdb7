// Finds matching lines. A regular expression can be written that never ends, and nothing inside its thread can stop it.
// So patterns run in a worker thread, which can be terminated. Plain text needs none.
import { Worker } from "node:worker_threads";

/** Indices of matching lines, starting at 0, at most `most`. */
export type Matcher = AsyncDisposable & {
  lines(text: string, most: number): Promise<number[]>;
  /** Terminates the matcher; open requests fail. */
  stop(): Promise<unknown>;
};
export type MatchRequest = { text: string; most: number };

export const matchingLines = (text: string, fits: (line: string) => boolean, most: number): number[] => {
  const found: number[] = [];
  for (const [at, line] of splitLines(text).entries()) {
    if (!fits(line)) continue;
    found.push(at);
    if (found.length >= most) break;
  }
  return found;
};

export const splitLines = (text: string): string[] => {
  const lines = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

export function plainMatcher(wanted: string): Matcher {
  const stop = async () => {};
  const lines = async (text: string, most: number) =>
    text.includes(wanted) ? matchingLines(text, (line) => line.includes(wanted), most) : [];
  return { lines, stop, [Symbol.asyncDispose]: stop };
}

export function patternMatcher({ source, flags }: RegExp): Matcher {
  const worker = new Worker(new URL("./match-worker.ts", import.meta.url), {
    execArgv: [],
    env: {},
    workerData: { source, flags },
  });
  let asker: PromiseWithResolvers<number[]> | null = null;
  let over: Error | null = null;
  const end = (why: Error) => {
    over ??= why;
    asker?.reject(over);
    asker = null;
  };
  worker.on("message", (found: number[]) => {
    asker?.resolve(found);
    asker = null;
  });
  worker.on("error", (error) => end(error instanceof Error ? error : new Error(String(error))));
  worker.on("exit", () => end(new Error("the search was ended")));
  const stop = () => worker.terminate();
  return {
    lines(text, most) {
      if (over) return Promise.reject(over);
      asker = Promise.withResolvers<number[]>();
      const { promise } = asker;
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage({ text, most } satisfies MatchRequest);
      return promise;
    },
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}
