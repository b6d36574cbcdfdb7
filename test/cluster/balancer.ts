// A small load balancer: each request goes to the next node that is up. What a node has not begun to answer is sent to another one
// only where no byte of it can have arrived; the connections of a node that went down are cut.
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export type Balancer = { url: string; close(): Promise<void> };

const LOOK_MS = 250;
/** A node that stands still answers nothing. */
const ANSWER_MS = 1_000;

/** `nodes`: where they are now; port 0 gives each start another address. */
export async function startBalancer(nodes: () => readonly string[]): Promise<Balancer> {
  const up = new Set<string>();
  const open = new Map<string, Set<Socket>>();
  let turn = 0;

  async function look(): Promise<void> {
    const now = nodes();
    for (const known of up) if (!now.includes(known)) down(known);
    await Promise.all(
      now.map(async (node) => {
        const ok = await fetch(`${node}/health`, { signal: AbortSignal.timeout(ANSWER_MS) }).then(
          async ({ ok: fine, body }) => {
            await body?.cancel();
            return fine;
          },
          () => false,
        );
        if (ok) up.add(node);
        else down(node);
      }),
    );
  }
  function down(node: string): void {
    up.delete(node);
    for (const socket of open.get(node) ?? []) socket.destroy();
  }
  const closed = new AbortController();
  const watching = (async () => {
    while (!closed.signal.aborted) {
      await look();
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  })();

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    for (let tries = 0; tries < 3; tries++) {
      const live = [...up];
      const node = live[turn++ % live.length];
      if (!node) break;
      if (await forward(node, incoming, body, outgoing)) return;
      down(node);
    }
    outgoing.writeHead(503, { "Content-Type": "application/json", "Retry-After": "1" });
    outgoing.end(JSON.stringify({ error: { message: "No node is up.", type: "", param: null, code: "no_node" } }));
  }

  /** False: it refused the connection, so nothing has arrived. */
  function forward(node: string, incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse): Promise<boolean> {
    return new Promise((resolve) => {
      const { method, url: path = "/", headers } = incoming;
      const asked = request(`${node}${path}`, {
        method,
        headers: { ...headers, host: new URL(node).host },
        agent: false,
      });
      const sockets = open.get(node) ?? new Set();
      open.set(node, sockets);
      asked.on("socket", (socket) => {
        sockets.add(socket);
        socket.on("close", () => sockets.delete(socket));
      });
      asked.on("response", (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        outgoing.flushHeaders();
        answer.on("error", () => outgoing.destroy());
        answer.on("close", () => (answer.complete ? outgoing.end() : outgoing.destroy()));
        answer.pipe(outgoing, { end: false });
        resolve(true);
      });
      asked.on("error", (error) => {
        if ("code" in error && error.code === "ECONNREFUSED") return resolve(false);
        outgoing.destroy();
        resolve(true);
      });
      outgoing.on("close", () => asked.destroy());
      asked.end(body);
    });
  }

  const server = createServer((incoming, outgoing) => void serve(incoming, outgoing).catch(() => outgoing.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      closed.abort();
      await watching;
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
