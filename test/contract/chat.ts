// What every Chat must do. Run on each platform's adapter by chat.test.ts, over its real library and a fake of the platform
// that speaks its protocol.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type ButtonPress,
  type Chat,
  type InboundHandler,
  type InboundMessage,
  type Person,
  type Place,
  SendFault,
} from "../../src/core/chat.ts";
import { ConfigError } from "../../src/core/errors.ts";
import type { Clock, Log, Random } from "../../src/core/ports.ts";
import { clock as realClock } from "../../src/platform/clock.ts";

/** `anna`, `ben`: the direct messages of each. `room`: where both are. `thread`: a topic or thread of the room. */
export type Spot = "anna" | "ben" | "room" | "thread";
type Who = "anna" | "ben";

type Saying = {
  text: string;
  /** Anna's direct messages unless named. */
  where?: Spot;
  /** Anna unless named. `bot`: another bot than ours. */
  from?: Who | "bot";
  /** Names our bot as the platform's own clients do: before the text with a space between, or behind it. */
  mention?: "first" | "last";
  /** A message of that spot, by its name: ours or somebody's. */
  replyTo?: string;
  file?: { name: string; type: string; bytes: Uint8Array };
};

/** A message of ours as it stands now. */
type Shown = {
  message: string;
  /** As the platform keeps it, but without escapes such as `&lt;` and `\*`. Marks of formatting may be there or not. */
  text: string;
  buttons: { label: string; data: string }[][];
  replyTo: string | undefined;
  deleted: boolean;
};

/** What an adapter is given beside its platform. */
type World = { clock: Clock; log: Log; random: Random };

/** One adapter and the platform that it talks to. Every spot can be written to from the beginning. */
export type Rig = {
  /** `wrong token`: one that the platform does not know. `nobody`: no server listens where the platform should be. */
  create(world: World, but?: "wrong token" | "nobody"): Chat;
  /** The configuration variable that a message about a wrong token must name. */
  variable: string;
  /** Must never be seen in a log line or an error. */
  secrets: string[];
  people: Record<Who, Person>;
  place(spot: Spot): Place;

  // People
  /** Gives the name that the message must be heard under. */
  say(saying: Saying): string;
  edit(spot: Spot, message: string, text: string): void;
  /** Only where the platform tells of it. */
  remove?(spot: Spot, message: string): void;
  /** By its label. Resolves with what the person is shown for a moment. */
  press(press: { where: Spot; message: string; button: string; by: Who }): Promise<string>;
  /** A command from the platform's menu, without its slash; only where there is one. */
  command?(where: Spot, name: string): void;

  // What came of what we did
  sent(spot: Spot): Shown[];
  /** How often "is typing" was shown there. */
  typed(spot: Spot): number;
  /** The names in the menu; only where there is one. */
  offered?(): string[];
  /** What the platform holds against the adapter. */
  violations(): string[];

  // Faults
  /** The next send is refused for so many seconds. */
  limit(seconds: number): void;
  /** The next send arrives, and the connection dies before the answer. */
  loseAnswer(): void;
  /** The next send is never answered; resolves once it has arrived. */
  hang(): Promise<void>;
  /** Nobody can write to that spot any more: blocked, archived, no longer a member. */
  shut(spot: Spot): void;
  /** The connection that brings messages is cut. */
  cut(): void;
  /** It goes dead without a word; a new one would live. Resolves once it is. */
  silence(): Promise<void> | void;
  revoke(): void;
  /** The last message comes once more, although it was acknowledged; only where platforms do that. */
  redeliver?(): Promise<void> | void;

  /** What was not acknowledged is brought to a new process as well. */
  remembers: boolean;
  /** A second send under the same key gives the message that is there already. */
  sendsOnce: boolean;
  /** Of the platform; each Chat is closed before. */
  close(): Promise<void>;
};

// ── Time ─────────────────────────────────────────────────────────────────────────────────────────────

export type HastyClock = Clock & { pauses: number[] };

/** Pauses are a hundred times shorter, and remembered. What is longer than `upTo` is no pause but patience, and lasts. */
export function hastyClock(upTo = 10_000): HastyClock {
  const pauses: number[] = [];
  return {
    pauses,
    now: realClock.now,
    monotonic: realClock.monotonic,
    sleep: (ms, signal) => {
      if (ms <= upTo) pauses.push(ms);
      return realClock.sleep(ms <= upTo ? ms / 100 : ms, signal);
    },
  };
}

/** For what no event tells of. */
export const soon = (check: () => void) => vi.waitFor(check, { timeout: 10_000, interval: 10 });

// ── InboundHandler ─────────────────────────────────────────────────────────────────────────────────────────────

export type Listener = InboundHandler & {
  /** What was told, as often as it was told. */
  messages: InboundMessage[];
  edits: InboundMessage[];
  deletions: { place: Place; message: string }[];
  presses: ButtonPress[];
  /** What each telling waits for; a test puts its own in place. */
  take(message: InboundMessage): Promise<void>;
  answer(press: ButtonPress): Promise<string>;
  until<T>(look: () => T | undefined | false): Promise<T>;
  /** Resolves once so many messages were told, with their texts. */
  texts(count: number): Promise<string[]>;
};

export function listener(): Listener {
  const lookers = new Set<() => void>();
  const changed = () => {
    for (const look of lookers) look();
  };
  const mine: Listener = {
    messages: [],
    edits: [],
    deletions: [],
    presses: [],
    take: async () => {},
    answer: async () => "Done.",
    onMessage: (message) => {
      mine.messages.push(message);
      changed();
      return mine.take(message);
    },
    onEdit: async (message) => {
      mine.edits.push(message);
      changed();
    },
    onDelete: async (place, message) => {
      mine.deletions.push({ place, message });
      changed();
    },
    onPress: (press) => {
      mine.presses.push(press);
      changed();
      return mine.answer(press);
    },
    until: (look) =>
      new Promise((resolve) => {
        const again = () => {
          const found = look();
          if (found === undefined || found === false) return;
          lookers.delete(again);
          resolve(found);
        };
        lookers.add(again);
        again();
      }),
    texts: (count) => mine.until(() => mine.messages.length >= count && mine.messages.map(({ text }) => text)),
  };
  return mine;
}

// ── The contract ─────────────────────────────────────────────────────────────────────────────────────

export function chatContract(name: string, start: () => Promise<Rig>) {
  describe(name, () => {
    let rig: Rig;
    let inbox: Listener;
    let clock: HastyClock;
    let logged: unknown[];
    let errors: unknown[];
    let chats: Chat[];
    const never = new AbortController().signal;

    beforeEach(async () => {
      rig = await start();
      inbox = listener();
      clock = hastyClock();
      [logged, errors, chats] = [[], [], []];
    });
    afterEach(async () => {
      await Promise.all(chats.map((chat) => chat.close()));
      await rig.close();
      const seen = JSON.stringify([logged, chats.map((chat) => chat.health()), errors.map(shape)]);
      for (const secret of rig.secrets) expect(seen).not.toContain(secret);
      expect(rig.violations()).toEqual([]);
    });

    function create(but?: "wrong token" | "nobody"): Chat {
      const log: Log = (...line) => logged.push(line);
      const chat = rig.create({ clock, log, random: () => 0.5 }, but);
      chats.push(chat);
      return chat;
    }
    async function started(): Promise<Chat> {
      const chat = create();
      await chat.start(inbox);
      return chat;
    }
    async function faultOf(sending: Promise<unknown>): Promise<SendFault> {
      const fault = await sending.then(
        () => undefined,
        (error: unknown) => error,
      );
      errors.push(fault);
      expect(fault).toBeInstanceOf(SendFault);
      return fault as SendFault;
    }
    const send = (chat: Chat, text: string, where: Spot = "anna", key = `key of ${text}`) =>
      chat.send(rig.place(where), { text }, key, never);

    describe("starting", () => {
      test("connects, and health says so", async () => {
        const chat = create();
        expect(chat.health()).toMatchObject({ platform: chat.platform, connected: false, heardAt: null });
        await chat.start(inbox);
        expect(chat.health()).toMatchObject({ connected: true, error: "" });
        expect(Math.abs((chat.health().heardAt ?? 0) - clock.now())).toBeLessThan(10_000);
      });

      test("with a wrong token is refused, with the name of what to set", async () => {
        const failed = create("wrong token").start(inbox);
        errors.push(await failed.catch((error: unknown) => error));
        await expect(failed).rejects.toBeInstanceOf(ConfigError);
        await expect(failed).rejects.toThrow(rig.variable);
      });

      test("without a platform goes on trying, with growing pauses, and says so", async () => {
        const chat = create("nobody");
        await chat.start(inbox);
        expect(chat.health()).toMatchObject({ connected: false, error: expect.stringMatching(/./) });
        await soon(() => expect(clock.pauses.length).toBeGreaterThan(3));
        const pauses = clock.pauses.slice(0, 4);
        expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
        expect(new Set(pauses).size).toBeGreaterThan(2);
      });
    });

    describe("what a person says", () => {
      test("is heard with its words, its place, its name and who said it", async () => {
        await started();
        const message = rig.say({ text: "Hello there" });
        await inbox.texts(1);
        expect(inbox.messages).toEqual([
          {
            message,
            place: rig.place("anna"),
            from: rig.people.anna,
            text: "Hello there",
            attachments: [],
            addressed: true,
          },
        ]);
      });

      test("before we were there is heard as well, where the platform keeps it", async () => {
        if (!rig.remembers) return;
        rig.say({ text: "early" });
        await started();
        expect(await inbox.texts(1)).toEqual(["early"]);
      });

      test("in a room is meant for us only when it names us", async () => {
        await started();
        rig.say({ where: "room", text: "to everybody" });
        rig.say({ where: "room", text: "look at this", mention: "first" });
        rig.say({ where: "room", from: "ben", text: "what do you say", mention: "last" });
        rig.say({ where: "room", text: "hermes is only a word" });
        await inbox.texts(4);
        expect(inbox.messages.map(({ addressed }) => addressed)).toEqual([false, true, true, false]);
        expect(inbox.messages[1]?.text).toBe("look at this");
        expect(inbox.messages[2]?.text).toMatch(/^what do you say ./);
        expect(inbox.messages.map(({ from }) => from.id)).toEqual(
          (["anna", "anna", "ben", "anna"] as const).map((who) => rig.people[who].id),
        );
        for (const { place } of inbox.messages) expect(place).toEqual(rig.place("room"));
      });

      test("in reply to us is meant for us, in reply to somebody else is not", async () => {
        const chat = await started();
        const ours = await send(chat, "I am here.", "room");
        rig.say({ where: "room", text: "good", replyTo: ours });
        const theirs = rig.say({ where: "room", text: "who is hungry?" });
        rig.say({ where: "room", from: "ben", text: "I am", replyTo: theirs });
        await inbox.texts(3);
        expect(inbox.messages.map(({ text, addressed }) => [text, addressed])).toEqual([
          ["good", true],
          ["who is hungry?", false],
          ["I am", false],
        ]);
      });

      test("in a thread is heard there, and answered there", async () => {
        const chat = await started();
        rig.say({ where: "thread", text: "in here", mention: "first" });
        await inbox.texts(1);
        expect(inbox.messages[0]).toMatchObject({ place: rig.place("thread"), text: "in here", addressed: true });
        await send(chat, "yes", "thread");
        expect(rig.sent("thread").map(({ text }) => text)).toEqual(["yes"]);
      });

      test("is not heard when another bot says it", async () => {
        await started();
        rig.say({ where: "room", from: "bot", text: "beep", mention: "first" });
        rig.say({ where: "room", text: "after the beep" });
        expect(await inbox.texts(1)).toEqual(["after the beep"]);
      });

      test("is not heard when we say it ourselves", async () => {
        const chat = await started();
        await send(chat, "my own words", "room");
        rig.say({ where: "room", text: "their words" });
        expect(await inbox.texts(1)).toEqual(["their words"]);
      });

      test("as a command from the menu is a text that begins with a slash", async () => {
        if (!rig.command) return;
        const chat = await started();
        await chat.offer([{ name: "status", description: "What is going on" }]);
        rig.command("room", "status");
        await inbox.texts(1);
        expect(inbox.messages[0]).toMatchObject({ text: "/status", addressed: true, place: rig.place("room") });
      });

      test("keeps its name when it is edited", async () => {
        await started();
        const message = rig.say({ text: "helo" });
        await inbox.texts(1);
        rig.edit("anna", message, "hello");
        await inbox.until(() => inbox.edits.length > 0);
        expect(inbox.edits).toMatchObject([
          { message, text: "hello", place: rig.place("anna"), from: rig.people.anna },
        ]);
        expect(inbox.messages).toHaveLength(1);
      });

      test("is forgotten by its name when it is deleted, where the platform tells", async () => {
        if (!rig.remove) return;
        await started();
        const message = rig.say({ where: "room", text: "never mind" });
        await inbox.texts(1);
        rig.remove("room", message);
        await inbox.until(() => inbox.deletions.length > 0);
        expect(inbox.deletions).toEqual([{ place: rig.place("room"), message }]);
      });
    });

    describe("a file", () => {
      const bytes = new TextEncoder().encode("line\n".repeat(20_000));
      const file = { name: "plan.txt", type: "text/plain", bytes };

      test("is described, and loaded when it is asked for", async () => {
        await started();
        rig.say({ text: "read this", file });
        await inbox.texts(1);
        const [attachment] = inbox.messages[0]?.attachments ?? [];
        expect(attachment).toMatchObject({ kind: "file", name: "plan.txt", mime: "text/plain", size: bytes.length });
        expect(inbox.messages[0]?.text).toBe("read this");
        const loaded = await attachment?.load(bytes.length, never);
        expect(Buffer.from(loaded ?? []).equals(bytes)).toBe(true);
      });

      test("is not loaded when it is larger than allowed, nor when nobody wants it any more", async () => {
        await started();
        rig.say({ text: "read this", file });
        await inbox.texts(1);
        const [attachment] = inbox.messages[0]?.attachments ?? [];
        for (const loading of [
          attachment?.load(bytes.length - 1, never),
          attachment?.load(bytes.length, AbortSignal.abort()),
        ]) {
          errors.push(await loading?.catch((error: unknown) => error));
          await expect(loading).rejects.toThrow();
        }
      });
    });

    describe("hearing", () => {
      test("goes in order, one at a time in a place, and side by side in different ones", async () => {
        await started();
        const gate = Promise.withResolvers<void>();
        inbox.take = ({ text }) => (text === "one" ? gate.promise : Promise.resolve());
        rig.say({ text: "one" });
        rig.say({ text: "two" });
        rig.say({ text: "three" });
        rig.say({ where: "ben", from: "ben", text: "meanwhile" });
        expect(await inbox.texts(2)).toEqual(["one", "meanwhile"]);
        gate.resolve();
        expect(await inbox.texts(4)).toEqual(["one", "meanwhile", "two", "three"]);
      });

      test("is tried again with growing pauses until it is taken, and what follows waits behind it", async () => {
        await started();
        let refusals = 3;
        inbox.take = async ({ text }) => {
          if (text === "one" && refusals-- > 0) throw new Error("the store is full");
        };
        const message = rig.say({ text: "one" });
        rig.say({ text: "two" });
        expect(await inbox.texts(5)).toEqual(["one", "one", "one", "one", "two"]);
        expect(new Set(inbox.messages.slice(0, 4).map((heard) => heard.message))).toEqual(new Set([message]));
        // There may be others who wait for something; at least these three are all different.
        expect(new Set(clock.pauses).size).toBeGreaterThan(2);
      });

      test("of what was not taken begins anew in the next process, under the same name", async () => {
        if (!rig.remembers) return;
        const chat = await started();
        inbox.take = () => new Promise(() => {});
        const message = rig.say({ text: "unfinished" });
        await inbox.texts(1);
        await chat.close();
        inbox.take = async () => {};
        await started();
        expect(await inbox.texts(2)).toEqual(["unfinished", "unfinished"]);
        expect(inbox.messages.map((heard) => heard.message)).toEqual([message, message]);
      });

      test("of what the platform brings twice is under the same name", async () => {
        if (!rig.redeliver) return;
        await started();
        const message = rig.say({ text: "once" });
        await inbox.texts(1);
        await rig.redeliver();
        rig.say({ text: "done" });
        await inbox.until(() => inbox.messages.at(-1)?.text === "done");
        const repeated = inbox.messages.slice(0, -1);
        expect(new Set(repeated.map((heard) => heard.message))).toEqual(new Set([message]));
      });

      test("ends with stop, which waits for what is being heard; sending still works", async () => {
        const chat = await started();
        const gate = Promise.withResolvers<void>();
        inbox.take = () => gate.promise;
        rig.say({ text: "last" });
        await inbox.texts(1);
        let stopped = false;
        const stopping = chat.stop().then(() => {
          stopped = true;
        });
        rig.say({ where: "ben", from: "ben", text: "too late" });
        await send(chat, "still here");
        expect(stopped).toBe(false);
        gate.resolve();
        await stopping;
        await send(chat, "and now");
        expect(rig.sent("anna").map(({ text }) => text)).toEqual(["still here", "and now"]);
        expect(inbox.messages.map(({ text }) => text)).toEqual(["last"]);
        expect(chat.health().connected).toBe(false);
      });
    });

    describe("the connection", () => {
      test("is made again when it is cut, and nothing said meanwhile is lost", async () => {
        const chat = await started();
        rig.say({ text: "before" });
        await inbox.texts(1);
        rig.cut();
        rig.say({ text: "meanwhile" });
        await inbox.until(() => inbox.messages.some(({ text }) => text === "meanwhile"));
        rig.say({ text: "after" });
        await inbox.until(() => inbox.messages.some(({ text }) => text === "after"));
        await soon(() => expect(chat.health()).toMatchObject({ connected: true, error: "" }));
      });

      test("that is dead without a word is noticed and made again", async () => {
        clock = hastyClock(60_000);
        await started();
        await rig.silence();
        rig.say({ text: "anybody there?" });
        await inbox.until(() => inbox.messages.some(({ text }) => text === "anybody there?"));
      });

      test("of a token that was revoked is reported, and tried again slowly", async () => {
        const chat = await started();
        rig.revoke();
        await soon(() => expect(chat.health().connected).toBe(false));
        await soon(() => expect(chat.health().error).toContain(rig.variable));
      });

      test("is over with close: nothing of it is left open, also when it was never made", async () => {
        await create().close();
        const chat = await started();
        rig.say({ text: "hello" });
        await inbox.texts(1);
        await send(chat, "hi");
        await chat.close();
        await chat.close();
        expect(chat.health().connected).toBe(false);
        // Both ends of every connection are in this process.
        await soon(() => expect(process.getActiveResourcesInfo()).not.toContain("TCPSocketWrap"));
      });
    });

    describe("a message of ours", () => {
      test("arrives where it was sent, and is edited and removed by its name", async () => {
        const chat = await started();
        const message = await send(chat, "thinking", "room");
        expect(rig.sent("room")).toEqual([
          { message, text: "thinking", buttons: [], replyTo: undefined, deleted: false },
        ]);
        await chat.edit(rig.place("room"), message, { text: "thought" }, never);
        expect(rig.sent("room")).toMatchObject([{ message, text: "thought", deleted: false }]);
        await chat.edit(rig.place("room"), message, { text: "thought" }, never);
        await chat.remove(rig.place("room"), message, never);
        expect(rig.sent("room")).toMatchObject([{ message, deleted: true }]);
        expect(rig.sent("anna")).toEqual([]);
      });

      test("replies to another, or stands alone when that one is gone", async () => {
        const chat = await started();
        const question = rig.say({ where: "room", text: "why?" });
        await inbox.texts(1);
        await chat.send(rig.place("room"), { text: "because", replyTo: question }, "k1", never);
        expect(rig.sent("room")).toMatchObject([{ text: "because", replyTo: question }]);
      });

      test("keeps its signs, loses its control characters, and may be as long as it says", async () => {
        const chat = await started();
        await send(chat, '1 < 2 & 3 > 2, "quoted" snake_case_word 2 * 3 * 4 [x] <b> </div> &amp; #5');
        expect(rig.sent("anna").at(-1)?.text).toBe(
          '1 < 2 & 3 > 2, "quoted" snake_case_word 2 * 3 * 4 [x] <b> </div> &amp; #5',
        );
        await send(chat, "be\u0007ll \u001b[31mred\u001b[0m\ttab\nline\u0000");
        expect(rig.sent("anna").at(-1)?.text).toBe("bell [31mred[0m\ttab\nline");
        const long = "<&> ".repeat(chat.longest).slice(0, chat.longest - 1);
        await send(chat, `${long}.`);
        expect(rig.sent("anna").at(-1)?.text.length).toBeGreaterThanOrEqual(chat.longest);
      });

      test("with Markdown arrives with all its words, in their order", async () => {
        const chat = await started();
        await send(chat, MARKDOWN);
        const text = rig.sent("anna").at(-1)?.text ?? "";
        let from = 0;
        for (const word of WORDS) {
          const at = text.indexOf(word, from);
          expect(at, `${word} in ${text.slice(from)}`).toBeGreaterThanOrEqual(from);
          from = at + word.length;
        }
      });

      test.each(BROKEN)("with broken Markdown arrives: %j", async (text, words) => {
        const chat = await started();
        await send(chat, text);
        expect(rig.sent("anna").at(-1)?.text).toContain(words);
      });

      test("cannot call everybody", async () => {
        const chat = await started();
        await send(chat, "hey @everyone and <!channel> and @here", "room");
        expect(rig.sent("room")).toHaveLength(1);
      });

      test("has buttons, and whoever presses one is told what came of it", async () => {
        const chat = await started();
        const buttons = [
          [
            { label: "Yes", data: "yes:1" },
            { label: "No", data: "no:1" },
          ],
          [{ label: "Always", data: "ü".repeat(32) }],
        ];
        const message = await chat.send(rig.place("room"), { text: "Sure?", buttons }, "k", never);
        expect(rig.sent("room")).toMatchObject([{ text: "Sure?", buttons }]);
        inbox.answer = async ({ from, data }) => `${from.name}: ${data}`;
        const shown = await rig.press({ where: "room", message, button: "No", by: "ben" });
        expect(shown).toBe(`${rig.people.ben.name}: no:1`);
        expect(inbox.presses).toEqual([{ data: "no:1", place: rig.place("room"), from: rig.people.ben, message }]);
        await chat.edit(rig.place("room"), message, { text: "Decided." }, never);
        expect(rig.sent("room")).toMatchObject([{ text: "Decided.", buttons: [] }]);
      });

      test("may be pressed in a direct talk and in a thread", async () => {
        const chat = await started();
        for (const where of ["anna", "thread"] as const) {
          const said = { text: "Sure?", buttons: [[{ label: "Yes", data: `yes:${where}` }]] };
          const message = await chat.send(rig.place(where), said, `k ${where}`, never);
          expect(await rig.press({ where, message, button: "Yes", by: "anna" })).toBe("Done.");
          expect(inbox.presses.at(-1)).toEqual({
            data: `yes:${where}`,
            place: rig.place(where),
            from: rig.people.anna,
            message,
          });
        }
      });
    });

    describe("a send that fails", () => {
      test("for too many of them has not landed, and says how long to wait", async () => {
        const chat = await started();
        rig.limit(3);
        const fault = await faultOf(send(chat, "too soon"));
        expect(fault.landed).toBe("no");
        expect(fault.retryAfter).toBeGreaterThan(2_000);
        expect(fault.retryAfter).toBeLessThanOrEqual(3_000);
        expect(rig.sent("anna")).toEqual([]);
      });

      test("because nobody lets us write there will never land", async () => {
        const chat = await started();
        rig.shut("anna");
        expect(await faultOf(send(chat, "hello?"))).toMatchObject({ landed: "never", retryAfter: undefined });
        await send(chat, "others are fine", "ben");
        expect(rig.sent("ben")).toHaveLength(1);
      });

      test("because there is no such place will never land", async () => {
        const chat = await started();
        const nowhere = { ...rig.place("anna"), chat: "424242" };
        expect(await faultOf(chat.send(nowhere, { text: "hello?" }, "k", never))).toMatchObject({ landed: "never" });
      });

      test("after it was on its way may have landed", async () => {
        const chat = await started();
        rig.loseAnswer();
        expect(await faultOf(send(chat, "did it?", "anna", "k"))).toMatchObject({ landed: "unknown" });
        expect(rig.sent("anna")).toHaveLength(1);
        const again = await send(chat, "did it?", "anna", "k");
        expect(rig.sent("anna")).toHaveLength(rig.sendsOnce ? 1 : 2);
        expect(rig.sent("anna").at(-1)?.message).toBe(again);
      });

      test("because we no longer want it may have landed, unless it had not begun", async () => {
        const chat = await started();
        const arrived = rig.hang();
        const giveUp = new AbortController();
        const sending = faultOf(chat.send(rig.place("anna"), { text: "slow" }, "k1", giveUp.signal));
        await arrived;
        giveUp.abort();
        expect(await sending).toMatchObject({ landed: "unknown" });
        const before = chat.send(rig.place("anna"), { text: "not begun" }, "k2", AbortSignal.abort());
        expect(await faultOf(before)).toMatchObject({ landed: "no" });
        expect(rig.sent("anna").map(({ text }) => text)).not.toContain("not begun");
      });

      test("because nobody is there has not landed", async () => {
        const chat = create("nobody");
        expect(await faultOf(send(chat, "hello?"))).toMatchObject({ landed: "no" });
      });
    });

    describe("what is only for show", () => {
      test("shows that we are at work", async () => {
        const chat = await started();
        await chat.typing(rig.place("room"));
        await chat.typing(rig.place("anna"));
        expect([rig.typed("room"), rig.typed("anna"), rig.typed("ben")]).toEqual([1, 1, 0]);
      });

      test("offers the commands in the menu, where there is one", async () => {
        if (!rig.offered) return;
        const chat = await started();
        await chat.offer([
          { name: "stop", description: "Stop this turn" },
          { name: "status", description: "What is going on" },
        ]);
        expect(rig.offered()).toEqual(["stop", "status"]);
      });

      test("never rejects", async () => {
        const chat = create("nobody");
        await chat.typing(rig.place("anna"));
        await chat.offer([{ name: "stop", description: "Stop this turn" }]);
      });
    });
  });
}

/** All of it, with what hangs below: an error in an error may hold an address, and that a token. */
function shape(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  return [name, message, stack, shape(cause), Object.entries(error)];
}

const MARKDOWN = [
  "# Heading one",
  "Some **bold words**, some *slanted words*, ~~struck words~~ and `inline <code>`.",
  "",
  "- first item",
  "- second item with a [named link](https://example.com/a?b=1&c=2)",
  "  - nested item",
  "1. numbered item",
  "",
  "> quoted words",
  "",
  "```ts",
  "if (a < b && c > d) return `${e} **not bold**`;",
  "```",
  "",
  "| name | size |",
  "|------|-----:|",
  "| alpha | 1 |",
  "| beta | 22 |",
  "",
  "The end.",
].join("\n");
const WORDS = [
  ..."Heading one|bold words|slanted words|struck words|inline <code>|first item|second item|named link".split("|"),
  ..."nested item|numbered item|quoted words|if (a < b && c > d) return `${e} **not bold**`;".split("|"),
  ..."name|size|alpha|1|beta|22|The end.".split("|"),
];
const BROKEN: [string, string][] = [
  ["**bold without an end", "bold without an end"],
  ["*a **b* c**", "c"],
  ["```ts\nconst a = 1; // the fence stays open", "const a = 1;"],
  ["[text](no end", "no end"],
  ["[text](javascript:alert(1))", "text"],
  ["`tick", "tick"],
  ["<b>html</i> <script>x</script>", "html"],
  ["_ * ` ~ [ ] ( ) # + - = | { } . ! \\", "{ } . !"],
];
