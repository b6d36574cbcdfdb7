// /api/memory: the notes of long-term memory, to read and to change.
import * as z from "zod";
import { messageOf } from "../../../core/errors.ts";
import type { MemoryNotes } from "../../../core/ports.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("memory");

const text = z.string().min(1).max(10_000);
const where = { scope: z.string().min(1).max(1_000).default("local"), target: z.enum(["memory", "user"]) };
const body = z.discriminatedUnion("action", [
  z.strictObject({ ...where, action: z.literal("add"), text }),
  z.strictObject({ ...where, action: z.literal("replace"), find: text, text }),
  z.strictObject({ ...where, action: z.literal("remove"), find: text }),
]);

export const memoryRoutes = (notes: MemoryNotes): Route[] => [
  route("GET", "/api/memory", {
    summary: "What the agent remembers: the notes of all scopes",
    answers: { 200: "A list" },
    async handle() {
      const scopes = await notes.scopes();
      const all = await Promise.all(
        scopes.map(async (scope) => (await notes.entries(scope)).map((note) => ({ scope, ...note }))),
      );
      return list(all.flat());
    },
  }),
  route("POST", "/api/memory", {
    summary: "Add a note, or replace or remove the one that contains `find`",
    body,
    answers: {
      200: "It is changed",
      400: "Something in it is wrong",
      409: "It does not fit, or no such note is there",
    },
    async handle({ body: { scope, target, ...change } }) {
      try {
        await notes.change(scope, target, change);
      } catch (error) {
        throw problem(409, "memory_unchanged", messageOf(error));
      }
      return ok({ changed: true });
    },
  }),
];
