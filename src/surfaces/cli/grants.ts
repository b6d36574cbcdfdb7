// hermes policy grants, revoke: lists and revokes approvals that hold for the rest of a session.
import type { Runtime } from "../../core/runtime.ts";
import type { Grant } from "../../core/session.ts";
import { printable } from "../../platform/logline.ts";

type Options = {
  desk: Pick<Runtime, "granted" | "grants" | "revoke">;
  print(text: string): Promise<void> | void;
  complain(line: string): void;
};

/** Each returns the exit code. */
export async function listGrants({ desk, print }: Options, json: boolean): Promise<number> {
  const all = await allGrants(desk);
  if (json) await print(all.map((row) => `${JSON.stringify(row)}\n`).join(""));
  else if (all.length) await print(all.map(rowOf).join(""));
  else await print("There are no grants. Permanent rules are in policy.yaml.\n");
  return 0;
}

export async function revokeGrant({ desk, print, complain }: Options, id: string): Promise<number> {
  const all = await allGrants(desk);
  const chosen = id === "all" ? all : all.filter((row) => row.call === id);
  if (!chosen.length) {
    complain(`There is no grant ${printable(id)}. See: hermes policy grants`);
    return 1;
  }
  for (const { session, call } of chosen) await desk.revoke(session, call, "cli");
  await print(`Revoked; these commands ask again:\n${chosen.map(rowOf).join("")}`);
  return 0;
}

type GrantRow = Grant & { session: string };

async function allGrants(desk: Options["desk"]): Promise<GrantRow[]> {
  const sessions = await desk.granted();
  const lists = await Promise.all(
    sessions.map(async (session) => (await desk.grants(session)).map((grant) => ({ ...grant, session }))),
  );
  return lists.flat().toSorted((a, b) => a.at - b.at);
}

const rowOf = ({ call, session, by, at, about: { command, cwd, hosts } }: GrantRow): string =>
  `${call}  ${new Date(at).toISOString().slice(0, 16)}  ${printable(by)}  ${printable(session)}\n` +
  `    ${printable(command)}\n    in ${printable(cwd)}${hosts ? `, reaching ${hosts.join(", ")}` : ""}\n`;
