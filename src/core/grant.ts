// What a yes covers: exactly what it was said to, and nothing that only looks like it (I15).
import type { Runtime } from "./runtime.ts";
import type { About, Grant } from "./session.ts";

export const isGranted = (grants: readonly Grant[], about: About): boolean =>
  grants.some(({ about: granted }) => covers(granted, about));

const covers = (granted: About, { command, cwd, env, hosts = [] }: About): boolean =>
  granted.command === command &&
  granted.cwd === cwd &&
  granted.env === env &&
  hosts.every((host) => granted.hosts?.includes(host));

type Grants = Pick<Runtime, "grants" | "revoke">;

/** `/grants`, `/grants revoke 2`, `/grants revoke all`: what was allowed for the rest of a session, the same wherever people
 *  talk. Returns what to say. */
export async function grantsCommand(runtime: Grants, session: string, rest: string, by: string): Promise<string> {
  const grants = await runtime.grants(session);
  if (!grants.length) return "Nothing is allowed for the rest of this conversation. Rules for good are in policy.yaml.";
  const [verb = "", which = ""] = rest.trim().toLowerCase().split(/\s+/);
  if (verb === "") return `${grants.map(grantLine).join("\n")}\n\nTake one back with /grants revoke 1, or all of them.`;
  const chosen = which === "all" ? grants : grants.slice(Number(which) - 1, Number(which));
  if (verb !== "revoke" || !/^(all|[1-9]\d{0,3})$/.test(which) || !chosen.length)
    return `Say /grants revoke and a number from 1 to ${grants.length}, or all.`;
  for (const { call } of chosen) await runtime.revoke(session, call, by);
  return `Taken back: it asks again.\n${chosen.map(grantLine).join("\n")}`;
}

const grantLine = ({ about: { command, cwd, hosts } }: Grant, index: number): string =>
  `${index + 1}. ${command} in ${cwd}${hosts ? `, reaching ${hosts.join(", ")}` : ""}`;
