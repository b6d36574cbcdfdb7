// A reply to a chat that must be pushed to, under a key that stays the same however often it is sent.
import { messageOf } from "../core/errors.ts";
import type { EffectContext } from "../core/ports.ts";
import { compactedText, endedByText } from "../core/run.ts";
import { type Entry, type Event, HEARTBEAT_SOURCE } from "../core/session.ts";
import type { Agent, EffectOf } from "./agent.ts";

const WAITS_MS = [1_000, 5_000, 20_000];

export async function deliver(agent: Agent, effect: EffectOf<"deliver">, cx: EffectContext): Promise<Event | null> {
  const { turn, step, from } = effect;
  const [entry] = await cx.journal.entries(cx.session, from - 1, 1);
  const text = replyOf(entry);
  if (NOTHING_TO_DO.test(text) && (await isHeartbeat(turn, cx))) return { type: "delivered", step, how: "sent" };
  for (let attempt = 0; ; attempt++) {
    if (!(await cx.owned()) || cx.signal.aborted) return null;
    const again = effect.again || attempt > 0;
    try {
      if (!agent.channel) throw new Error("there is no channel to deliver it to");
      const how = await agent.channel.send({ key: turn, session: cx.session, turn, text, again }, cx.signal);
      return { type: "delivered", step, how };
    } catch (error) {
      const wait = WAITS_MS[attempt];
      if (wait === undefined || !agent.channel) {
        agent.log("error", "reply.undelivered", { session: cx.session, turn, error: messageOf(error) });
        return { type: "delivered", step, how: "undelivered" }; // the answer stays in the journal
      }
      await agent.clock.sleep(wait, cx.signal);
    }
  }
}

/** As agents of this kind say it. Nobody wants to be told every half hour. */
const NOTHING_TO_DO = /^\W*HEARTBEAT_OK\W*$/;

async function isHeartbeat(turn: string, { journal }: EffectContext): Promise<boolean> {
  const [accepted] = await journal.turn(turn);
  return accepted?.kind === "accepted" && accepted.input.source === HEARTBEAT_SOURCE;
}

function replyOf(entry: Entry | undefined): string {
  if (entry?.kind === "thought")
    return [entry.text, entry.endedBy && endedByText(entry.endedBy)].filter(Boolean).join("\n\n");
  if (entry?.kind === "failed") return entry.reason;
  return entry?.kind === "compacted" ? compactedText(entry.upTo) : "";
}
