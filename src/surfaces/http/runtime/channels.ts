// /channels/<name>: where chat platforms post to us. They sign what they send; the key of the API is not theirs to know.
import { BODY_LIMIT, readBytes } from "../server/body.ts";
import { problem } from "../server/problem.ts";
import { type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("gateway");

/** Takes one request as it came, and checks by itself who sent it. */
export type Door = (
  raw: Uint8Array,
  headers: Readonly<Record<string, string | string[] | undefined>>,
) => Promise<{ status: number; body: Record<string, unknown> }>;

/** A door that is not configured is not there. */
export const channelRoutes = (doors: ReadonlyMap<string, Door>): Route[] =>
  [...doors].map(([name, door]) =>
    route("POST", `/channels/${name}`, {
      access: "open",
      summary: `Receive messages from ${name}, signed by ${name}`,
      answers: {
        200: "Accepted",
        202: "Accepted",
        401: "The signature is missing or wrong",
        409: "Received before",
        413: "The body is too large",
      },
      async handle({ request, headers }) {
        const { status, body } = await door(await readBytes(request, BODY_LIMIT), headers);
        if (status === 404) throw problem(404, "unknown_url", "There is nothing here.");
        return { status, body };
      },
    }),
  );
