import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import { createPolicy } from "../../src/tools/policy/policy.ts";
import { addRule, parseRules, rulesOf } from "../../src/tools/policy/rules.ts";

const place = { cwd: "/home/me/project", home: "/home/me" };
const policyOf = async (text: string, options: { mode?: "manual" | "off"; sandbox?: boolean } = {}) =>
  createPolicy({ rules: await parseRules(text, "rules.yaml"), mode: "manual", sandbox: false, ...options });
const verdicts = async (text: string, commands: string[], options = {}) => {
  const { judge } = await policyOf(text, options);
  return commands.map((command) => judge(command, place).verdict);
};

describe("allow rules", () => {
  it("fit the whole command, word for word", async () => {
    const commands = ["npm test", "npm test --watch", "npm  'test'", "npm", "npm testing", "npm test; rm x"];
    expect(await verdicts("rules: [{allow: npm test}]", commands)).toEqual([
      "allow",
      "ask",
      "allow",
      "ask",
      "ask",
      "ask",
    ]);
  });

  it("have wildcards: in a word, for one word, for the rest", async () => {
    const text = "rules: [{allow: npm run test:*}, {allow: make * all}, {allow: cargo test *}]";
    const commands = [
      "npm run test:unit",
      "npm run test",
      "npm run test:a b",
      "make -j4 all",
      "make all",
      "make a b all",
    ];
    expect(await verdicts(text, commands)).toEqual(["allow", "ask", "ask", "allow", "ask", "ask"]);
    expect(await verdicts(text, ["cargo test", "cargo test -p x --release", 'cargo test "$x"', "cargo $x"])).toEqual([
      "allow",
      "allow",
      "allow",
      "ask",
    ]);
  });

  it("take what is quoted literally", async () => {
    const text = 'rules: [{allow: "echo2 \'*\' \\"a b\\""}]';
    expect(await verdicts(text, ["echo2 '*' 'a b'", "echo2 x 'a b'", "echo2 * 'a b'"])).toEqual([
      "allow",
      "ask",
      "ask",
    ]);
  });

  it("do not reach another program of that name, a written file, a variable, or a substitution", async () => {
    const commands = [
      "/tmp/npm test",
      "./npm test",
      "npm test > out",
      "PATH=/tmp npm test",
      "npm test $(touch x)",
      "npm test &",
    ];
    expect(await verdicts("rules: [{allow: npm test *}]", commands)).toEqual(commands.map(() => "ask"));
    expect(
      await verdicts("rules: [{allow: npm test}]", ["npm test | head", "timeout 60 npm test", "npm test 2>&1"]),
    ).toEqual(["allow", "allow", "allow"]);
  });

  it("can be bound to a directory, which a cd leaves", async () => {
    const commands = ["npm test", "cd sub && npm test", "cd /tmp/evil && npm test"];
    expect(await verdicts("rules: [{allow: npm test, in: /home/me}]", commands)).toEqual(["allow", "ask", "ask"]);
    expect(await verdicts("rules: [{allow: npm test, in: /home/you}]", commands)).toEqual(["ask", "ask", "ask"]);
    expect(await verdicts("rules: [{allow: npm test}]", commands)).toEqual(["allow", "allow", "allow"]);
  });

  it("count inside a sandbox for the command and what it carries", async () => {
    const sandbox = { sandbox: true };
    const text = "rules: [{allow: sudo apt-get update}, {allow: git push origin *}]";
    expect(await verdicts(text, ["sudo apt-get update", "sudo ls", "git push origin x", "git push"], sandbox)).toEqual([
      "allow",
      "ask",
      "allow",
      "ask",
    ]);
  });
});

describe("deny rules", () => {
  const text = "rules: [{deny: git push, reason: We push by hand.}, {allow: git push *}]";

  it("come before allow rules, in every mode, with the user's reason", async () => {
    for (const options of [{}, { sandbox: true }, { mode: "off" as const }]) {
      const { judge } = await policyOf(text, options);
      expect(judge("git push origin main", place)).toMatchObject({
        verdict: "deny",
        reason: "We push by hand.",
        hardline: false,
      });
    }
  });

  it("reach through carriers, paths, options and disguises", async () => {
    const commands = [
      "/usr/bin/git push",
      "git -C sub push",
      "git --no-pager push origin",
      "git -c a=b push",
      "sudo git push",
      "env A=1 git push",
      "timeout 9 git push",
      "sh -c 'git push'",
      "x=push; git $x",
      "g=git; $g push",
      "git 'push'",
      "ls && git push",
      "echo $(git push)",
      "git pu\\sh",
      "xargs git push < x",
    ];
    expect(await verdicts(text, commands)).toEqual(commands.map(() => "deny"));
  });

  it("do not fit what is only alike", async () => {
    const commands = ["git commit -m push", "git log push", "echo git push", "gitpush"];
    expect((await verdicts(text, commands)).includes("deny")).toBe(false);
  });

  it("find short options however they are joined", async () => {
    const commands = ["rm -rf x", "rm -fr x", "rm -r -f x", "rm x -rf", "rm -r x"];
    expect(await verdicts("rules: [{deny: rm -rf}]", commands)).toEqual(["deny", "deny", "deny", "deny", "ask"]);
  });
});

describe("the rules file", () => {
  it("may be empty", async () => {
    for (const text of ["", "# nothing\n", "rules:\n", "rules: []\n"]) expect(await parseRules(text, "f")).toEqual([]);
  });

  it.each([
    ["rules: {", "rules.yaml:1:"],
    ["allow: [x]", "rules.yaml:1: allow is not known here"],
    ["rules: ls", "rules.yaml: a rules file is a list"],
    ["rules:\n  - ls", 'rules.yaml:2: a rule is "allow: …"'],
    ["rules:\n  - {allow: a, deny: b}", "rules.yaml:2: a rule has either"],
    ["rules:\n  - {reason: x}", "rules.yaml:2: a rule has either"],
    ["rules:\n  - allow: ls\n    why: x", 'rules.yaml:2: the rule "allow: ls" has an unknown key why'],
    ["rules:\n  - allow: 5", "rules.yaml:2: a rule has either"],
    ["rules:\n  - allow: '* x'", 'rules.yaml:2: the rule "allow: * x" must name the program'],
    ["rules:\n  - allow: a; b", 'rules.yaml:2: the rule "allow: a; b" must be one simple command'],
    ["rules:\n  - allow: a > b", 'rules.yaml:2: the rule "allow: a > b" must be one simple command'],
    ["rules:\n  - allow: a $x", 'rules.yaml:2: the rule "allow: a $x" cannot have $x'],
    ["rules:\n  - allow: A=1 b", "must be one simple command"],
    ['rules:\n  - allow: "a \'"', "must be one simple command"],
    ["rules:\n  - {allow: a, in: src}", "in must be an absolute path"],
    ["rules:\n  - {allow: a, examples: [a]}", "examples are lists under allow, ask and deny"],
  ])("says where it is wrong: %j", async (text, message) => {
    await expect(parseRules(text, "rules.yaml")).rejects.toThrow(message);
    await expect(parseRules(text, "rules.yaml")).rejects.toBeInstanceOf(ConfigError);
  });

  it("is checked by its own examples", async () => {
    const good = `
rules:
  - deny: git push
    examples: {deny: [git push origin, sudo git push], allow: [git status]}
  - allow: npm run *
    examples:
      allow: [npm run build]
      ask: [npm publish, npm run x > y]
`;
    await expect(policyOf(good)).resolves.toBeDefined();
    const bad = good.replace("npm publish", "npm run publish");
    await expect(policyOf(bad)).rejects.toThrow(
      'rules.yaml:5: the rule "allow: npm run *" says ask for npm run publish, but it comes out as allow',
    );
  });

  it("is shown in the guide as it works", async () => {
    const guide = readFileSync(new URL("../../docs/policy.md", import.meta.url), "utf8");
    await expect(policyOf(/```yaml\n([^]*?)```/.exec(guide)?.[1] ?? "rules: none")).resolves.toBeDefined();
  });

  it("can also be plain strings of the configuration", async () => {
    const rules = await rulesOf({ allow: ["npm test"], deny: ["git push"] });
    const { judge } = await createPolicy({ rules, mode: "manual", sandbox: false });
    expect([judge("npm test").verdict, judge("git push x").verdict]).toEqual(["allow", "deny"]);
    await expect(rulesOf({ allow: ["a | b"], deny: [] })).rejects.toThrow('approvals.allow[0]: "a | b" must be one');
  });
});

describe("always", () => {
  const text = "# mine\nrules:\n  # tests\n  - allow: npm test # fast\n";

  it("writes a rule and keeps what is there", async () => {
    const added = addRule(text, { effect: "allow", text: "git push origin main", within: "/p", reason: "Asked for." });
    expect(added).toBe(`${text}  - allow: git push origin main\n    in: /p\n    reason: Asked for.\n`);
    expect(addRule(added, { effect: "allow", text: "npm test" })).toBe(added);
    expect(await parseRules(added, "f")).toHaveLength(2);
    for (const empty of ["", "# only a comment\n", "rules: []\n", "rules:\n"]) {
      const first = addRule(empty, { effect: "allow", text: "make" });
      expect(first).toContain("rules:\n  - allow: make\n");
      expect(first.startsWith("# only")).toBe(empty.startsWith("# only"));
    }
  });

  it("is exactly the command that was asked about, and only what had to be asked", async () => {
    const { describeAlways } = await policyOf("");
    expect(describeAlways("git push origin main", place)).toEqual([
      { effect: "allow", text: "git push origin main", within: "/home/me/project" },
    ]);
    expect(describeAlways("ls && npm test -- 'a b' '*'")).toEqual([{ effect: "allow", text: "npm test -- 'a b' '*'" }]);
    expect(describeAlways("npm test && npm run build && npm test")?.map((rule) => rule.text)).toEqual([
      "npm test",
      "npm run build",
    ]);
  });

  it("lets that command run, and no other", async () => {
    const { describeAlways } = await policyOf("");
    for (const command of [
      "npm test",
      "git commit -m 'it''s *'",
      'make -j4 "a;b"',
      "cd sub && make",
      "sudo systemctl restart x",
    ]) {
      const rules = describeAlways(command) ?? [];
      const file = rules.reduce((before, rule) => addRule(before, rule), "");
      const { judge } = await policyOf(file);
      expect(judge(command).verdict).toBe("allow");
      expect(judge(`${command} more`).verdict).toBe("ask");
    }
  });

  it("is not offered where no rule could say it", async () => {
    const { describeAlways } = await policyOf("rules: [{deny: git push}]");
    for (const command of [
      "ls",
      "rm -rf /",
      "git push",
      "make > out",
      'make "$x"',
      "A=1 make",
      "make &",
      "make $(ls)",
      "echo 'x",
    ])
      expect(describeAlways(command, place)).toBeNull();
  });
});
