// One model call, with its retries, and the judgement of what it wants to do.
import { messageOf } from "../core/errors.ts";
import type { Gate, Performing, Tool } from "../core/ports.ts";
import type { Event, Proposal } from "../core/session.ts";
import type { Agent, EffectOf } from "./agent.ts";

const ATTEMPTS = 4;
const FIRST_WAIT_MS = 500;
/** A provider may ask for an hour; nobody waits that long in a chat. */
const LONGEST_WAIT_MS = 60_000;

export async function think(agent: Agent, effect: EffectOf<"think">, cx: Performing): Promise<Event | null> {
  const { step } = effect;
  const { messages } = await cx.history();
  const tools = effect.final ? [] : agent.tools;
  let said = "";
  const say = (text: string) => {
    if (cx.signal.aborted) return;
    said += text;
    cx.say(text);
  };
  for (let attempt = 1; ; attempt++) {
    if (!(await cx.owned()) || cx.signal.aborted) return null;
    const result = await agent.model.call({ session: cx.session, messages, tools }, say, cx.signal);
    if (cx.signal.aborted) return null; // whatever it ended with: that was us (I12)
    if (result.end === "answer") {
      const calls = await Promise.all(result.calls.map((call) => propose(agent, call, cx.session)));
      return { type: "thought", step, text: said, calls, usage: result.usage };
    }
    const fault = result.end === "fault" ? result : { reason: "The call was aborted, not by us.", retryable: true };
    // What a person has seen cannot be taken back, so no second try starts over behind it.
    if (!fault.retryable || said || attempt === ATTEMPTS) return { type: "failed", step, reason: fault.reason, said };
    await agent.clock.sleep(wait(attempt, agent.random(), "retryAfter" in fault ? fault.retryAfter : 0), cx.signal);
  }
}

/** Doubling, from half to all of it, so that many sessions do not come back together; never sooner than asked for. */
function wait(attempt: number, random: number, asked = 0): number {
  const backoff = FIRST_WAIT_MS * 2 ** (attempt - 1) * (0.5 + random / 2);
  return Math.min(Math.max(backoff, asked), LONGEST_WAIT_MS);
}

async function propose(agent: Agent, call: { tool: string; args: unknown }, session: string): Promise<Proposal> {
  const tool = agent.tools.find((t) => t.name === call.tool);
  const { repeatable = true, alone = false } = tool ?? {};
  const proposal = { tool: call.tool, args: call.args, repeatable, alone };
  if (!tool) {
    const names = agent.tools.map((t) => t.name).join(", ");
    return { ...proposal, gate: "refuse", result: `There is no tool "${call.tool}". There are: ${names}.` };
  }
  const judged = await judge(tool, call.args, session);
  if (judged.gate !== "ask") return { ...proposal, ...judged };
  const { kind, text, choices, timeoutMs } = judged;
  return { ...proposal, gate: "ask", ask: { kind, text, choices, until: agent.clock.now() + timeoutMs } };
}

async function judge(tool: Tool, args: unknown, session: string): Promise<Gate> {
  try {
    return await tool.judge(args, session);
  } catch (error) {
    return { gate: "refuse", result: `Not run: ${messageOf(error)}` };
  }
}
