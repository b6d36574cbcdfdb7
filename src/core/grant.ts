// What a yes covers: exactly what it was said to, and nothing that only looks like it (I15).
import type { About, Grant } from "./session.ts";

export const isGranted = (grants: readonly Grant[], about: About): boolean =>
  grants.some(({ about: granted }) => covers(granted, about));

const covers = (granted: About, { command, cwd, env, hosts = [] }: About): boolean =>
  granted.command === command &&
  granted.cwd === cwd &&
  granted.env === env &&
  hosts.every((host) => granted.hosts?.includes(host));
