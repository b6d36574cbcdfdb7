import { messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";

/** For `catch`: the failure is logged, and nothing else comes of it. */
export const logFailure =
  (log: Log, level: Parameters<Log>[0], event: string, fields: Record<string, unknown> = {}) =>
  (error: unknown): void =>
    log(level, event, { ...fields, error: messageOf(error) });
