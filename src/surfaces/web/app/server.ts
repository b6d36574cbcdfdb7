// The server as the page uses it: the runtime over HTTP, and requests to the other routes, with the token of this browser.
import { signal } from "@preact/signals";
import { createRemoteRuntime } from "../../../client/remote.ts";
import { createWire, HermesError } from "../../../client/wire.ts";

const TOKEN = "hermes.token";

export const isSignedIn = signal(localStorage.getItem(TOKEN) !== null);

const withToken: typeof fetch = async (where, how) => {
  const headers = new Headers(how?.headers);
  headers.set("X-Hermes-Token", localStorage.getItem(TOKEN) ?? "");
  const response = await fetch(where, { ...how, headers });
  if (response.status === 401) forgetToken();
  return response;
};

const connection = { url: location.origin, fetch: withToken };
export const wire = createWire(connection);
export const runtime = createRemoteRuntime(connection);

export const get = <T>(path: string) => wire.json<T>("GET", path);
export const post = <T = unknown>(path: string, body: unknown = {}) => wire.json<T>("POST", path, { body });
export const patch = (path: string, body: unknown) => wire.json<unknown>("PATCH", path, { body });
export const remove = (path: string) => wire.json<unknown>("DELETE", path);

/** With the key, or with the code of a one-time link. */
export async function signIn(given: { key: string } | { code: string }): Promise<void> {
  const begin =
    "key" in given
      ? createWire({ url: location.origin, key: given.key }).json<{ token: string }>("POST", "/api/sign-ins")
      : createWire({ url: location.origin }).json<{ token: string }>("POST", "/api/sign-ins/code", { body: given });
  const { token } = await begin.catch((error: unknown) => {
    // What the server says of it is meant for programs.
    throw error instanceof HermesError && error.status === 401 ? new Error("The API key is wrong.") : error;
  });
  localStorage.setItem(TOKEN, token);
  isSignedIn.value = true;
}

export async function signOut(): Promise<void> {
  const { data } = await get<{ data: { id: string; current: boolean }[] }>("/api/sign-ins");
  const own = data.find(({ current }) => current);
  if (own) await remove(`/api/sign-ins/${own.id}`);
  forgetToken();
}

function forgetToken(): void {
  localStorage.removeItem(TOKEN);
  isSignedIn.value = false;
}

export const wordsOf = (error: unknown): string =>
  error instanceof HermesError && error.status === 0
    ? "The server cannot be reached."
    : error instanceof Error
      ? error.message
      : String(error);

/** `crypto.randomUUID` is only there on localhost and over HTTPS. */
export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
