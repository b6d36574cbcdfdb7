import type { Disk, SyncPort } from "./disk.ts";

export const memoryNotes = ({ notes }: Disk): SyncPort<"notes"> => ({
  get: (key) => notes.get(key)?.value,
  set: (key, value) => {
    if (value === undefined) notes.delete(key);
    else notes.set(key, { key, value: JSON.parse(JSON.stringify(value)), at: 0 });
  },
  list: (prefix) =>
    [...notes.values()].filter(({ key }) => key.startsWith(prefix)).sort((a, b) => (a.key < b.key ? -1 : 1)),
});
