// Slack's Socket Mode: envelopes that want to be acknowledged in time, else come again, and connections that end.
import { randomBytes, randomUUID } from "node:crypto";
import { z } from "zod";
import type { Params } from "./body.ts";
import type { ChatServer } from "./server.ts";
import { type Line, startLines } from "./sockets.ts";

type Kind = "events_api" | "interactive" | "slash_commands";
type Reason = "warning" | "refresh_requested" | "link_disabled";

export type Delivery = {
  kind: Kind;
  payload: Params;
  /** How often it was sent. */
  attempts: number;
  state: "waiting" | "acknowledged" | "lost";
  /** With what came along; rejects never: a lost one stays open. */
  acknowledged: Promise<Params>;
};

export type SocketMode = {
  deliveries: Delivery[];
  /** Connections that are open now, silent ones too. */
  readonly connections: number;
  disconnect(reason: Reason): void;
  silence(): void;
  cut(): void;
  /** The last events come once more, although they were acknowledged. */
  redeliver(count?: number): void;
};

type Kept = Delivery & {
  line: Line | undefined;
  timer: NodeJS.Timeout | undefined;
  resolve(payload: Params): void;
};

/** The first and three more, as for the Events API. */
const MOST_ATTEMPTS = 4;
const ack = z.strictObject({ envelope_id: z.string(), payload: z.record(z.string(), z.unknown()).optional() });

export function startSocketMode(server: ChatServer, options: { appId: string; ackMs: number; pingMs: number }) {
  const deliveries: Kept[] = [];
  const envelopes = new Map<string, Kept>();
  const tickets = new Set<string>();
  const pings = new Map<Line, NodeJS.Timeout>();
  let turn = 0;
  let closed = false;

  const lines = startLines(server.http, {
    opened: (line, url) => {
      if (!tickets.delete(url.searchParams.get("ticket") ?? "")) {
        server.violations.push("socket: opened with an address that was used before, or never given");
        return line.close(1008, "invalid ticket");
      }
      pings.set(
        line,
        setInterval(() => line.ping(), options.pingMs),
      );
      line.send({
        type: "hello",
        num_connections: lines.open.size,
        debug_info: { host: "applink-fake", build_number: 1, approximate_connection_time: 18_060 },
        connection_info: { app_id: options.appId },
      });
      for (const one of deliveries) if (one.state === "waiting" && !one.line) send(one);
      server.changed();
    },
    heard: (_line, value) => {
      const read = ack.safeParse(value);
      const one = read.success ? envelopes.get(read.data.envelope_id) : undefined;
      if (!read.success || !one) {
        server.violations.push(`socket: ${JSON.stringify(value)} acknowledges nothing that was sent`);
        return;
      }
      const { payload = {} } = read.data;
      if (one.kind === "events_api" && Object.keys(payload).length > 0)
        server.violations.push("socket: an event takes no payload with its acknowledgement");
      envelopes.delete(read.data.envelope_id);
      settle(one, "acknowledged");
      one.resolve(payload);
    },
    ended: (line) => {
      clearInterval(pings.get(line));
      pings.delete(line);
      if (closed) return;
      for (const one of deliveries) if (one.line === line && one.state === "waiting") retry(one);
      server.changed();
    },
  });

  function deliver(kind: Kind, payload: Params): Kept {
    const acknowledged = Promise.withResolvers<Params>();
    const one: Kept = {
      kind,
      payload,
      attempts: 0,
      state: "waiting",
      acknowledged: acknowledged.promise,
      line: undefined,
      timer: undefined,
      resolve: acknowledged.resolve,
    };
    deliveries.push(one);
    send(one);
    return one;
  }

  /** Slack takes any of the open connections; one that is dead it takes for open. */
  function send(one: Kept): void {
    const open = [...lines.open];
    const line = open[turn++ % open.length];
    one.line = line;
    if (!line) {
      // Nobody waits for a person who pressed a button.
      if (one.kind !== "events_api") settle(one, "lost");
      return;
    }
    one.attempts += 1;
    const envelope_id = randomUUID();
    envelopes.set(envelope_id, one);
    const again = one.attempts > 1;
    const retries = { retry_attempt: one.attempts - 1, retry_reason: again ? "timeout" : "" };
    line.send({
      envelope_id,
      type: one.kind,
      payload: one.payload,
      accepts_response_payload: one.kind === "slash_commands",
      ...(one.kind === "events_api" && retries),
    });
    one.timer = setTimeout(() => retry(one), options.ackMs);
    server.changed();
  }

  function retry(one: Kept): void {
    clearTimeout(one.timer);
    if (one.kind !== "events_api" || one.attempts >= MOST_ATTEMPTS) settle(one, "lost");
    else send(one);
  }

  function settle(one: Kept, state: "acknowledged" | "lost"): void {
    clearTimeout(one.timer);
    one.state = state;
    server.changed();
  }

  return {
    deliveries,
    deliver,
    get connections() {
      return lines.open.size;
    },
    url: () => {
      const ticket = randomBytes(18).toString("hex");
      tickets.add(ticket);
      return `ws://127.0.0.1:${server.port}/link/?ticket=${ticket}&app_id=${options.appId}`;
    },
    disconnect: (reason: Reason) => {
      for (const line of lines.open) {
        line.send({ type: "disconnect", reason, debug_info: { host: "applink-fake" } });
        if (reason !== "warning") line.close(1000);
      }
    },
    silence: () => {
      for (const line of lines.open) line.silence();
    },
    cut: () => {
      for (const line of lines.open) line.cut();
    },
    redeliver: (count = 1) => {
      for (const one of deliveries.filter(({ kind }) => kind === "events_api").slice(-count)) {
        one.state = "waiting";
        send(one);
      }
    },
    close: () => {
      closed = true;
      for (const one of deliveries) clearTimeout(one.timer);
      lines.close();
    },
  };
}
