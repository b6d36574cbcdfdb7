// One step of thought: a model call with its retries and fallbacks, and the judgement of what it wants to do.
import { explained, messageOf } from "../core/errors.ts";
import type { EffectContext, Fault, Gate, ModelRequest, ModelResult, ProposedCall, Tool } from "../core/ports.ts";
import type { ClientTool, Event, Grant, ModelOptions, Proposal, ThoughtTiming } from "../core/session.ts";
import { messagesOfTurn, type Transcript } from "../core/transcript.ts";
import type { Agent, EffectOf } from "./agent.ts";
import { attempt, modelsFor, nextOf } from "./attempts.ts";
import { canShorten, hasOlderPart } from "./compact.ts";
import { CROWDED, fitted, fixedTokens, squeezed } from "./context.ts";
import { FAULTS, MOST_BREAKS } from "./faults.ts";
import { staleMs, watchedCall } from "./watchdog.ts";

/** Calls of one answer that are looked at; a model that wants more has lost its way. */
const MOST_CALLS = 64;
/** Of the tries that failed, so many are written down, the last ones, each with so many characters of its reason. */
const MOST_TRIES = 20;
const LONGEST_REASON = 200;
const TOO_LONG: Fault = { end: "fault", kind: "too_long", reason: "the conversation is too long for this model" };

export async function think(agent: Agent, effect: EffectOf<"think">, cx: EffectContext): Promise<Event | null> {
  const { step, final, turn, tight, breaks } = effect;
  const { clock } = agent;
  const began = clock.monotonic();
  const sinceBegan = () => Math.round(clock.monotonic() - began);
  const timing: ThoughtTiming = {};
  const history = await cx.history();
  const { text, by, attended = false, bare = false, tools: clients = [], instructions = "" } = history.begun;
  const options = optionsOf(history);
  const tools = bare ? [] : toolsWith(agent.tools, clients);
  const about = { session: cx.session, turn, text, ...(by && { by }) };
  const recalled = bare ? "" : ((await agent.memory?.recall(about, cx.signal)) ?? "");
  if (recalled) timing.recalled = sinceBegan();
  const system = bare ? instructions : await agent.system(cx.session, history.begun);
  const models = modelsFor(agent, effect.model);
  const first = nextOf(agent, models);
  if (!first) return { type: "failed", step, reason: "No model is configured.", said: "" };
  const fixed = fixedTokens(system, tools);
  const room = first.context * CROWDED - fixed;
  let fit = fitted(history, first.context);
  if (fit.tokens > room && !tight && canShorten(history, first)) return { type: "crowded", step };
  if (fit.tokens > room) fit = squeezed(history, first.context, room);
  if (fit.tokens > room && !tight) return { type: "crowded", step }; // it will say that nothing can be done
  const messages = messagesOfTurn({ ...history, messages: fit.messages }, recalled);
  const request: ModelRequest = { session: cx.session, system, messages, tools, final, ...(options && { options }) };

  let said = "";
  let reasoning = "";
  const hear = {
    alive: () => {},
    text: (text: string) => {
      if (cx.signal.aborted) return;
      if (!said) cx.notice("");
      timing.firstWord ??= sinceBegan();
      said += text;
      cx.emitText(text);
    },
    reasoning: (text: string) => {
      timing.firstWord ??= sinceBegan();
      reasoning += text;
      cx.emitReasoning(text);
    },
  };
  const ended = await attempt({
    agent,
    cx,
    models,
    attended,
    breaks,
    spoke: () => said !== "",
    ask: async (model, limit) => {
      reasoning = "";
      delete timing.firstWord;
      // A fallback with a smaller window: the conversation is made to fit it first.
      if (!tight && fixed + fit.tokens > model.context * CROWDED && canShorten(history, model)) return TOO_LONG;
      const larger = limit === undefined ? request : { ...request, options: { ...options, maxTokens: limit } };
      const stale = agent.staleMs ?? staleMs(fixed + fit.tokens, model.local);
      const call = { clock, model, request: larger, staleMs: stale };
      const end = ownLimit(await watchedCall(call, hear, cx.signal), options);
      if (end.end !== "fault") return end;
      const failed = { model: model.name, reason: end.reason.slice(0, LONGEST_REASON), ms: sinceBegan() };
      timing.tries = [...(timing.tries ?? []), failed].slice(-MOST_TRIES);
      return end;
    },
  });
  if (!ended) return null;
  const { model, result } = ended;
  if (result.end === "answer") {
    const { grants } = history;
    const calls = await Promise.all(
      result.calls.map((call, i) => propose({ ...agent, tools }, call, i, cx.session, grants)),
    );
    const { usage, endedBy, replay, refused } = result;
    const thought = { step, text: said, reasoning, calls, usage, model: model.name, timing };
    const kept = { ...(endedBy && { endedBy }), ...(replay && { replay }), ...(refused && { refused }) };
    return { type: "thought", ...thought, ...kept, ...(recalled && { recalled }) };
  }
  const { kind, reason } = result;
  const retract = said ? { retract: reason } : {};
  // An empty stream may have another cause: llama-cpp-python sends one for whatever it cannot do.
  const crowded = kind === "too_long" || (kind === "empty" && hasOlderPart(history, model));
  if (crowded && !tight) return { type: "crowded", step, ...retract };
  const same = FAULTS[kind].attended === null; // by the same endpoint it would end like this again
  const again = !same || (FAULTS[kind].fallback && models.length > 1);
  const { tries } = timing;
  if (!said || !again || breaks >= MOST_BREAKS)
    return { type: "failed", step, reason: explained(result), said, ...(tries && { tries }) };
  // No tool has run, so nothing is done twice: the words are taken back, and it is begun again.
  if ((same || breaks > 0) && models.length > 1) agent.breaker.rest(model);
  return { type: "broke", step, reason };
}

/** A limit that whoever asked has set is theirs: it is not raised. */
function ownLimit(end: ModelResult, { maxTokens }: ModelOptions = {}): ModelResult {
  if (end.end !== "fault" || end.kind !== "exhausted" || maxTokens === undefined) return end;
  return { end: "fault", kind: "bad_request", reason: `${end.reason} (${maxTokens} tokens, as was asked for)` };
}

/** A tool must be called, or a certain one: by the first model call of the turn. */
function optionsOf({ begun: { options, seq }, seqs }: Transcript): ModelOptions | undefined {
  if (!options?.toolChoice || seqs.at(-1) === seq) return options;
  const { toolChoice: _, ...rest } = options;
  return rest;
}

/** The agent's, and those of the client, which takes the place of one with the same name. */
function toolsWith(own: readonly Tool[], clients: readonly ClientTool[]): readonly Tool[] {
  if (!clients.length) return own;
  return [...own.filter(({ name }) => clients.every((tool) => tool.name !== name)), ...clients.map(asTool)];
}

/** How long a client may take over its result: as long as a person over a question. */
const CLIENT_MS = 3_600_000;

/** A call of it waits for the client's result as a question waits for its answer: it is never run here. */
const asTool = (spec: ClientTool): Tool => ({
  ...spec,
  repeatable: true,
  judge: () => ({ gate: "ask", kind: "client", text: "", choices: [], timeoutMs: CLIENT_MS }),
  run: () => Promise.resolve({ ok: false, text: "Not run: this is a tool of the client." }),
});

async function propose(
  agent: Pick<Agent, "tools" | "clock">,
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
  const { gate, timeoutMs, ...ask } = judged;
  return { ...proposal, gate, ask: { ...ask, until: agent.clock.now() + timeoutMs } };
}

async function judge(tool: Tool, args: unknown, session: string, grants: readonly Grant[]): Promise<Gate> {
  try {
    return await tool.judge(args, session, grants);
  } catch (error) {
    return { gate: "refuse", result: `Not run: ${messageOf(error)}` };
  }
}
