// state.db of Hermes, read from a copy: opening the file itself would leave -wal and -shm beside it, or wait for its owner.
import { constants, copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { ConfigError, messageOf } from "../core/errors.ts";
import { jsonIn, toObject } from "../platform/json.ts";

export type OldSession = ReturnType<typeof sessionOf>;
export type OldRow = ReturnType<typeof rowOf>;
/** Where a chat is now. `cut`: a turn was under way when Hermes last ended. */
export type OldRoute = { key: string; session: string; cut: boolean };
export type OldDatabase = ReturnType<typeof openOldDatabase>;

const TRIES = 3;

/** `scratch`: a directory of ours, for the copy. */
export function openOldDatabase(file: string, scratch: string) {
  const dir = mkdtempSync(join(scratch, "import-"));
  const forget = () => rmSync(dir, { recursive: true, force: true });
  try {
    const db = openCopy(file, join(dir, "state.db"));
    const columns = (table: string) =>
      new Set(
        db
          .prepare(`SELECT name FROM pragma_table_info('${table}')`)
          .all()
          .map(({ name }) => String(name)),
      );
    if (!columns("sessions").has("source") || !columns("messages").has("session_id"))
      throw new ConfigError(`${file} is not a database of Hermes.`);
    return { ...reading(db, columns), close: () => (db.close(), forget()) };
  } catch (error) {
    forget();
    throw error;
  }
}

function openCopy(file: string, copy: string): DatabaseSync {
  let why = "";
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const before = stampOf(file);
    for (const end of ["-wal", ""]) {
      rmSync(`${copy}${end}`, { force: true });
      if (existsSync(`${file}${end}`)) copyFileSync(`${file}${end}`, `${copy}${end}`, constants.COPYFILE_FICLONE);
    }
    if (stampOf(file) !== before) continue; // somebody wrote meanwhile
    try {
      const db = new DatabaseSync(copy);
      const [found] = Object.values(db.prepare("PRAGMA quick_check(1)").get() ?? {});
      if (found === "ok") return db;
      db.close();
      why = `it is damaged: ${String(found)}`;
    } catch (error) {
      why = messageOf(error);
    }
  }
  throw new ConfigError(`${file} cannot be read: ${why || "Hermes is writing to it. Stop Hermes, and import again"}.`);
}

const stampOf = (file: string): string =>
  ["", "-wal"]
    .map((end) => statSync(`${file}${end}`, { throwIfNoEntry: false }))
    .map((stat) => (stat ? `${stat.size} ${stat.mtimeMs}` : "-"))
    .join(" ");

/** Older versions lack some columns. */
function reading(db: DatabaseSync, columns: (table: string) => Set<string>) {
  const of = (table: string, names: readonly string[]) => {
    const there = columns(table);
    return names.map((name) => (there.has(name) ? name : `NULL AS ${name}`)).join(", ");
  };
  const SESSION =
    `id source session_key user_id chat_id chat_type parent_session_id model_config model title started_at end_reason
    archived pinned hidden`.split(/\s+/);
  const ROW =
    `id role content api_content tool_call_id tool_calls timestamp reasoning reasoning_content display_kind`.split(" ");
  const there = columns("messages");
  const kept = there.has("active") ? `(active = 1${there.has("compacted") ? " OR compacted = 1" : ""})` : "1";
  const rows = db.prepare(
    `SELECT ${of("messages", ROW)} FROM messages WHERE session_id = ? AND role IN ('user', 'assistant', 'tool') AND ${kept} ORDER BY id`,
  );
  return {
    sessions: () =>
      db
        .prepare(`SELECT ${of("sessions", SESSION)} FROM sessions ORDER BY started_at, id`)
        .all()
        .map(sessionOf),
    /** Without what was undone, in the order in which it was written. */
    rows: (sessions: readonly string[]) =>
      sessions.flatMap((id) => rows.all(id).map(rowOf)).toSorted((a, b) => a.id - b.id),
    routes: (): OldRoute[] =>
      columns("gateway_routing").size === 0
        ? []
        : db
            .prepare("SELECT session_key, entry_json FROM gateway_routing ORDER BY updated_at")
            .all()
            .flatMap(({ session_key: key, entry_json: entry }) => routeOf(String(key), parsed(entry))),
  };
}

/** Of what another program wrote nothing is certain. */
export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
/** A JSON object, or an empty one. */
export const parsed = (json: unknown): Record<string, unknown> => toObject(jsonIn(textOf(json)));

type Row = Record<string, unknown>;
const textOrNull = (value: unknown): string | null => textOf(value) || null;

const sessionOf = (row: Row) => ({
  id: textOf(row["id"]),
  source: textOf(row["source"]),
  key: textOrNull(row["session_key"]),
  user: textOrNull(row["user_id"]),
  chat: textOrNull(row["chat_id"]),
  kind: textOrNull(row["chat_type"]),
  parent: textOrNull(row["parent_session_id"]),
  settings: parsed(row["model_config"]),
  model: textOf(row["model"]),
  title: textOf(row["title"]),
  startedAt: Math.round(Number(row["started_at"]) * 1_000),
  end: textOrNull(row["end_reason"]),
  archived: row["archived"] === 1,
  pinned: row["pinned"] === 1,
  hidden: row["hidden"] === 1,
});

const rowOf = (row: Row) => ({
  id: Number(row["id"]),
  role: textOf(row["role"]),
  content: textOf(row["content"]),
  /** What the model got instead. */
  sent: textOf(row["api_content"]),
  call: textOf(row["tool_call_id"]),
  calls: textOf(row["tool_calls"]),
  at: Math.round(Number(row["timestamp"]) * 1_000),
  reasoning: textOf(row["reasoning"]) || textOf(row["reasoning_content"]),
  shown: textOf(row["display_kind"]),
});

export const routeOf = (key: string, entry: Record<string, unknown>): OldRoute[] =>
  typeof entry["session_id"] === "string"
    ? [{ key, session: entry["session_id"], cut: Boolean(entry["active_turn_token"] ?? entry["resume_pending"]) }]
    : [];
