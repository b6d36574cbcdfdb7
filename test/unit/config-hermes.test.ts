// The settings of Hermes: a home that the program itself wrote (../shared/data/hermes-home), and each kind of key by itself.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { ConfigError } from "../../src/core/errors.ts";
import { chooseEndpoints } from "../../src/llm/endpoint.ts";
import { HERMES_FIXTURE } from "../fakes/hermes-home.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hermes-config-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const load = (yaml: string, env: NodeJS.ProcessEnv = {}) => {
  writeFileSync(join(home, "config.yaml"), yaml);
  return loadConfig({ home, env });
};
const problems = (yaml: string, env: NodeJS.ProcessEnv = {}): string => {
  try {
    load(yaml, env);
    return "";
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
};

describe("the configuration that Hermes wrote", () => {
  const loaded = () => loadConfig({ home: join(HERMES_FIXTURE, "home"), env: {} });

  it("loads, by the meaning of each key", () => {
    const { config } = loaded();
    expect(chooseEndpoints(config)).toMatchObject([
      { provider: "openai-compatible", model: "fake-1", baseUrl: "http://127.0.0.1:8000/v1", context: 131_072 },
      { provider: "openai-compatible", model: "some/fallback-model", apiKey: "sk-or-fake-0000" },
    ]);
    expect(config.agent).toMatchObject({ max_iterations: 60, restart_drain_timeout: 30 });
    expect(config.terminal).toMatchObject({ env_type: "local", timeout: 120 });
    expect(config.approvals).toMatchObject({ mode: "manual", timeout: 120, unattended: "deny", allow: [] });
    expect(config.memory.provider).toEqual(["files", "sessions"]);
    expect(config.schedule.zone).toBe("Europe/Warsaw");
    expect(config.gateway.api_server).toMatchObject({ enabled: true, key: "fake-api-server-key-0123456789abcdef" });
    expect(config.gateway.telegram).toMatchObject({
      allowed_users: ["1001", "1002"],
      api_root: "https://api.telegram.org",
      home_chat: "1001",
      tool_progress: "new",
      require_mention: true,
    });
    expect(config.mcp_servers.files?.enabled).toBe(false);
  });

  it("gets one warning, which names what has no effect and what is lost", () => {
    const { warnings, secrets } = loaded();
    expect(warnings).toHaveLength(1);
    const [warning = ""] = warnings;
    for (const key of [
      "compression",
      "auxiliary",
      "agent.reasoning_effort",
      "display.skin",
      "mcp_servers.files.timeout",
    ])
      expect(warning).toContain(key);
    for (const key of ["toolsets (", "command_allowlist (", "session_reset (", "quick_commands (", "security ("])
      expect(warning).toContain(key);
    for (const secret of secrets) expect(warning).not.toContain(secret);
  });

  it("knows every key that Hermes has", () => {
    const rows = readFileSync(join(HERMES_FIXTURE, "config-keys.tsv"), "utf8").trim().split("\n").slice(1);
    const keys = rows.map((row) => row.split("\t")).filter(([key, how]) => how !== "variable" && key);
    const lost = new Set(keys.filter(([, how]) => how === "ignored" || how === "lost").map(([key = ""]) => key));
    const yaml = [...lost].map((key) => `${key}: {some_setting: 1}`).join("\n");
    expect(problems(yaml)).toBe("");
    const [warning = ""] = load(yaml).warnings;
    expect(
      [...lost].filter((key) => key !== "_config_version" && key !== "telemetry" && !warning.includes(key)),
    ).toEqual([]);
    expect(problems([...keys].map(([key]) => `${key}:`).join("\n"))).toBe("");
  });
});

describe("values of Hermes", () => {
  it.each<[string, string, unknown]>([
    ["approvals: {mode: false}", "approvals.mode", "off"],
    ["approvals: {mode: smart}", "approvals.mode", "manual"],
    ["approvals: {cron_mode: approve}", "approvals.unattended", "allow"],
    ["approvals: {cron_mode: approve, single_query_mode: deny}", "approvals.unattended", "deny"],
    ["display: {tool_progress: false}", "display.tool_progress", "off"],
    ["agent: {max_turns: 7}", "agent.max_iterations", 7],
    ["agent: {gateway_auto_continue_freshness: 60}", "agent.resume_within", 60],
    ["terminal: {backend: local, cwd: .}", "terminal.cwd", undefined],
    ["model: {model: some/model}", "model.default", "some/model"],
    ["model: {provider: lmstudio, default: m}", "model.base_url", "http://127.0.0.1:1234/v1"],
    ["model: {provider: openai-api}", "model.provider", "openai"],
    [
      "model: {default: m, provider: custom, base_url: 'http://x/v1', api_key: '${SOME_KEY}'}",
      "model.api_key",
      "from-env",
    ],
    [
      "model: {provider: 'custom:spare', default: m}\ncustom_providers: [{name: Spare, base_url: 'http://s/v1', key_env: SOME_KEY}]",
      "model.api_key",
      "from-env",
    ],
    [
      "model: {provider: mine, default: m}\nproviders: {mine: {base_url: 'http://mine/v1'}}",
      "model.base_url",
      "http://mine/v1",
    ],
    ["fallback_model: {provider: openrouter, model: x}", "fallback_providers.0.provider", "openai-compatible"],
    ["logging: {level: WARNING}", "logging.level", "warn"],
    ["memory: {memory_enabled: false, user_profile_enabled: false}", "memory.provider", ["sessions"]],
    ["group_sessions_per_user: false", "gateway.shared_groups", true],
    ["unauthorized_dm_behavior: ignore", "gateway.strangers", "ignore"],
    ["platforms: {telegram: {enabled: false}}", "gateway.telegram.enabled", false],
    ["platforms: {slack: {token: xoxb-1, extra: {app_token: xapp-1}}}", "gateway.slack.app_token", "xapp-1"],
    ["discord: {allowed_channels: '12, 34'}", "gateway.discord.allowed_chats", ["12", "34"]],
    ["LLM_MODEL: from-the-top", "model.default", "from-the-top"],
    ["web: {search_backend: searxng, search: {url: 'http://s:8888'}}", "web.search.url", "http://s:8888"],
    ["skills: {external_dirs: [/srv/skills]}", "skills.external_dirs", ["/srv/skills"]],
  ])("%s", (yaml, key, value) => {
    const { config } = load(yaml, { SOME_KEY: "from-env" });
    expect(key.split(".").reduce<unknown>((node, name) => Reflect.get(Object(node), name), config)).toEqual(value);
  });

  it("that would run commands elsewhere stop the start", () => {
    expect(problems("terminal: {backend: docker}")).toContain("terminal.backend is docker");
    expect(problems("", { TERMINAL_ENV: "ssh" })).toContain("ssh");
    expect(problems("model: {provider: nous, default: m}")).toContain('"nous" is not available here');
  });

  it("that nobody knows are still an error, also in a file of Hermes", () => {
    expect(problems("_config_version: 38\nmodle: {default: x}")).toContain("did you mean model?");
    expect(problems("_config_version: 38\nagent: {max_iteration: 3}")).toContain("agent.max_iterations");
    expect(load("_config_version: 38\nagent: {some_new_thing: 3}").warnings.join()).toContain("agent.some_new_thing");
    expect(problems("agent: {some_new_thing: 3}")).toContain("agent.some_new_thing is not a known key");
    expect(problems("approvals: {mode: sometimes}")).toContain("must be one of manual, off");
  });

  it("name what is not set, and what opens a door there", () => {
    expect(load("model: {api_key: '${NOWHERE}'}").warnings.join()).toContain("${NOWHERE}");
    expect(load("", { TELEGRAM_ALLOW_ALL_USERS: "true" }).warnings.join()).toContain(
      "TELEGRAM_ALLOW_ALL_USERS has no effect",
    );
    expect(load("", { GATEWAY_ALLOW_ALL_USERS: "false" }).warnings).toEqual([]);
  });
});
