// /mcp: the tools of `hermes mcp-serve` over streamable HTTP, for whoever has the key.
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as z from "zod";
import { readJson } from "../server/body.ts";
import { type Route, routeTagged, streamed } from "../server/route.ts";

const route = routeTagged("server");

export const mcpRoutes = (answer: (request: Request) => Promise<Response>): Route[] => [
  route("POST", "/mcp", {
    summary: "Use sessions as tools of another agent, over the Model Context Protocol (streamable HTTP)",
    answers: {
      200: "A JSON-RPC answer, or a stream of them",
      202: "A notification was accepted",
      400: "The body is not a JSON-RPC message",
      413: "The body is too large",
      415: "The body is not JSON",
    },
    gives: [z.looseObject({}), "text/event-stream"],
    errors: z.looseObject({ jsonrpc: z.literal("2.0") }),
    async handle({ request, response }) {
      const body = JSON.stringify(await readJson(request));
      const gone = new AbortController();
      response.on("close", () => gone.abort());
      const headers = new Headers();
      for (const name of ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"]) {
        const value = request.headers[name];
        if (typeof value === "string") headers.set(name, value);
      }
      const asked = new Request("http://localhost/mcp", { method: "POST", headers, body, signal: gone.signal });
      const answered = await answer(asked);
      response.writeHead(answered.status, Object.fromEntries(answered.headers));
      // A client that leaves in the middle is no failure.
      if (answered.body) await pipeline(Readable.fromWeb(answered.body), response).catch(() => {});
      else response.end();
      return streamed;
    },
  }),
];
