// /api/pairing: who may talk to the agent from a chat app, for `hermes pairing`.
import * as z from "zod";
import type { PairingDesk } from "../../../core/chat.ts";
import { messageOf } from "../../../core/errors.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("gateway");

const platform = z
  .string()
  .regex(/^[a-z]{1,30}$/, "must be a platform such as telegram")
  .describe("The chat platform: `telegram`, `discord`, `slack`");
const body = z.strictObject({ platform });
const approveBody = z.strictObject({
  platform,
  code: z.string().min(1).max(20).describe("The code that the bot has given to the person"),
});

export const pairingRoutes = (desk: PairingDesk): Route[] => [
  route("GET", "/api/pairing", {
    summary: "List the people who are paired",
    answers: { 200: "The list" },
    handle: async () => list(await desk.paired()),
  }),
  route("POST", "/api/pairing", {
    summary: "Create a code that pairs one person; it is valid for ten minutes",
    body,
    example: { platform: "telegram" },
    answers: { 201: "The code", 409: "Too many codes are open" },
    async handle({ body: { platform } }) {
      try {
        return { status: 201, body: await desk.newCode(platform) };
      } catch (error) {
        throw problem(409, "too_many_codes", messageOf(error));
      }
    },
  }),
  route("POST", "/api/pairing/approve", {
    summary: "Pair the person whom the bot has given a code",
    body: approveBody,
    example: { platform: "telegram", code: "ABCD2345" },
    answers: { 200: "The person", 404: "Nobody waits with this code" },
    async handle({ body: { platform: name, code } }) {
      const person = await desk.approve(name, code);
      if (!person) throw problem(404, "unknown_code", "Nobody waits with this code.");
      return ok({ platform: name, ...person });
    },
  }),
  route("DELETE", "/api/pairing/:platform/:id", {
    summary: "Remove a pairing",
    answers: { 200: "Removed", 404: "Nobody with this id is paired" },
    async handle({ params: { platform = "", id = "" } }) {
      if (!(await desk.unpair(platform, id)))
        throw problem(404, "not_paired", `Nobody is paired as ${platform} ${id}.`);
      return ok({ platform, id, deleted: true });
    },
  }),
];
