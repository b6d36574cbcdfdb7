import { clock } from "../platform/clock.ts";

/** Waits for it, but not longer, nor after the signal. No timer stays behind: it would keep the process alive. */
export async function within(work: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<void> {
  const over = new AbortController();
  const stop = () => over.abort();
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  try {
    await Promise.race([work, clock.sleep(ms, over.signal)]);
  } finally {
    signal?.removeEventListener("abort", stop);
    stop();
  }
}
