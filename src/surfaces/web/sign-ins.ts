// Browsers that are signed in. A browser holds two secrets: a cookie, which no script can read, and a token, which the page keeps and
// sends with every request. Another site cannot have the token. A program on another port of this host gets the cookie (browsers do not
// tell ports apart), but not the token. Only digests of both are kept, as notes, so a restart signs nobody out.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import * as z from "zod";
import type { Clock } from "../../core/ports.ts";
import type { Notes } from "../../core/store.ts";

/** `id` names it for people; it is no secret. */
export type SignIn = { id: string; at: number; until: number; agent: string };
export type SignIns = Awaited<ReturnType<typeof openSignIns>>;

const DAY_MS = 86_400_000;
const LIFE_MS = 30 * DAY_MS;
const CODE_MS = 2 * 60_000;
const MOST = 100;
const MOST_CODES = 20;
const LONGEST_AGENT = 200;
const NOTES = "console/sign-in/";
const TOKEN_HEADER = "x-hermes-token";

const noted = z.object({ at: z.number(), until: z.number(), agent: z.string(), cookie: z.string(), token: z.string() });
type StoredSignIn = SignIn & { cookie: string; token: string };

/** Loads those of earlier processes first: a request is judged without waiting for the store. */
export async function openSignIns({ notes, clock }: { notes: Notes; clock: Clock }) {
  const all = new Map<string, StoredSignIn>();
  const codes = new Map<string, number>(); // digest and end
  const sockets = new Map<Socket, string>(); // that are open, and whose they are
  await read();

  /** Reads them again: other nodes begin and revoke some too. */
  async function read(): Promise<void> {
    const before = [...all.keys()];
    const kept = await notes.list(NOTES);
    for (const { key, value } of kept) {
      const found = noted.safeParse(value);
      const id = key.slice(NOTES.length);
      if (found.success && found.data.until > clock.now()) all.set(id, { id, ...found.data });
      else await notes.set(key, undefined);
    }
    const names = new Set(kept.map(({ key }) => key));
    for (const id of before) if (!names.has(NOTES + id)) forget(id);
  }

  function forget(id: string, asking?: Socket): boolean {
    for (const [socket, of] of sockets) if (of === id && socket !== asking) socket.destroy();
    return all.delete(id);
  }

  /** Cuts its connections, but not the one that asks for this. False: there is no such sign-in. */
  async function revoke(id: string, asking?: Socket): Promise<boolean> {
    if (!forget(id, asking)) return false;
    await notes.set(NOTES + id, undefined);
    return true;
  }

  /** The one whose cookie and token came with a request; null: there is none that counts. */
  function signInOf(headers: IncomingHttpHeaders): SignIn | null {
    const token = headers[TOKEN_HEADER];
    if (typeof token !== "string") return null;
    for (const cookie of cookiesIn(headers.cookie ?? "")) {
      const found = all.get(cookie.slice(0, ID_LENGTH));
      if (found && found.until > clock.now() && isDigest(cookie, found.cookie) && isDigest(token, found.token))
        return shown(found);
    }
    return null;
  }

  return {
    read,
    of: signInOf,
    /** Whether a request has both. Its connection lasts no longer than the sign-in. */
    admits({ headers, socket }: Pick<IncomingMessage, "headers" | "socket">): boolean {
      const found = signInOf(headers);
      if (found && !sockets.has(socket)) socket.once("close", () => sockets.delete(socket));
      if (found) sockets.set(socket, found.id);
      return found !== null;
    },
    async begin(agent: string): Promise<{ signIn: SignIn; cookie: string; token: string }> {
      const id = randomBytes(ID_LENGTH / 2).toString("hex");
      const cookie = id + randomBytes(32).toString("base64url");
      const token = randomBytes(32).toString("base64url");
      const at = clock.now();
      const kept = { at, until: at + LIFE_MS, agent: agent.slice(0, LONGEST_AGENT) };
      const secrets = { cookie: digestOf(cookie), token: digestOf(token) };
      await notes.set(NOTES + id, { ...kept, ...secrets });
      all.set(id, { id, ...kept, ...secrets });
      for (const oldest of [...all.keys()].slice(0, Math.max(0, all.size - MOST))) await revoke(oldest);
      return { signIn: { id, ...kept }, cookie, token };
    },
    list: () => [...all.values()].filter(({ until }) => until > clock.now()).map(shown),
    revoke,
    /** A code that signs one browser in, once. */
    newCode(): string {
      const code = randomBytes(32).toString("base64url");
      for (const [one, until] of codes) if (until < clock.now() || codes.size >= MOST_CODES) codes.delete(one);
      codes.set(digestOf(code), clock.now() + CODE_MS);
      return code;
    },
    /** False: there is no such code, or it was used, or it is too old. */
    useCode(code: string): boolean {
      const until = codes.get(digestOf(code));
      codes.delete(digestOf(code));
      return until !== undefined && until > clock.now();
    },
  };
}

const ID_LENGTH = 16;

const shown = ({ id, at, until, agent }: StoredSignIn): SignIn => ({ id, at, until, agent });

/** Cookies are shared by all ports of a host, so each server has a name of its own. */
export const cookieName = (host: string): string => `hermes_${/:(\d+)$/.exec(host)?.[1] ?? "web"}`;

/** The values of all cookies that may be ours; a wrong one does no harm. */
const cookiesIn = (header: string): string[] =>
  header.split(";").flatMap((pair) => /^\s*hermes_\w+=([\w-]{20,200})\s*$/.exec(pair)?.[1] ?? []);

const digestOf = (secret: string): string => hash("sha256", secret, "hex");
const isDigest = (secret: string, digest: string): boolean =>
  timingSafeEqual(Buffer.from(digestOf(secret)), Buffer.from(digest));
