// Somebody outside who is told things by POST, on a real socket: each letter lies there until the test answers it.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export type Letter = {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  answer(status?: number, headers?: Record<string, string>): void;
  /** It was read, and the answer is lost. */
  cut(): void;
  /** Whoever sent it does not wait any more. */
  left: Promise<void>;
};
export type Receiver = {
  url: string;
  all: readonly Letter[];
  /** Hands out each letter once, in the order in which they came; waits for it if need be. */
  next(): Promise<Letter>;
  close(): Promise<void>;
};

/** `answer`: how every letter is answered at once. */
export async function startReceiver({ answer }: { answer?: number } = {}): Promise<Receiver> {
  const all: Letter[] = [];
  const waiting: ((letter: Letter) => void)[] = [];
  let given = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const letter: Letter = {
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
        answer: (status = 200, headers = {}) => void response.writeHead(status, headers).end("{}"),
        cut: () => void request.socket.destroy(),
        left: new Promise((resolve) => response.on("close", () => resolve())),
      };
      all.push(letter);
      if (answer !== undefined) letter.answer(answer);
      const wake = waiting.shift();
      if (!wake) return;
      given++;
      wake(letter);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    all,
    next() {
      const letter = all[given];
      if (!letter) return new Promise((resolve) => waiting.push(resolve));
      given++;
      return Promise.resolve(letter);
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
