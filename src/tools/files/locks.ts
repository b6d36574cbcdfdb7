// Locks files for one writer at a time, in order of arrival. All files of a change are locked at once, so there can be
// no deadlock.
export type Locked = <T>(files: readonly string[], work: () => Promise<T>) => Promise<T>;

export function createLocks(): Locked {
  const last = new Map<string, Promise<void>>();
  return async (files, work) => {
    const before = files.flatMap((file) => last.get(file) ?? []);
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const file of files) last.set(file, promise);
    try {
      await Promise.all(before);
      return await work();
    } finally {
      resolve();
      for (const file of files) if (last.get(file) === promise) last.delete(file);
    }
  };
}
