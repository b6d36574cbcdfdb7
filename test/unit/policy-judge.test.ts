// Judging in a thread: it has a deadline, and one command that overruns it costs no other anything.
import { afterEach, describe, expect, it } from "vitest";
import { openJudge } from "../../src/policy/judge.ts";
import { parseRules } from "../../src/policy/rules.ts";

const place = { cwd: "/home/me/project", home: "/home/me" };
/** With so many rules, many commands take seconds and one takes none. */
const [rule] = await parseRules("rules: [{deny: git push}]", "f");
const rules = Array.from({ length: 30_000 }, () => rule).filter((each) => each !== undefined);
const slow = "git -a -b -c -d -e -f x;".repeat(450);
const busy = { rules, deadlineMs: 500 };
const opened: { close(): Promise<void> }[] = [];
const open = async (options: Partial<Parameters<typeof openJudge>[0]> = {}) => {
  const judge = await openJudge({ rules: [], mode: "manual", sandbox: false, ...options });
  opened.push(judge);
  return judge;
};
afterEach(async () => {
  for (const judge of opened.splice(0)) await judge.close();
});

describe("judging in a thread", () => {
  it("says what the policy says, with the user's rules", async () => {
    const own = await parseRules("rules: [{allow: make}, {deny: git push}]", "f");
    const { judge, describeAlways } = await open({ rules: own });
    const verdicts = await Promise.all(["ls", "make", "git push", "npm test"].map((command) => judge(command, place)));
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(["allow", "allow", "deny", "ask"]);
    expect(await describeAlways("npm test", place)).toEqual({
      effect: "allow_exact",
      text: "npm test",
      within: place.cwd,
    });
  });

  it("cuts a command at the deadline, asks about it, and goes on with others", async () => {
    const { judge, describeAlways } = await open(busy);
    const all = await Promise.all([slow, "ls", slow, "touch x"].map((command) => judge(command, place)));
    expect(all.map(({ verdict }) => verdict)).toEqual(["ask", "allow", "ask", "ask"]);
    expect(all[0]?.reason).toBe("This command could not be judged in time.");
    expect(all[3]?.part).toBe("touch x");
    expect(await describeAlways(slow, place)).toBeNull();
  });

  it("refuses what is late where nobody is asked", async () => {
    const { judge } = await open({ ...busy, mode: "off" });
    expect((await judge(slow, place)).verdict).toBe("deny");
    expect((await judge("make", place)).verdict).toBe("allow");
  });

  it("stops when it is closed, also in the middle, and judges nothing then", async () => {
    const judge = await open({ rules });
    await judge.judge("ls", place);
    const pending = judge.judge(slow, place);
    await judge.close();
    expect((await pending).verdict).toBe("ask");
    expect((await judge.judge("ls", place)).verdict).toBe("ask");
  });

  it("takes other rules for what is asked after them", async () => {
    const judge = await open();
    const before = judge.judge("make", place);
    const change = judge.setRules(await parseRules("rules: [{allow: make}]", "f"));
    expect((await before).verdict).toBe("ask");
    expect((await judge.judge("make", place)).verdict).toBe("allow");
    await change;
  });

  it("does not begin where an example of a rule does not come out as written", async () => {
    const wrong = await parseRules("rules: [{allow: make, examples: {ask: [make]}}]", "rules.yaml");
    await expect(open({ rules: wrong })).rejects.toThrow("rules.yaml:1");
  });
});
