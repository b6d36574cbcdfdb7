// What `npm pack` makes, installed beside nothing but the packages that it names: the program on a machine with any Node, the bundled chat
// libraries, and the client for Node, browsers and TypeScript.
import { execFile, execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Script } from "node:vm";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import pkg from "../../package.json" with { type: "json" };
import { startFakeDiscord } from "../fakes/chat/discord.ts";
import { startFakeSlack } from "../fakes/chat/slack.ts";
import { startFakeTelegram } from "../fakes/chat/telegram.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { startFakeLlm } from "../fakes/llm/server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ANNA = { id: "801234567890123456", name: "Anna" };
const disposing = new AsyncDisposableStack();
/** Without the Node that the tests run on. */
const PATH = process.env["PATH"]
  ?.split(delimiter)
  .filter((one) => !one.endsWith(join("node_modules", ".bin")))
  .join(delimiter);
let dir: string;
let place: Place;
let installed: string;

const run = (command: string, args: string[], more: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) =>
  execFileSync(command, args, { cwd: dir, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], ...more });

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "hermes-package-"));
  const source = join(dir, "source");
  for (const file of [".npmrc", "package.json", "bin", "README.md", "LICENSE", "CHANGELOG.md", "src"])
    cpSync(join(root, file), join(source, file), { recursive: true });
  run(process.execPath, [join(root, "scripts/build.ts"), "--into", join(source, "dist")]);
  run("npm", ["pack", "--ignore-scripts", "--pack-destination", dir], { cwd: source });
  const modules = join(dir, "node_modules");
  installed = join(modules, "hermes-ts");
  mkdirSync(installed, { recursive: true });
  run("tar", ["xzf", join(dir, `hermes-ts-${pkg.version}.tgz`), "--strip-components=1", "-C", installed]);
  const node = Object.keys(pkg.optionalDependencies).find((name) => process.execPath.includes(`/${name}/`));
  for (const name of node ? [node, "@vscode"] : ["@vscode"])
    symlinkSync(join(root, "node_modules", name), join(modules, name));
}, 120_000);
afterAll(async () => {
  await disposing.disposeAsync();
  place.clear();
  rmSync(dir, { recursive: true, force: true });
});

describe("the packed program", () => {
  it("has bytecode of each of its files, which V8 takes", () => {
    const files = globSync("*-*.cjs", { cwd: join(installed, "dist") }).map((name) => join(installed, "dist", name));
    const refused = files.filter((filename) => {
      const script = new Script(readFileSync(filename, "utf8"), {
        filename,
        cachedData: readFileSync(`${filename}.code`),
      });
      return script.cachedDataRejected !== false;
    });
    expect(files.length).toBeGreaterThan(20);
    expect(refused).toEqual([]);
  });

  it("has the licenses of the packages that are bundled into it", () => {
    const licenses = readFileSync(join(installed, "dist/LICENSES.txt"), "utf8");
    for (const name of ["undici", "preact", "pg", "highlight.js", "@ai-sdk/openai"])
      expect(licenses).toMatch(new RegExp(`^${name} [0-9.]+: `, "m"));
  });

  it("has neither sources nor tests in it", () => {
    const files = run("find", [installed, "-type", "f"]).split("\n");
    expect(files.filter((file) => /\/(?:src|test|scripts)\/|(?<!\.d)\.ts$/.test(file.slice(installed.length)))).toEqual(
      [],
    );
  });

  it("answers on all chats and over HTTP, with the version of the package", { timeout: 60_000 }, async () => {
    const llm = disposing.use(await startFakeLlm());
    const [telegram, discord, slack] = await Promise.all([startFakeTelegram(), startFakeDiscord(), startFakeSlack()]);
    for (const one of [telegram, discord, slack]) disposing.use(one);
    place = makePlace(
      {
        PATH,
        ...llm.env,
        ...telegram.env(999),
        DISCORD_BOT_TOKEN: discord.token,
        DISCORD_API_ROOT: discord.apiRoot,
        DISCORD_ALLOWED_USERS: ANNA.id,
        SLACK_BOT_TOKEN: slack.botToken,
        SLACK_APP_TOKEN: slack.appToken,
        SLACK_API_ROOT: slack.apiRoot,
        SLACK_ALLOWED_USERS: "U0ANNA0001",
      },
      join(installed, "bin", "hermes"),
    );
    expect(run(join(installed, "bin", "hermes"), ["--version"], { env: place.env() })).toBe(`${pkg.version}\n`);

    const { hermes: gateway, url } = await place.startGateway();
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: "ok", version: pkg.version });

    expect(await (await fetch(`${url}/`)).text()).toContain("/console/app.js");

    telegram.say({ from: { id: 999, name: "Anna" }, text: "hello" });
    expect((await telegram.nextMessage(999)).text).toBe("Hello from the fake model.");
    discord.say({ from: ANNA, content: "hello" });
    expect((await discord.nextMessage(discord.dm(ANNA))).content).toBe("Hello from the fake model.");
    slack.say({ from: { id: "U0ANNA0001", name: "Anna" }, text: "hello" });
    expect((await slack.nextMessage(slack.dm({ id: "U0ANNA0001", name: "Anna" }))).text).toBe(
      "Hello from the fake model.",
    );

    const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
    writeFileSync(
      join(dir, "use.mjs"),
      `import { createClient } from "hermes-ts/client";
       const client = createClient({ url: "${url}", key: "${key}" });
       const { run_id } = await client.start("hello");
       const { output } = await client.wait(run_id);
       console.log(output);`,
    );
    const { stdout } = await promisify(execFile)("node", ["use.mjs"], { cwd: dir, env: { PATH }, timeout: 30_000 });
    expect(stdout).toBe("Hello from the fake model.\n");
    gateway.kill("SIGTERM");
    expect(await gateway.exit).toBe(0);
  });
});

describe("the packed client", () => {
  it("has types that the strictest compiler accepts, with Node's types and with a browser's", () => {
    writeFileSync(
      join(dir, "use.ts"),
      `import { createClient, HermesError, type RunEvent } from "hermes-ts/client";
       const client = createClient({ url: "http://127.0.0.1:8642", key: "k" });
       export const last = async (): Promise<RunEvent | undefined> => {
         const { run_id } = await client.start("hello", { mode: "queue" });
         let last: RunEvent | undefined;
         try { for await (const event of client.events(run_id)) last = event; }
         catch (error) { if (!(error instanceof HermesError) || error.status !== 404) throw error; }
         // @ts-expect-error: there is no such choice
         await client.approve(run_id, "maybe");
         return last;
       };`,
    );
    symlinkSync(join(root, "node_modules", "@types"), join(dir, "node_modules", "@types"));
    const strict = [
      "--strict",
      "--exactOptionalPropertyTypes",
      "--noUncheckedIndexedAccess",
      "--noEmit",
      "--ignoreConfig",
    ];
    const tsc = (...more: string[]) => run(join(root, "node_modules/.bin/tsc"), [...strict, ...more, "use.ts"]);
    tsc("--module", "nodenext", "--types", "node", "--lib", "es2022");
    tsc(
      "--module",
      "esnext",
      "--moduleResolution",
      "bundler",
      "--target",
      "es2022",
      "--types",
      "",
      "--lib",
      "es2022,dom",
    );
  });

  it("goes into a bundle for browsers, with nothing of Node's", async () => {
    const bundle = await rolldown({ cwd: dir, input: join(installed, "dist/client.js"), platform: "browser" });
    const { output } = await bundle.generate({ format: "esm" });
    expect(output).toHaveLength(1);
    expect(output[0].imports).toEqual([]);
    expect(output[0].code).not.toMatch(/\b(?:process|Buffer|require)\b[.(]|node:/);
  });
});
