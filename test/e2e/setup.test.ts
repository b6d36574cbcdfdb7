// hermes setup: by flags, and on a terminal. What it writes, what it leaves alone, and that it works afterwards.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Place } from "../fakes/hermes.ts";
import { startFakeLlm } from "../fakes/llm/server.ts";
import { llm, place, useProgram } from "../fakes/program.ts";
import { needs } from "../needs.ts";

type Hermes = ReturnType<Place["start"]>;

const KEY = "made-up-canary-0123456789";
useProgram({ llm: { apiKey: KEY, models: ["zebra-1", "fake-model"] }, knowsProvider: false });

const file = (name: string) => join(place.home, name);
const read = (name: string) => readFileSync(file(name), "utf8");
function write(name: string, ...lines: string[]) {
  mkdirSync(place.home, { recursive: true, mode: 0o700 });
  writeFileSync(file(name), lines.map((line) => `${line}\n`).join(""), { mode: 0o644 });
}
function setup(flags: string, { key = "", env = {} }: { key?: string; env?: NodeJS.ProcessEnv } = {}): Hermes {
  const hermes = place.start(["setup", ...flags.split(" ").filter(Boolean)], env);
  hermes.type(key);
  hermes.hangUp();
  return hermes;
}
const OWN = () => `--provider openai-compatible --base-url ${llm.url} --model fake-model`;
async function expectWorks() {
  const hermes = place.start(["run", "hi"]);
  hermes.hangUp();
  expect(await hermes.exit, hermes.stderr()).toBe(0);
  expect(hermes.stdout()).toBe("Hello from the fake model.\n");
}

describe("hermes setup by flags", () => {
  it.each(["openai-compatible", "openai", "anthropic"])(
    "%s: tries it, writes both files, and works",
    async (provider) => {
      const flags = `--provider ${provider} --base-url ${llm.url} --model fake-model --key-stdin --yes`;
      const hermes = setup(flags, { key: `${KEY}\n` });
      expect(await hermes.exit, hermes.stderr()).toBe(0);
      expect(hermes.stdout()).toMatch(/The test passed: answered in \d+\.\d s\./);
      for (const name of ["config.yaml", ".env"]) {
        expect(hermes.stdout()).toContain(`Wrote ${file(name)}`);
        expect(statSync(file(name)).mode & 0o777).toBe(0o600);
      }
      expect(read(".env")).toContain(`_API_KEY=${KEY}`);
      expect(readdirSync(place.home).sort()).toEqual([".env", "config.yaml", "logs"]);
      await expectWorks();
      expect(new Set(llm.requests.map(({ format }) => format)).size).toBe(1);
    },
  );

  it("never shows the key, also when the provider does, and keeps it out of config.yaml", async () => {
    const said = JSON.stringify({ error: { message: `what is ${KEY}?` } });
    llm.script({ fault: { status: 400, body: said } });
    const refused = setup(`${OWN()} --key-stdin --yes`, { key: KEY });
    expect(await refused.exit).toBe(1);
    expect(refused.stderr()).toContain("what is [redacted]?");
    const done = setup(`${OWN()} --key-stdin --yes`, { key: KEY });
    expect(await done.exit).toBe(0);
    for (const text of [refused.stdout(), refused.stderr(), done.stdout(), done.stderr(), read("config.yaml")])
      expect(text).not.toContain("canary");
  });

  it("keeps comments, other keys and other lines", async () => {
    write(
      "config.yaml",
      "# my settings",
      "model:",
      "  # the usual",
      "  default: old/model # was slow",
      "  stale_timeout: 300",
      "",
      "# people",
      "gateway:",
      "  discord: {allowed_users: [123456789012345678]}",
    );
    write(".env", "# secrets", "TELEGRAM_BOT_TOKEN=abc", "export OPENAI_API_KEY='old'", "OTHER=1");
    expect(await setup(`${OWN()} --key-stdin --yes`, { key: KEY }).exit).toBe(0);
    expect(read("config.yaml").split("\n")).toEqual([
      "# my settings",
      "model:",
      "  # the usual",
      "  default: fake-model # was slow",
      "  stale_timeout: 300",
      "  provider: openai-compatible",
      `  base_url: ${llm.url}`,
      "",
      "# people",
      "gateway:",
      "  discord: {allowed_users: [123456789012345678]}",
      "",
    ]);
    expect(read(".env")).toBe(`# secrets\nTELEGRAM_BOT_TOKEN=abc\nOPENAI_API_KEY=${KEY}\nOTHER=1\n`);
    for (const name of ["config.yaml", ".env"]) expect(statSync(file(name)).mode & 0o777).toBe(0o600);
  });

  it("keeps the window and the prices that the server says, and no window of another model", async () => {
    const pricing = { prompt: "0.000001", completion: "0.000002" };
    const priced = await startFakeLlm({
      apiKey: KEY,
      models: [{ id: "large-1.5", context_length: 65_536, pricing }, "zebra-1"],
    });
    write("config.yaml", "model: {default: old/model, context_length: 32000}");
    write(".env", `OPENAI_API_KEY=${KEY}`);
    const at = `--provider openai-compatible --base-url ${priced.url}`;
    expect(await setup(`${at} --model large-1.5 --yes`).exit).toBe(0);
    expect(read("config.yaml")).toContain("context_length: 65536");
    expect(read("config.yaml")).toContain("prices:\n  large-1.5:\n    input: 1\n    output: 2\n");
    expect(await setup(`${at} --model zebra-1 --yes`).exit).toBe(0);
    expect(read("config.yaml")).not.toContain("context_length");
    const misspelt = setup(`${at} --model zebra1 --yes`);
    expect(await misspelt.exit).toBe(1);
    expect(misspelt.stderr()).toContain('The endpoint has no model "zebra1". Did you mean zebra-1?');
    await expectWorks();
    await priced.close();
  });

  it("takes `model: some/model` for what it means, and a section with nothing in it", async () => {
    write("config.yaml", "model: old/model", "agent:");
    write(".env", `OPENAI_API_KEY=${KEY}`);
    expect(await setup(`--provider openai-compatible --base-url ${llm.url} --model fake-model --yes`).exit).toBe(0);
    expect(read("config.yaml")).toContain("model:\n  default: fake-model\n");
  });

  it("changes what is given, and leaves the key and the rest as they are", async () => {
    await setup(`${OWN()} --key-stdin --yes`, { key: KEY }).exit;
    const env = read(".env");
    const hermes = setup("--provider openai-compatible --model zebra-1 --yes");
    expect(await hermes.exit, hermes.stderr()).toBe(0);
    expect(hermes.stdout()).not.toContain(".env");
    expect(read(".env")).toBe(env);
    expect(read("config.yaml")).toContain(`base_url: ${llm.url}`);
    expect(llm.requests.map(({ body }) => body)).toMatchObject([{ model: "fake-model" }, { model: "zebra-1" }]);
  });

  it("never sends the key of one server to another", async () => {
    write("config.yaml", "model: {default: m, base_url: http://127.0.0.1:9/v1, api_key: key-of-the-other}");
    const hermes = setup(`${OWN()} --yes`);
    expect(await hermes.exit).toBe(1);
    expect(llm.requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    expect(read("config.yaml")).toContain("key-of-the-other"); // it did not work, so nothing was changed
    expect(await setup(`${OWN()} --key-stdin --yes`, { key: KEY }).exit).toBe(0);
    expect(read("config.yaml")).not.toContain("key-of-the-other");
  });

  it("leaves a link a link", async () => {
    write("config.yaml");
    mkdirSync(join(place.dir, "dotfiles"));
    const target = join(place.dir, "dotfiles", "hermes.env");
    writeFileSync(target, "A=b\n");
    symlinkSync(target, file(".env"));
    expect(await setup(`${OWN()} --key-stdin --yes`, { key: KEY }).exit).toBe(0);
    expect(lstatSync(file(".env")).isSymbolicLink()).toBe(true);
    expect(readFileSync(target, "utf8")).toBe(`A=b\nOPENAI_API_KEY=${KEY}\n`);
  });

  it("sets the offline demo, for which nothing is needed", async () => {
    const hermes = setup("--provider demo --yes");
    expect(await hermes.exit).toBe(0);
    expect(read("config.yaml")).toBe("model:\n  provider: demo\n");
    expect(existsSync(file(".env"))).toBe(false);
    const run = place.start(["run", "hello"], { OPENAI_API_KEY: KEY });
    run.hangUp();
    expect(await run.exit).toBe(0);
    expect(run.stdout()).toContain("(offline demo)");
  });

  it("says what is stronger than what was chosen, and tries what will be in force", async () => {
    const hermes = setup(`${OWN()} --key-stdin --yes`, { key: KEY, env: { LLM_MODEL: "zebra-1" } });
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).toContain("These settings override your choice: environment variable LLM_MODEL");
    expect(llm.requests.map(({ body }) => body)).toMatchObject([{ model: "zebra-1" }]);
  });
});

describe("hermes setup that does not work out changes nothing", () => {
  it.each<[string, string, RegExp]>([
    ["a key that is refused", "wrong-key-9876543210", /HTTP 401.*The provider refused the key/s],
    ["a key that is none", "two words", /no spaces/],
  ])("%s: says why and what to do", async (_, key, says) => {
    write("config.yaml", "# mine");
    const hermes = setup(`${OWN()} --key-stdin --yes`, { key });
    expect(await hermes.exit).not.toBe(0);
    expect(hermes.stderr()).toMatch(says);
    expect(hermes.stderr()).not.toContain(key);
    expect(readdirSync(place.home)).toEqual(["config.yaml"]);
    expect(read("config.yaml")).toBe("# mine\n");
  });

  it("a server that is not there", async () => {
    const gone = await startFakeLlm();
    await gone.close();
    const hermes = setup(`--provider openai-compatible --base-url ${gone.url} --model m --yes`);
    expect(await hermes.exit).toBe(1);
    expect(hermes.stderr()).toMatch(/The test failed: .*that the server is running.\nhermes: Nothing was changed/);
    expect(existsSync(place.home)).toBe(false);
  });

  it("a configuration with mistakes: they are shown, with exit 78", async () => {
    write("config.yaml", "modle: x", "agent: {max_iterations: lots}");
    const before = read("config.yaml");
    const hermes = setup(`${OWN()} --key-stdin --yes`, { key: KEY });
    expect(await hermes.exit).toBe(78);
    expect(hermes.stderr()).toContain("config.yaml:1: modle is not a known key");
    expect(hermes.stderr()).toContain("config.yaml:2: agent.max_iterations");
    expect(hermes.stderr()).toContain("Nothing was changed");
    expect(read("config.yaml")).toBe(before);
  });

  it("an address that is none, with exit 78", async () => {
    const hermes = setup("--provider openai-compatible --base-url localhost:1234 --model m --yes");
    expect(await hermes.exit).toBe(78);
    expect(hermes.stderr()).toContain("must be an address such as");
    expect(existsSync(place.home)).toBe(false);
  });

  it.each([
    ["", /setup needs a terminal/],
    ["--provider openai", /setup needs a terminal/],
    ["--yes", /setup needs a terminal/],
    ["--provider nobody --yes", /--provider takes openrouter, anthropic/],
    ["--provider openai-compatible --yes", /--base-url is missing/],
    ["--provider openai-compatible --base-url http://127.0.0.1:9/v1 --yes", /--model is missing/],
    ["--provider anthropic --key-stdin --yes", /stdin is empty/],
  ])("flags that are not enough (%s): says what to give or which files to write, with exit 2", async (flags, says) => {
    const hermes = setup(flags);
    expect(await hermes.exit).toBe(2);
    expect(hermes.stderr()).toMatch(says);
    if (flags !== "") return;
    for (const name of ["OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "model.default", file(".env"), file("config.yaml")])
      expect(hermes.stderr()).toContain(name);
  });
});

const onTerminal = await needs("script");
onTerminal.describe("hermes setup on a terminal", () => {
  const ENTER = "\r";
  const DOWN = "\x1b[B";

  async function answer(hermes: Hermes, question: RegExp, keys: string) {
    await hermes.prints(question);
    hermes.type(keys);
  }

  it("asks, lets a wrong key be mended, tries it, and writes", async () => {
    const hermes = place.startOnTerminal(["setup"]);
    await answer(hermes, /Choose a model provider/, DOWN + DOWN + DOWN + ENTER);
    await answer(hermes, /Address of the server/, llm.url + ENTER);
    await answer(hermes, /API key \(Enter: none\)/, `wrong-key${ENTER}`);
    await answer(hermes, /The list is not available: HTTP 401[^]*Name of the model/, `fake-model${ENTER}`);
    await answer(hermes, /Before a risky command/, DOWN + ENTER);
    await answer(hermes, /in a sandbox/, ENTER);
    await answer(hermes, /The test failed: HTTP 401[^]*What now\?/, ENTER);
    await answer(hermes, /What now\?[^]*Choose a model provider/, ENTER);
    await answer(hermes, /What now\?[^]*Address of the server/, ENTER);
    await answer(hermes, /API key \(Enter keeps the present one\)/, KEY + ENTER);
    await answer(hermes, /Search:[^]*zebra-1/, `zeb${ENTER}`);
    await answer(hermes, /What now\?[^]*Before a risky command/, ENTER);
    await answer(hermes, /What now\?[^]*in a sandbox/, ENTER);
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).toContain("The test passed: answered in");
    expect(hermes.stdout()).not.toContain("canary");
    expect(read(".env")).toBe(`OPENAI_API_KEY=${KEY}\n`);
    expect(read("config.yaml")).toBe(
      `model:\n  provider: openai-compatible\n  default: zebra-1\n  base_url: ${llm.url}\napprovals:\n  mode: off\n`,
    );
    await expectWorks();
  });

  it.each([
    ["at the first question", []],
    ["in the middle", [DOWN + ENTER]],
  ])("Ctrl+C %s changes nothing and says so", async (_, keys) => {
    const hermes = place.startOnTerminal(["setup"]);
    await hermes.prints(/Choose a model provider/);
    for (const key of keys) hermes.type(key);
    if (keys.length > 0) await hermes.prints(/API key/);
    hermes.type("\x03");
    expect(await hermes.exit).toBe(130);
    expect(hermes.stdout()).toContain("Nothing was changed.");
    expect(existsSync(place.home)).toBe(false);
  });

  it("Ctrl+C while the model is tried changes nothing and says so", async () => {
    llm.script({ fault: { silence: "accepted" } });
    const hermes = place.startOnTerminal(["setup"]);
    await answer(hermes, /Choose a model provider/, DOWN + DOWN + DOWN + ENTER);
    await answer(hermes, /Address of the server/, llm.url + ENTER);
    await answer(hermes, /API key/, KEY + ENTER);
    await answer(hermes, /Search:/, ENTER);
    await answer(hermes, /Before a risky command/, ENTER);
    await answer(hermes, /in a sandbox/, ENTER);
    await (await llm.nextRequest()).holding;
    hermes.type("\x03");
    expect(await hermes.exit).toBe(130);
    expect(hermes.stdout()).toContain("Nothing was changed.");
    expect(existsSync(place.home)).toBe(false);
  });
});
