// What a sandboxed command reaches of the network: its session's own, and what the user allows of the world.
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { probe, sandboxed } from "../fakes/sandboxed.ts";
import { until } from "../fakes/shapes.ts";

const box = sandboxed();
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listening(at: { port: number; host: string } | { path: string }): Promise<Server> {
  const server = createServer((socket) => socket.end("reached\n")).listen(at);
  servers.push(server);
  await once(server, "listening");
  return server;
}
const portOf = (server: Server) => (server.address() as AddressInfo).port;

describe.skipIf(!probe.usable)("the network of a session's sandbox", () => {
  it("has nothing of this machine: no server on its loopback, no abstract socket", async () => {
    const port = portOf(await listening({ port: 0, host: "127.0.0.1" }));
    const abstract = `hermes-test-${process.pid}`;
    await listening({ path: `\0${abstract}` });
    const { sh } = box.terminal();
    const tcp = await sh(`cat < /dev/tcp/127.0.0.1/${port}`);
    expect(tcp.text).toContain("Connection refused");
    const local = await sh(
      `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\\0${abstract}"); print(s.recv(9))'`,
    );
    expect(local.text).toContain("ConnectionRefusedError");
  });

  it("is the same for all commands of the session, and another for the next session's", async () => {
    const { sh } = box.terminal();
    const serve =
      'echo hello > page; exec python3 -c \'import http.server as h; s = h.ThreadingHTTPServer(("127.0.0.1", 3000), h.SimpleHTTPRequestHandler); print("up", flush=True); s.serve_forever()\'';
    const begun = await sh({ command: serve, background: true });
    expect(begun.text).toContain("running in the background");
    const fetched = await sh("for i in $(seq 100); do curl -sf localhost:3000/page && break; sleep 0.05; done");
    expect(fetched.text).toContain("hello");
    expect((await sh("curl -s localhost:3000/page", "other")).text).not.toContain("hello");
  });

  it("costs no process, and is gone with the terminal", async () => {
    const { sh, close } = box.terminal();
    const name = async (session: string) => (await sh("readlink /proc/self/ns/net", session)).text.split("\n")[1];
    const [first, again, other] = [await name("s"), await name("s"), await name("t")];
    expect([again === first, other === first]).toEqual([true, false]);
    const held = () => openNamespaces().length;
    expect(held()).toBeGreaterThan(0);
    await close();
    await until(() => held() === 0);
  });
});

function openNamespaces(): string[] {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith("net:");
    } catch {
      return false;
    }
  });
}
