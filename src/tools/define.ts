// A tool from its parts: one zod schema is both what the model is told and what its arguments must be.
import * as z from "zod";
import type { Gate, Tool, ToolCall, ToolResult } from "../core/ports.ts";
import type { Grant } from "../core/session.ts";

type Parts<S extends z.ZodType> = {
  name: string;
  description: string;
  args: S;
  repeatable: boolean;
  alone?: boolean;
  /** Arguments that fit, for a model whose own did not. */
  example?: string;
  /** Without it the tool just runs. */
  judge?(args: z.output<S>, session: string, grants?: readonly Grant[]): Promise<Gate> | Gate;
  run(args: z.output<S>, call: ToolCall): Promise<ToolResult>;
};

export function defineTool<S extends z.ZodType>(parts: Parts<S>): Tool {
  const { name, description, args, repeatable, alone = false, example } = parts;
  const hint = example ? `. Call it again like this: ${example}` : "";
  const parse = (given: unknown) => {
    const parsed = args.safeParse(given);
    return parsed.success ? { value: parsed.data } : { wrong: `Not run: ${complaint(parsed.error)}${hint}` };
  };
  return {
    name,
    description,
    schema: z.toJSONSchema(args),
    repeatable,
    alone,
    async judge(given, session, grants) {
      const { value, wrong } = parse(given);
      if (wrong !== undefined) return { gate: "refuse", result: wrong };
      return parts.judge ? await parts.judge(value, session, grants) : { gate: "run" };
    },
    async run(given, call) {
      const { value, wrong } = parse(given);
      return wrong === undefined ? await parts.run(value, call) : { ok: false, text: wrong };
    },
  };
}

/** What the model should do differently, argument by argument. */
const complaint = ({ issues }: z.ZodError): string =>
  issues.map(({ path, message }) => `${path.join(".") || "the arguments"}: ${message}`).join("; ");

export const ok = (text: string): ToolResult => ({ ok: true, text });
export const failed = (text: string): ToolResult => ({ ok: false, text });
