// The WebSocket side of a platform: JSON both ways, and lines that go dead without a word.
import type { Server } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { parsed } from "../llm/validation.ts";

export type Line = {
  send(value: unknown): void;
  /** Says goodbye with a code. */
  close(code: number, reason?: string): void;
  /** Ends without a goodbye, as when a router forgets the connection. */
  cut(): void;
  /** Nothing is sent, read, answered or closed from now on: no pong, no goodbye. TCP stays up. */
  silence(): void;
  ping(): void;
  readonly silent: boolean;
};

type Lines = {
  open: Set<Line>;
  close(): void;
};

type Ears = {
  opened(line: Line, url: URL): void;
  /** Undefined: what came was no JSON. */
  heard(line: Line, value: unknown): void;
  /** Once, however it ended. 1006: without a goodbye. */
  ended(line: Line, code: number): void;
};

export function startLines(http: Server, ears: Ears): Lines {
  const server = new WebSocketServer({ noServer: true });
  const open = new Set<Line>();
  http.on("upgrade", (request, socket, head) => {
    server.handleUpgrade(request, socket, head, (ws) => {
      const line = lineOf(ws, socket, (code) => {
        if (open.delete(line)) ears.ended(line, code);
      });
      open.add(line);
      ws.on("message", (data) => {
        if (!line.silent) ears.heard(line, parsed((data as Buffer).toString()));
      });
      ears.opened(line, new URL(request.url ?? "/", "ws://127.0.0.1"));
    });
  });
  return {
    open,
    close: () => {
      for (const line of open) line.cut();
      server.close();
    },
  };
}

function lineOf(ws: WebSocket, socket: Duplex, ended: (code: number) => void): Line {
  let silent = false;
  ws.on("close", (code) => ended(code));
  ws.on("error", () => {});
  return {
    send: (value) => {
      if (!silent && ws.readyState === ws.OPEN) ws.send(JSON.stringify(value));
    },
    close: (code, reason) => {
      if (!silent) ws.close(code, reason);
    },
    cut: () => {
      ws.terminate();
      ended(1006);
    },
    silence: () => {
      silent = true;
      // Read on, into nothing: else the end of the connection would not be seen either.
      socket.removeAllListeners("data").on("data", () => {});
    },
    ping: () => {
      if (!silent && ws.readyState === ws.OPEN) ws.ping();
    },
    get silent() {
      return silent;
    },
  };
}
