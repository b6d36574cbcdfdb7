// What the tests of the engine share: one request, and what is looked at afterwards.
import { expect } from "vitest";
import type { RefusalCode } from "../../src/core/errors.ts";
import type { Gate } from "../../src/core/ports.ts";
import type { AcceptRequest, Update } from "../../src/core/runtime.ts";
import { type Booted, calm } from "./scripted.ts";

export const kinds = (booted: Booted, session = "s") => booted.journal(session).map((entry) => entry.kind);
export const refused = (promise: Promise<unknown>, code: RefusalCode) =>
  expect(promise).rejects.toMatchObject({ name: "Refusal", code });
/** Whether it is over without any more time passing. */
export const isOver = async (promise: Promise<unknown>) => {
  let over = false;
  void promise.then(() => {
    over = true;
  });
  await calm();
  return over;
};
export const request = (more: Partial<AcceptRequest> = {}): AcceptRequest => ({
  session: "s",
  source: "api",
  key: "k1",
  text: "hello",
  mode: "queue",
  reply: "pull",
  ...more,
});
export const use = (tool: string, args: unknown = {}) => ({ tool, args });
export const ASK: Gate = {
  gate: "ask",
  kind: "approval",
  text: "may I?",
  choices: ["once", "deny"],
  timeoutMs: 300_000,
};

/** A viewer that writes down all it sees. */
export function watch({ engine }: Booted, session = "s", cursor = "") {
  const seen: Update[] = [];
  const leave = new AbortController();
  const over = (async () => {
    for await (const update of engine.follow(session, cursor, leave.signal)) seen.push(update);
  })();
  return { seen, leave: () => leave.abort(), over };
}
export const textOf = (updates: Update[]) => updates.map((u) => ("delta" in u ? u.delta : "")).join("");
export const shape = (updates: Update[]) =>
  updates.map((u) =>
    "entry" in u ? u.entry.kind : "reset" in u ? "reset" : "delta" in u ? `"${u.delta}"` : `(${asideOf(u)})`,
  );
const asideOf = (update: Update) =>
  "notice" in update ? update.notice : "reasoning" in update ? update.reasoning : "";
