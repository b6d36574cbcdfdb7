// The last lines of the suite: how many tests were left out on this machine, and why (needs.ts).
import type { Reporter, TestModule } from "vitest/node";
import { NOT_TESTED } from "./needs.ts";

export default class NotTested implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = modules.flatMap((file) => [...file.children.allTests("skipped")]);
    // One without a reason was not asked for (`-t`).
    const reasons = skipped.flatMap(({ fullName }) => NOT_TESTED.exec(fullName)?.[1] ?? []);
    const counts = Map.groupBy(reasons, (reason) => reason);
    for (const [reason, { length }] of counts)
      console.log(`not tested: ${length} test${length === 1 ? "" : "s"} (${reason})`);
    if (counts.size === 0) console.log("not tested: nothing was left out for want of something on this machine");
  }
}
