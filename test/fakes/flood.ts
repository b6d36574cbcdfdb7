// A server that never stops sending, as fast as it is read. It gives up by itself after so much, so that a reader without a
// limit fails its test instead of the machine.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createGzip } from "node:zlib";

const ENOUGH = 600_000_000;

type Flood = {
  status?: number;
  headers?: Record<string, string>;
  /** Before the flood. */
  head?: string;
  piece: string | Buffer;
  gzip?: boolean;
};
export type Flooding = {
  url: string;
  /** Bytes that were made for the last answer, before they were compressed; once its connection is over. */
  sent(): Promise<number>;
  close(): Promise<void>;
};

export async function startFlood(answer: (request: IncomingMessage) => Flood): Promise<Flooding> {
  let last = Promise.withResolvers<number>();
  const server: Server = createServer((request, response) => {
    request.resume();
    last = Promise.withResolvers();
    pour(response, answer(request), last.resolve);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    sent: () => last.promise,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function pour(response: ServerResponse, flood: Flood, over: (sent: number) => void): void {
  const { status = 200, headers = {}, head = "", piece, gzip = false } = flood;
  response.writeHead(status, { ...headers, ...(gzip && { "content-encoding": "gzip" }) });
  const zip = gzip ? createGzip() : null;
  zip?.pipe(response);
  const out = zip ?? response;
  const bytes = Buffer.isBuffer(piece) ? piece : Buffer.from(piece.repeat(Math.ceil(65_536 / piece.length)));
  let sent = 0;
  const more = () => {
    for (let room = true; room && !response.destroyed && !out.destroyed; ) {
      if (sent >= ENOUGH) {
        out.end();
        return;
      }
      room = out.write(bytes);
      sent += bytes.length;
    }
  };
  out.on("drain", more);
  response.on("close", () => {
    zip?.destroy();
    over(sent);
  });
  if (head) out.write(head);
  more();
}
