// /api/doctor: what `hermes doctor --json` prints.
import { ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

export const doctorRoutes = (diagnosis: () => Promise<unknown>): Route[] => [
  route("GET", "/api/doctor", {
    summary: "Check the installation and the configuration, and say what to fix",
    answers: { 200: "Each check with its status, what it found, and what to do" },
    handle: async () => ok(await diagnosis()),
  }),
];
