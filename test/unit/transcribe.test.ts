// Spoken words as text, by a server and by a command. The fake server is checked with OpenAI's own SDK.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTranscribe } from "../../src/tools/voice/transcribe.ts";
import { startTranscription } from "../fakes/transcription.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes voice-")); // with a space: a command must get it as one word
});
afterEach(() => rmSync(dir, { recursive: true }));

function recording(name = "voice.oga", mime = "audio/ogg") {
  const path = join(dir, name);
  writeFileSync(path, "hello");
  return { path, name, mime };
}
const usual = { enabled: true, model: "whisper-1", timeout: 20 };

describe("a server", () => {
  it("is asked as OpenAI's own SDK asks it", async () => {
    await using server = await startTranscription();
    const sdk = new OpenAI({ baseURL: server.url, apiKey: "speech-key" });
    const file = await toFile(Buffer.from("hello"), "voice.ogg", { type: "audio/ogg" });
    const theirs = await sdk.audio.transcriptions.create({ file, model: "whisper-1", language: "de" });
    const transcribe = openTranscribe({ ...usual, base_url: server.url, api_key: "speech-key", language: "de" }, "");
    expect(await transcribe?.(recording())).toBe(theirs.text);
    expect(server.asked[1]).toEqual(server.asked[0]);
  });

  it("that refuses, says nothing or is not there gives a reason without its address", async () => {
    await using server = await startTranscription();
    const ask = (base_url: string, api_key = "speech-key") =>
      openTranscribe({ ...usual, base_url, api_key }, "")?.(recording());
    await expect(ask(server.url, "wrong")).rejects.toThrow(/^the transcription server answers 401$/);
    server.script(" ");
    await expect(ask(server.url)).rejects.toThrow(/^there are no words in it$/);
    await expect(ask("http://127.0.0.1:1/v1")).rejects.toThrow(/^the transcription server cannot be reached$/);
  });
});

describe("a command", () => {
  const ask = (command: string, timeout = 20) => openTranscribe({ ...usual, command, timeout }, "")?.(recording());

  it("prints the words, or writes them into a file", async () => {
    expect(await ask("echo noise >&2; cat {input_path}")).toBe("hello");
    expect(await ask("tr a-z A-Z < {input_path} > {output_dir}/x.txt; echo noise")).toBe("HELLO");
    expect(await ask("echo {model} > {output_path}")).toBe("whisper-1");
    expect(readdirSync(dir)).toEqual(["voice.oga"]);
  });

  it("that fails or hangs gives a reason", async () => {
    await expect(ask("exit 3")).rejects.toThrow("the transcription command ended with code 3");
    await expect(ask("sleep 60", 0.1)).rejects.toThrow("it took too long");
  });
});

it("nothing, where nothing is set up", () => {
  expect(openTranscribe(usual, "")).toBeNull();
  expect(openTranscribe({ ...usual, enabled: false, api_key: "k" }, "")).toBeNull();
});
