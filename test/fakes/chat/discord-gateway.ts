// Discord's gateway: one session per identify, numbered events, replay on resume, and the ways a connection ends.
import { randomBytes } from "node:crypto";
import { z } from "zod";
import type { Params } from "./body.ts";
import type { ChatServer } from "./server.ts";
import { type Line, startLines } from "./sockets.ts";

type Session = {
  id: string;
  intents: number;
  /** How often it was taken up again. */
  resumes: number;
  /** No longer to be resumed. */
  over: boolean;
};

export type Gateway = {
  sessions: Session[];
  /** What each session hears of it is asked for, with its intents; undefined: nothing. */
  dispatch(type: string, data: (intents: number) => Params | undefined): void;
  reconnect(): void;
  invalidate(resumable: boolean): void;
  silence(): void;
  cut(code?: number): void;
  close(): void;
};

type Kept = Session & { log: { s: number; packet: Params }[]; line: Line | undefined };

export const INTENT = { guilds: 1 << 0, guildMessages: 1 << 9, directMessages: 1 << 12, messageContent: 1 << 15 };

const OP = { dispatch: 0, beat: 1, identify: 2, presence: 3, resume: 6, reconnect: 7, invalid: 9, hello: 10, ack: 11 };
const packet = z.strictObject({ op: z.int(), d: z.unknown(), s: z.unknown().optional(), t: z.unknown().optional() });
const identify = z.object({
  token: z.string(),
  intents: z.int().min(0).max(0x7ffffff),
  properties: z.object({ os: z.string(), browser: z.string(), device: z.string() }),
  shard: z.tuple([z.int(), z.int()]).optional(),
});
const resume = z.object({ token: z.string(), session_id: z.string(), seq: z.int() });

export function startGateway(
  server: ChatServer,
  options: {
    heartbeatMs: number;
    accepts(token: string): boolean;
    /** What follows a READY: its fields, then a guild for whoever asked for guilds. */
    ready(): { data: Params; guild: Params };
  },
): Gateway {
  const sessions: Kept[] = [];
  const lines = startLines(server.http, {
    opened: (line, url) => {
      const { v, encoding, compress } = Object.fromEntries(url.searchParams);
      if (v !== "10" || encoding !== "json" || compress)
        server.violations.push(`gateway: this fake speaks v=10&encoding=json, not ${url.search}`);
      line.send({ op: OP.hello, d: { heartbeat_interval: options.heartbeatMs, _trace: ["fake"] }, s: null, t: null });
    },
    heard: (line, value) => {
      const read = packet.safeParse(value);
      if (!read.success) return end(line, 4002, "Error while decoding payload.");
      const { op, d } = read.data;
      if (op === OP.beat) return beat(line, d);
      if (op === OP.identify) return begin(line, d);
      if (op === OP.resume) return goOn(line, d);
      if (!sessionOf(line)) return end(line, 4003, "Not authenticated.");
      if (op !== OP.presence) return end(line, 4001, "Unknown opcode.");
    },
    ended: (line, code) => {
      const session = sessionOf(line);
      if (!session) return;
      session.line = undefined;
      // A client that says goodbye properly gives its session up.
      if (code === 1000 || code === 1001) session.over = true;
      server.changed();
    },
  });

  const sessionOf = (line: Line) => sessions.find((session) => session.line === line);

  function end(line: Line, code: number, reason: string): void {
    if (code !== 4004) server.violations.push(`gateway: closed with ${code}, ${reason}`);
    line.close(code, reason);
  }

  function beat(line: Line, seq: unknown): void {
    const session = sessionOf(line);
    const newest = session?.log.at(-1)?.s ?? 0;
    if (seq !== null && !(typeof seq === "number" && seq <= newest))
      server.violations.push(`gateway: a heartbeat says ${JSON.stringify(seq)}, the newest event is ${newest}`);
    line.send({ op: OP.ack, d: null, s: null, t: null });
  }

  function begin(line: Line, data: unknown): void {
    if (sessionOf(line)) return end(line, 4005, "Already authenticated.");
    const read = identify.safeParse(data);
    if (!read.success) return end(line, 4002, z.prettifyError(read.error));
    const { token, intents } = read.data;
    if (!options.accepts(token)) return end(line, 4004, "Authentication failed.");
    const id = randomBytes(16).toString("hex");
    const session: Kept = { id, intents, resumes: 0, over: false, log: [], line };
    sessions.push(session);
    const { data: ready, guild } = options.ready();
    send(session, "READY", { ...ready, session_id: id, shard: read.data.shard ?? [0, 1] });
    if (intents & INTENT.guilds) send(session, "GUILD_CREATE", guild);
    server.changed();
  }

  function goOn(line: Line, data: unknown): void {
    const read = resume.safeParse(data);
    if (!read.success) return end(line, 4002, z.prettifyError(read.error));
    const { token, session_id, seq } = read.data;
    if (!options.accepts(token)) return end(line, 4004, "Authentication failed.");
    const session = sessions.find(({ id }) => id === session_id);
    if (!session || session.over) return line.send({ op: OP.invalid, d: false, s: null, t: null });
    if (seq > (session.log.at(-1)?.s ?? 0)) return end(line, 4007, "Invalid seq.");
    session.line = line;
    session.resumes += 1;
    for (const { s, packet } of session.log) if (s > seq) line.send(packet);
    send(session, "RESUMED", { _trace: ["fake"] });
    server.changed();
  }

  function send(session: Kept, t: string, d: Params): void {
    const s = (session.log.at(-1)?.s ?? 0) + 1;
    const packet = { op: OP.dispatch, t, s, d };
    session.log.push({ s, packet });
    session.line?.send(packet);
  }

  return {
    sessions,
    dispatch: (type, data) => {
      for (const session of sessions) {
        const heard = session.over ? undefined : data(session.intents);
        if (heard) send(session, type, heard);
      }
      server.changed();
    },
    reconnect: () => {
      for (const line of lines.open) line.send({ op: OP.reconnect, d: null, s: null, t: null });
    },
    invalidate: (resumable) => {
      if (!resumable) for (const session of sessions) session.over = true;
      for (const line of lines.open) line.send({ op: OP.invalid, d: resumable, s: null, t: null });
    },
    silence: () => {
      for (const line of lines.open) line.silence();
    },
    cut: (code) => {
      for (const line of lines.open) {
        if (code === undefined) line.cut();
        else line.close(code);
      }
    },
    close: () => lines.close(),
  };
}
