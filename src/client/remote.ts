// A runtime that works elsewhere, used as if it were here: the same methods over HTTP, the same refusals by name.
import { Refusal, type RefusalCode } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import type {
  AcceptRequest,
  Load,
  Paused,
  Receipt,
  Runtime,
  Status,
  Stopped,
  Update,
  Whereabouts,
} from "../core/runtime.ts";
import type { Entry, Grant } from "../core/session.ts";
import type { Found, SessionPlace, SessionSummary } from "../core/store.ts";
import { createWire, HermesError, type RequestOptions, type ServerConnection } from "./wire.ts";

type Options = ServerConnection & { log?: Log };
type List<T> = { data: T[]; next?: string | null };
/** A session, as the routes show it. */
export type RemoteRow = {
  id: string;
  title: string;
  parent_id: string | null;
  created_at: number;
  updated_at: number;
  active: boolean;
  entries: number;
  snippet?: string;
};

/** The most that the server gives at once. */
const MOST = { sessions: 200, entries: 1_000, found: 200 };

/** Nothing was heard from the server. */
export class ServerLost extends Refusal {
  constructor(message: string) {
    super("store_unavailable", message);
  }
}

export function createRemoteRuntime({ log = () => {}, ...server }: Options): Runtime {
  const wire = createWire(server);
  let draining = false;

  async function ask<T>(method: string, path: string, more: RequestOptions = {}): Promise<T> {
    try {
      return await wire.json<T>(method, path, more);
    } catch (error) {
      if (hasCode(error, "gateway_draining")) draining = true;
      throw refusalOf(error);
    }
  }
  const post = <T>(path: string, body: unknown, again = false) => ask<T>("POST", path, { body, again });

  async function look(): Promise<void> {
    const { status } = await ask<{ status: string }>("GET", "/health");
    draining = status === "draining";
  }

  async function accept(request: AcceptRequest): Promise<Receipt> {
    const { session, source, key: name, text, mode, by, attended, unattended, images, model, task } = request;
    const { instructions, into } = request;
    for (const field of ["parent", "history", "admit"] as const)
      if (request[field] !== undefined) throw notOverHttp(`An input with ${field}`);
    if (request.reply === "push") throw notOverHttp("An input whose reply is pushed");
    const { effort, ...others } = request.options ?? {};
    if (Object.keys(others).length) throw notOverHttp("An input with options");
    const given = { by, attended, unattended, images, model, effort, task, instructions, into };
    const body = { text, mode, key: `${source}:${name}`, ...given };
    const path = session === undefined ? "/api/messages" : `${pathOf(session)}/messages`;
    return post(path, body, true); // its key makes a second copy the same input
  }

  async function* follow(session: string, cursor: string, signal: AbortSignal): AsyncGenerator<Update> {
    try {
      yield* streamOf(session, cursor, signal);
    } catch (error) {
      throw hasCode(error, "unreachable") ? refusalOf(error) : error;
    }
  }

  async function* streamOf(session: string, cursor: string, signal: AbortSignal): AsyncGenerator<Update> {
    let lost = false;
    let at = cursor;
    for await (const next of wire.stream(`${pathOf(session)}/events`, { after: cursor, signal })) {
      if ("opened" in next) {
        void look().catch(() => {}); // a server that is gone again is looked at when it is back
        if (lost) yield { cursor: at, notice: "" };
        lost = false;
      } else if ("broken" in next) {
        log("warn", "remote.broken", { session, error: next.broken });
        if (!lost) yield { cursor: at, notice: "The connection to the server is broken; trying again." };
        lost = true;
      } else {
        const update: Update = JSON.parse(next.data);
        at = update.cursor;
        yield update;
      }
    }
  }

  async function sessions(page: Parameters<Runtime["sessions"]>[0]): Promise<SessionSummary[]> {
    const { limit, top = false, active = false, titled = "", prefix = "" } = page;
    const rows: RemoteRow[] = [];
    let after = page.after && cursorOf(page.after);
    while (rows.length < limit) {
      const query = new URLSearchParams({
        limit: String(Math.min(limit - rows.length, MOST.sessions)),
        children: String(!top),
        counts: "false",
        ...(active && { active: "true" }),
        ...(titled && { q: titled }),
        ...(prefix && { prefix }),
        ...(after && { after }),
      });
      const { data, next } = await ask<List<RemoteRow>>("GET", `/api/sessions?${query.toString()}`);
      const named = data.filter(({ snippet }) => snippet === undefined); // behind them: where it was only said
      rows.push(...named);
      if (!next || named.length < data.length || !data.length) break;
      after = next;
    }
    return rows.map(summaryOf);
  }

  async function entries(session: string, after: number, limit: number): Promise<Entry[]> {
    const path = `${pathOf(session)}/entries?after=${after}&limit=${Math.min(limit, MOST.entries)}`;
    return (await ask<List<Entry>>("GET", path)).data;
  }

  async function search(query: string, within: { session?: string; limit: number }): Promise<Found[]> {
    const limit = String(Math.max(1, Math.min(within.limit, MOST.found)));
    const asked = new URLSearchParams({ ...(within.session && { session: within.session }), q: query, limit });
    return (await ask<List<Found>>("GET", `/api/search?${asked.toString()}`)).data;
  }

  return {
    accept,
    stop: async ({ session, turn, scope }) =>
      (await post<{ stopped: Stopped }>(`${pathOf(session)}/stop`, { turn, scope }, true)).stopped,
    answer: async ({ session, ...body }) =>
      (await post<{ answered: boolean }>(`${pathOf(session)}/answer`, body)).answered,
    grants: async (session) => (await ask<List<Grant>>("GET", `${pathOf(session)}/grants`)).data,
    granted: async () => (await ask<List<string>>("GET", "/api/grants")).data,
    revoke: async (session, call) =>
      (await ask<{ revoked: boolean }>("DELETE", `${pathOf(session)}/grants/${encodeURIComponent(call)}`)).revoked,
    withdraw: async (session, input) =>
      (await ask<{ withdrawn: boolean }>("DELETE", inputPath(session, input))).withdrawn,
    move: async (session, input, to) => (await post<{ moved: boolean }>(inputPath(session, input), { to })).moved,
    status: async (session) =>
      instead(
        ask<{ status: Status }>("GET", pathOf(session)).then(({ status }) => status),
        { session_not_found: untouched(session) },
      ),
    idOf: () => {
      throw notOverHttp("The id of what was not said yet");
    },
    whereabouts: (input) =>
      instead<Whereabouts | null>(ask("GET", `/api/inputs/${encodeURIComponent(input)}`), { input_not_found: null }),
    run: (turn) => instead<Awaited<ReturnType<Runtime["run"]>>>(ask("GET", runPath(turn)), { run_not_found: null }),
    turn: async (id) => (await ask<List<Entry>>("GET", `${runPath(id)}/entries`)).data,
    follow,
    sessions,
    summary: async (session) =>
      instead<SessionSummary | null>(ask<RemoteRow>("GET", pathOf(session)).then(summaryOf), {
        session_not_found: null,
      }),
    search,
    entries,
    retitle: async (session, title) =>
      instead(
        ask("PATCH", pathOf(session), { body: { title } }).then(() => true),
        { session_not_found: false },
      ),
    create: ({ session, title }) =>
      instead<"created" | "taken">(
        post("/api/sessions", { id: session, title: title || null }).then(() => "created"),
        { session_exists: "taken" },
      ),
    fork: async ({ from, session, title, through }) =>
      instead<"forked" | "unknown" | "taken">(
        post(`${pathOf(from)}/fork`, { id: session, title: title || null, through }).then(() => "forked"),
        { session_exists: "taken", session_not_found: "unknown", run_not_found: "unknown" },
      ),
    restoreFiles: ({ session, turns, preview }) => post(`${pathOf(session)}/restore-files`, { turns, preview }),
    fileChanges: ({ session, turn, all }) => {
      const query = new URLSearchParams({ ...(turn && { turn }), ...(all && { all: "true" }) });
      return ask("GET", `${pathOf(session)}/file-changes?${query.toString()}`);
    },
    forget: async (session) =>
      instead<"forgotten" | "busy" | "unknown">(
        ask("DELETE", pathOf(session)).then(() => "forgotten"),
        { session_busy: "busy", session_not_found: "unknown" },
      ),
    announcements: { list: notHere("What is to be announced"), update: notHere("What is to be announced") },
    notes: { get: notHere("A note"), set: notHere("A note"), swap: notHere("A note"), list: notHere("A note") },
    draining: () => draining,
    paused: async () => (await ask<{ paused: Paused | null }>("GET", "/api/pause")).paused,
    pause: async (by) => void (await post("/api/pause", { by }, true)),
    resume: async () => void (await ask("DELETE", "/api/pause")),
    load: async () => {
      await look();
      return ask<Load>("GET", "/api/load");
    },
  };
}

// ── Paths ─────────────────────────────────────────────────────────────────────────────────────────────

/** An address would swallow these three. */
const NO_NAMES = new Set(["", ".", ".."]);

function pathOf(session: string): string {
  if (NO_NAMES.has(session)) throw new Refusal("invalid_session", `"${session}" cannot be a session's name.`);
  return `/api/sessions/${encodeURIComponent(session)}`;
}
const inputPath = (session: string, input: string) => `${pathOf(session)}/inbox/${encodeURIComponent(input)}`;
const runPath = (turn: string) => `/api/runs/${encodeURIComponent(turn)}`;

/** As the server makes them. */
const cursorOf = ({ updatedAt, session }: SessionPlace): string =>
  btoa(String.fromCodePoint(...new TextEncoder().encode(JSON.stringify({ updatedAt, session }))));

// ── Answers ───────────────────────────────────────────────────────────────────────────────────────────

const summaryOf = ({ id, title, parent_id, created_at, updated_at, active, entries }: RemoteRow): SessionSummary => ({
  session: id,
  title,
  parent: parent_id,
  active,
  entries,
  createdAt: Math.round(created_at * 1_000),
  updatedAt: Math.round(updated_at * 1_000),
});

/** Of a session in which nothing was said yet. */
const untouched = (session: string): Status => ({
  session,
  turn: null,
  inbox: [],
  asking: [],
  parked: false,
  said: 0,
  since: "0",
  held: false,
  unsaved: [],
  background: [],
});

/** For some errors there is an answer. */
async function instead<T>(work: Promise<T>, answers: Record<string, T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const code = error instanceof HermesError ? (error.code ?? "") : "";
    const answer = Object.hasOwn(answers, code) ? answers[code] : undefined;
    if (answer === undefined) throw error;
    return answer;
  }
}

const REFUSALS: Record<string, RefusalCode> = {
  invalid_input: "empty_text",
  input_too_long: "text_too_long",
  invalid_mode: "invalid_mode",
  invalid_session_id: "invalid_session",
  invalid_idempotency_key: "invalid_key",
  inbox_full: "inbox_full",
  rate_limit_exceeded: "rate_limit_exceeded",
  idempotency_key_conflict: "idempotency_key_conflict",
  run_not_accepting_steer: "run_not_accepting_steer",
  gateway_draining: "draining",
  store_unavailable: "store_unavailable",
  not_owner: "not_owner",
};

const hasCode = (error: unknown, code: string) => error instanceof HermesError && error.code === code;

/** The Refusal that the server made it from; anything else stays what it is. */
export function refusalOf(error: unknown): unknown {
  if (error instanceof HermesError && error.code === "unreachable") return new ServerLost(error.message);
  const code = error instanceof HermesError ? REFUSALS[error.code ?? ""] : undefined;
  if (!code || !(error instanceof HermesError)) return error;
  return new Refusal(code, error.message.replace(/^input: /, ""));
}

const notHere = (what: string) => () => Promise.reject(notOverHttp(what));
const notOverHttp = (what: string) => new Error(`${what} is not over HTTP.`);
