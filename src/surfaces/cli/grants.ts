// hermes policy grants, rules, revoke: lists and revokes approvals that hold for the rest of a session, and those that were saved.
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
  else await print("There are no grants. Permanent rules: hermes policy rules\n");
  return 0;
}

export async function revokeGrant({ desk, print, complain }: Options, id: string): Promise<number> {
  const all = await allGrants(desk);
  const chosen = id === "all" ? all : all.filter((row) => row.call === id);
  if (!chosen.length) {
    complain(`There is no grant or rule ${printable(id)}. See: hermes policy grants, hermes policy rules`);
    return 1;
  }
  for (const { session, call } of chosen) await desk.revoke(session, call, "cli");
  await print(`Revoked; these commands ask again:\n${chosen.map(rowOf).join("")}`);
  return 0;
}

/** A rule of policy.yaml, or a host of hosts.allow, whose id is its name. */
export type SavedRow = { id: string; rule: string; within: string | null; file: string };

export async function listRules(rows: readonly SavedRow[], json: boolean, print: Options["print"]): Promise<void> {
  const line = ({ id, rule, within, file }: SavedRow) =>
    `${printable(id)}  ${printable(file)}\n    ${printable(rule)}\n${within ? `    in ${printable(within)}\n` : ""}`;
  if (json) await print(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  else
    await print(rows.map(line).join("") || 'There are no saved rules. Answer an approval with "always" to save one.\n');
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
