// The gateway: chat platforms over one runtime. Everything here is a view or a door; what must survive is in the runtime's
// sessions and notes.
import type { CommandSources } from "../../conversation/commands/command.ts";
import type { Chat, InboundMessage, Transcribe } from "../../core/chat.ts";
import { ConfigError, messageOf } from "../../core/errors.ts";
import type { Ambient, Channel } from "../../core/ports.ts";
import { BACKGROUND_ROUTES } from "../../core/reply-route.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Mode, Unattended } from "../../core/session.ts";
import { parseKey, rootOf } from "../../core/session-key.ts";
import { within } from "../../core/wait.ts";
import { createAccess, type Lists } from "./access.ts";
import { createCommands } from "./commands.ts";
import { createTalk } from "./inbound.ts";
import { createTell } from "./notices.ts";
import { createOutbox, routeFor } from "./outbox.ts";
import { createShow } from "./progress.ts";
import { createQuestions } from "./questions.ts";
import { createSessions } from "./sessions.ts";
import { VOICES } from "./voices.ts";

export type GatewayOptions = Ambient &
  CommandSources & {
    runtime: Runtime;
    /** Of this node alone, where there are others: what runs on another one is shown by that. */
    local?: Runtime | undefined;
    /** Where there are others: the id of this node. */
    node?(): string;
    chats: readonly Chat[];
    newKey(): string;
    /** Bytes that nobody can guess. */
    randomBytes(count: number): Uint8Array;
    lists(platform: string): Lists;
    /** Who decides on approvals: whoever is asked, or admins only. */
    approvers: "asker" | "admins";
    busyMode(platform: string): Mode;
    /** How approvals are decided on a platform where nobody can be asked. Undefined: whoever talks there is asked. */
    unattended(platform: string): Unattended | undefined;
    /** The configured model. */
    model: string;
    /** Somebody leaves that conversation for a new one. */
    left(session: string, by: string): void;
    /** Which tool calls are shown. */
    progress(platform: string): "off" | "new" | "all" | "verbose";
    /** Whether a message in that place is for us. */
    hears(platform: string, message: InboundMessage): boolean;
    /** Where attachments are kept. */
    files: string;
    /** Null: nothing is set up that could. */
    transcribe: Transcribe | null;
    /** Groups where all share one session. */
    sharedGroups: boolean;
    /** What somebody hears who is on no list: how to pair, or nothing. */
    strangers: "pair" | "ignore";
    /** Somebody wants us to start again. False: somebody did already. */
    requestRestart(asked: { turn: string | null }): boolean;
  };
export type Gateway = ReturnType<typeof createGateway>;

const NOTICE = {
  shutdown:
    "⚠️ Gateway shutting down. A task that does not finish in time is interrupted and continues after the next start.",
  restart: "♻️ Gateway restarting. A task that does not finish in time will resume by itself afterwards.",
};
/** What was noted of messages that nobody brings again after so long. */
const FORGET_MS = 2 * 86_400_000;
/** Notes of each kind that are deleted at once; the next hour deletes more. */
const MOST_FORGOTTEN = 1_000;
const NOTICE_MS = 5_000;
/** The place where somebody asked for a restart. */
const ASKED = "restart/asked";

export function createGateway(options: GatewayOptions) {
  const { runtime, clock, log, newKey, requestRestart } = options;
  const { notes } = runtime;
  const chats = new Map(options.chats.map((chat) => [chat.platform, chat]));
  const access = createAccess({ ...options, notes });
  const sessions = createSessions(notes);
  const tell = createTell(options);
  const questions = createQuestions({ ...options, notes, access, tell });
  const show = createShow({ ...options, runtime: options.local ?? runtime, chats, notes, questions, tell });
  const outbox = createOutbox({ ...options, chats, notes });
  const commands = createCommands({
    ...options,
    notes,
    access,
    sessions,
    questions,
    transcribeAgain: async (platform, key) => talk.voices?.again(platform, key) ?? "Nothing is set up to transcribe.",
    restart: async (key) => {
      const { turns } = await runtime.load();
      if ((await notes.get(ASKED)) === undefined) await notes.set(ASKED, key);
      if (!requestRestart({ turn: null })) return "⏳ A restart is already under way.";
      return turns ? `⏳ Draining ${turns} active agent(s) before restart...` : "♻️ Restarting gateway...";
    },
  });
  const talk = createTalk({ ...options, chats, notes, access, sessions, questions, commands, tell });

  return {
    access,
    channel: {
      send: async (reply, signal) => outbox.send(reply, signal, await show.freeze(reply.turn)),
    } satisfies Channel,
    observe: show.observe,
    /** Opens the platforms. A wrong token stops everything; what may pass is tried again. */
    async start(): Promise<void> {
      const tidied = show.tidy();
      await Promise.all([
        tidied,
        ...options.chats.map(async (chat) => {
          try {
            await chat.start(talk.handlerOf(chat));
            await chat.offer(commands.menu);
          } catch (error) {
            if (error instanceof ConfigError) throw error;
            log("error", "chat.unopened", { platform: chat.platform, error: messageOf(error) });
          }
        }),
      ]);
      await Promise.all([sayBack(), talk.voices?.resume()]);
    },
    /** One notice for each chat with a running turn. Never rejects. */
    async announceLeaving(why: keyof typeof NOTICE): Promise<void> {
      const rows = await runtime.sessions({ limit: 1_000, active: true });
      const told = new Set<string>();
      const sending = rows.map(async ({ session }) => {
        const route = await routeFor(session, notes);
        const chat = route && chats.get(route.platform);
        if (!chat || !(await isRunning(session))) return;
        const { place } = route;
        const where = `${route.platform} ${place.chat} ${place.thread ?? ""}`;
        if (told.has(where)) return;
        told.add(where);
        await tell.say(chat, place, { text: NOTICE[why] }, `leaving.${newKey()}`);
      });
      await within(clock, NOTICE_MS, Promise.allSettled(sending));
    },
    /** The inputs of a session whose sender may not talk to the agent any more. */
    async barred(session: string, inputs: readonly string[]): Promise<string[]> {
      const key = parseKey(session);
      const found = await Promise.all(
        // What a child does, it does for whoever began its parent's turn.
        inputs.map(async (id) => ((await mayTalk(session, key.of === "child" ? key.turn : id)) ? [] : [id])),
      );
      const barred = found.flat();
      if (barred.length) log("warn", "gateway.barred", { session, inputs: barred });
      return barred;
    },
    /** Takes no more messages; answers still go out. */
    async stopHearing(): Promise<void> {
      talk.voices?.close();
      await Promise.allSettled(options.chats.map((chat) => chat.stop()));
    },
    health: () => options.chats.map((chat) => chat.health()),
    tidy,
    async close(): Promise<void> {
      questions.close();
      await Promise.all([show.close(), tell.settled(NOTICE_MS)]);
      await Promise.allSettled(options.chats.map((chat) => chat.close()));
    },
  };

  /** To the chat that asked for the restart, once. */
  async function sayBack(): Promise<void> {
    const asked = await notes.get(ASKED);
    if (typeof asked !== "string") return;
    await notes.set(ASKED, undefined);
    const route = await routeFor(asked, notes);
    const chat = route && chats.get(route.platform);
    if (chat) void tell.say(chat, route.place, { text: "♻️ Gateway is back." }, `back.${newKey()}`);
  }

  /** Whether who said that may still talk where the session's answers go. */
  async function mayTalk(session: string, input: string): Promise<boolean> {
    const route = await routeFor(rootOf(session), notes);
    if (!route || !chats.has(route.platform)) return true;
    const [first] = await runtime.turn(input);
    const by = first?.kind === "accepted" ? first.input.by : undefined;
    const [platform, ...id] = by?.split(":") ?? [];
    if (platform !== route.platform) return true; // a terminal or a client of the API, which has the key
    return access.mayTalk(platform, route.place, { id: id.join(":"), name: "" });
  }

  /** A turn that waits for room among the others has not started. */
  async function isRunning(session: string): Promise<boolean> {
    const { turn, held } = await runtime.status(session);
    return turn !== null && !held;
  }

  /** Forgets notes of messages that nobody brings again, a part of them each time. */
  async function tidy(): Promise<void> {
    for (const prefix of [VOICES, "did/", "out/", "edit/", "live/", "tries/", "refused/", BACKGROUND_ROUTES]) {
      const old = (await notes.list(prefix)).filter(({ at }) => at > 0 && clock.now() - at > FORGET_MS);
      for (const { key } of old.slice(0, MOST_FORGOTTEN)) await notes.set(key, undefined);
    }
  }
}
