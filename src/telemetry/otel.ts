// Sends the spans of each turn to an OpenTelemetry collector: OTLP over HTTP, as JSON. Written by hand, because the
// exporter and its dependencies are 9 packages and 17 MB for one POST. If the collector fails, only spans are lost.
import { createHash } from "node:crypto";
import { messageOf } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Entry } from "../core/session.ts";
import { within } from "../core/wait.ts";
import { openPost, type Post } from "../platform/post.ts";
import { type Span, spansOf, type Telling } from "./spans.ts";

type Options = Telling &
  Ambient & {
    runtime: Pick<Runtime, "turn">;
    /** The base address of the collector, or the full address of its traces. */
    endpoint: string;
    headers: Readonly<Record<string, string>>;
    version: string;
    post?: Post;
  };
export type Telemetry = ReturnType<typeof createTelemetry>;

/** Turns that end together are sent together. */
const GATHER_MS = 1_000;
const MOST_TURNS = 1_000;
const TURNS_AT_ONCE = 50;
const SPANS_AT_ONCE = 500;
const RETRY_MS = [1_000, 5_000];
/** Status codes after which the protocol allows another attempt. */
const AGAIN = new Set([429, 502, 503, 504]);

export function createTelemetry(options: Options) {
  const { runtime, clock, log, headers, version, post = openPost() } = options;
  const url = /\/v1\/traces\/*$/.test(options.endpoint)
    ? options.endpoint
    : `${options.endpoint.replace(/\/+$/, "")}/v1/traces`;
  const waiting: { session: string; turn: string }[] = [];
  const hurry = new AbortController();
  const leaving = new AbortController();
  let working: Promise<void> | null = null;
  let unseen = 0;
  /** Number of turns that are being sent. */
  let sending = 0;

  async function work(): Promise<void> {
    await clock.sleep(GATHER_MS, hurry.signal);
    while (waiting.length > 0 && !leaving.signal.aborted) {
      if (unseen > 0) log("warn", "telemetry.dropped", { turns: unseen, why: `${MOST_TURNS} turns wait already` });
      unseen = 0;
      const turns = waiting.splice(0, TURNS_AT_ONCE);
      sending = turns.length;
      const spans = (await Promise.all(turns.map(read))).flat();
      for (let from = 0; from < spans.length; from += SPANS_AT_ONCE)
        await send(spans.slice(from, from + SPANS_AT_ONCE));
      sending = 0;
    }
    working = null;
  }

  async function read({ session, turn }: { session: string; turn: string }) {
    try {
      return encode(turn, spansOf(session, await runtime.turn(turn), options));
    } catch (error) {
      log("warn", "telemetry.unread", { turn, error: messageOf(error) });
      return [];
    }
  }

  async function send(spans: readonly unknown[]): Promise<void> {
    const body = JSON.stringify(envelope(spans, version));
    for (let attempt = 0; ; attempt++) {
      const answer = await post
        .send(url, { headers: { ...headers, "Content-Type": "application/json" }, body, signal: leaving.signal })
        .catch((error: unknown) => ({ status: 0, error: messageOf(error) }));
      if ((answer.status >= 200 && answer.status < 300) || leaving.signal.aborted) return;
      const why = "error" in answer ? answer.error : `answered ${answer.status}`;
      const wait = answer.status === 0 || AGAIN.has(answer.status) ? RETRY_MS[attempt] : undefined;
      if (wait === undefined) return log("warn", "telemetry.dropped", { spans: spans.length, why });
      log("debug", "telemetry.failed", { why, againInMs: wait });
      await clock.sleep(wait, leaving.signal);
    }
  }

  return {
    observe(session: string, entries: readonly Entry[]): void {
      for (const { kind, turn } of entries) {
        if (kind !== "ended" && kind !== "withdrawn") continue;
        if (waiting.length < MOST_TURNS) waiting.push({ session, turn });
        else unseen++;
        working ??= work();
      }
    },
    /** Sends the waiting spans, for at most `ms`. */
    async close(ms: number) {
      hurry.abort();
      if (working) await within(clock, ms, working);
      leaving.abort();
      const left = waiting.length + sending;
      if (left > 0) log("warn", "telemetry.dropped", { turns: left, why: "there was no more time" });
      await post.close();
    },
  };
}

// ── The wire format ───────────────────────────────────────────────────────────────────────────────────

const envelope = (spans: readonly unknown[], version: string) => ({
  resourceSpans: [
    {
      resource: { attributes: attributesOf({ "service.name": "hermes", "service.version": version }) },
      scopeSpans: [{ scope: { name: "hermes", version }, spans }],
    },
  ],
});

/** The ids are derived from the turn's id. So a run can be found by its own id, and a turn that is sent twice is the
 *  same trace. */
function encode(turn: string, spans: readonly Span[]) {
  const traceId = /^run_([0-9a-f]{32})$/.exec(turn)?.[1] ?? hash(turn).slice(0, 32);
  const idOf = (index: number) => hash(`${turn}/${index}`).slice(0, 16);
  return spans.map(({ name, start, end, attributes, error }, index) => ({
    traceId,
    spanId: idOf(index),
    ...(index > 0 && { parentSpanId: idOf(0) }),
    name,
    kind: INTERNAL,
    startTimeUnixNano: nanoseconds(start),
    endTimeUnixNano: nanoseconds(end),
    attributes: attributesOf(attributes),
    ...(error !== undefined && { status: { code: FAILED, ...(error && { message: error }) } }),
  }));
}

const INTERNAL = 1;
const FAILED = 2;
const hash = (text: string) => createHash("sha256").update(text).digest("hex");
const nanoseconds = (ms: number) => String(BigInt(Math.round(ms)) * 1_000_000n);

const attributesOf = (attributes: Record<string, string | number>) =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value:
      typeof value === "string"
        ? { stringValue: value }
        : { intValue: String(Number.isFinite(value) ? Math.round(value) : 0) },
  }));
