// One step of thought: a model call with its retries and fallbacks, and the judgement of what it wants to do.
import { messageOf } from "../core/errors.ts";
import type { Fault, Gate, Model, ModelRequest, Performing, ProposedCall, Tool } from "../core/ports.ts";
import type { Event, Grant, Proposal } from "../core/session.ts";
import { messagesOfTurn } from "../core/transcript.ts";
import type { Agent, EffectOf } from "./agent.ts";
import { CROWDED, requestTokens } from "./context.ts";
import { ATTEMPTS, FAULTS, waitMs } from "./faults.ts";
import { staleMs, watchedCall } from "./watchdog.ts";

/** Calls of one answer that are looked at; a model that wants more has lost its way. */
const MOST_CALLS = 64;

export async function think(agent: Agent, effect: EffectOf<"think">, cx: Performing): Promise<Event | null> {
  const { step } = effect;
  const history = await cx.history();
  const { final, turn } = effect;
  const { tools } = agent;
  const { text, by, options } = history.begun;
  const about = { session: cx.session, turn, text, ...(by && { by }) };
  const recalled = (await agent.memory?.recall(about, cx.signal)) ?? "";
  const messages = messagesOfTurn(history, recalled);
  const system = await agent.system(cx.session, history.begun);
  const request: ModelRequest = { session: cx.session, system, messages, tools, final, ...(options && { options }) };
  const tokens = requestTokens(request.system, history, tools);
  const models = modelsFor(agent, effect.model);
  const window = models[0]?.context ?? 0;
  if (tokens > window * CROWDED && !effect.tight) return { type: "crowded", step };

  let said = "";
  let reasoning = "";
  const hear = {
    alive: () => {},
    text: (text: string) => {
      if (cx.signal.aborted) return;
      if (!said) cx.notice("");
      said += text;
      cx.say(text);
    },
    reasoning: (text: string) => {
      reasoning += text;
      cx.muse(text);
    },
  };
  let fault: Fault = { end: "fault", kind: "bad_request", reason: "No model is configured." };
  for (const model of models) {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      if (!(await cx.owned()) || cx.signal.aborted) return null;
      reasoning = "";
      const stale = agent.staleMs ?? staleMs(tokens, model.local);
      const result = await watchedCall({ clock: agent.clock, model, request, staleMs: stale }, hear, cx.signal);
      if (cx.signal.aborted) return null; // whatever it ended with: that was us (I12)
      if (result.end === "answer") {
        agent.breaker.answered(model);
        const calls = await Promise.all(
          result.calls.map((call, i) => propose(agent, call, i, cx.session, history.grants)),
        );
        const { usage, replay, refused } = result;
        const kept = { ...(replay && { replay }), ...(refused && { refused }), ...(recalled && { recalled }) };
        return { type: "thought", step, text: said, reasoning, calls, usage, model: model.name, ...kept };
      }
      fault = result.end === "fault" ? result : { end: "fault", kind: "network", reason: "aborted, not by us" };
      agent.breaker.failed(model, fault.kind);
      agent.log("warn", "model.fault", { session: cx.session, model: model.name, attempt, ...fault });
      if (said) break; // what a person has seen cannot be taken back: nothing starts over behind it
      if (fault.kind === "too_long" && !effect.tight) return { type: "crowded", step };
      if (!FAULTS[fault.kind].retry || attempt === ATTEMPTS) break;
      if (agent.breaker.resting(model) && model !== models.at(-1)) break;
      const wait = waitMs(attempt, agent.random(), fault.retryAfter);
      cx.notice(`${fault.reason}. Trying again in ${Math.ceil(wait / 1_000)} s (${attempt} of ${ATTEMPTS - 1}).`);
      await agent.clock.sleep(wait, cx.signal);
    }
    if (said || !FAULTS[fault.kind].fallback) break;
    if (model !== models.at(-1)) cx.notice(`${model.name} does not answer (${fault.reason}). Trying the next one.`);
  }
  return { type: "failed", step, reason: fault.reason, said };
}

/** Whom to ask, in order. */
export function modelsFor(agent: Agent, name: string | undefined): readonly Model[] {
  const named = name ? agent.modelNamed(name) : null;
  return agent.breaker.order(named ? [named, ...agent.models.slice(1)] : agent.models);
}

async function propose(
  agent: Agent,
  call: ProposedCall,
  index: number,
  session: string,
  grants: readonly Grant[],
): Promise<Proposal> {
  const tool = agent.tools.find((t) => t.name === call.tool);
  const { repeatable = true, alone = false } = tool ?? {};
  const proposal = { tool: call.tool, args: call.args, repeatable, alone };
  const refuse = (result: string): Proposal => ({ ...proposal, gate: "refuse", result: `Not run: ${result}` });
  if (index >= MOST_CALLS) return refuse(`at most ${MOST_CALLS} calls can be made at once.`);
  if (!tool) return refuse(`there is no tool "${call.tool}". There are: ${agent.tools.map((t) => t.name).join(", ")}.`);
  if (call.bad) return refuse(`${call.bad}. Make the call again, whole.`);
  const judged = await judge(tool, call.args, session, grants);
  if (judged.gate !== "ask") return { ...proposal, ...judged };
  const { kind, text, choices, timeoutMs, about } = judged;
  const until = agent.clock.now() + timeoutMs;
  return { ...proposal, gate: "ask", ask: { kind, text, choices, until, ...(about && { about }) } };
}

async function judge(tool: Tool, args: unknown, session: string, grants: readonly Grant[]): Promise<Gate> {
  try {
    return await tool.judge(args, session, grants);
  } catch (error) {
    return { gate: "refuse", result: `Not run: ${messageOf(error)}` };
  }
}
