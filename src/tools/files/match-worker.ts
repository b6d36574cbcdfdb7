// The worker thread that runs one pattern over one text after the other (see matching.ts).
import { parentPort, workerData } from "node:worker_threads";
import { type MatchRequest, matchingLines } from "./matching.ts";

const { source, flags }: { source: string; flags: string } = workerData;
const pattern = new RegExp(source, flags);
parentPort?.on("message", ({ text, most }: MatchRequest) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(matchingLines(text, (line) => pattern.test(line), most));
});
