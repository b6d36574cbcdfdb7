// /api/restart: what /restart in a chat and `hermes gateway restart` do.
import { type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("gateway");

export const restartRoutes = (requestRestart: (asked: { turn: null }) => boolean): Route[] => [
  route("POST", "/api/restart", {
    summary: "Let running turns finish, then restart the gateway",
    answers: { 202: "It begins; `began` is false if it had begun before" },
    handle: () => ({ status: 202, body: { began: requestRestart({ turn: null }) } }),
  }),
];
