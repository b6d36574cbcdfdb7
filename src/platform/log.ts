// Structured logging: one JSON line per event in a rotating file and, if no screen owns the terminal, a readable line
// on stderr. Everything goes through the redactor. An error in here never reaches the caller.
import { pino } from "pino";
import type { Log } from "../core/ports.ts";
import { openLogFile } from "./logfile.ts";
import { isTerminal, type Level, parseRecord, pretty } from "./logline.ts";
import type { Redactor } from "./redact.ts";

export type OpenLog = { log: Log; close(): void };

const MAX_BYTES = 10_000_000;
const FILES = 5;
/** If the reader of our stderr stops reading, this is the most memory that it costs; the file has everything. */
const STDERR_BACKLOG = 1_000_000;
const RESERVED = new Set(["level", "time", "pid", "event"]);

export const openLog = (options: {
  file: string;
  level: Level;
  stderr: boolean;
  redactor: Redactor;
  maxBytes?: number;
  files?: number;
}): OpenLog => {
  const { redactor, stderr } = options;
  const file = openLogFile(options.file, options.maxBytes ?? MAX_BYTES, options.files ?? FILES);
  const colour = isTerminal(process.stderr, process.env);
  const write = (line: string) => {
    file.write(line);
    if (!stderr || process.stderr.writableLength > STDERR_BACKLOG) return;
    const record = parseRecord(line);
    if (record) process.stderr.write(`${pretty(record, colour)}\n`);
  };
  const logger = pino(
    {
      level: options.level,
      base: { pid: process.pid },
      messageKey: "event",
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    { write },
  );

  let open = true;
  // If the reader of our stderr goes away (EPIPE), the process must not end.
  if (stderr) process.stderr.on("error", ignore);

  const log: Log = (level, event, fields = {}) => {
    try {
      if (!open || !logger.isLevelEnabled(level)) return;
      logger[level](distinct(redactor.value(fields)), redactor.text(event));
    } catch {
      // There is no place left to report this error: it would be the log.
    }
  };

  return {
    log,
    close: () => {
      open = false;
      file.close();
      if (stderr) process.stderr.off("error", ignore);
    },
  };
};

const ignore = () => {};

/** A field with the name of one of ours would be a second key in the JSON, and win. */
const distinct = (fields: unknown): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields ?? {}).map(([name, value]) => [RESERVED.has(name) ? `${name}_` : name, value]),
  );
