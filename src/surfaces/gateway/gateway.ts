// hermes gateway: serves day and night, and leaves in good order: what runs may finish, what cannot goes on after the next
// start, and the end always comes.
import type { Log } from "../../core/ports.ts";

export type GatewayOptions = {
  log: Log;
  url: string;
  keyFile: string | null;
  print(line: string): void;
  /** How long running turns may take to finish. */
  drainMs: number;
  /** The last resort, behind everything else. */
  deadlineMs: number;
  /** Stops taking new work, waits, lets go. */
  leave(drainMs: number): Promise<{ left: string[] }>;
};

const SECOND_SIGNAL = 130;

/** Returns the exit code, once somebody has asked us to leave. */
export async function runGateway(options: GatewayOptions): Promise<number> {
  const { log, url, keyFile, print, drainMs, deadlineMs } = options;
  const asked = Promise.withResolvers<NodeJS.Signals>();
  const onSignal = (signal: NodeJS.Signals) => {
    if (leaving) process.exit(SECOND_SIGNAL); // what is accepted is durable already
    leaving = true;
    asked.resolve(signal);
  };
  let leaving = false;
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal);
  if (keyFile) print(`The key of the API is in ${keyFile}`);
  print(`hermes gateway ready on ${url}`);
  const signal = await asked.promise;
  log("info", "gateway.leaving", { signal });
  const deadline = setTimeout(() => {
    log("error", "gateway.wedged", { deadlineMs });
    process.exit(1);
  }, drainMs + deadlineMs);
  const { left } = await options.leave(drainMs);
  if (left.length) log("warn", "gateway.left", { turns: left });
  clearTimeout(deadline);
  return 0;
}
