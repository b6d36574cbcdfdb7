// Loaded into the gateway before anything else (`NODE_OPTIONS=--import`): at each SIGWINCH it writes down what the process holds.
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const file = process.env["SOAK_SAMPLES"];
if (file && isMainThread)
  process.on("SIGWINCH", () => {
    globalThis.gc?.(); // what is garbage is no growth
    const { heapUsed, external } = process.memoryUsage();
    const rss = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1_024;
    const resources = process.getActiveResourcesInfo();
    const timers = resources.filter((kind) => kind === "Timeout" || kind === "Immediate").length;
    const descriptors = readdirSync("/proc/self/fd").length;
    const sample = { rss, heap: heapUsed, external, descriptors, timers, handles: resources.length - timers };
    appendFileSync(file, `${JSON.stringify(sample)}\n`);
  });
