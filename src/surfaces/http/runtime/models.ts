// /api/models and /api/prices: what a client needs to offer /model, and to show costs.
import type { Prices } from "../../../conversation/cost.ts";
import type { ModelNames } from "../../../core/model-names.ts";
import { ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

export const modelRoutes = (names: () => Promise<ModelNames>, prices: Prices): Route[] => [
  route("GET", "/api/models", {
    summary: "List the models that can be chosen by name: those that the endpoint offers, and fallbacks",
    answers: { 200: "`names`, the configured one first; `unread`: why the list of the endpoint is missing" },
    handle: async () => ok(await names()),
  }),
  route("GET", "/api/prices", {
    summary: "The configured prices by model, in US dollars for a million tokens",
    answers: { 200: "An object; empty: no price is configured" },
    handle: () => ok(prices),
  }),
];
