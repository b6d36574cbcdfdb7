// What users of Hermes would miss, on Telegram, with `hermes gateway` as a real process that is killed in the middle.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type FakeTelegram, startFakeTelegram } from "../fakes/chat/telegram.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { type FakeLlm, type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";
import { startSearxng } from "../fakes/searxng.ts";
import { type FakeTranscription, startTranscription } from "../fakes/transcription.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox", "git");
const [ANNA, BEN, CLEO] = [
  { id: 999, name: "Anna" },
  { id: 1001, name: "Ben" },
  { id: 1002, name: "Cleo" },
] as const;
let llm: FakeLlm;
let telegram: FakeTelegram;
let speech: FakeTranscription;
let place: Place;
beforeEach(async () => {
  [llm, telegram, speech] = await Promise.all([startFakeLlm(), startFakeTelegram(), startTranscription()]);
  place = makePlace({ ...llm.env, ...telegram.env(ANNA.id, BEN.id, CLEO.id) });
  llm.script((request) => ({ text: `Heard: ${lastUser(request).split("\n", 1)[0]}` }));
});
afterEach(async () => {
  place.clear();
  await Promise.all([llm.close(), telegram.close(), speech[Symbol.asyncDispose]()]);
  expect([llm.violations, telegram.violations]).toEqual([[], []]);
});

const lastUser = ({ messages }: LlmRequest) => messages.findLast(({ role }) => role === "user")?.text ?? "";
const speak = (words: string, from: typeof ANNA | typeof BEN = ANNA) =>
  telegram.say({ from, voice: Buffer.from(words) });
const shown = (what: string | RegExp, chat: number = ANNA.id) =>
  telegram.until(() =>
    telegram.sent(chat).find(({ text }) => (typeof what === "string" ? text === what : what.test(text))),
  );
const gateway = async (
  env: NodeJS.ProcessEnv = { STT_OPENAI_BASE_URL: speech.url, VOICE_TOOLS_OPENAI_KEY: "speech-key" },
) => (await place.startGateway(env)).hermes;
it("spoken words are words; the recording is kept; what failed can be tried again", async () => {
  await gateway();
  speak("one");
  await shown("Heard: You said one.");
  const [, path = ""] = /\[attached voice: (\S+) audio\/ogg\]/.exec(lastUser(llm.requests[0] ?? expect.fail())) ?? [];
  expect(readFileSync(path, "utf8")).toBe("one");

  speech.script({ status: 500 }, { status: 500 }, { status: 500 });
  speak("two");
  await shown(/^⚠️ Your voice message could not be transcribed: the transcription server answers 500\. It is kept/);
  telegram.say({ from: ANNA, text: "/transcribe" });
  await shown("Heard: You said two.");
});

it("without anything that transcribes, the sender is told once, and the message goes on as a file", async () => {
  await gateway({});
  speak("one");
  await shown(/^Heard: \[attached voice: /);
  speak("two");
  await telegram.until(() => llm.requests.length === 2 && telegram.sent(ANNA.id).length === 3);
  expect(telegram.sent(ANNA.id).filter(({ text }) => text.startsWith("🔇 I cannot listen"))).toHaveLength(1);
});

boxed.it(
  "kill -9 in the middle of a rollback, a transcription and a search: each is done once, words and files together",
  async () => {
    const { promise: hold, resolve: release } = Promise.withResolvers<void>();
    await using searxng = await startSearxng({
      results: [{ url: "https://a.example/", title: "A", content: "" }],
      hold,
    });
    const work = join(place.dir, "work");
    const made = join(work, "made");
    mkdirSync(work);
    writeFileSync(join(work, "mine"), "mine");
    const voice = { STT_OPENAI_BASE_URL: speech.url, VOICE_TOOLS_OPENAI_KEY: "speech-key" };
    const env = { ...voice, SEARXNG_URL: searxng.url, TERMINAL_CWD: work, HERMES_YOLO_MODE: "1" };
    const say = (text: string, from: typeof ANNA | typeof CLEO = ANNA) => telegram.say({ from, text });
    /** A turn is over a moment after its answer is there. */
    const idle = async () => {
      for (let answers = 0; ; ) {
        answers = telegram.sent(ANNA.id).length;
        say("/status");
        await telegram.until(() => telegram.sent(ANNA.id).length > answers);
        if (telegram.sent(ANNA.id).at(-1)?.text.startsWith("Idle.")) return;
      }
    };
    const first = await gateway(env);

    llm.script({ calls: [{ name: "terminal", args: { command: "echo > made; echo agent >> mine" } }] });
    say("make it");
    await shown("Heard: make it");
    speech.script({ hold });
    speak("something", BEN);
    llm.script({ calls: [{ name: "web_search", args: { query: "something" } }] });
    say("search", CLEO);
    await telegram.until(() => searxng.asked.length === 1 && speech.asked.length === 1);
    await idle();
    say("/rollback 1 now");
    // In the middle of it: git removes files first, then it writes.
    await expect.poll(() => existsSync(made), { timeout: 15_000, interval: 1 }).toBe(false);
    first.kill("SIGKILL");
    await first.exit;
    release();
    await gateway(env);

    await Promise.all([shown("Heard: You said something.", BEN.id), shown("Heard: search", CLEO.id)]);
    say("hello");
    await shown("Heard: hello");
    await expect.poll(() => existsSync(join(work, "mine")) && readFileSync(join(work, "mine"), "utf8")).toBe("mine");
    const users = llm.requests.findLast((request) => lastUser(request) === "hello")?.messages ?? [];
    expect(users.filter(({ role }) => role === "user").map(({ text }) => text)).toEqual(["hello"]);
    const told = /Taken back: make it|in the middle of \/rollback/;
    expect(telegram.sent(ANNA.id).filter(({ text }) => told.test(text))).toHaveLength(1);
    expect([BEN, CLEO].map(({ id }) => telegram.sent(id).length)).toEqual([1, 1]);
  },
);
