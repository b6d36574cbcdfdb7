// The `process` tool: what a session can do with its background processes.
import * as z from "zod";
import type { Gate, Tool, ToolCall, ToolResult } from "../../core/ports.ts";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { defineTool, failed, ok } from "../define.ts";
import type { MissingProcess } from "../local-state.ts";
import { type Background, end, isRunning, type Processes } from "./processes.ts";

const Args = z
  .strictObject({
    action: z
      .enum(["list", "poll", "wait", "write", "kill"])
      .describe(
        "list: all of this session; poll: its new output; wait: until it ends; write: into its input; kill: end it and all it started",
      ),
    id: z.string().optional().describe("Which one (bg_…); needed for all but list."),
    text: z.string().max(100_000).optional().describe("For write, exactly as it is to arrive: end a line with \\n."),
    eof: z.boolean().optional().describe("For write: nothing follows, close its input."),
    timeout: z.number().positive().max(600).optional().describe("For wait: seconds (60)."),
  })
  .refine(({ action, id }) => action === "list" || id, "id is missing: take one from the action list")
  .refine(
    ({ action, text, eof }) => action !== "write" || text || eof,
    "text is missing: say what to write, or eof: true",
  );
type Args = z.output<typeof Args>;

const WAIT_S = 60;

export function createProcessTool(
  processes: Processes,
  /** Those that were started elsewhere, or before a restart. */
  missing: (session: string) => Promise<readonly MissingProcess[]>,
  judgeWrite: (text: string, process: Background) => Promise<Gate>,
): Tool {
  async function act(args: Args, { session, signal }: ToolCall): Promise<ToolResult> {
    const all = async () => listed(processes.list(session), await missing(session));
    if (args.action === "list") return ok(await all());
    const process = processes.get(session, args.id ?? "");
    if (!process) return failed(`There is no process ${args.id} here.\n${await all()}`);
    switch (args.action) {
      case "poll":
        return said(process);
      case "wait":
        // Also when we are stopped: it goes on in any case.
        await within(clock, (args.timeout ?? WAIT_S) * 1000, process.running.done, signal);
        return said(process);
      case "write":
        return process.running.write(args.text ?? "", args.eof)
          ? said(process, "written")
          : failed(`Not written: ${state(process)}, its input is closed.`);
      case "kill": {
        const left = await end(process);
        const { ok, text } = said(process, left ? `${left} process(es) could not be ended` : "ended");
        return { ok: ok && left === 0, text };
      }
    }
  }

  return defineTool({
    name: "process",
    description: "Looks after the background processes that the terminal tool has started in this session.",
    args: Args,
    example: '{"action": "poll", "id": "bg_1a2b3c4d"}',
    repeatable: false,
    judge({ action, text, id = "" }, session) {
      const process = action === "write" && text ? processes.get(session, id) : null;
      return process ? judgeWrite(text ?? "", process) : { gate: "run" };
    },
    run: act,
  });
}

function said(process: Background, what = ""): ToolResult {
  const head = [process.id, what, state(process)].filter(Boolean).join(" · ");
  return ok(`[${head} · all output: ${process.file}]\n${process.running.fresh() || "(nothing new)"}`);
}

const listed = (all: readonly Background[], missing: readonly MissingProcess[]) =>
  [
    ...all.map((process) => ({ ...process, state: state(process) })),
    ...missing.map((process) => ({ ...process, state: process.gone ? GONE : OUT_OF_REACH })),
  ]
    .map(({ id, state, command }) => `${id} · ${state} · ${command.slice(0, 200)}`)
    .join("\n") || "No background processes.";
const GONE = "gone without a result, because hermes or its machine was restarted";
const OUT_OF_REACH = "on another machine that cannot be reached now";

function state(process: Background): string {
  if (isRunning(process)) return `running for ${Math.round((Date.now() - process.startedAt) / 1000)} s`;
  if (process.result?.aborted) return "ended by us";
  return `exit ${process.result?.code}`;
}
