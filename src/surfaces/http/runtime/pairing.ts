// /api/pairing: who may talk to the agent from a chat app, for `hermes pairing`.
import * as z from "zod";
import type { PairingDesk } from "../../../core/chat.ts";
import { messageOf } from "../../../core/errors.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("gateway");

const body = z.strictObject({ platform: z.string().regex(/^[a-z]{1,30}$/, "must be a platform such as telegram") });

export const pairingRoutes = (desk: PairingDesk): Route[] => [
  route("GET", "/api/pairing", {
    summary: "Who is paired",
    answers: { 200: "A list" },
    handle: async () => list(await desk.paired()),
  }),
  route("POST", "/api/pairing", {
    summary: "Make a code that pairs one person, once, within ten minutes",
    body,
    answers: { 201: "The code", 409: "Too many codes wait" },
    async handle({ body: { platform } }) {
      try {
        return { status: 201, body: await desk.newCode(platform) };
      } catch (error) {
        throw problem(409, "too_many_codes", messageOf(error));
      }
    },
  }),
  route("DELETE", "/api/pairing/:platform/:id", {
    summary: "Take a pairing back",
    answers: { 200: "Done", 404: "Nobody is paired under that id" },
    async handle({ params: { platform = "", id = "" } }) {
      if (!(await desk.unpair(platform, id)))
        throw problem(404, "not_paired", `Nobody is paired as ${platform} ${id}.`);
      return ok({ platform, id, deleted: true });
    },
  }),
];
