import type { Disk, SyncPort } from "./disk.ts";

export const memoryAnnouncements = ({ announcements }: Disk): SyncPort<"announcements"> => ({
  list: ({ dead, after, limit }) =>
    [...announcements.values()].filter((one) => one.dead === dead && one.id > after).slice(0, limit),
  update: (id, next) => {
    const one = announcements.get(id);
    if (!next) announcements.delete(id);
    else if (one) announcements.set(id, { ...one, ...next });
  },
});
