// Asks the person. The answer is the call's result; there is nothing to run.
import * as z from "zod";
import type { Tool } from "../core/ports.ts";
import { defineTool, failed } from "./define.ts";

const args = z.strictObject({
  question: z.string().min(1).max(4_000).describe("One question, with what the person needs to know to answer it."),
  choices: z
    .array(z.string().min(1).max(200))
    .max(8)
    .optional()
    .describe("Answers to choose from; others are possible."),
});

export const createClarify = (timeoutMs: number): Tool =>
  defineTool({
    name: "clarify",
    description: "Ask the user a question and wait for the answer. Only when you cannot go on without it.",
    args,
    repeatable: true,
    judge: ({ question, choices = [] }) => ({ gate: "ask", kind: "question", text: question, choices, timeoutMs }),
    run: () => Promise.resolve(failed("There was nobody to ask.")),
  });
