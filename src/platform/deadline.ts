// An end that always comes.
import { Worker } from "node:worker_threads";

/** Outside the event loop: whatever is wedged, the process is gone after so long. */
export function setDeadline(ms: number): () => void {
  const script = `
    const { workerData } = require("node:worker_threads");
    setTimeout(() => process.kill(workerData.pid, "SIGKILL"), workerData.ms);`;
  const worker = new Worker(script, { eval: true, execArgv: [], env: {}, workerData: { pid: process.pid, ms } });
  worker.unref();
  return () => void worker.terminate();
}
