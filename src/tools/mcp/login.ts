// hermes mcp login: a person logs in at an MCP server with a browser. The authorization code comes back to a port of this machine,
// or is pasted where the browser runs on another one. PKCE and state bind it to this login.
import { randomBytes, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { createLogin } from "./auth.ts";
import { fetchCapped } from "./http.ts";

type LoginOptions = {
  home: string;
  name: string;
  url: string;
  /** Asks the person to open this address. */
  open(address: string): void;
  /** Addresses that the person pastes. */
  pasted: AsyncIterable<string>;
};

const LOGIN_MS = 5 * 60_000;

/** "unneeded": the server lets us in without one. */
export async function login({ home, name, url, open, pasted }: LoginOptions): Promise<"done" | "unneeded"> {
  const lib = await import("@modelcontextprotocol/client");
  const state = randomBytes(32).toString("base64url");
  const returned = Promise.withResolvers<URLSearchParams>();
  const take = (address: string): boolean => {
    const params = URL.parse(address, "http://127.0.0.1")?.searchParams;
    if (!params || !isSame(params.get("state") ?? "", state)) return false;
    returned.resolve(params);
    return true;
  };
  const server = createServer((request, response) => {
    const taken = request.method === "GET" && (request.url ?? "").startsWith("/callback?") && take(request.url ?? "");
    response.writeHead(taken ? 200 : 404, { "Content-Type": "text/plain; charset=utf-8", Connection: "close" });
    response.end(taken ? "hermes has got it. You can close this page.\n" : "There is nothing here.\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a listening TCP server has this kind
  const { port } = server.address() as AddressInfo;
  const redirect = { url: `http://127.0.0.1:${port}/callback`, state, open: (address: URL) => open(address.href) };
  const authProvider = createLogin({ home, name, url }, redirect);
  const transport = new lib.StreamableHTTPClientTransport(new URL(url), { authProvider, fetch: fetchCapped });
  const client = new lib.Client({ name: "hermes-ts", version: "0.1.0" });
  try {
    const refusal: unknown = await client.connect(transport).then(
      () => null,
      (error: unknown) => error,
    );
    if (refusal === null) return "unneeded";
    if (!(refusal instanceof lib.UnauthorizedError)) throw refusal;
    void readPasted(pasted, take);
    const params = await within(clock, LOGIN_MS, returned.promise);
    if (!params) throw new Error(`Nobody logged in within ${LOGIN_MS / 60_000} minutes.`);
    await transport.finishAuth(params);
    return "done";
  } finally {
    await client.close().catch(() => {});
    server.close();
    server.closeAllConnections();
  }
}

async function readPasted(pasted: AsyncIterable<string>, take: (address: string) => boolean): Promise<void> {
  for await (const line of pasted) if (take(line.trim())) return;
}

const isSame = (given: string, expected: string): boolean =>
  given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected));
