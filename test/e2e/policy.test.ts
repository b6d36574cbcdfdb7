// hermes policy, as a person and a program use it.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openHomePolicy } from "../../src/policy/home-policy.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { needs } from "../needs.ts";

let place: Place;
beforeEach(() => {
  place = makePlace();
});
afterEach(() => place.clear());

async function run(...args: string[]) {
  const hermes = place.start(["policy", ...args]);
  hermes.hangUp();
  return { code: await hermes.exit, out: hermes.stdout() };
}
const check = (...args: string[]) => run("check", ...args);

const boxed = await needs("sandbox");

function configure(sandbox: "off" | "required"): void {
  const work = join(place.dir, "work"); // a home is too much for a sandbox
  mkdirSync(work);
  mkdirSync(place.home, { mode: 0o700 });
  writeFileSync(join(place.home, "config.yaml"), `terminal: {sandbox: ${sandbox}, cwd: ${work}}\n`, { mode: 0o600 });
}

describe("hermes policy check", () => {
  it.each([
    ["ls -la", [], /^allow: /],
    ["touch x", ["--no-sandbox"], /^ask: .*\n {2}touch x/],
    ["touch x && rm y", ["--no-sandbox"], /^ask: .*\n {2}touch x\nask: .*\n {2}rm y\n$/],
    ["touch x", ["--sandbox"], /^allow: /],
    ["rm -rf /", ["--sandbox"], /^deny: /],
  ])("%s %j", async (command, flags, says) => {
    const { code, out } = await check(command, ...flags);
    expect(code).toBe(0);
    expect(out).toMatch(says);
  });

  it("judges with the sandbox that is in force", async () => {
    configure("off");
    expect((await check("touch x")).out).toMatch(/^ask: /);
  });

  boxed.it("judges what runs in a sandbox as that", async () => {
    configure("required");
    expect((await check("touch x")).out).toMatch(/^allow: /);
    expect((await check("sudo id")).out).toMatch(/^allow: /); // no host is allowed: it can only fail
  });

  it("--stdin: one JSON string a line in, one verdict a line out", async () => {
    const hermes = place.start(["policy", "check", "--stdin", "--no-sandbox"]);
    hermes.type('"ls"\n"echo ok\\ntouch x"\nnot json\n');
    hermes.hangUp();
    expect(await hermes.exit).toBe(2);
    expect(
      hermes
        .stdout()
        .trimEnd()
        .split("\n")
        .map((line) => line.split("\t", 1)[0]),
    ).toEqual(["allow", "ask", "error"]);
  });

  it("knows the user's rules, and says which file is wrong where one is", async () => {
    mkdirSync(place.home, { mode: 0o700 });
    writeFileSync(join(place.home, "config.yaml"), 'approvals: {allow: ["touch *"], deny: ["ls *"]}\n', {
      mode: 0o600,
    });
    expect((await check("touch x")).out).toMatch(/^allow/);
    expect((await check("ls x")).out).toMatch(/^deny/);
    writeFileSync(join(place.home, "policy.yaml"), "allow: 3\n", { mode: 0o600 });
    expect((await check("ls")).code).toBe(78);
  });
});

describe("hermes policy rules", () => {
  it("lists what was saved, and revoke takes it back, also in a process that runs", async () => {
    const file = join(place.home, "policy.yaml");
    mkdirSync(place.home, { mode: 0o700 });
    const kept = "# mine\nrules:\n  - deny: git push # by hand\n  - allow_exact: touch x\n    in: /work\n";
    writeFileSync(file, kept, { mode: 0o600 });
    writeFileSync(join(place.home, "hosts.allow"), "# hosts\nexample.org\nexample.com\n", { mode: 0o600 });
    const lists = { allow: [], deny: [] };
    const policy = await openHomePolicy({ file, lists, mode: "manual", sandbox: false, userHome: place.dir });
    expect((await policy.judge("touch x", "/work")).verdict).toBe("allow");

    const rows = async () =>
      (await run("rules", "--json")).out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    const [deny, exact, ...hosts] = await rows();
    expect([deny.rule, exact.rule, exact.within]).toEqual(["deny: git push", "allow_exact: touch x", "/work"]);
    expect(hosts.map(({ id }) => id)).toEqual(["example.org", "example.com"]);
    expect((await run("rules")).out).toContain(`${exact.id}  ${file}:4\n    allow_exact: touch x\n    in /work\n`);

    expect((await run("revoke", exact.id)).code).toBe(0);
    expect((await run("revoke", "example.org")).code).toBe(0);
    expect((await rows()).map(({ rule }) => rule)).toEqual(["deny: git push", "example.com"]);
    expect(readFileSync(file, "utf8")).toBe("# mine\nrules:\n  - deny: git push # by hand\n");
    expect((await policy.judge("touch x", "/work")).verdict).toBe("ask");

    writeFileSync(file, "rules: [");
    const unread = await policy.judge("ls", "/work");
    expect([unread.verdict, unread.reason]).toEqual(["ask", expect.stringContaining("policy.yaml:1")]);
    writeFileSync(file, "");
    expect((await policy.judge("ls", "/work")).verdict).toBe("allow");
    await policy.close();
  });
});
