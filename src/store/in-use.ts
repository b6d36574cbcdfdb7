/** Another process owns the store, or this one has it open already. */
export class StoreInUse extends Error {
  override readonly name = "StoreInUse";
  readonly pid: number | null;
  constructor(pid: number | null, message?: string) {
    super(message ?? `hermes is already running${pid ? ` (PID ${pid})` : ""}. Close it, or set another HERMES_HOME.`);
    this.pid = pid;
  }
}
