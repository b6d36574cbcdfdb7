// A server that transcribes speech, by the published rules of OpenAI's `POST /v1/audio/transcriptions`
// (https://platform.openai.com/docs/api-reference/audio/createTranscription): what the API would refuse is refused.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

const FIELDS = new Set(
  "file model language prompt response_format temperature stream include[] timestamp_granularities[] chunking_strategy".split(
    " ",
  ),
);
const ENDINGS = /\.(?:flac|mp3|mp4|mpeg|mpga|m4a|ogg|wav|webm)$/;
const MOST_BYTES = 25 * 2 ** 20;

export type FakeTranscription = AsyncDisposable & {
  /** With its `/v1`. */
  url: string;
  /** What was sent: the model, and the bytes as text. */
  asked: { model: string; language: string | null; heard: string }[];
  /** The next requests are answered like this, in order; without one, with the words `You said` and the bytes. */
  script(...answers: (string | { status: number } | { hold: Promise<unknown> })[]): void;
  next(): Promise<unknown>;
};

export async function startTranscription(key = "speech-key"): Promise<FakeTranscription> {
  const asked: FakeTranscription["asked"] = [];
  const scripted: Parameters<FakeTranscription["script"]> = [];
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    const answer = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const refuse = (status: number, message: string) =>
      answer(status, { error: { message, type: "invalid_request_error", param: null, code: null } });
    void (async () => {
      const body = new Uint8Array(await buffer(request));
      const { authorization = "", "content-type": type = "" } = request.headers;
      if (request.url !== "/v1/audio/transcriptions" || request.method !== "POST")
        return refuse(404, "Unknown request URL");
      if (authorization !== `Bearer ${key}`) return refuse(401, "Incorrect API key provided");
      const form = await new Response(body, { headers: { "content-type": type } }).formData().catch(() => null);
      if (!form) return refuse(400, "Could not parse multipart form");
      const [file, model, format] = [form.get("file"), form.get("model"), form.get("response_format") ?? "json"];
      const language = form.get("language");
      const wrong = [...form.keys()].find((name) => !FIELDS.has(name));
      if (wrong) return refuse(400, `Unrecognized request argument supplied: ${wrong}`);
      if (!(file instanceof File) || file.size === 0) return refuse(400, "Audio file is missing");
      if (!ENDINGS.test(file.name)) return refuse(400, "Invalid file format");
      if (file.size > MOST_BYTES) return refuse(413, "Maximum content size limit exceeded");
      if (typeof model !== "string" || !model) return refuse(400, "you must provide a model parameter");
      if (format !== "json") return refuse(400, "This fake speaks JSON only");
      if (language !== null && !(typeof language === "string" && /^[a-z]{2}$/.test(language)))
        return refuse(400, "Invalid language");
      const heard = await file.text();
      asked.push({ model, language, heard });
      waiting.shift()?.();
      const next = scripted.shift() ?? `You said ${heard}.`;
      if (typeof next === "string") return answer(200, { text: next });
      if ("status" in next) return refuse(next.status, "scripted");
      await next.hold;
      answer(200, { text: `You said ${heard}.` });
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    asked,
    script: (...answers) => void scripted.push(...answers),
    next: () => new Promise<void>((resolve) => waiting.push(resolve)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
