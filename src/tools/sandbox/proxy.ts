// The way out of the sandbox: an HTTP proxy (CONNECT and plain requests) that lets a command reach its allowed hosts
// and no others. It resolves names itself and connects only to public addresses, like the web tool.
import { randomBytes } from "node:crypto";
import { type ClientRequest, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { connect, type Server, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { messageOf } from "../../core/errors.ts";
import type { Log } from "../../core/ports.ts";
import { addressesOf, type WebOptions } from "../web/fetch.ts";
import { hostName } from "./hosts.ts";

/** What one command may reach. */
type Pass = {
  session: string;
  allows(host: string, port: number): boolean;
  /** Hosts that may be reached although they are not public: the user's configuration names them. */
  inner: readonly string[];
};
export type ProxyOptions = {
  log: Log;
  resolve?: WebOptions["resolve"];
  dial?: (address: { host: string; port: number }) => Socket;
};

const MOST_SOCKETS = 256;
const MOST_NOTED = 200;
const MOST_NAMED = 20;
const DIAL_MS = 20_000;
/** Closes a connection without traffic. */
const IDLE_MS = 10 * 60_000;
const HOP_BY_HOP = /^(?:proxy-.*|connection|keep-alive|te|trailer|upgrade)$/i;

type OpenPass = Pass & { noted: Set<string>; refused: Set<string>; sockets: Set<Duplex> };
type ProxyTarget = { host: string; port: number };

export function createProxy({ log, resolve, dial = connect }: ProxyOptions) {
  const ways = new Map<string, OpenPass>();
  const http = createServer({ maxHeaderSize: 32_768 });
  http.timeout = DIAL_MS; // until it has said which command it belongs to
  const incoming = new Set<Socket>();
  http.on("connect", (req, socket, head) => void tunnel(req, socket, head).catch(() => socket.destroy()));
  http.on("request", (req, res) => void forward(req, res).catch(() => res.destroy()));
  http.on("clientError", (_, socket) => socket.destroy());

  async function tunnel(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => {});
    const way = wayOf(req);
    const target = targetOf(`https://${req.url}`, 443);
    if (!way || !target) {
      socket.end(way ? BAD_REQUEST : UNKNOWN);
      return;
    }
    hold(way, socket);
    const upstream = await dialled(way, target);
    if (typeof upstream === "string") {
      socket.end(`HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${upstream}\n`);
      return;
    }
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (head.length > 0) upstream.write(head);
    pipeline(socket, upstream, socket, () => {});
  }

  async function forward(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const way = wayOf(req);
    const url = URL.parse(req.url ?? "");
    const target = url?.protocol === "http:" ? targetOf(url.href, 80) : null;
    if (!way || !url || !target) {
      if (way) res.writeHead(400).end("hermes: this is a proxy\n");
      else res.writeHead(407, { "proxy-authenticate": REALM }).end();
      return;
    }
    hold(way, req.socket);
    const upstream = await dialled(way, target);
    if (typeof upstream === "string") {
      res.writeHead(403, { "content-type": "text/plain" }).end(`${upstream}\n`);
      return;
    }
    const headers = Object.fromEntries(Object.entries(req.headers).filter(([name]) => !HOP_BY_HOP.test(name)));
    const { method } = req;
    const path = `${url.pathname}${url.search}`;
    const out = request({ method, path, headers: { ...headers, host: url.host }, createConnection: () => upstream });
    pipeline(req, out, () => {});
    const answer = await answerOf(out);
    const kept = Object.fromEntries(Object.entries(answer.headers).filter(([name]) => !HOP_BY_HOP.test(name)));
    res.writeHead(answer.statusCode ?? 502, kept); // throws if the answer is malformed
    pipeline(answer, res, () => upstream.destroy());
  }

  /** A connection, or the reason why there is none. */
  async function dialled(way: OpenPass, { host, port }: ProxyTarget): Promise<Socket | string> {
    const refuse = (why: string) => {
      note(way, "network.refused", { host, port, why });
      if (way.refused.size < MOST_NAMED) way.refused.add(host);
      return `hermes: no network to ${host}: ${why}`;
    };
    if (!way.allows(host, port)) return refuse("it is not allowed");
    if (way.sockets.size > MOST_SOCKETS) return refuse(`more than ${MOST_SOCKETS} connections at once`);
    try {
      const url = new URL(`https://${host.includes(":") ? `[${host}]` : host}:${port}`);
      const options = { allowHosts: way.inner, ...(resolve && { resolve }) };
      const [address] = await addressesOf(url, options, AbortSignal.timeout(DIAL_MS));
      const socket = await connected(dial({ host: address?.address ?? "", port }));
      note(way, "network.allowed", { host, port });
      hold(way, socket);
      return socket;
    } catch (error) {
      note(way, "network.failed", { host, port, why: messageOf(error) });
      return `hermes: ${host} could not be reached: ${messageOf(error)}`;
    }
  }

  /** Each message once, and a limited number: a command could fill the disk with them. */
  function note({ session, noted }: OpenPass, event: string, data: { host: string; port: number; why?: string }): void {
    const key = `${event} ${data.host}:${data.port}`;
    if (noted.has(key) || noted.size >= MOST_NOTED) return;
    noted.add(key);
    log("info", event, { session, ...data });
  }

  const wayOf = ({ headers }: IncomingMessage): OpenPass | undefined => {
    const [, given = ""] = /^basic ([\w+/=]{1,200})$/i.exec(headers["proxy-authorization"] ?? "") ?? [];
    return ways.get(Buffer.from(given, "base64").toString().split(":")[1] ?? "");
  };

  /** Closes the socket with its command; at once if the command has already ended. */
  function hold(way: OpenPass, socket: Duplex): void {
    if (![...ways.values()].includes(way)) socket.destroy();
    if ("setTimeout" in socket && typeof socket.setTimeout === "function")
      socket.setTimeout(IDLE_MS, () => socket.destroy());
    way.sockets.add(socket);
    socket.once("close", () => way.sockets.delete(socket));
  }

  /** `token`: part of the proxy's address; requests without it are refused. */
  function open(pass: Pass) {
    const token = randomBytes(16).toString("hex");
    const way: OpenPass = { ...pass, noted: new Set(), refused: new Set(), sockets: new Set() };
    ways.set(token, way);
    const close = () => {
      ways.delete(token);
      for (const socket of way.sockets) socket.destroy();
    };
    return { token, refused: () => [...way.refused], close };
  }

  return {
    open,
    serve: (server: Server) => {
      server.maxConnections = MOST_SOCKETS;
      server.on("connection", (socket) => {
        incoming.add(socket.once("close", () => incoming.delete(socket)));
        http.emit("connection", socket);
      });
    },
    close: () => {
      for (const way of ways.values()) for (const socket of way.sockets) socket.destroy();
      for (const socket of incoming) socket.destroy();
      ways.clear();
    },
  };
}

const REALM = 'Basic realm="hermes"';
const UNKNOWN = `HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: ${REALM}\r\ncontent-length: 0\r\n\r\n`;
const BAD_REQUEST = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";

function targetOf(text: string, usualPort: number): ProxyTarget | null {
  const url = URL.parse(text);
  const host = hostName(url?.hostname ?? "");
  return url && host ? { host, port: Number(url.port || usualPort) } : null;
}

const connected = (socket: Socket) =>
  new Promise<Socket>((resolve, reject) => {
    const timer = setTimeout(() => socket.destroy(new Error("it did not answer")), DIAL_MS);
    socket.once("close", () => clearTimeout(timer));
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", reject);
      socket.on("error", () => {});
      resolve(socket);
    });
    socket.once("error", reject);
  });

const answerOf = (out: ClientRequest) =>
  new Promise<IncomingMessage>((resolve, reject) => void out.on("error", reject).once("response", resolve));

/** The variables by which programs find the proxy, in upper and lower case. */
export function proxyEnv(port: number, token: string): Record<string, string> {
  const at = `http://hermes:${token}@127.0.0.1:${port}`;
  const here = "localhost,127.0.0.1,::1";
  const set = { http_proxy: at, https_proxy: at, all_proxy: at, no_proxy: here };
  const upper = Object.fromEntries(Object.entries(set).map(([name, value]) => [name.toUpperCase(), value]));
  return { ...set, ...upper, NODE_USE_ENV_PROXY: "1" };
}
