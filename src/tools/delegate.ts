// Hands parts of the work to children. A child is a session of its own, so it survives a restart as everything does: the call
// is repeatable because each child's input has a key, and running it again only looks at what is already there.

import * as z from "zod";
import { followTurn } from "../conversation/follow-turn.ts";
import { Refusal } from "../core/errors.ts";
import type { Clock, Tool, ToolCall } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Unattended } from "../core/session.ts";
import { childSession, isChild } from "../core/session-key.ts";
import { after, onAbort } from "../core/wait.ts";
import { type BackgroundChildren, MOST_IN_BACKGROUND } from "./background-children.ts";
import { defineTool, failed, ok } from "./define.ts";

const MOST_CHILDREN = 10;
const args = z.strictObject({
  tasks: z
    .array(
      z.strictObject({
        goal: z
          .string()
          .min(1)
          .max(20_000)
          .describe("What the child is to do and to report. It sees nothing else of this talk."),
        context: z.string().max(100_000).optional().describe("What it needs to know: paths, facts, constraints."),
      }),
    )
    .min(1)
    .max(MOST_CHILDREN),
  background: z
    .boolean()
    .optional()
    .describe("Do not wait: each report comes as a message to this talk when its child has ended."),
  timeout: z.number().positive().max(7_200).optional().describe("Seconds each child may take; 1800 if not given."),
});

type Options = {
  /** The engine is made with its tools, so it is asked for when it is there. */
  runtime(): Runtime;
  clock: Clock;
  /** How approvals of children are decided: nobody watches a child. Where nobody can be asked in the parent's turn either, as
   *  in that turn. */
  unattended: Unattended;
  /** Children that nobody waits for. */
  delegated: BackgroundChildren;
};
type Report = { goal: string; status: string; text: string; seconds: number };

export function createDelegate({ runtime, clock, unattended, delegated }: Options): Tool {
  const inputOf = (text: string, n: number, call: ToolCall) =>
    ({
      session: childSession(call.session, call.turn, call.call, n),
      source: SOURCE,
      key: keyOf(call, n),
      text,
      mode: "queue",
      reply: "pull",
      parent: call.session,
      unattended: call.unattended ?? unattended,
    }) as const;

  async function child(goal: string, text: string, n: number, timeoutMs: number, call: ToolCall): Promise<Report> {
    const input = inputOf(text, n, call);
    const { session } = input;
    const began = clock.monotonic();
    const report = (status: string, said: string): Report => {
      return { goal, status, text: said, seconds: Math.round((clock.monotonic() - began) / 1_000) };
    };
    const receipt = await runtime().accept(input);
    const { id: turn } = receipt;
    const over = new AbortController();
    const stop = () =>
      void runtime()
        .stop({ session, turn, scope: "tree" })
        .catch(() => over.abort()); // we are shutting down: the child goes on after the next start
    /** Another node may have taken the parent over: it looks at the child from there, and the child goes on. */
    const stopWithParent = async () => {
      const parent = await runtime().status(call.session);
      if (parent.turn?.id === call.turn && parent.turn.phase === "acting") over.abort();
      else stop();
    };
    const release = onAbort(call.signal, () => void stopWithParent().catch(() => over.abort()));
    let late = false;
    const inTime = after(clock, timeoutMs, () => {
      late = true;
      stop();
    });
    try {
      for await (const update of followTurn(runtime(), receipt, over.signal)) {
        if (!("entry" in update)) continue;
        const { entry } = update;
        if (entry.kind === "withdrawn") return report("cancelled", "");
        if (entry.kind !== "ended") continue;
        const run = await runtime().run(turn);
        return report(late ? "timed out" : entry.outcome, run?.error ?? run?.output ?? "");
      }
      return report("unknown", "");
    } finally {
      over.abort();
      inTime();
      release();
    }
  }

  /** Run again after a crash, it finds the children that it has begun. */
  async function begin(tasks: { goal: string; text: string }[], timeoutMs: number, call: ToolCall) {
    const inputs = tasks.map(({ text }, n) => inputOf(text, n, call));
    const others = delegated.list(call.session).filter(({ id }) => inputs.every(({ session }) => session !== id));
    if (others.length + tasks.length > MOST_IN_BACKGROUND)
      return failed(`Not run: ${others.length} tasks are in the background; at most ${MOST_IN_BACKGROUND} fit.`);
    for (const [n, input] of inputs.entries()) {
      const turn = runtime().idOf(SOURCE, keyOf(call, n));
      const goal = tasks[n]?.goal ?? "";
      await delegated.add(input.session, {
        turn,
        goal,
        timeoutMs,
        ...(call.unattended && { unattended: call.unattended }),
      });
      await runtime().accept(input);
    }
    const list = inputs.map(({ session }) => `- ${session}`).join("\n");
    return ok(`Begun in the background:\n${list}\nThe report of each comes as a message. Do not wait for them.`);
  }

  return defineTool({
    name: "delegate_task",
    description:
      "Give independent parts of the work to children that work side by side, each with the same tools and none of this talk. " +
      "You get their reports, or with background each as a message once it is there. Not for work that needs approval or answers from the user.",
    args,
    repeatable: true,
    judge: (_, session) =>
      isChild(session) ? { gate: "refuse", result: "Not run: a child has no children." } : { gate: "run" },
    async run({ tasks: given, background = false, timeout = 1_800 }, call) {
      const tasks = given.map(({ goal, context }) => ({
        goal,
        text: context ? `${goal}\n\n<context>\n${context}\n</context>` : goal,
      }));
      if (background) return begin(tasks, timeout * 1_000, call);
      const reports = await Promise.all(
        tasks.map(async ({ goal, text }, i) => {
          try {
            return await child(goal, text, i, timeout * 1_000, call);
          } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            return { goal, status: "failed", text: error.message, seconds: 0 };
          }
        }),
      );
      const done = reports.filter(({ status }) => status === "completed").length;
      return {
        ok: done === reports.length,
        text: `${done} of ${reports.length} completed.\n\n${reports.map(show).join("\n\n")}`,
      };
    },
  });
}

const SOURCE = "delegate";
const keyOf = ({ session, turn, call }: ToolCall, n: number) => `${session}/${turn}.${call}.${n}`;

const show = ({ goal, status, text, seconds }: Report) =>
  `## ${goal.split("\n", 1)[0]?.slice(0, 120)}\n(${status}, ${seconds} s)\n${text}`;
