// What a session has cost so far, by model: what a token costs depends on it.
import type { Runtime } from "../core/runtime.ts";
import type { Usage } from "../core/session.ts";
import { usagePlus } from "../core/usage.ts";

export type Spent = Usage & { model: string; calls: number };

const PAGE = 1_000;

export async function spentIn(runtime: Pick<Runtime, "entries">, session: string): Promise<Spent[]> {
  let spent: Spent[] = [];
  for (let seq = 0; ; ) {
    const page = await runtime.entries(session, seq, PAGE);
    for (const entry of page) if (entry.kind === "thought") spent = spentPlus(spent, entry.model, entry.usage);
    if (page.length < PAGE) return spent;
    seq = page.at(-1)?.seq ?? seq;
  }
}

export function spentPlus(spent: readonly Spent[], model: string, usage: Usage): Spent[] {
  const before = spent.find((one) => one.model === model) ?? { model, calls: 0, input: 0, output: 0 };
  const now = { model, calls: before.calls + 1, ...usagePlus(before, usage) };
  return [...spent.filter((one) => one.model !== model), now];
}
