import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import { createPolicy } from "../../src/policy/policy.ts";
import { addRule, parseRules, rulesOf } from "../../src/policy/rules.ts";

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
    ["rules:\n  - {allow: a, deny: b}", "rules.yaml:2: a rule has one of"],
    ["rules:\n  - {reason: x}", "rules.yaml:2: a rule has one of"],
    ["rules:\n  - allow_exact: a; b", "needs the directory it is for"],
    ["rules:\n  - allow: ls\n    why: x", 'rules.yaml:2: the rule "allow: ls" has an unknown key why'],
    ["rules:\n  - allow: 5", "rules.yaml:2: a rule has one of"],
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

  it("writes a rule and leaves what is there as it is", async () => {
    const added = addRule(text, { effect: "allow", text: "git push origin main", within: "/p", reason: "Asked for." });
    expect(added).toBe(`${text}  - allow: git push origin main\n    in: /p\n    reason: Asked for.\n`);
    expect(addRule(added, { effect: "allow", text: "npm test" })).toBe(added);
    expect(await parseRules(added, "f")).toHaveLength(2);
    for (const empty of ["", "# only a comment\n", "rules: []\n", "rules:\n", "rules: # none yet\n"]) {
      const first = addRule(empty, { effect: "allow", text: "make" });
      expect(first).toMatch(/rules:(?: # none yet)?\n {2}- allow: make\n/);
      expect(first.startsWith("# only")).toBe(empty.startsWith("# only"));
    }
    const odd =
      "rules:\n    # b\n    -   allow:   'npm test'  # c\n        in:  /p\n\n    - allow: >\n        make\n        it\n\n# end\n";
    const kept = addRule(odd, { effect: "allow_exact", text: "a &&\n  b", within: "/p" });
    expect(kept.replace(/ {4}- allow_exact: [^]*?in: \/p\n/, "")).toBe(odd);
    expect((await parseRules(kept, "f")).at(-1)).toMatchObject({
      effect: "allow_exact",
      text: "a &&\n  b",
      within: "/p",
    });
  });

  it("keeps any text exactly", async () => {
    const characters = [
      "a",
      "b",
      " ",
      "\t",
      "\n",
      "\r",
      ":",
      "#",
      "'",
      '"',
      "\\",
      "|",
      ">",
      "-",
      "{",
      "}",
      "[",
      "]",
      "é",
      "\0",
      "\u202e",
    ];
    const texts = fc.array(fc.string({ unit: fc.constantFrom(...characters) }), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(texts, async (commands) => {
        const file = commands.reduce(
          (before, command) => addRule(before, { effect: "allow_exact", text: command, within: "/p" }),
          "rules: # mine\n  - deny: x # never\n",
        );
        expect(file.startsWith("rules: # mine\n  - deny: x # never\n")).toBe(true);
        const kept = (await parseRules(file, "f")).slice(1).map((rule) => rule.text);
        expect(kept).toEqual([...new Set(commands)]);
      }),
      { numRuns: 500, examples: [[[" \n"]], [["a\n \nb", "\n"]]] },
    );
  });

  it("is the whole command in its directory, also where several commands were asked about", async () => {
    const { describeAlways } = await policyOf("");
    const command = "rm -rf build && git push --force origin main";
    const rule = { effect: "allow_exact", text: command, within: "/home/me/project" } as const;
    expect(describeAlways(command, place)).toEqual(rule);
    const { judge } = await policyOf(addRule("", rule));
    expect(judge(command, place).verdict).toBe("allow");
    for (const other of ["git push --force origin main", "rm -rf build", `${command} `, `${command}; ls`])
      expect(judge(other, place).verdict).toBe("ask");
    for (const cwd of ["/home/me/project/sub", "/home/me", undefined])
      expect(judge(command, { ...place, cwd }).verdict).toBe("ask");
  });

  it("lets any command run that was asked about, also what cannot be read", async () => {
    const { describeAlways } = await policyOf("");
    for (const command of [
      "npm test",
      "make > out",
      'make "$x"',
      "A=1 make",
      "make &",
      "echo 'x",
      "cd sub && ./t.sh",
      "cat <<E\n  a\nE\nmake",
    ]) {
      const rule = describeAlways(command, place);
      const file = rule ? addRule("", rule) : "";
      for (const options of [{}, { mode: "off" as const }, { sandbox: true }]) {
        const { judge } = await policyOf(file, options);
        expect(judge(command, place).verdict).toBe("allow");
      }
    }
  });

  it("never lets run what must not run", async () => {
    const file = addRule(addRule("", { effect: "allow_exact", text: "rm -rf /", within: place.cwd }), {
      effect: "allow_exact",
      text: "ls; git push",
      within: place.cwd,
    });
    expect(await verdicts(addRule(file, { effect: "deny", text: "git push" }), ["rm -rf /", "ls; git push"])).toEqual([
      "deny",
      "deny",
    ]);
  });

  it("is not offered where there is nothing to allow", async () => {
    const { describeAlways } = await policyOf("rules: [{deny: git push}]");
    for (const command of ["ls", "rm -rf /", "git push", "x".repeat(70_000)])
      expect(describeAlways(command, place)).toBeNull();
    expect(describeAlways("make", { home: "/home/me" })).toBeNull();
  });
});

describe("a program named by a path", () => {
  it("is the file of the rule's directory, not one of that name elsewhere", async () => {
    const rule = "rules: [{allow: ./t.sh *, in: /home/me/project}]";
    expect(
      await verdicts(rule, ["./t.sh", "./t.sh a", "/home/me/project/t.sh", "cd sub && ./t.sh", "link/../t.sh"]),
    ).toEqual(["allow", "allow", "allow", "ask", "ask"]);
    const { judge } = await policyOf(rule);
    for (const cwd of ["/home/me/project/sub", "/home/me", undefined])
      expect(judge("./t.sh", { cwd, home: "/home/me" }).verdict).toBe("ask");
  });

  it("needs a directory where it is relative", async () => {
    await expect(parseRules("rules: [{allow: ./t.sh}]", "f")).rejects.toThrow('add "in: <directory>"');
    await expect(rulesOf({ allow: ["sub/t.sh"], deny: [] })).rejects.toThrow("write its absolute path");
    await expect(parseRules("rules: [{allow: /p/t.sh}, {deny: ./t.sh}]", "f")).resolves.toHaveLength(2);
  });
});

describe("what is asked about", () => {
  it("is each risky part with its own reason", async () => {
    const { judge } = await policyOf("");
    const { reason, part, parts } = judge("ls && rm -rf build && cat a > b; git push", place);
    expect(parts).toEqual([
      { text: "> b", reason: "It writes a file." },
      { text: "rm -rf build", reason: "`rm` can delete files, so approval is needed." },
      { text: "git push", reason: "`git push` can change another repository, so approval is needed." },
    ]);
    expect({ reason, text: part }).toEqual(parts[0]);
    expect(judge("ls", place).parts).toEqual([]);
    expect(judge("rm -rf /; git push", place).parts).toHaveLength(1);
  });

  it("inside a sandbox as well, and not without bound", async () => {
    const { judge } = await policyOf("", { sandbox: true });
    expect(judge("rm -rf build; ls; git push", place).parts.map(({ text }) => text)).toEqual([
      "rm -rf build",
      "git push",
    ]);
    const many = Array.from({ length: 300 }, (_none, index) => `git push r${index}`).join(";");
    expect(judge(many, place).parts).toHaveLength(20);
  });
});
