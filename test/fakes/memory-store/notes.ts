import type { Disk, SyncPort } from "./disk.ts";

export function memoryNotes({ notes }: Disk): SyncPort<"notes"> {
  const set = (key: string, value: unknown) => {
    if (value === undefined) notes.delete(key);
    else notes.set(key, { key, value: JSON.parse(JSON.stringify(value)), at: 0 });
  };
  return {
    get: (key) => notes.get(key)?.value,
    set,
    swap: (key, from, to) => {
      if (JSON.stringify(notes.get(key)?.value) !== JSON.stringify(from)) return false;
      set(key, to);
      return true;
    },
    list: (prefix) =>
      [...notes.values()].filter(({ key }) => key.startsWith(prefix)).sort((a, b) => (a.key < b.key ? -1 : 1)),
  };
}
