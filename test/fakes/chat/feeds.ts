// Things that come in order and are waited for: each is given once, also when it came before anybody asked.

type Feeds<K, T> = {
  push(key: K, item: T): void;
  next(key: K): Promise<T>;
  /** Whoever still waits is told. */
  close(why: string): void;
};

export function feeds<K, T>(): Feeds<K, T> {
  const unseen = new Map<K, T[]>();
  const waiting = new Map<K, PromiseWithResolvers<T>[]>();
  const of = <V>(map: Map<K, V[]>, key: K): V[] => {
    const list = map.get(key) ?? [];
    map.set(key, list);
    return list;
  };
  return {
    push: (key, item) => {
      const waiter = of(waiting, key).shift();
      if (waiter) waiter.resolve(item);
      else of(unseen, key).push(item);
    },
    next: (key) => {
      const list = of(unseen, key);
      const [item] = list;
      if (list.length > 0) {
        list.shift();
        return Promise.resolve(item as T);
      }
      const waiter = Promise.withResolvers<T>();
      of(waiting, key).push(waiter);
      return waiter.promise;
    },
    close: (why) => {
      for (const waiter of [...waiting.values()].flat()) waiter.reject(new Error(why));
      waiting.clear();
    },
  };
}
