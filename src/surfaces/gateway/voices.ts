// Voice messages on their way to becoming words. A recording is on disk and noted before its platform is told that it has arrived, so a
// crash neither loses nor doubles it: whoever starts next transcribes what is still noted.
import * as z from "zod";
import type { Recording, Transcribe } from "../../core/chat.ts";
import { messageOf, Refusal } from "../../core/errors.ts";
import type { Ambient } from "../../core/ports.ts";
import { MODES } from "../../core/session.ts";
import { firstGeneration } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { backoff, within } from "../../core/wait.ts";
import type { Access } from "./access.ts";
import { isKeptHere } from "./attachments.ts";

export type SpokenMessage = z.output<typeof Noted>;
export type Voices = ReturnType<typeof createVoices>;

type Options = Ambient & {
  notes: Notes;
  access: Access;
  transcribe: Transcribe;
  /** Its words are there. May throw a Refusal. */
  accept(spoken: SpokenMessage, text: string): Promise<void>;
  say(spoken: SpokenMessage, text: string): void;
};

const Noted = z.object({
  platform: z.string(),
  key: z.string(), // of the message, in its platform
  session: z.string(),
  place: z.object({
    kind: z.enum(["dm", "group", "channel", "thread"]),
    chat: z.string(),
    thread: z.string().exactOptional(),
  }),
  from: z.object({ id: z.string(), name: z.string() }),
  mode: z.enum(MODES),
  said: z.string(), // what was written with it
  lines: z.array(z.string()), // what else came with it
  pictures: z.array(z.object({ mime: z.string(), path: z.string() })),
  recordings: z.array(z.object({ path: z.string(), name: z.string(), mime: z.string() })),
  failed: z.string().optional(), // why it could not be transcribed
});

export const VOICES = "voice/";
/** So long, what follows in the same chat waits for the words, to keep the order. Then a slow server no longer keeps /stop from us. */
const IN_ORDER_MS = 10_000;
const TRIES = 3;
const PAUSE_MS = { first: 1_000, most: 30_000 };
/** Recordings that are transcribed at the same time; each is in memory while it is sent. */
const AT_ONCE = 4;

export function createVoices({ notes, access, transcribe, accept, say, clock, log }: Options) {
  const closed = new AbortController();
  const lines = new Map<string, Promise<void>>();
  const waiting: (() => void)[] = [];
  let running = 0;

  const nameOf = ({ platform, key }: Pick<SpokenMessage, "platform" | "key">) => `${VOICES}${platform}/${key}`;
  const list = async (prefix: string): Promise<SpokenMessage[]> =>
    (await notes.list(prefix)).flatMap(({ value }) => Noted.safeParse(value).data ?? []);

  /** After what was said before in the same session. */
  function start(spoken: SpokenMessage): Promise<void> {
    const { session } = spoken;
    const work = (lines.get(session) ?? Promise.resolve())
      .then(() => inPlace(() => become(spoken)))
      .catch((error: unknown) => log("error", "voice.lost", { session, error: messageOf(error) }))
      .finally(() => {
        if (lines.get(session) === work) lines.delete(session);
      });
    lines.set(session, work);
    return work;
  }

  async function inPlace(work: () => Promise<void>): Promise<void> {
    if (running >= AT_ONCE) await new Promise<void>((next) => waiting.push(next));
    else running++;
    try {
      if (!closed.signal.aborted) await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  }

  async function become(spoken: SpokenMessage): Promise<void> {
    const words: string[] = [];
    try {
      for (const recording of spoken.recordings) words.push(await heard(recording));
    } catch (error) {
      if (!closed.signal.aborted) await fail(spoken, messageOf(error));
      return;
    }
    const { platform, place, from } = spoken;
    for (let attempt = 0; !closed.signal.aborted; attempt++) {
      try {
        if ((await notes.get(nameOf(spoken))) === undefined) return; // its sender has deleted it
        if (await access.mayTalk(platform, place, from)) await accept(spoken, words.join("\n"));
        return await notes.set(nameOf(spoken), undefined);
      } catch (error) {
        if (error instanceof Refusal && error.code === "draining") return; // the next process takes it
        if (error instanceof Refusal && error.code !== "store_unavailable") return fail(spoken, error.message);
        await clock.sleep(backoff(attempt, PAUSE_MS), closed.signal);
      }
    }
  }

  async function heard(recording: Recording): Promise<string> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await transcribe(recording);
      } catch (error) {
        log("warn", "voice.untranscribed", { attempt, error: messageOf(error) });
        if (attempt + 1 >= TRIES) throw error;
      }
      await clock.sleep(backoff(attempt, PAUSE_MS), closed.signal);
      closed.signal.throwIfAborted();
    }
  }

  async function fail(spoken: SpokenMessage, failed: string): Promise<void> {
    await notes.set(nameOf(spoken), { ...spoken, failed });
    say(spoken, `⚠️ Your voice message could not be transcribed: ${failed}. It is kept: /transcribe tries again.`);
  }

  return {
    has: async (platform: string, key: string) => (await notes.get(nameOf({ platform, key }))) !== undefined,
    /** Resolves when it is durable. */
    async take(spoken: SpokenMessage): Promise<void> {
      await notes.set(nameOf(spoken), spoken);
      await within(clock, IN_ORDER_MS, start(spoken));
    },
    forget: (platform: string, key: string) => notes.set(nameOf({ platform, key }), undefined),
    /** What a process before us left. Recordings that are not here are on the disk of another node, which sees to them. */
    async resume(): Promise<void> {
      for (const spoken of await list(VOICES)) {
        const here = await Promise.all(spoken.recordings.map(({ path }) => isKeptHere(path)));
        if (spoken.failed === undefined && here.every(Boolean)) void start(spoken);
      }
    },
    /** Those of that place which failed. */
    async again(platform: string, key: string): Promise<string> {
      const all = await list(`${VOICES}${platform}/`);
      const failed = all.filter((one) => one.failed !== undefined && firstGeneration(one.session) === key);
      for (const { failed: _, ...spoken } of failed) {
        await notes.set(nameOf(spoken), spoken);
        void start(spoken);
      }
      return failed.length
        ? `Trying again: ${failed.length} voice message(s).`
        : "No voice message waits to be transcribed.";
    },
    close(): void {
      closed.abort();
    },
  };
}
