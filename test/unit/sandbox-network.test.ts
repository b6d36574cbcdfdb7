// What a sandboxed command reaches of the network: its session's own, and what the user allows of the world.
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { afterEach, expect, it } from "vitest";
import { sandboxed } from "../fakes/sandboxed.ts";
import { until } from "../fakes/shapes.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox");

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

boxed.describe("the network of a session's sandbox", () => {
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

boxed.describe("the way out of it", () => {
  /** A world in which every name is at one public address, and a server of ours answers there. */
  async function world() {
    const asked: string[] = [];
    const server = createHttp((req, res) => res.end(`${req.method} ${req.headers.host}${req.url}\n`)).listen(
      0,
      "127.0.0.1",
    );
    servers.push(server);
    await once(server, "listening");
    const resolve = async (host: string) => {
      asked.push(host);
      const address = host === "inner.example.org" ? "10.0.0.1" : "93.184.216.34";
      return [{ address, family: 4 }];
    };
    const dial = ({ host }: { host: string }) =>
      connect(portOf(server), host === "93.184.216.34" ? "127.0.0.1" : "0.0.0.0");
    return { asked, resolve, dial };
  }
  const fetch = (url: string) => `curl -sS --max-time 10 ${url}`;

  it("is closed unless it is allowed, and the result says what to do", async () => {
    const { sh } = box.terminal({}, { network: { mode: "ask", allow: [], ...(await world()) } });
    const { text } = await sh(`${fetch("http://example.org/")}; ${fetch("https://other.example.org/")}`);
    expect(text).toContain(
      'no network: refused example.org, other.example.org; call again with network: ["example.org","other.example.org"] to ask the user',
    );
    expect(text).toContain("hermes: no network to example.org: it is not allowed");
    expect(box.logged).toContainEqual({
      event: "network.refused",
      data: expect.objectContaining({ session: "s", host: "example.org", port: 80 }),
    });
  });

  it("leads to the hosts that are allowed, by name, pattern or preset, as plain requests and through tunnels", async () => {
    const { sh } = box.terminal(
      {},
      { network: { mode: "ask", allow: ["example.org", "*.example.net", "packages"], ...(await world()) } },
    );
    expect((await sh(fetch("http://example.org/a?b"))).text).toMatch(/\nGET example.org\/a\?b\n$/);
    expect((await sh(fetch("-p http://EXAMPLE.org./a"))).text).toContain("\nGET ");
    expect((await sh(fetch("-p http://a.b.example.net:8080/x"))).text).toContain("GET a.b.example.net:8080/x");
    expect((await sh(fetch("http://pypi.org/simple"))).text).toContain("GET pypi.org/simple");
    expect((await sh(fetch("-d x=1 http://pypi.org/simple"))).text).toContain("POST pypi.org/simple");
    for (const not of ["example.net", "notexample.org", "example.org.evil.net", "93.184.216.34"])
      expect((await sh(fetch(`http://${not}/`))).text).toContain(`refused ${not}`);
    expect(box.logged).toContainEqual({
      event: "network.allowed",
      data: { session: "s", host: "example.org", port: 80 },
    });
  });

  it("never leads to this machine or its network, whatever is allowed", async () => {
    const { sh } = box.terminal({}, { network: { mode: "on", allow: [], ...(await world()) } });
    expect((await sh(fetch("http://anything.example.com/"))).text).toContain("GET anything.example.com");
    for (const not of ["inner.example.org", "169.254.169.254", "metadata", "10.1.2.3", "[::1]", "127.0.0.1:1"])
      expect((await sh(fetch(`--noproxy '' http://${not}/`))).text).toContain("is not a public host");
    expect((await sh(fetch("-p http://example.org:22/"))).text).toContain("403");
  });

  it("leads to a private host that the configuration names", async () => {
    const { sh } = box.terminal({}, { network: { mode: "ask", allow: ["inner.example.org"], ...(await world()) } });
    expect((await sh(fetch("http://inner.example.org/x"))).text).toContain("GET inner.example.org/x");
  });

  it("opens for one call what that call names, and closes with it", async () => {
    const { sh } = box.terminal({}, { network: { mode: "ask", allow: [], ...(await world()) } });
    const command = `${fetch("http://example.org/")}; echo $http_proxy`;
    const { text } = await sh({ command, network: ["example.org"] });
    expect(text).toContain("GET example.org/");
    const proxy = /http:\/\/hermes:\w+@127\.0\.0\.1:\d+/.exec(text)?.[0] ?? expect.fail(text);
    expect((await sh(fetch("http://example.org/"))).text).toContain("refused example.org");
    expect((await sh(`http_proxy=${proxy} ${fetch("-i http://example.org/")}`)).text).toContain("407");
    expect((await sh({ command: "true", network: ["not a host"] })).text).toContain("network.0: is no host name");
  });

  it("is asked for before the command runs, unless it is allowed already", async () => {
    const { tool, sh } = box.terminal({}, { network: { mode: "ask", allow: ["git", "example.org"] } });
    const gate = (network: string[]) => tool.judge({ command: "true", network }, "s");
    expect(await gate(["example.org", "git", "api.github.com"])).toMatchObject({ gate: "run" });
    expect(await gate(["Example.ORG", "evil.example.com"])).toMatchObject({
      gate: "ask",
      about: { hosts: ["evil.example.com"] },
      choices: ["once", "session", "always", "deny"],
      saves: [{ file: "hosts.allow", rule: "evil.example.com" }], // and no rule for the command, which is harmless
      text: expect.stringContaining("It wants to reach evil.example.com."),
    });
    expect(await gate(["packages"])).toMatchObject({ gate: "ask", text: expect.stringContaining("pypi.org") });
    const off = box.terminal({}, { network: { mode: "off", allow: [] } });
    expect(await off.tool.judge({ command: "true", network: ["example.org"] }, "s")).toMatchObject({
      gate: "refuse",
      result: expect.stringContaining("terminal.network"),
    });
    expect((await sh("true")).ok).toBe(true);
  });

  it("stays open for the session, or for good, as far as the yes went", async () => {
    const network = { mode: "ask" as const, allow: [], ...(await world()) };
    const { sh, tool } = box.terminal({}, { network });
    const command = fetch("http://example.org/");
    const about = { command: "other", cwd: box.workspace, env: "", hosts: ["example.org"] };
    const grants = [{ call: "c", about, by: "me", at: 0 }];
    expect((await sh(command, "s", { grants })).text).toContain("GET example.org/");
    expect(await tool.judge({ command, network: ["example.org"] }, "s", grants)).toMatchObject({ gate: "run" });
    expect((await sh(command)).text).toContain("refused example.org");
    await sh({ command: "true", network: ["example.org"] }, "s", { approved: "always" });
    expect((await sh(command)).text).toContain("GET example.org/");
    expect((await box.terminal({}, { network }).sh(command, "other")).text).toContain("GET example.org/");
  });

  it("is not opened by who goes around the gate", async () => {
    const { tool } = box.terminal({}, { network: { mode: "ask", allow: [] } });
    const call = { session: "s", turn: "t", call: "c", signal: new AbortController().signal };
    const args = { command: "true", network: ["example.org"] };
    expect((await tool.run(args, call)).text).toContain("example.org is not allowed any longer");
  });

  it("asks nothing of what is said without a token, and bounds how many speak at once", async () => {
    const { sh } = box.terminal({}, { network: { mode: "on", allow: [], ...(await world()) } });
    expect((await sh("curl -sS -i --noproxy '' -x http://127.0.0.1:61080 http://example.org/")).text).toContain("407");
    expect((await sh("curl -sS -i -x http://127.0.0.1:61080 https://example.org/")).text).toContain("407");
    expect((await sh("curl -sS -i --noproxy '*' http://127.0.0.1:61080/")).text).toContain("407");
    const many = `python3 -c 'import socket, time
held = [socket.create_connection(("127.0.0.1", 61080)) for i in range(600)]
time.sleep(0.3)
def open(s):
  s.setblocking(False)
  try: return s.recv(1) != b""
  except BlockingIOError: return True
  except OSError: return False
print("open", sum(open(s) for s in held))'`;
    expect(Number(/open (\d+)/.exec((await sh(many)).text)?.[1])).toBeLessThanOrEqual(256);
  });

  it("survives what answers nonsense, and does not fill the log", async () => {
    const odd = await listening({ port: 0, host: "127.0.0.1" });
    odd.removeAllListeners("connection");
    odd.on("connection", (socket) => socket.on("error", () => {}).end("HTTP/1.1 099 Odd\r\nx: \x80\r\n\r\n"));
    const dial = () => connect(portOf(odd), "127.0.0.1");
    const { sh } = box.terminal({}, { network: { mode: "on", allow: [], ...(await world()), dial } });
    await sh(fetch("http://example.org/"));
    await sh(
      `for i in $(seq 300); do printf 'CONNECT h%s.example.org:443 HTTP/1.1\\r\\nproxy-authorization: basic %s\\r\\n\\r\\n' $i $(printf %s $http_proxy | sed 's|http://||; s|@.*||' | tr -d '\\n' | base64 -w0) > /dev/tcp/127.0.0.1/61080; done`,
    );
    expect((await sh("echo alive")).text).toContain("alive");
    expect(box.logged.length).toBeLessThan(250);
  });

  it("is not there at all when the network is off", async () => {
    const { sh } = box.terminal({}, { network: { mode: "off", allow: [], ...(await world()) } });
    expect((await sh("env | grep -i proxy; curl -sS http://example.org/")).text).toContain("Could not resolve host");
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
