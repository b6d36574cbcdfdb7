// Our sessions as MCP tools: another agent starts work here, waits for it, answers its questions and stops it.
import { type CallToolResult, McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";
import { answerIn } from "../../conversation/choice.ts";
import { followTurn } from "../../conversation/follow-turn.ts";
import { messageOf, Refusal } from "../../core/errors.ts";
import { isOver, type Run } from "../../core/run.ts";
import type { Runtime } from "../../core/runtime.ts";
import { type Ask, MODES } from "../../core/session.ts";
import { linked } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { atMost } from "../../platform/fence.ts";

export type McpServeOptions = {
  runtime: Runtime;
  version: string;
  /** Unique: the same one again is the same input. */
  newKey(): string;
};

/** Clients give up on a request after 60 s, so a wait is shorter and is repeated. */
const LONGEST_WAIT_S = 50;
const LONGEST = { output: 100_000, said: 20_000, ask: 10_000 };

const runId = z.string().min(1).max(200).describe("From session_start.");
type FoundRun = Run & { session: string };

export function createMcpServe({ runtime, version, newKey }: McpServeOptions): McpServer {
  const server = new McpServer({ name: "hermes", version });

  server.registerTool(
    "session_start",
    {
      description:
        "Gives the agent something to do, in a new conversation or in one that exists. Returns at once; session_wait waits for the answer.",
      inputSchema: z.object({
        message: z.string().min(1).describe("What to do, as you would tell a person."),
        session_id: z.string().min(1).max(256).optional().describe("A conversation to go on in."),
        mode: z.enum(MODES).optional().describe("What happens if that conversation is busy; usually queue."),
        idempotency_key: z.string().min(1).max(255).optional().describe("The same key again is the same run."),
      }),
    },
    ({ message, session_id, mode = "queue", idempotency_key }) =>
      answered(async () => {
        const { id, session } = await runtime.accept({
          ...(session_id && { session: session_id }),
          source: "mcp",
          key: idempotency_key ?? newKey(),
          text: message,
          mode,
          reply: "pull",
        });
        return { run_id: id, session_id: session, ...(await shown(await found(id))) };
      }),
  );

  server.registerTool(
    "session_status",
    {
      description: "What has become of a run: its status, its answer, and what it asks.",
      inputSchema: z.object({ run_id: runId }),
      annotations: { readOnlyHint: true },
    },
    ({ run_id }) => answered(async () => shown(await found(run_id))),
  );

  server.registerTool(
    "session_wait",
    {
      description:
        "Waits until a run is over or asks something. If neither happens in time, the status says so: call it again with the " +
        "cursor, and nothing is missed.",
      inputSchema: z.object({
        run_id: runId,
        timeout_seconds: z.number().min(0).max(LONGEST_WAIT_S).optional().describe("Usually 30."),
        cursor: z.string().max(100).optional().describe("From the last session_wait: only what was said after it."),
      }),
      annotations: { readOnlyHint: true },
    },
    ({ run_id, timeout_seconds = 30, cursor = "" }, { mcpReq: { signal } }) =>
      answered(() => wait(run_id, cursor, timeout_seconds * 1_000, signal)),
  );

  server.registerTool(
    "session_approve",
    {
      description:
        "Answers what a run asks. Decide only what you were told to decide; ask your user about anything else. Without an answer " +
        "it is not run.",
      inputSchema: z.object({
        run_id: runId,
        request_id: z.string().max(200).optional().describe("From waiting_for; usually the oldest."),
        answer: z.string().min(1).max(LONGEST.ask).describe("One of the choices; to a question any words."),
      }),
    },
    ({ run_id, request_id, answer }) =>
      answered(async () => {
        const { session } = await found(run_id);
        const { asking } = await runtime.status(session);
        const question = request_id ? asking.find(({ call }) => call === request_id) : asking[0];
        if (!question) throw new Refusal("invalid_key", "Nothing like that is asked.");
        const words = answerIn(question, answer);
        const given = words ?? (question.kind === "question" ? { allow: true, text: answer } : null);
        if (!given) throw new Refusal("invalid_key", `answer must be one of: ${question.choices.join(", ")}`);
        const first = await runtime.answer({ session, call: question.call, ...given, by: "mcp" });
        return { decided: first, request_id: question.call };
      }),
  );

  server.registerTool(
    "session_stop",
    {
      description: "Stops a run: its model call, its commands, and the agents that it began.",
      inputSchema: z.object({ run_id: runId }),
      annotations: { idempotentHint: true },
    },
    ({ run_id }) =>
      answered(async () => {
        const { session, id, joined } = await found(run_id);
        return { stopped: await runtime.stop({ session, turn: joined ?? id, scope: "tree" }) };
      }),
  );

  server.registerTool(
    "session_list",
    {
      description: "Conversations, those that changed last first.",
      inputSchema: z.object({
        limit: z.int().min(1).max(100).optional().describe("Usually 20."),
        title: z.string().max(200).optional().describe("Only those with this in their title."),
        active: z.boolean().optional().describe("Only those at work."),
      }),
      annotations: { readOnlyHint: true },
    },
    ({ limit = 20, title = "", active = false }) =>
      answered(async () => {
        const rows = await runtime.sessions({ limit, top: true, active, titled: title });
        return {
          sessions: rows.map(({ session, title: named, active: works, updatedAt }) => ({
            session_id: session,
            title: named,
            active: works,
            updated_at: new Date(updatedAt).toISOString(),
          })),
        };
      }),
  );

  async function found(id: string): Promise<FoundRun> {
    const run = await runtime.run(id);
    if (!run) throw new Refusal("invalid_key", `There is no run ${id}.`);
    return run;
  }

  async function shown(run: FoundRun): Promise<Record<string, unknown>> {
    const { status, output, error, usage, session, asking } = run;
    const open = asking.length ? (await runtime.status(session)).asking : [];
    return {
      status,
      session_id: session,
      ...(isOver(run) && { output: atMost(output, LONGEST.output), usage }),
      ...(error !== null && { error }),
      ...(open.length && { waiting_for: open.map(asked) }),
    };
  }

  async function wait(id: string, cursor: string, ms: number, signal: AbortSignal): Promise<Record<string, unknown>> {
    const { session } = await found(id);
    const until = linked([signal], { clock, ms });
    let at = cursor;
    let said = "";
    try {
      // A question that is open already is found by its status, whatever the cursor.
      const isAsking = (await found(id)).asking.length > 0;
      for await (const update of isAsking ? [] : followTurn(runtime, { session, id, cursor }, until.signal)) {
        at = update.cursor;
        if ("delta" in update) said += update.delta;
        if ("reset" in update) said = "";
        if (said.length > LONGEST.said || ("entry" in update && update.entry.kind === "asked")) break;
      }
    } finally {
      until.release();
    }
    return { ...(await shown(await found(id))), said, cursor: at };
  }

  return server;
}

const asked = ({ call, kind, text, choices, until }: Ask & { call: string }) => ({
  request_id: call,
  kind,
  text: atMost(text, LONGEST.ask),
  choices,
  expires_at: new Date(until).toISOString(),
});

/** A refusal is an answer that the caller can act on. */
async function answered(work: () => Promise<Record<string, unknown>>): Promise<CallToolResult> {
  try {
    const value = await work();
    return { content: [{ type: "text", text: JSON.stringify(value, null, 2) }], structuredContent: value };
  } catch (error) {
    return { content: [{ type: "text", text: messageOf(error) }], isError: true };
  }
}
