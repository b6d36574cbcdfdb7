// What nodes that share a store ask each other for, straight onto this node's engine: a call that came from a node is never
// forwarded. Only `cluster.secret` opens these routes; the API's key does not.
import * as z from "zod";
import { PEER_CALLS, type Peer } from "../../../core/runtime.ts";
import { one } from "../runs/start.ts";
import { ok, type Route, routeTagged, streamed } from "../server/route.ts";

const route = routeTagged("cluster");

const callBody = z.strictObject({
  method: z.enum(PEER_CALLS).describe("The method of the engine"),
  args: z.array(z.unknown()).max(10).describe("Its arguments"),
});

export const peerRoutes = (engine: Peer): Route[] => [
  route("POST", "/api/cluster/call", {
    access: "node",
    summary: "Call the engine of this node",
    body: callBody,
    example: { method: "status", args: ["garden"] },
    answers: { 200: "The result", 503: "This node does not own the session" },
    async handle({ body: { method, args } }) {
      const result: unknown = await Reflect.apply(engine[method], engine, args);
      return ok({ result });
    },
  }),
  route("GET", "/api/cluster/events", {
    access: "node",
    summary: "Follow a session on this node",
    query: { session: "Its id" },
    answers: { 200: "Server-sent events; the stream ends when another node owns the session" },
    gives: "text/event-stream",
    async handle({ query, headers, stream }) {
      const session = query.get("session") ?? "";
      const after = one(headers["last-event-id"]) ?? "";
      await stream(async function* (signal) {
        for await (const update of engine.follow(session, after, signal)) yield { id: update.cursor, data: update };
      });
      return streamed;
    },
  }),
];
