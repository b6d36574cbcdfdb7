// An authorization server as RFC 6749, 7636 (PKCE), 7591 (registration) and 8414 (metadata) want it: it refuses what they refuse.
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

type Grant = { client: string; redirect: string; challenge: string; resource: string };

export async function startOAuth() {
  const clients = new Map<string, string[]>();
  const codes = new Map<string, Grant>();
  const refreshes = new Set<string>();
  const tokens = new Set<string>();
  const seen: string[] = [];
  const http = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { pathname, searchParams } = new URL(request.url ?? "/", issuer);
    const body = await text(request);
    const json = (status: number, value: unknown) =>
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
    seen.push(pathname);
    switch (pathname) {
      case "/.well-known/oauth-authorization-server":
        return json(200, {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          registration_endpoint: `${issuer}/register`,
          response_types_supported: ["code"],
          code_challenge_methods_supported: ["S256"],
          authorization_response_iss_parameter_supported: true,
        });
      case "/register": {
        const wanted: { redirect_uris: string[] } = JSON.parse(body);
        const client_id = randomUUID();
        clients.set(client_id, wanted.redirect_uris);
        return json(201, { ...wanted, client_id });
      }
      case "/authorize": {
        const given = Object.fromEntries(searchParams);
        const redirect = given["redirect_uri"] ?? "";
        const client = given["client_id"] ?? "";
        if (!clients.get(client)?.includes(redirect)) return json(400, { error: "invalid_request" });
        if (given["response_type"] !== "code" || given["code_challenge_method"] !== "S256" || !given["state"])
          return json(400, { error: "invalid_request" });
        const code = randomUUID();
        const { code_challenge: challenge = "", resource = "" } = given;
        codes.set(code, { client, redirect, challenge, resource });
        const back = new URL(redirect);
        back.search = new URLSearchParams({ code, state: given["state"], iss: issuer }).toString();
        return response.writeHead(302, { Location: back.href }).end();
      }
      case "/token": {
        const given = Object.fromEntries(new URLSearchParams(body));
        const { grant_type, code = "", code_verifier = "", client_id = "", redirect_uri, refresh_token = "" } = given;
        if (grant_type === "refresh_token") {
          if (!refreshes.delete(refresh_token)) return json(400, { error: "invalid_grant" });
        } else {
          const grant = codes.get(code);
          codes.delete(code); // once
          const challenge = createHash("sha256").update(code_verifier).digest("base64url");
          const fits = grant?.client === client_id && grant.redirect === redirect_uri && grant.challenge === challenge;
          if (!fits) return json(400, { error: "invalid_grant" });
        }
        const [access, refresh] = [randomUUID(), randomUUID()];
        tokens.add(access);
        refreshes.add(refresh);
        return json(200, { access_token: access, token_type: "Bearer", expires_in: 3600, refresh_token: refresh });
      }
      default:
        return json(404, {});
    }
  }

  return {
    issuer,
    /** Requests so far, by path. */
    seen,
    tokens,
    refreshes,
    /** What a resource server asks about a request. */
    admits: (authorization = ""): boolean => tokens.has(authorization.replace(/^Bearer /, "")),
    close: () =>
      new Promise((resolve) => {
        http.close(resolve);
        http.closeAllConnections();
      }),
  };
}
