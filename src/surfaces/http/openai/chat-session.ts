// The session of a chat completion. A web UI sends all of its conversation with each message: the session is found again by the
// id of the chat, or by what was said in it. Where the client's past is not the session's (a message was edited or made again),
// the client's counts.
import type { IncomingHttpHeaders } from "node:http";
import { pagesOf } from "../../../core/pages.ts";
import type { Runtime } from "../../../core/runtime.ts";
import { RUN } from "../../../core/session-key.ts";
import type { Message } from "../../../core/transcript.ts";
import { digestOf } from "../runs/retries.ts";
import { one, sessionId } from "../runs/start.ts";
import { problem } from "../server/problem.ts";
import type { Api } from "../server/route.ts";
import type { Conversation } from "./messages.ts";

/** Open WebUI sends its own with ENABLE_FORWARD_USER_INFO_HEADERS; any other client may send ours. */
const CHAT_ID = ["x-hermes-chat-id", "x-openwebui-chat-id"];
/** What the keys begin with of those that are found by what was said. */
const FOUND = `${RUN}chat_`;
/** Conversations that began alike and are compared. */
const MOST_ALIKE = 20;
/** Pages of a conversation that are read. */
const MOST_PAGES = 100;

type ChatSession = { session: string; history?: Message[] };

/** Many requests that say the same are many conversations: a session that one of them has found, or that works, is left to it. */
export function createChatSessions({ runtime, newKey }: Pick<Api, "runtime" | "newKey">) {
  const taken = new Set<string>();

  async function chatSession(headers: IncomingHttpHeaders, { text, history }: Conversation): Promise<ChatSession> {
    const named = idIn(headers, "x-hermes-session-id");
    if (named) return { session: named }; // it knows what was said in it
    const past = exchanges(history);
    const chat = CHAT_ID.map((header) => idIn(headers, header)).find(Boolean);
    if (chat) {
      const session = `chat:${chat}`.slice(0, 512);
      return { session, ...(history.length && !isSame(past, await saidIn(runtime, session)) && { history }) };
    }
    const by = one(headers["x-hermes-session-key"]) ?? "";
    const first = history.find(({ role }) => role === "user")?.text ?? text;
    const alike = `${FOUND}${digestOf([first, by])}_`;
    const fresh = { session: `${alike}${newKey().slice(0, 8)}`, ...(history.length && { history }) };
    const hasAnswer = past.some(({ assistant }) => assistant);
    const known = hasAnswer ? await runtime.sessions({ prefix: alike, limit: MOST_ALIKE }) : [];
    let nearest: ChatSession = fresh;
    for (const { session, active } of known) {
      const said = active || taken.has(session) ? [] : await saidIn(runtime, session);
      if (isSame(past, said)) return { session };
      // The same beginning: a message was edited, or its answer made again.
      if (nearest === fresh && said.length && isSame(past.slice(0, 1), said.slice(0, 1)))
        nearest = { session, history };
    }
    return nearest;
  }

  return {
    async find(headers: IncomingHttpHeaders, said: Conversation): Promise<ChatSession> {
      for (;;) {
        const place = await chatSession(headers, said);
        if (!place.session.startsWith(FOUND)) return place; // the client named it
        const free = !taken.has(place.session); // another may have found it meanwhile
        taken.add(place.session);
        if (free) return place;
      }
    },
    leave: (session: string) => taken.delete(session),
  };
}

/** A question beside the conversation, as web UIs ask for a title, for tags or for what might be asked next. */
export const isSideCall = (headers: IncomingHttpHeaders, { text, history }: Conversation): boolean =>
  headers["x-hermes-side-call"] === "true" ||
  (!history.length && text.startsWith("### Task:\n") && /### Output:|<chat_history>/.test(text));

function idIn(headers: IncomingHttpHeaders, header: string): string | undefined {
  const given = one(headers[header]);
  if (given === undefined) return undefined;
  const parsed = sessionId.safeParse(given);
  if (parsed.success) return parsed.data;
  const name = header.replaceAll(/(^|-)(\w)/g, (all) => all.toUpperCase());
  const needs = `${name} must have 1 to 512 characters, none of them a control character`;
  throw problem(400, "invalid_session_id", needs, { param: name });
}

// ── What was said ─────────────────────────────────────────────────────────────────────────────────────

/** `last`: only the end of the answer, behind the last tool. */
type Exchange = { user: string; assistant: string; last: string };

function exchanges(messages: readonly Message[]): Exchange[] {
  const all: Exchange[] = [];
  for (const { role, text } of messages) {
    const now = all.at(-1);
    if (role === "user") all.push({ user: text.trim(), assistant: "", last: "" });
    else if (role === "assistant" && now) say(now, text);
  }
  return all;
}

function say(now: Exchange, text: string): void {
  const said = text.trim();
  if (!said) return;
  now.assistant = now.assistant ? `${now.assistant}\n\n${said}` : said;
  now.last = said;
}

async function saidIn(runtime: Runtime, session: string): Promise<Exchange[]> {
  let all: Exchange[] = [];
  const inputs = new Map<string, { text: string; history?: Message[] }>();
  let pages = 0;
  for await (const page of pagesOf(runtime, session)) {
    if (++pages > MOST_PAGES) return [];
    for (const entry of page) {
      const now = all.at(-1);
      if (entry.kind === "accepted") inputs.set(entry.input.id, entry.input);
      if (entry.kind === "began" || entry.kind === "joined") {
        const { text = "", history } = inputs.get(entry.input) ?? {};
        if (history) all = exchanges(history);
        all.push({ user: text.trim(), assistant: "", last: "" });
      }
      if ((entry.kind === "thought" || entry.kind === "cut") && now) say(now, entry.text);
    }
  }
  return all;
}

/** A client keeps all of an answer, or only its end. */
const isSame = (client: readonly Exchange[], said: readonly Exchange[]): boolean =>
  client.length === said.length &&
  client.every(({ user, assistant }, i) => {
    const ours = said[i];
    return ours?.user === user && (assistant === ours.assistant || assistant === ours.last);
  });
