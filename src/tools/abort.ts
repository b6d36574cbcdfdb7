/** For work that cannot be stopped, or that takes its time with it: it is only no longer waited for. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop);
  return Promise.race([work, promise]).finally(() => signal.removeEventListener("abort", stop));
}
