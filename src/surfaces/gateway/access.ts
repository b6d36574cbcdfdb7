// Who may talk: nobody by default. An id on the platform's list may talk everywhere; one who paired, in the private chat where
// they did. Strangers get one short refusal, and nothing of theirs goes any further.
import type { Person, Place } from "../../core/chat.ts";
import { changeNote } from "../../core/notes.ts";
import type { Notes } from "../../core/store.ts";
import type { GatewayOptions } from "./gateway.ts";

/** `*` in `allowed`: whoever the platform lets through. */
export type Lists = { allowed: readonly string[]; admins: readonly string[] };
export type Access = ReturnType<typeof createAccess>;
export type Pairing = { code: string; expiresAt: number };

const CODE_MS = 600_000;
const TRIES = 5;
const LOCK_MS = 3_600_000;
const REFUSE_AGAIN_MS = 86_400_000;
/** Without letters and digits that look alike: 8 of 32 are 40 bit, for ten minutes and five tries. */
const LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH = 8;
const MOST_CODES = 20;
/** How long a code is valid that a stranger got and only the owner can use. */
const REQUEST_MS = 3_600_000;
const MOST_REQUESTS = 100;
const plainCode = (text: string) => text.toUpperCase().replaceAll(/[\s-]/g, "");

type Options = Pick<GatewayOptions, "lists" | "clock" | "randomBytes"> & { notes: Notes };

export function createAccess(options: Options) {
  const { lists, notes, clock, randomBytes } = options;

  const isListed = (platform: string, from: Person) => {
    const { allowed, admins } = lists(platform);
    return allowed.includes("*") || allowed.includes(from.id) || admins.includes(from.id);
  };
  const isAdmin = (platform: string, { id }: Pick<Person, "id">): boolean => {
    const { allowed, admins } = lists(platform);
    return id !== "*" && (admins.length ? admins : allowed).includes(id);
  };
  const privateChatOf = (platform: string, id: string) => `admin/${platform}/${id}`;
  const pairOf = (platform: string, id: string) => `paired/${platform}/${id}`;

  async function tryCode(platform: string, place: Place, from: Person, code: string): Promise<string | null> {
    const triesKey = `tries/${platform}/${from.id}`;
    // Counted before it is looked at, so that a crash gives nobody another try.
    const tries = await changeNote(notes, triesKey, (note) => {
      const { since = 0, count = 0 } = asRecord(note) ?? {};
      const locked = clock.now() - Number(since) < LOCK_MS;
      if (locked && Number(count) > TRIES) return note;
      return locked ? { since, count: Number(count) + 1 } : { since: clock.now(), count: 1 };
    });
    if (Number(asRecord(tries)?.["count"]) > TRIES) return null; // also the right code: it could have been guessed
    const codeKey = `code/${platform}/${code}`;
    const made = await notes.get(codeKey);
    if (!(Number(asRecord(made)?.["expiresAt"]) >= clock.now())) return "That code is not valid.";
    if (!(await notes.swap(codeKey, made, undefined))) return "That code is not valid."; // once
    await notes.set(pairOf(platform, from.id), { chat: place.chat, name: from.name, at: clock.now() });
    await notes.set(triesKey, undefined);
    return "Paired. You can talk to me here now.";
  }

  const requestOf = (platform: string, code: string) => `request/${platform}/${code}`;

  /** A code with which the owner can let a stranger in; empty: too many wait. */
  async function requested(platform: string, { chat }: Place, { id, name }: Person): Promise<string> {
    if ((await openCodes(`request/${platform}/`)) >= MOST_REQUESTS) return "";
    const code = makeCode();
    await notes.set(requestOf(platform, code), { id, name, chat, expiresAt: clock.now() + REQUEST_MS });
    return code;
  }

  /** How many are still valid; the others are forgotten. */
  async function openCodes(prefix: string): Promise<number> {
    const made = await notes.list(prefix);
    const old = made.filter(({ value }) => Number(asRecord(value)?.["expiresAt"]) < clock.now());
    for (const { key } of old) await notes.set(key, undefined);
    return made.length - old.length;
  }

  /** 32 letters: each byte's last five bits are one, with no preference. */
  const makeCode = () => [...randomBytes(LENGTH)].map((byte) => LETTERS[byte % 32]).join("");

  return {
    async mayTalk(platform: string, place: Place, from: Person): Promise<boolean> {
      if (isListed(platform, from)) return true;
      if (place.kind !== "dm") return false;
      const paired = asRecord(await notes.get(pairOf(platform, from.id)));
      return paired?.["chat"] === place.chat;
    },

    isAdmin,

    /** Remembers where an admin can be asked: the private chat in which they last talked to us. */
    async noteAdmin(platform: string, place: Place, from: Person): Promise<void> {
      const key = privateChatOf(platform, from.id);
      if (place.kind !== "dm" || !isAdmin(platform, from) || (await notes.get(key)) === place.chat) return;
      await notes.set(key, place.chat);
    },

    /** The private chats of those admins who have one with us. */
    async adminPlaces(platform: string): Promise<Place[]> {
      const { allowed, admins } = lists(platform);
      const chats = await Promise.all(
        (admins.length ? admins : allowed).map((id) => notes.get(privateChatOf(platform, id))),
      );
      return chats.flatMap((chat): Place[] => (typeof chat === "string" ? [{ kind: "dm", chat }] : []));
    },

    /** What to say to a stranger, once; null: nothing. */
    async refusal(platform: string, place: Place, from: Person): Promise<string | null> {
      if (place.kind !== "dm") return null;
      const key = `refused/${platform}/${from.id}`;
      const last = await notes.get(key);
      if (typeof last === "number" && clock.now() - last < REFUSE_AGAIN_MS) return null;
      if (!(await notes.swap(key, last, clock.now()))) return null;
      const code = await requested(platform, place, from);
      const ask = code && ` Or ask my owner to run: hermes pairing approve ${platform} ${code}`;
      return `I only talk to people I know. If you have a pairing code, send it here.${ask}`;
    },

    async approve(platform: string, given: string): Promise<Person | null> {
      const key = requestOf(platform, plainCode(given));
      const request = asRecord(await notes.get(key));
      const { id, name, chat, expiresAt } = request ?? {};
      if (typeof id !== "string" || typeof name !== "string" || typeof chat !== "string") return null;
      if (!(Number(expiresAt) >= clock.now()) || !(await notes.swap(key, request, undefined))) return null;
      await notes.set(pairOf(platform, id), { chat, name, at: clock.now() });
      return { id, name };
    },

    /** A text that may be a code, from a stranger. Null: it is none, or there is nothing to say. */
    async pair(platform: string, place: Place, from: Person, text: string): Promise<string | null> {
      const said = text.replace(/^\/pair(?:@\S+)?\s+/i, "").trim();
      const code = plainCode(said);
      if (place.kind !== "dm" || said.length > 20 || !new RegExp(`^[${LETTERS}]{${LENGTH}}$`).test(code)) return null;
      return tryCode(platform, place, from, code);
    },

    async newCode(platform: string): Promise<Pairing> {
      if ((await openCodes(`code/${platform}/`)) >= MOST_CODES)
        throw new Error(`${MOST_CODES} codes wait already; use one, or let one expire.`);
      const code = makeCode();
      const expiresAt = clock.now() + CODE_MS;
      await notes.set(`code/${platform}/${code}`, { expiresAt });
      return { code, expiresAt };
    },

    async paired(): Promise<{ platform: string; id: string; name: string; at: number }[]> {
      return (await notes.list("paired/")).map(({ key, value }) => {
        const [, platform = "", id = ""] = key.split("/");
        const { name, at } = asRecord(value) ?? {};
        return { platform, id, name: typeof name === "string" ? name : "", at: Number(at ?? 0) };
      });
    },

    async unpair(platform: string, id: string): Promise<boolean> {
      const key = pairOf(platform, id);
      const pair = await notes.get(key);
      return pair !== undefined && notes.swap(key, pair, undefined);
    },
  };
}

/** How a session's journal names them. */
export const personOf = (platform: string, { id }: Pick<Person, "id">): string => `${platform}:${id}`;

export const asRecord = (value: unknown): Record<string, unknown> | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
