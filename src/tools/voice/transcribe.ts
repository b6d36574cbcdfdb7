// Spoken words as text: by a server with OpenAI's `/v1/audio/transcriptions`, or by a command on this machine.
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import * as z from "zod";
import type { Recording, Transcribe } from "../../core/chat.ts";
import { textWithin } from "../../platform/capped.ts";
import { jsonIn } from "../../platform/json.ts";
import { run } from "../shell/exec.ts";

export type TranscriptionSettings = {
  enabled: boolean;
  base_url?: string | undefined;
  api_key?: string | undefined;
  model: string;
  language?: string | undefined;
  command?: string | undefined;
  /** Seconds for one recording. */
  timeout: number;
};

const OPENAI = "https://api.openai.com/v1";
const MOST_BYTES = 1_000_000;
/** What the API takes, by the end of the file's name. */
const ENDINGS = /^\.(?:flac|mp3|mp4|mpeg|mpga|m4a|ogg|wav|webm)$/;
const answered = z.object({ text: z.string() });

/** Null: nothing is configured that could do it. */
export function openTranscribe(settings: TranscriptionSettings, owner: string): Transcribe | null {
  const { enabled, base_url, api_key, command, timeout } = settings;
  if (!enabled || !(base_url || api_key || command)) return null;
  return async (recording) => {
    const text = await (command
      ? byCommand(command, recording, settings, owner)
      : byServer(recording, settings, AbortSignal.timeout(timeout * 1_000)));
    if (!text.trim()) throw new Error("there are no words in it");
    return text.trim();
  };
}

async function byServer(recording: Recording, settings: TranscriptionSettings, signal: AbortSignal): Promise<string> {
  const { base_url = OPENAI, api_key, model, language } = settings;
  const form = new FormData();
  form.set("file", new Blob([await readFile(recording.path)], { type: recording.mime }), fileName(recording));
  form.set("model", model);
  form.set("response_format", "json");
  if (language) form.set("language", language);
  const headers = api_key ? { Authorization: `Bearer ${api_key}` } : {};
  const address = `${base_url.replace(/\/+$/, "")}/audio/transcriptions`;
  const how = { method: "POST", headers, body: form, redirect: "error", signal } as const;
  const answer = await fetch(address, how).catch(() => {
    // Its own words may have the address in them.
    throw new Error(signal.aborted ? LATE : "the transcription server cannot be reached");
  });
  const body = await textWithin(answer.body, MOST_BYTES);
  if (!answer.ok) throw new Error(`the transcription server answers ${answer.status}`);
  const { data } = answered.safeParse(jsonIn(body));
  if (!data) throw new Error("the transcription server answers with something else than a text");
  return data.text;
}

const LATE = "it took too long";

/** Servers look at the ending; Telegram's is `.oga`. */
const fileName = ({ name, mime }: Recording) =>
  ENDINGS.test(extname(name).toLowerCase())
    ? name
    : `voice.${mime.includes("ogg") ? "ogg" : mime.split(/[/;]/)[1] || "ogg"}`;

/** The text is what it prints, or, where the command names an `{output_dir}` or `{output_path}`, the `.txt` file that it writes. */
async function byCommand(
  command: string,
  { path }: Recording,
  { model, language = "", timeout }: TranscriptionSettings,
  owner: string,
): Promise<string> {
  const dir = await mkdtemp(join(dirname(path), "transcript-"));
  try {
    const values: Record<string, string> = {
      input_path: path,
      output_dir: dir,
      output_path: join(dir, "words.txt"),
      language,
      model,
    };
    const filled = command.replaceAll(/\{(\w+)\}/g, (whole, name: string) => quoted(values[name] ?? whole));
    const { code, output, timedOut } = await run(`{ ${filled}\n} 2>/dev/null`, {
      cwd: dir,
      timeoutMs: timeout * 1_000,
      marker: randomBytes(8).toString("hex"),
      owner,
      capBytes: MOST_BYTES,
    });
    if (timedOut) throw new Error(LATE);
    if (code !== 0) throw new Error(`the transcription command ended with code ${code}`);
    if (!/\{output_(?:dir|path)\}/.test(command)) return output;
    const file = (await readdir(dir)).find((name) => name.endsWith(".txt"));
    if (!file) throw new Error("the transcription command wrote no .txt file");
    return await readFile(join(dir, file), "utf8");
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const quoted = (text: string) => (/^[\w./-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
