// Tools of the client. The answer to a request ends where the turn waits for results; the request that brings them goes on with
// the same turn. It is found by the ids of the calls, which name their turn: nothing else is kept, so it is found by any process.
import * as z from "zod";
import { isPaused, newRun, takeEntry } from "../../../core/run.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { ClientTool, Entry, ModelOptions } from "../../../core/session.ts";
import { problem, wrongField } from "../server/problem.ts";
import type { WireMessage } from "./messages.ts";
import { hexOf, type StartedTurn } from "./openai-turn.ts";

const MOST_TOOLS = 128;
const name = z.string().regex(/^[\w-]{1,64}$/, "must have 1 to 64 letters, digits, _ or -");
const declared = z.looseObject({
  name,
  description: z.string().max(100_000).nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
});
const ONLY_FUNCTIONS = "must be function: the agent brings all other tools itself";
const type = z.literal("function", ONLY_FUNCTIONS);

/** As /v1/chat/completions writes them, and as /v1/responses does. */
const toolsLike = <Tool extends z.ZodType>(tool: Tool) =>
  z.array(tool).max(MOST_TOOLS).nullish().describe("Functions of the client, besides the tools of the agent");
export const chatTools = toolsLike(z.looseObject({ type, function: declared }));
export const SERVER_LABEL = "hermes";
export const responseTools = toolsLike(
  z.union([
    declared.extend({ type }),
    // The agent itself, as a client that can show approvals names it.
    z.looseObject({
      type: z.literal("mcp"),
      server_label: z.literal(SERVER_LABEL),
      require_approval: z.enum(["always", "never"]).nullish(),
    }),
  ]),
);
const named = z.union([z.looseObject({ type, name }), z.looseObject({ type, function: z.looseObject({ name }) })]);
export const toolChoice = z
  .union([z.enum(["none", "auto", "required"]), named])
  .nullish()
  .describe("Which function of the client the model calls");

type Declared = z.output<typeof declared>;

export function toolsOf(given: readonly Declared[], choice: z.output<typeof toolChoice>): ClientTool[] {
  if (choice === "none") return [];
  return given.map((tool) => ({
    name: tool.name,
    description: tool.description ?? "",
    schema: tool.parameters ?? { type: "object", properties: {} },
    ...(tool.strict !== undefined && tool.strict !== null && { strict: tool.strict }),
  }));
}

export function choiceOf(
  choice: z.output<typeof toolChoice>,
  tools: readonly ClientTool[],
): Pick<ModelOptions, "toolChoice"> {
  if (choice === "required") return { toolChoice: "required" };
  if (typeof choice !== "object" || choice === null) return {};
  const tool = "function" in choice ? z.looseObject({ name }).parse(choice.function).name : choice.name;
  if (tools.some((one) => one.name === tool)) return { toolChoice: { tool } };
  throw wrongField("tool_choice", `there is no tool ${JSON.stringify(tool)}`);
}

// ── Ids ───────────────────────────────────────────────────────────────────────────────────────────────

/** A call's own id has half of its turn's: its client gets all of it. */
export const clientCallId = (turn: string, call: string, prefix: "call" | "mcpr" = "call"): string =>
  call.replace(/^call_[0-9a-f]+/, `${prefix}_${hexOf(turn)}`);

function parseId(id: string): { turn: string; call: string } | null {
  const [, hex = "", rest] = /^(?:call|mcpr)_([0-9a-f]{32})(_\d+_\d+)$/.exec(id) ?? [];
  return rest ? { turn: `run_${hex}`, call: `call_${hex.slice(0, 16)}${rest}` } : null;
}

// ── Results ───────────────────────────────────────────────────────────────────────────────────────────

export type ClientResult = { id: string; allow: boolean; text: string };

/** What the request brings: the results at its end. */
export function resultsIn(list: readonly WireMessage[], read: (message: WireMessage) => string): ClientResult[] {
  const first = list.findLastIndex(({ role }) => role !== "tool") + 1;
  return list.slice(first).map((message) => ({
    id: typeof message["tool_call_id"] === "string" ? message["tool_call_id"] : "",
    allow: message["approve"] !== false,
    text: read(message),
  }));
}

/** Who gave a result, in the journal. */
const CLIENT = "client";

/** Gives the turn what it waits for, and returns where it goes on. Given again, it is the same place: the first result counts.
 *  Null: no turn waits, or waited, for these. */
export async function resume(
  runtime: Runtime,
  results: readonly ClientResult[],
  tools: readonly ClientTool[],
): Promise<StartedTurn | null> {
  const calls = results.map(({ id }) => parseId(id));
  const turn = calls[0]?.turn;
  if (!turn || calls.some((one) => one?.turn !== turn)) return null;
  const [entries, run] = await Promise.all([runtime.turn(turn), runtime.run(turn)]);
  const pause = pauseOf(entries, (call) => calls.some((one) => one?.call === call));
  const [first] = entries;
  if (!run || !pause || first?.kind !== "accepted") return null;
  const { session } = run;
  if (JSON.stringify(first.input.tools ?? []) !== JSON.stringify(tools)) {
    // Its client asks for something else now: nobody brings the results that it waits for.
    if (isPaused(run)) await runtime.stop({ session, turn });
    return null;
  }
  const missing = pause.open.filter(({ call }) => !calls.some((one) => one?.call === call));
  if (missing.length) {
    const ids = missing.map(({ call }) => clientCallId(turn, call)).join(", ");
    throw problem(400, "missing_tool_results", `There must be a result for each call; missing: ${ids}`);
  }
  const waits = new Set(pause.open.map(({ call }) => call));
  const others = entries.some(
    (entry) => entry.kind === "acted" && waits.has(entry.call) && !isGiven(entries, entry.call),
  );
  if (others) return null; // it was stopped, or waited too long
  for (const [i, { allow, text }] of results.entries()) {
    const call = calls[i]?.call ?? "";
    await runtime.answer({ session, call, allow, text: text || "(no output)", by: CLIENT, scope: "once" });
  }
  return { id: turn, session, cursor: String(pause.seq), part: pause.seq };
}

const isGiven = (entries: readonly Entry[], call: string) =>
  entries.some((entry) => entry.kind === "decided" && entry.call === call && entry.by === CLIENT);

/** Where the turn came to wait for one of these, and all that it waited for there. */
function pauseOf(entries: readonly Entry[], isWanted: (call: string) => boolean) {
  const run = newRun({ id: "", at: 0 });
  for (const entry of entries) {
    takeEntry(run, entry);
    if (isPaused(run) && run.open.some(({ call }) => isWanted(call))) return { seq: entry.seq, open: run.open };
  }
  return null;
}
