// What conversations of the terminal are called.
export const TERMINAL = "agent:main:terminal:dm:";

export const isTerminal = (session: string): boolean => session.startsWith(TERMINAL);
/** Conversations of the terminal go by their last part. */
export const shortName = (session: string): string => (isTerminal(session) ? session.slice(TERMINAL.length) : session);
export const fullName = (name: string): string =>
  name.includes(":") || name.startsWith("run_") ? name : TERMINAL + name;
