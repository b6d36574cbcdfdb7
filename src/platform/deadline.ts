// Ends the process after a deadline, whatever hangs.
import { Worker } from "node:worker_threads";

/** Runs in a worker thread, because the event loop may be blocked. */
export function setDeadline(ms: number): () => void {
  const script = `
    const { workerData } = require("node:worker_threads");
    setTimeout(() => process.kill(workerData.pid, "SIGKILL"), workerData.ms);`;
  const worker = new Worker(script, { eval: true, execArgv: [], env: {}, workerData: { pid: process.pid, ms } });
  worker.unref();
  return () => void worker.terminate();
}
