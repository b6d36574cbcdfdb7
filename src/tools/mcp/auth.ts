// Logins at MCP servers by OAuth: what is saved of each, one file per server in HERMES_HOME, for its owner only. A token is given
// only to the address that it was made for.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type {
  AuthProvider,
  FetchLike,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import * as z from "zod";
import { attempt } from "../../platform/attempt.ts";
import { replaceFile } from "../../platform/home.ts";

export type McpLibrary = typeof import("@modelcontextprotocol/client");
type LoginPlace = { home: string; name: string; url: string };
/** Where the browser of a person is sent, and comes back to. */
type LoginRedirect = { url: string; state: string; open(address: URL): void };

/** Only we write these files, so what the library gave us is given back to it as it is. */
const kept = <T>() => z.custom<T>((value) => typeof value === "object" && value !== null);
const savedLogin = z.object({
  url: z.string(),
  client: kept<StoredOAuthClientInformation>().optional(),
  tokens: kept<StoredOAuthTokens>().optional(),
  discovery: kept<OAuthDiscoveryState>().optional(),
});
type SavedLogin = z.output<typeof savedLogin>;

class LoginNeeded extends Error {
  override readonly name = "LoginNeeded";
  constructor(server: string) {
    super(`it wants a login. Run: hermes mcp login ${server}`);
  }
}

/** A name of the user's as the name of a file or directory. */
export const fileNameOf = (name: string): string => encodeURIComponent(name).replace(/^\./, "%2E");

const fileOf = ({ home, name }: Pick<LoginPlace, "home" | "name">): string =>
  join(home, "mcp-auth", `${fileNameOf(name)}.json`);

export function readLogin(place: LoginPlace): SavedLogin | null {
  const { data } = savedLogin.safeParse(attempt((): unknown => JSON.parse(readFileSync(fileOf(place), "utf8"))));
  return data?.url === place.url ? data : null;
}

/** False: there was none. */
export function forgetLogin(place: Pick<LoginPlace, "home" | "name">): boolean {
  const had = existsSync(fileOf(place));
  rmSync(fileOf(place), { force: true });
  return had;
}

const writeLogin = (place: LoginPlace, login: SavedLogin) => replaceFile(fileOf(place), JSON.stringify(login));

/** A new login: nothing saved is used, and nothing is saved before there are tokens. */
export function createLogin(place: LoginPlace, redirect: LoginRedirect): OAuthClientProvider {
  const login: SavedLogin = { url: place.url };
  let verifier = "";
  return {
    redirectUrl: redirect.url,
    clientMetadata: {
      client_name: "hermes",
      redirect_uris: [redirect.url],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    },
    state: () => redirect.state,
    clientInformation: () => login.client,
    saveClientInformation: (client) => void Object.assign(login, { client }),
    discoveryState: () => login.discovery,
    saveDiscoveryState: (discovery) => void Object.assign(login, { discovery }),
    codeVerifier: () => verifier,
    saveCodeVerifier: (code) => {
      verifier = code;
    },
    redirectToAuthorization: redirect.open,
    tokens: () => login.tokens,
    saveTokens: (tokens) => writeLogin(place, Object.assign(login, { tokens })),
  };
}

/** For a process that nobody watches: a saved login is used and renewed, and never begun. */
export function savedAuth(lib: McpLibrary, place: LoginPlace): AuthProvider {
  // Calls that are refused together renew it together: a refresh token is good for one use.
  let renewing: Promise<void> | null = null;
  return {
    token: async () => readLogin(place)?.tokens?.access_token,
    onUnauthorized: ({ fetchFn }) => {
      renewing ??= renew(lib, place, fetchFn).finally(() => {
        renewing = null;
      });
      return renewing;
    },
  };
}

async function renew(lib: McpLibrary, place: LoginPlace, fetchFn: FetchLike): Promise<void> {
  const login = readLogin(place);
  const { client, tokens, discovery } = login ?? {};
  if (!login || !client || !discovery || !tokens?.refresh_token) throw new LoginNeeded(place.name);
  const { authorizationServerUrl, authorizationServerMetadata: metadata, resourceMetadata } = discovery;
  try {
    const renewed = await lib.refreshAuthorization(authorizationServerUrl, {
      ...(metadata && { metadata }),
      ...(resourceMetadata && { resource: resourceMetadata.resource }),
      clientInformation: client,
      refreshToken: tokens.refresh_token,
      fetchFn,
    });
    writeLogin(place, { ...login, tokens: { ...tokens, ...renewed } });
  } catch (error) {
    throw error instanceof lib.OAuthError ? new LoginNeeded(place.name) : error;
  }
}
