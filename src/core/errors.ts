import type { Fault } from "./ports.ts";

/** A "no" that the asker can act on: `code` for programs, `message` for people. Nothing was changed. */
export class Refusal extends Error {
  readonly code: RefusalCode;
  constructor(code: RefusalCode, message: string) {
    super(message);
    this.name = "Refusal";
    this.code = code;
  }
}

export type RefusalCode =
  | "empty_text"
  | "text_too_long"
  | "invalid_mode"
  | "invalid_session"
  | "invalid_key"
  | "inbox_full"
  | "rate_limit_exceeded"
  | "idempotency_key_conflict"
  | "run_not_accepting_steer"
  | "draining"
  | "store_unavailable"
  | "not_owner"
  | "closed";

/** Another node owns the session: whoever asks must ask there. */
export class Elsewhere extends Refusal {
  readonly node: string;
  readonly address: string;
  constructor({ node, address }: { node: string; address: string }) {
    super("not_owner", `The session is at work on the node ${node}.`);
    this.node = node;
    this.address = address;
  }
}

/** The store could not do it. `landed: "unknown"`: it may have been done; look before doing it again. */
export class StoreFault extends Error {
  readonly landed: "no" | "unknown";
  constructor(landed: "no" | "unknown", message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StoreFault";
    this.landed = landed;
  }
}

/** The program cannot start like this, and a restart will not help: exit 78 (EX_CONFIG). */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** What to do if no server answers: said by a turn and by `hermes setup`. */
export const NO_SERVER = "No server answers at this address: check the address, and that the server is running.";

/** The reason, and what its user can do about it. */
export function explained({ kind, reason }: Pick<Fault, "kind" | "reason">): string {
  const said = reason.replace(/\.?$/, ".");
  if (kind === "auth" && reason.startsWith("HTTP 401")) return `${said} Check the key with: hermes setup`;
  if (kind === "network" && /ECONNREFUSED|ENOTFOUND/.test(reason)) return `${said} ${NO_SERVER}`;
  return reason;
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The system's name for what went wrong ("ENOENT"); empty: it has none. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
