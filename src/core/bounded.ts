// A map that is bounded by weight, for values that can be loaded again. Once its values weigh more than `most`, the value that was not
// used for longest is dropped. The value that was set last stays, however heavy it is.

export type Bounded<V> = {
  /** Counts as used. */
  get(key: string): V | undefined;
  set(key: string, value: V, weight?: number): void;
  delete(key: string): void;
};

export function createBounded<V>(most: number, forgotten: (value: V) => void = () => {}): Bounded<V> {
  const kept = new Map<string, { value: V; weight: number }>(); // used last comes last
  let total = 0;

  function remove(key: string) {
    const one = kept.get(key);
    if (!one) return undefined;
    kept.delete(key);
    total -= one.weight;
    return one;
  }

  function put(key: string, one: { value: V; weight: number }) {
    kept.set(key, one);
    total += one.weight;
  }

  return {
    get(key) {
      const one = remove(key);
      if (one) put(key, one);
      return one?.value;
    },
    set(key, value, weight = 1) {
      remove(key);
      put(key, { value, weight });
      for (const oldest of kept.keys()) {
        if (total <= most || oldest === key) return;
        const one = remove(oldest);
        if (one) forgotten(one.value);
      }
    },
    delete: (key) => void remove(key),
  };
}
