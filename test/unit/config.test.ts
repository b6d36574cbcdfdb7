import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Flag, loadConfig } from "../../src/config/config.ts";
import { knownKeys, VARIABLES } from "../../src/config/schema.ts";
import { ConfigError } from "../../src/core/errors.ts";
import { homeAt, homeOf, makeHome } from "../../src/platform/home.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hermes-config-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const yaml = (...lines: string[]) => writeFileSync(join(home, "config.yaml"), lines.join("\n"));
const dotenv = (...lines: string[]) => writeFileSync(join(home, ".env"), lines.join("\n"));
const load = (env: NodeJS.ProcessEnv = {}, flags: Flag[] = []) => loadConfig({ home, env, flags });
const problems = (env: NodeJS.ProcessEnv = {}, flags: Flag[] = []): string[] => {
  try {
    load(env, flags);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
};

describe("seed 002", () => {
  it("load busy input mode prefers env then config then default", () => {
    expect(load().config.display.busy_input_mode).toBe("interrupt");
    yaml("display:", " busy_input_mode: queue");
    expect(load().config.display.busy_input_mode).toBe("queue");
    expect(load({ HERMES_GATEWAY_BUSY_INPUT_MODE: "interrupt" }).config.display.busy_input_mode).toBe("interrupt");
  });

  it("load restart drain timeout prefers env then config then default", () => {
    expect(load().config.agent.restart_drain_timeout).toBe(60);
    yaml("agent:", " restart_drain_timeout: 12");
    expect(load().config.agent.restart_drain_timeout).toBe(12);
    expect(load({ HERMES_RESTART_DRAIN_TIMEOUT: "7" }).config.agent.restart_drain_timeout).toBe(7);
    const { config, warnings } = load({ HERMES_RESTART_DRAIN_TIMEOUT: "invalid" });
    expect(config.agent.restart_drain_timeout).toBe(60);
    expect(warnings.join("\n")).toContain("Invalid restart_drain_timeout");
  });

  it("loads the configuration of the first seed's test unchanged", () => {
    yaml(
      "model: {default: anthropic/claude-opus-4.6, base_url: https://openrouter.ai/api/v1, provider: auto}",
      "display: {compact: false, tool_progress: all}",
      "agent: {}",
      "terminal: {env_type: local}",
    );
    const { config, warnings } = load({ LLM_MODEL: "", HERMES_MAX_ITERATIONS: "" });
    expect(config.model.default).toBe("anthropic/claude-opus-4.6");
    expect(config.agent.max_iterations).toBe(90);
    expect(warnings).toEqual([]);
  });
});

describe("an invalid restart drain timeout", () => {
  it.each(["-1", "soon", "1e999", "NaN", "[5]", "true"])(
    "of %s warns, names its place and takes the default",
    (value) => {
      yaml("agent:", `  restart_drain_timeout: ${value}`);
      const { config, warnings } = load();
      expect(config.agent.restart_drain_timeout).toBe(60);
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toContain("Invalid restart_drain_timeout");
      expect(warnings[0]).toContain("config.yaml:2");
    },
  );

  it("of 0 is not invalid: nothing is waited for", () => {
    const { config, warnings } = load({ HERMES_RESTART_DRAIN_TIMEOUT: "0" });
    expect(config.agent.restart_drain_timeout).toBe(0);
    expect(warnings).toEqual([]);
  });
});

describe("precedence", () => {
  it("is flags, environment, .env, config.yaml, defaults", () => {
    const model = (env: NodeJS.ProcessEnv = {}, flags: Flag[] = []) => load(env, flags).config.model.default;
    expect(model()).toBeUndefined();
    yaml("model: {default: from/yaml}");
    expect(model()).toBe("from/yaml");
    dotenv("LLM_MODEL=from/dotenv");
    expect(model()).toBe("from/dotenv");
    expect(model({ LLM_MODEL: "from/env" })).toBe("from/env");
    expect(model({ LLM_MODEL: "from/env" }, [{ flag: "--model", key: "model.default", value: "from/flag" }])).toBe(
      "from/flag",
    );
    expect(model({}, [{ flag: "--model", key: "model.default", value: undefined }])).toBe("from/dotenv");
  });

  it("takes an empty variable, an empty key and an empty section as not set", () => {
    yaml("model:", "  default: from/yaml", "agent:", "terminal: {cwd: }");
    dotenv("HERMES_MAX_ITERATIONS=", "LLM_MODEL='  '");
    const { config } = load({ LLM_MODEL: "", API_SERVER_PORT: " " });
    expect(config.model.default).toBe("from/yaml");
    expect(config.agent.max_iterations).toBe(90);
    expect(config.terminal.cwd).toBeUndefined();
    expect(config.gateway.api_server.port).toBe(8642);
  });

  it("never reads a .env of the working directory", () => {
    const project = mkdtempSync(join(tmpdir(), "hermes-project-"));
    const before = process.cwd();
    try {
      writeFileSync(join(project, ".env"), "LLM_MODEL=evil/model\nHERMES_YOLO_MODE=1\n");
      writeFileSync(join(project, "config.yaml"), "approvals: {mode: off}\n");
      process.chdir(project);
      const { config } = load();
      expect(config.model.default).toBeUndefined();
      expect(config.approvals.mode).toBe("manual");
    } finally {
      process.chdir(before);
      rmSync(project, { recursive: true });
    }
  });

  it("lets a base URL of the environment beat the file, with the key that belongs to it", () => {
    yaml("model: {base_url: http://file:1/v1, api_key: key-of-the-file}");
    expect(load({ OPENAI_API_KEY: "key-of-the-env" }).config.model).toMatchObject({
      base_url: "http://file:1/v1",
      api_key: "key-of-the-file",
    });
    expect(load({ OPENAI_API_KEY: "key-of-the-env", OPENAI_BASE_URL: "http://env:2/v1" }).config.model).toMatchObject({
      base_url: "http://env:2/v1",
      api_key: "key-of-the-env",
    });
  });

  it("never points Anthropic at the OpenAI variables", () => {
    yaml("model: {provider: anthropic}");
    const env = { OPENAI_BASE_URL: "http://openai:1/v1", ANTHROPIC_BASE_URL: "http://anthropic:2" };
    expect(load(env).config.model.base_url).toBe("http://anthropic:2");
  });
});

describe("values", () => {
  it("are read from text as well as from YAML", () => {
    const { config } = load({
      API_SERVER_ENABLED: "no",
      API_SERVER_PORT: "0",
      API_SERVER_CORS_ORIGINS: "http://a.test, http://b.test,",
      TELEGRAM_ALLOWED_USERS: "123,456",
      HERMES_GATEWAY_BUSY_INPUT_MODE: " Queue ",
    });
    expect(config.gateway.api_server).toMatchObject({
      enabled: false,
      port: 0,
      cors_origins: ["http://a.test", "http://b.test"],
    });
    expect(config.gateway.telegram.allowed_users).toEqual(["123", "456"]);
    expect(config.display.busy_input_mode).toBe("queue");
  });

  it("keep every digit of an id that is larger than a double", () => {
    yaml("gateway: {discord: {allowed_users: [1184523098712345678]}, telegram: {allowed_users: 42}}");
    const { gateway } = load().config;
    expect(gateway.discord.allowed_users).toEqual(["1184523098712345678"]);
    expect(gateway.telegram.allowed_users).toEqual(["42"]);
  });

  it("keep `off` a word, as YAML 1.2 has it", () => {
    yaml("approvals: {mode: off}", "terminal: {sandbox: off}", "display: {compact: yes}");
    const { config } = load();
    expect(config.approvals.mode).toBe("off");
    expect(config.terminal.sandbox).toBe("off");
    expect(config.display.compact).toBe(true);
  });

  it("take a model that is only a name", () => {
    yaml("model: some/model");
    expect(load().config.model).toEqual({ default: "some/model", provider: "auto" });
    expect(load({ LLM_MODEL: "other" }).config.model.default).toBe("other");
  });

  it("turn the questions off by HERMES_YOLO_MODE only on a clear yes", () => {
    const mode = (value: string) => load({ HERMES_YOLO_MODE: value }).config.approvals.mode;
    expect([mode("1"), mode("TRUE"), mode("0"), mode("false"), mode("")]).toEqual([
      "off",
      "off",
      "manual",
      "manual",
      "manual",
    ]);
    expect(problems({ HERMES_YOLO_MODE: "maybe" })).toEqual([
      'environment variable HERMES_YOLO_MODE: approvals.mode must be one of manual, off, not "maybe"',
    ]);
  });

  it("of an MCP server are a command or an address", () => {
    yaml(
      "mcp_servers:",
      "  files: {command: npx, args: [-y, files], env: {A: b}}",
      "  web: {url: https://mcp.test/sse}",
    );
    expect(load().config.mcp_servers.files).toEqual({
      command: ["npx"],
      args: ["-y", "files"],
      env: { A: "b" },
      headers: {},
      sandbox: false,
      readable: [],
      network: true,
      enabled: true,
      tools: { include: [], exclude: [] },
    });
    yaml(
      "mcp_servers:",
      "  both: {command: [npx], url: https://mcp.test}",
      "  neither:",
      "  far: {url: https://mcp.test, sandbox: true}",
      "  near: {command: [npx], cwd: work}",
    );
    expect(problems().map((line) => line.split(": ").slice(1).join(": "))).toEqual([
      "mcp_servers.both must have either command or url",
      "mcp_servers.neither must have either command or url",
      "mcp_servers.far can have a sandbox only with command",
      'mcp_servers.near.cwd must be an absolute path, not "work"',
    ]);
  });

  it("cannot be changed afterwards, at any depth", () => {
    yaml("fallback_providers: [{model: a, provider: demo}]");
    const { config } = load();
    const list: unknown = config.fallback_providers;
    const server: unknown = config.gateway.api_server;
    expect(() => Object.assign(server as object, { port: 1 })).toThrow(TypeError);
    expect(() => (list as unknown[]).push({})).toThrow(TypeError);
    expect(Object.isFrozen(config.fallback_providers[0])).toBe(true);
  });
});

describe("errors", () => {
  it("name key, file and line, value and what is allowed, all at once", () => {
    yaml(
      "agent:",
      "  max_iterations: many",
      "  max_iteration: 3",
      "display: {busy_input_mode: queu}",
      "gateway:",
      "  api_server:",
      "    port: 70000",
      "fallback_providers:",
      "  - provider: demo",
    );
    const file = join(home, "config.yaml");
    expect(problems({ HERMES_EXIT_WATCHDOG_S: "-3" }).toSorted()).toEqual(
      [
        `${file}:2: agent.max_iterations must be a whole number of at least 1, not "many"`,
        `${file}:3: agent.max_iteration is not a known key; did you mean agent.max_iterations?`,
        `${file}:4: display.busy_input_mode must be one of interrupt, queue, steer, not "queu"`,
        `${file}:7: gateway.api_server.port must be a whole number from 0 to 65535, not 70000`,
        `${file}:9: fallback_providers.0.model is missing: it must be text (in quotes, if it looks like a number)`,
        'environment variable HERMES_EXIT_WATCHDOG_S: agent.exit_watchdog must be a number of seconds of at least 1, not "-3"',
      ].toSorted(),
    );
  });

  it("name the .env file or the option that a value came from", () => {
    dotenv("API_SERVER_PORT=http");
    const flags = [{ flag: "--provider", key: "model.provider", value: "openia" }];
    expect(problems({}, flags)).toEqual([
      'option --provider: model.provider must be one of auto, openai-compatible, openai, anthropic, demo, not "openia"',
      `${join(home, ".env")}: API_SERVER_PORT: gateway.api_server.port must be a whole number from 0 to 65535, not "http"`,
    ]);
  });

  it("find a key that was put into the wrong section, and list what is known where nothing is close", () => {
    yaml("busy_input_mode: queue", "memory: {zzzzzz: 1}", "modle: {default: x}");
    expect(problems().map((line) => line.replace(/^.*is not/, "is not"))).toEqual([
      "is not a known key; known keys here: provider, recall_timeout, http, mcp",
      "is not a known key; did you mean display.busy_input_mode?",
      "is not a known key; did you mean model?",
    ]);
  });

  it("refuse an unknown key also where its value is empty, or its name is special to JavaScript", () => {
    yaml("agent: {nonsense: }", "__proto__: {polluted: 1}", "constructor: 2");
    expect(problems()).toHaveLength(3);
    expect({}).not.toHaveProperty("polluted");
  });

  it("say file, line and column of broken YAML", () => {
    yaml("model:", "  default: [a", "agent: {}");
    expect(problems()[0]).toMatch(/config\.yaml:\d+:\d+: not valid YAML: /);
    yaml("a: 1", "a: 2");
    expect(problems()[0]).toContain("config.yaml:2:1: not valid YAML: Map keys must be unique");
    yaml("just words");
    expect(problems()[0]).toContain("must contain sections");
    yaml("a: &a [1]", "b: [*a, *missing]");
    expect(problems()[0]).toContain("not valid YAML: Unresolved alias");
  });

  it("say so when a file cannot be read", () => {
    mkdirSync(join(home, "config.yaml"));
    expect(problems()[0]).toContain("config.yaml: cannot be read");
  });

  it("never show a secret, wherever it was put", () => {
    yaml(
      "model: {api_key: {nested: wobbly-canary-4711}, base_url: 'ftp://me:wobbly-canary-4711@host'}",
      "providers: {openai: wobbly-canary-4711}",
      "gateway: {telegram: wobbly-canary-4711, api_server: {key: [wobbly-canary-4711]}, webhook: {secret: ''}}",
      "mcp_servers: {x: {command: a, env: {PLAIN: [wobbly-canary-4711]}}}",
      "wobbly: wobbly-canary-4711",
    );
    const lines = problems({ TELEGRAM_ALLOWED_USERS: "purple-canary-1", SOME_TOKEN: "purple-canary-1" });
    expect(lines.length).toBeGreaterThan(6);
    expect(lines.join("\n")).not.toContain("canary");
  });

  it("never show a piece of the file when the YAML is broken", () => {
    for (const broken of [
      "key: *canary",
      "key: !canary x",
      'key: "\\canary"',
      "key: @canary",
      "key: 'canary\nb: 'x'",
    ]) {
      yaml(broken);
      expect(problems().join("\n")).toMatch(/not valid YAML: \w/);
      expect(problems().join("\n")).not.toContain("canary");
    }
  });

  it("insist on ids, which nobody else can take over, not on names", () => {
    expect(problems({ TELEGRAM_ALLOWED_USERS: "123,@alice" })).toEqual([
      'environment variable TELEGRAM_ALLOWED_USERS: gateway.telegram.allowed_users must be a numeric user id, not "123,@alice"',
    ]);
    expect(problems({ SLACK_ALLOWED_USERS: "alice" })[0]).toContain("a member id such as U012AB3CD");
  });
});

describe("what is loaded beside the configuration", () => {
  it("says where each value came from, with secrets masked", () => {
    yaml("model:", "  default: some/model", "fallback_providers: [{model: b, api_key: fallback-key-1}]");
    dotenv("TELEGRAM_BOT_TOKEN=123456:abc");
    const { settings } = load({ HERMES_MAX_ITERATIONS: "5" });
    const file = join(home, "config.yaml");
    expect(settings).toEqual([
      { key: "model.default", value: '"some/model"', from: `${file}:2` },
      { key: "fallback_providers.0.model", value: '"b"', from: `${file}:3` },
      { key: "fallback_providers.0.api_key", value: "[redacted]", from: `${file}:3` },
      { key: "agent.max_iterations", value: "5", from: "environment variable HERMES_MAX_ITERATIONS" },
      { key: "gateway.telegram.token", value: "[redacted]", from: `${join(home, ".env")}: TELEGRAM_BOT_TOKEN` },
    ]);
  });

  it("names the secrets of files and environment, also those that are not ours", () => {
    yaml(
      "gateway: {webhook: {secret: hook-secret-0000001}}",
      "mcp_servers: {x: {command: a, env: {ANY: mcp-secret-1}}}",
    );
    dotenv("GITHUB_TOKEN=dotenv-secret-1");
    const { secrets } = load({ OPENAI_API_KEY: "openai-secret-1", DB_PASSWORD: "db-secret-1", PATH: "/usr/bin" });
    expect(secrets.toSorted()).toEqual(
      [
        "hook-secret-0000001",
        "mcp-secret-1",
        "dotenv-secret-1",
        "openai-secret-1",
        "openai-secret-1",
        "db-secret-1",
      ].toSorted(),
    );
  });

  it("warns of a variable that is a letter off one of ours", () => {
    expect(load({ HERMES_MAX_ITERATION: "5", HERMES_OTHER_THING: "x" }).warnings).toEqual([
      "Unknown variable (environment variable HERMES_MAX_ITERATION): did you mean HERMES_MAX_ITERATIONS?",
    ]);
  });
});

describe("the home directory", () => {
  it("is HERMES_HOME, or ~/.hermes", () => {
    expect(homeOf({ HERMES_HOME: "/srv/hermes" }).config).toBe("/srv/hermes/config.yaml");
    expect(homeOf({ HERMES_HOME: "~/h", HOME: "/home/u" }).dir).toBe("/home/u/h");
    expect(homeOf({ HERMES_HOME: "", HOME: "/home/u" }).dir).toBe("/home/u/.hermes");
    expect(homeOf({}).dir).toBe(join(homedir(), ".hermes"));
    writeFileSync(join(home, "config.yaml"), "model: here");
    expect(loadConfig({ env: { HERMES_HOME: home } }).config.model.default).toBe("here");
  });

  it("is made for its owner only, also where it existed and was open", () => {
    const dir = join(home, "new", "home");
    makeHome(homeAt(dir));
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir, "logs")).mode & 0o777).toBe(0o700);
    chmodSync(dir, 0o755);
    makeHome(homeAt(dir));
    expect(statSync(dir).mode & 0o777).toBe(0o700);
  });

  it("leaves a shared directory as it is: closing /tmp would break the machine", () => {
    chmodSync(home, 0o1777);
    makeHome(homeAt(home));
    expect(statSync(home).mode & 0o7777).toBe(0o1777);
  });
});

describe("docs/configuration.md", () => {
  const page = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  it("explains every key and every variable", () => {
    const names = [...knownKeys(), ...Object.keys(VARIABLES)];
    expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });
});
