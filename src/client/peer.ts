// The engine of another node that shares our store, over HTTP: the same calls with the same arguments, the same refusals by name.
// Nothing is tried again here: whoever asks may find the session somewhere else by then.
import { messageOf, Refusal } from "../core/errors.ts";
import { PEER_CALLS, type Peer, type Update } from "../core/runtime.ts";
import { textWithin } from "../platform/capped.ts";
import { refusalOf } from "./remote.ts";
import { createWire, LONGEST_ANSWER, refusedWith } from "./wire.ts";

/** `used`: told of each call, and of all that comes back. */
export function createPeer(server: { url: string; key: string; used(): void }): Peer {
  const url = server.url.replace(/\/+$/, "");
  const { key, used } = server;
  const wire = createWire({ url, key, patient: false });
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };

  /** Not by `fetch`, whose web streams take twice the time of the call itself. */
  async function post(body: string): Promise<unknown> {
    used();
    const { request } = await import("undici");
    const answer = await request(`${url}/api/cluster/call`, { method: "POST", headers, body });
    const text = await textWithin(answer.body, LONGEST_ANSWER);
    if (answer.statusCode !== 200) throw refusedWith(url, answer.statusCode, text);
    const { result }: { result: unknown } = JSON.parse(text);
    return result;
  }

  const call =
    (method: string) =>
    async (...args: unknown[]): Promise<unknown> => {
      try {
        return await post(JSON.stringify({ method, args }));
      } catch (error) {
        throw said(error);
      }
    };

  const follow: Peer["follow"] = async function* (session, cursor, signal) {
    const path = `/api/cluster/events?${new URLSearchParams({ session }).toString()}`;
    try {
      for await (const next of wire.stream(path, { after: cursor, signal }))
        if ("data" in next) {
          used();
          const update: Update = JSON.parse(next.data);
          yield update;
        }
    } catch (error) {
      throw said(error);
    }
  };

  const calls: unknown = Object.fromEntries(PEER_CALLS.map((method) => [method, call(method)]));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the other node gives what its own engine gave
  return { ...(calls as Omit<Peer, "follow">), follow };
}

/** A node that starts, that has another secret, or that is too old to be asked cannot answer now; the reason names it. */
function said(error: unknown): unknown {
  const refusal = refusalOf(error);
  if (refusal instanceof Refusal) return refusal;
  return new Refusal("store_unavailable", messageOf(error));
}
