// The fuzzer's own eyes: what a command does in the jail is seen, or the campaign would prove nothing.
import { afterAll, describe, expect, it } from "vitest";
import { needs } from "../needs.ts";
import { campaign } from "../policy-fuzz/campaign.ts";
import { openJail } from "../policy-fuzz/jail.ts";

const jail = openJail();
afterAll(() => jail?.close());

(await needs("sandbox")).describe("the jail of the fuzzer", () => {
  it("sees which commands change a file, run what is planted, or print a secret", async () => {
    const bad = [
      'touch "$CANARY"',
      "./evil",
      "cat ~/.netrc",
      "rm f.txt",
      "cat /proc/*/environ",
      "echo x > /tmp/x",
      "kill -9 -1",
    ];
    const good = ["ls -la ~/.ssh", "cat f.txt", "git status", "git diff", "echo x > /usr/x", "cat /root/x"];
    const found = await jail?.escaped([...good, ...bad, ...good]);
    expect(found?.map(({ command }) => command).toSorted()).toEqual(bad.toSorted());
  });
});

describe("the fuzzer", () => {
  it("finds nothing in a few hundred commands", async () => {
    const said: string[] = [];
    const result = await campaign({ commands: 300, seed: 7, say: (line) => said.push(line) });
    expect(said).toHaveLength(jail ? 1 : 2);
    expect(result).toEqual({ passed: 300, failed: 0 });
  });
});
