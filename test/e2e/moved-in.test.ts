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
const ANNA = { id: 999, name: "Anna" };
let llm: FakeLlm;
let telegram: FakeTelegram;
let speech: FakeTranscription;
let place: Place;
beforeEach(async () => {
  [llm, telegram, speech] = await Promise.all([startFakeLlm(), startFakeTelegram(), startTranscription()]);
  place = makePlace({
    OPENAI_BASE_URL: llm.url,
    OPENAI_API_KEY: "k",
    LLM_MODEL: "fake-model",
    TELEGRAM_BOT_TOKEN: telegram.token,
    TELEGRAM_API_ROOT: telegram.apiRoot,
    TELEGRAM_ALLOWED_USERS: "999",
  });
  llm.script((request) => ({ text: `Heard: ${lastUser(request).split("\n", 1)[0]}` }));
});
afterEach(async () => {
  place.clear();
  await Promise.all([llm.close(), telegram.close(), speech[Symbol.asyncDispose]()]);
  expect([llm.violations, telegram.violations]).toEqual([[], []]);
});

const lastUser = ({ messages }: LlmRequest) => messages.findLast(({ role }) => role === "user")?.text ?? "";
const speak = (words: string) => telegram.say({ from: ANNA, voice: Buffer.from(words) });
const shown = (what: string | RegExp) =>
  telegram.until(() =>
    telegram.sent(ANNA.id).find(({ text }) => (typeof what === "string" ? text === what : what.test(text))),
  );
async function gateway(
  env: NodeJS.ProcessEnv = { STT_OPENAI_BASE_URL: speech.url, VOICE_TOOLS_OPENAI_KEY: "speech-key" },
) {
  const hermes = place.start(["gateway", "--port", "0"], env);
  await hermes.prints(/^hermes gateway ready on /m);
  return hermes;
}
async function killed(hermes: Awaited<ReturnType<typeof gateway>>) {
  hermes.kill("SIGKILL");
  await hermes.exit;
}

it("spoken words are words; the recording is kept; what failed can be tried again; a kill neither loses nor doubles them", async () => {
  const first = await gateway();
  speak("one");
  await shown("Heard: You said one.");
  const [, path = ""] = /\[attached voice: (\S+) audio\/ogg\]/.exec(lastUser(llm.requests[0] ?? expect.fail())) ?? [];
  expect(readFileSync(path, "utf8")).toBe("one");

  speech.script({ status: 500 }, { status: 500 }, { status: 500 });
  speak("two");
  await shown(/^⚠️ Your voice message could not be transcribed: the transcription server answers 500\. It is kept/);
  telegram.say({ from: ANNA, text: "/transcribe" });
  await shown("Heard: You said two.");

  const { promise: hold, resolve: release } = Promise.withResolvers<void>();
  speech.script({ hold });
  const asked = speech.next();
  speak("three");
  await asked;
  await killed(first);
  release();
  await gateway();
  await shown("Heard: You said three.");
  telegram.say({ from: ANNA, text: "four" });
  await shown("Heard: four");
  expect(llm.requests.map((request) => lastUser(request).split("\n", 1)[0])).toEqual([
    "You said one.",
    "You said two.",
    "You said three.",
    "four",
  ]);
});

it("where nothing is set up, the sender is told once, and the message goes on as a file", async () => {
  await gateway({});
  speak("one");
  await shown(/^Heard: \[attached voice: /);
  speak("two");
  await telegram.until(() => llm.requests.length === 2 && telegram.sent(ANNA.id).length === 3);
  expect(telegram.sent(ANNA.id).filter(({ text }) => text.startsWith("🔇 I cannot listen"))).toHaveLength(1);
});

boxed.it(
  "a search that was cut is made again; a rollback that was cut has brought back words and files, and is not made twice",
  async () => {
    const { promise: hold, resolve: release } = Promise.withResolvers<void>();
    await using searxng = await startSearxng({
      results: [{ url: "https://a.example/", title: "A", content: "" }],
      hold,
    });
    const work = join(place.dir, "work");
    mkdirSync(work);
    writeFileSync(join(work, "mine"), "mine");
    const env = { SEARXNG_URL: searxng.url, TERMINAL_CWD: work, HERMES_YOLO_MODE: "1" };
    const say = (text: string) => telegram.say({ from: ANNA, text });

    llm.script({ calls: [{ name: "web_search", args: { query: "something" } }] });
    const first = await gateway(env);
    say("search");
    await expect.poll(() => searxng.asked.length, { timeout: 10_000 }).toBe(1);
    await killed(first);
    release();
    const second = await gateway(env);
    await shown("Heard: search");
    expect(searxng.asked).toHaveLength(2);

    llm.script({ calls: [{ name: "terminal", args: { command: "echo > made; echo agent >> mine" } }] });
    say("make it");
    await shown("Heard: make it");
    expect(existsSync(join(work, "made"))).toBe(true);
    // The turn is over a moment after its answer is there.
    const previewed = () => telegram.sent(ANNA.id).some(({ text }) => text.includes("Files to remove: made"));
    const preview = () => previewed() || (say("/rollback 1"), false);
    await expect.poll(preview, { timeout: 10_000, interval: 500 }).toBe(true);
    say("/rollback 1 now");
    await expect.poll(() => existsSync(join(work, "made")), { timeout: 10_000, interval: 1 }).toBe(false);
    await killed(second);
    await gateway(env);
    say("hello");
    await shown("Heard: hello");
    expect(readFileSync(join(work, "mine"), "utf8")).toBe("mine");
    const users = llm.requests.at(-1)?.messages.filter(({ role }) => role === "user") ?? [];
    expect(users.map(({ text }) => text)).toEqual(["search", "hello"]);
    expect(
      telegram.sent(ANNA.id).filter(({ text }) => /Taken back: make it|in the middle of \/rollback/.test(text)),
    ).toHaveLength(1);
  },
);
