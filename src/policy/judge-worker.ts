// The worker thread that judges one command after the other (see judge.ts).
import { parentPort, workerData } from "node:worker_threads";
import type { JudgeReply, JudgeRequest } from "./judge.ts";
import { createPolicy, type PolicyOptions } from "./policy.ts";

const options: PolicyOptions = workerData;
const policy = createPolicy(options);
parentPort?.on("message", ({ about, command, place }: JudgeRequest) => {
  void policy.then(({ judge, describeAlways }) => {
    send("began");
    send(about === "judgement" ? { judgement: judge(command, place) } : { rule: describeAlways(command, place) });
  });
});

const send = (answer: JudgeReply) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(answer);
};
