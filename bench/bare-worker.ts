import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { openBare, type Row } from "./bare.ts";

if (!parentPort) throw new Error("bare-worker.ts runs in a worker thread");
const port = parentPort;
const { commit } = await openBare(String(workerData));
port.on("message", (first: Row) => {
  const rows = [first];
  for (;;) {
    const next: { message: Row } | undefined = receiveMessageOnPort(port);
    if (!next) break;
    rows.push(next.message);
  }
  commit(rows);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  port.postMessage(rows.length);
});
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
port.postMessage(1);
