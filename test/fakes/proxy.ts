// A wire that can be cut: connections go through to a server until a test says otherwise.
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type Proxy = {
  url: string;
  /** As the server must know it. */
  host: string;
  /** Where new connections go; null: nowhere. */
  to(url: string | null): void;
  /** The next connections are cut after so many bytes of answers. */
  cutAfter(...bytes: number[]): void;
  /** All that are open, now. */
  cut(): void;
  /** Connections so far. */
  count(): number;
  close(): Promise<void>;
};

export async function startProxy(): Promise<Proxy> {
  const open = new Set<Socket>();
  let target: URL | null = null;
  const quotas: number[] = [];
  let count = 0;

  const server = createServer((client) => {
    count++;
    if (!target) return void client.destroy();
    const upstream = connect(Number(target.port), target.hostname);
    let left = quotas.shift() ?? Number.POSITIVE_INFINITY;
    const end = () => {
      client.destroy();
      upstream.destroy();
      open.delete(client);
    };
    open.add(client);
    for (const socket of [client, upstream]) socket.on("error", end).on("close", end);
    client.pipe(upstream);
    upstream.on("data", (bytes: Buffer) => {
      const part = bytes.subarray(0, left);
      left -= part.length;
      client.write(part, () => {
        if (left === 0) end();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    to: (url) => {
      target = url === null ? null : new URL(url);
    },
    cutAfter: (...bytes) => void quotas.push(...bytes),
    cut,
    count: () => count,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}
