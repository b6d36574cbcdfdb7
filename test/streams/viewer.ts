// Somebody who watches a run over a bad line: cut off after any byte, and back with the id of the last whole frame.
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { KEY } from "../fakes/api.ts";

export type Frame = { id: string; data: { event: string; run_id: string; [field: string]: unknown } };
type Look = {
  frames: Frame[];
  /** How it ended: the server said it was all, said that it leaves, we went, or the line broke. */
  end: "closed" | "leaving" | "cut" | "lost";
};

/** One connection, until it ends or so many bytes have come. */
export function look(url: string, run: string, after: string, bytes: number): Promise<Look> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${KEY}`, ...(after && { "Last-Event-ID": after }) };
    const chunks: Buffer[] = [];
    let left = bytes;
    const over = (end?: Look["end"]) => {
      const text = Buffer.concat(chunks).toString();
      resolve({ frames: framesOf(text), end: end ?? endOf(text) });
    };
    const asked: ClientRequest = request(`${url}/v1/runs/${run}/events`, { headers, agent: false }, (response) => {
      if (response.statusCode === 204) return over("closed");
      if (response.statusCode !== 200) return void refused(response).then(reject);
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk.subarray(0, left));
        left -= chunk.length;
        if (left > 0) return;
        over("cut");
        asked.destroy();
      });
      response.on("end", () => over());
      response.on("error", () => over("lost"));
    });
    asked.on("error", () => over("lost"));
    asked.end();
  });
}

async function refused(response: IncomingMessage): Promise<Error> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return new Error(`refused with ${response.statusCode}: ${Buffer.concat(chunks).toString()}`);
}

/** The whole ones; what was cut in two had not come yet. */
export const framesOf = (text: string): Frame[] =>
  text
    .split("\n\n")
    .slice(0, -1)
    .flatMap((frame) => {
      const [, id, data] = /^(?::[^\n]*\n)*id: ([^\n]*)\ndata: ([^\n]*)$/.exec(frame) ?? [];
      return id !== undefined && data !== undefined ? [{ id, data: JSON.parse(data) }] : [];
    });

function endOf(text: string): Look["end"] {
  if (text.endsWith(": stream closed\n")) return "closed";
  return /^: leaving/m.test(text) ? "leaving" : "lost";
}

export type Line = {
  /** Where the server is, once there is one. */
  url(): Promise<string>;
  /** After how many bytes the line breaks this time; Infinity: it holds. `vain`: so often in a row nothing whole came. */
  bytes(vain: number): number;
  /** It did. */
  broke(): void;
};

/** Comes back until all of it has come. */
export async function watch(line: Line, run: string): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (let vain = 0; ; ) {
    const seen = await look(await line.url(), run, frames.at(-1)?.id ?? "", line.bytes(vain));
    frames.push(...seen.frames);
    vain = seen.frames.length ? 0 : vain + 1;
    if (seen.end === "cut") line.broke();
    if (seen.end === "closed") return frames;
  }
}
