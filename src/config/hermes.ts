// Settings as Hermes, the program that this one follows, has them: its keys and values become ours, and what has no counterpart is
// named in one warning. A key that neither program knows stays where it is, and the schema refuses it.

import { nearest } from "../core/nearest.ts";
import { VENDORS } from "../core/providers.ts";
import { asBoolean, asList } from "../platform/setting-kinds.ts";
import { at, isTree, type Path, put, type SettingsTree } from "./tree.ts";

type Variable = (name: string) => string | undefined;

/** Top-level keys without a counterpart. */
const IGNORED = new Set(
  `_config_version agent_core attachments auxiliary bedrock browser checkpoints code_execution compression computer_use context
  context_file_max_chars credential_pool_strategies cron curator dashboard database delegation desktop doctor file_read_max_chars
  honcho human_delay image_gen kanban loops lsp max_concurrent_sessions max_live_sessions mcp mcp_discovery_timeout
  mcp_single_query_discovery_timeout moa model_aliases model_catalog model_overrides models_dev monitoring network onboarding openrouter
  paste_collapse_char_threshold paste_collapse_threshold paste_collapse_threshold_fallback personalities platform_hints plugins privacy
  prompt_caching provider_routing proxy runtime secrets session sessions streaming tool_loop_guardrails tool_output tools tts updates
  vertex voice wake_word worktree x_search`.split(/\s+/),
);
/** Top-level keys whose loss changes what the agent does or may do. */
const LOST = new Map(
  Object.entries({
    toolsets: "every tool is offered",
    platform_toolsets: "every tool is offered on every platform",
    command_allowlist: "those commands ask again; write rules into approvals.allow (docs/policy.md)",
    security: "the sandbox and approvals.deny protect files and secrets here (docs/policy.md)",
    hooks: "no script runs on events; webhooks tell the end of turns",
    hooks_auto_accept: "no script runs on events",
    quick_commands: "there are no slash commands of your own; skills can be called by name",
    session_reset: "conversations go on until somebody sends /new",
    prefill_messages_file: "put such texts into AGENTS.md",
    whatsapp: "there is no WhatsApp here",
    matrix: "there is no Matrix here",
    mattermost: "there is no Mattermost here",
  }),
);
/** Keys of the sections that both programs have. In a file that Hermes wrote (`_config_version`), others of the section count too. */
const NESTED: Readonly<Record<string, string>> = {
  model: "streaming ollama_num_ctx default_headers extra_headers api_mode auth_mode entra max_tokens openai_runtime",
  agent: `agent_cache api_max_retries bot_mode_protocol build_wait_timeout coding_context coding_instructions cron_drain_timeout
    empty_response_guard environment_hint environment_probe execution_guidance fast_auto_seconds gateway_notify_interval
    gateway_startup_restore_drain_timeout gateway_startup_warmup_timeout gateway_timeout gateway_timeout_warning
    gateway_turn_lease_timeout image_input_mode intent_ack_continuation max_verify_nudges parallel_tool_call_guidance personalities
    reasoning_effort reasoning_overrides reconnect_attention_after restart_after_turn_timeout run_budget_seconds service_tier
    session_stall_timeout stall_guards system_prompt task_completion_guidance tool_use_enforcement verbose verify_guidance verify_on_stop`,
  terminal: `persistent_shell modal_mode env_passthrough lifetime_seconds sandbox_dir sudo_password shell_init_files auto_source_bashrc
    docker_image docker_env docker_extra_args docker_forward_env docker_mount_cwd_to_workspace docker_run_as_host_user docker_volumes
    singularity_image modal_image daytona_image vercel_runtime home_mode container_cpu container_disk container_memory
    container_persistent ssh_host ssh_user ssh_port ssh_key`,
  display: `skin personality streaming platforms resume_display bell_on_complete inline_diffs show_cost interim_assistant_messages
    tool_progress_command tool_preview_length background_process_notifications busy_text_mode busy_ack_enabled final_response_markdown
    cleanup_progress runtime_footer language tui_mouse timestamps`,
  approvals: "mcp_reload_confirm destructive_slash_confirm gateway_timeout",
  memory: "memory_char_limit user_char_limit nudge_interval flush_min_turns write_approval",
  skills:
    "disabled platform_disabled template_vars inline_shell inline_shell_timeout guard_agent_created config write_approval",
  logging: "max_size_mb backup_count",
  goals: "judge_model judge_timeout",
  web: "backend search_backend extract_backend crawl_backend use_gateway",
  telemetry: "enabled local_metrics",
  gateway:
    "strict media_delivery_allow_dirs trust_recent_files trust_recent_files_seconds proxy_url platforms session_store_max_age_days",
};
const MCP =
  "timeout connect_timeout sampling auth oauth client_cert client_key ssl_verify supports_parallel_tool_calls keepalive_interval";

const COMPATIBLE = "openai-compatible";
const KNOWN_PROVIDERS = new Map<string, { provider: string; base_url?: string }>(
  Object.entries({
    ...Object.fromEntries("custom ollama vllm llamacpp".split(" ").map((name) => [name, { provider: COMPATIBLE }])),
    "openai-api": { provider: "openai" },
    lmstudio: { provider: COMPATIBLE, base_url: "http://127.0.0.1:1234/v1" },
    openrouter: { provider: COMPATIBLE, base_url: "https://openrouter.ai/api/v1" },
  }),
);
const OURS = new Set(["auto", "openai-compatible", "openai", "anthropic", "demo"]);
const LEVELS = new Map(Object.entries({ warning: "warn", critical: "error", notset: "debug" }));

/** Changes `tree`. `variable`: of the environment and .env; `known`: our keys below a section. */
export function fromHermes(tree: SettingsTree, variable: Variable, known: (section: string) => readonly string[]) {
  const warnings: string[] = [];
  /** What nobody should guess; each is an error. */
  const problems: string[] = [];
  /** Where a value stood before it was moved, by its key now. */
  const moved = new Map<string, Path>();
  /** Variables that must not override what the file says. */
  const shadowed: string[] = [];
  const ignored: string[] = [];
  const lost: string[] = [];
  const isTheirs = "_config_version" in tree;

  for (const key of Object.keys(tree)) {
    const why = LOST.get(key);
    if (!IGNORED.has(key) && why === undefined) continue;
    const empty = isEmpty(tree[key]) || key === "_config_version";
    delete tree[key];
    if (empty) continue;
    if (why === undefined) ignored.push(key);
    else lost.push(`${key} (${why})`);
  }
  expand(tree, variable, (name) =>
    warnings.push(`\${${name}} in config.yaml is not set: the value that refers to it counts as not set.`),
  );
  providers();
  terminal();
  agent();
  approvals();
  memory();
  platforms();
  logging();
  speech();
  for (const [section, names] of Object.entries(NESTED)) drop([section], names, isTheirs);
  for (const name of Object.keys(sectionAt(["mcp_servers"]))) drop(["mcp_servers", name], MCP, false);

  if (ignored.length || lost.length)
    warnings.push(
      [
        ignored.length ? `These settings of Hermes have no effect here: ${ignored.toSorted().join(", ")}.` : "",
        lost.length ? `What is different without these: ${lost.join("; ")}.` : "",
        "Remove them from config.yaml to silence this; docs/hermes.md says more.",
      ]
        .filter(Boolean)
        .join(" "),
    );
  return { warnings, problems, moved, shadowed };

  function sectionAt(path: readonly string[]): SettingsTree {
    const found = at(tree, path);
    return isTree(found) ? found : {};
  }

  /** Takes a value out. */
  function take(path: readonly string[]): unknown {
    const section = sectionAt(path.slice(0, -1));
    const name = path.at(-1) ?? "";
    const value = Object.hasOwn(section, name) ? section[name] : undefined;
    delete section[name];
    return isEmpty(value) && !Array.isArray(value) ? undefined : value;
  }

  /** Our own name wins where both are there. */
  function set(from: readonly string[], to: string, value: unknown): void {
    const path = to.split(".");
    if (value === undefined || at(tree, path) !== undefined) return;
    if (put(tree, path, value)) moved.set(to, from);
  }

  function rename(from: string, to: string, read: (value: unknown) => unknown = (value) => value): void {
    const path = from.split(".");
    const value = take(path);
    if (value !== undefined) set(path, to, read(value));
  }

  function drop(path: readonly string[], names: string, others: boolean): void {
    const section = sectionAt(path);
    const theirs = new Set(names.split(/\s+/));
    for (const name of Object.keys(section)) {
      if (!theirs.has(name) && !others) continue;
      const ours = known(path.join("."));
      if (ours.includes(name) || (!theirs.has(name) && nearest(name, ours) !== null)) continue;
      if (!isEmpty(section[name])) ignored.push([...path, name].join("."));
      delete section[name];
    }
  }

  function providers(): void {
    const named = new Map<string, SettingsTree>();
    const listed = take(["custom_providers"]);
    for (const one of Array.isArray(listed) ? listed : [])
      if (isTree(one) && typeof one["name"] === "string") named.set(one["name"].toLowerCase(), one);
    const section = sectionAt(["providers"]);
    for (const [name, one] of Object.entries(section)) {
      if (!isTree(one)) continue;
      const vendor = VENDORS.some((known) => known.name === name);
      const keyEnv = take(["providers", name, "key_env"]);
      if (typeof keyEnv === "string")
        set(["providers", name, "key_env"], `providers.${name}.api_key`, variable(keyEnv));
      drop(
        ["providers", name],
        "request_timeout_seconds stale_timeout_seconds models name api_mode extra_headers extra_body model default_model",
        false,
      );
      const address = one["base_url"] ?? one["url"] ?? one["api"];
      if (vendor || (address === undefined && Object.keys(one).length > 0)) continue;
      delete section[name];
      if (address !== undefined) named.set(name.toLowerCase(), { ...one, base_url: address });
    }
    rename("model.model", "model.default");
    rename("model.name", "model.default");
    const primary = sectionAt(["model"]);
    const wrong = endpoint(primary, named);
    if (wrong) problems.push(`model.provider ${wrong}`);
    const older = take(["fallback_model"]);
    if (older !== undefined) set(["fallback_model"], "fallback_providers", [older].flat());
    const list = at(tree, ["fallback_providers"]);
    if (!Array.isArray(list)) return;
    const kept = list.filter((one) => {
      const wrong = isTree(one) ? endpoint(one, named) : null;
      if (wrong) lost.push(`fallback_providers.provider ${wrong}`);
      return !wrong;
    });
    put(tree, ["fallback_providers"], kept);
  }

  /** As one of our formats, with an address; what is wrong with it, or null. */
  function endpoint(wanted: SettingsTree, named: ReadonlyMap<string, SettingsTree>): string | null {
    const keyEnv = wanted["key_env"] ?? wanted["api_key_env"];
    delete wanted["key_env"];
    delete wanted["api_key_env"];
    delete wanted["api_mode"];
    if (typeof keyEnv === "string") wanted["api_key"] ??= variable(keyEnv);
    const provider = wanted["provider"];
    if (typeof provider !== "string" || !provider.trim()) return null;
    const name = provider.trim().toLowerCase();
    const own = named.get(name.replace(/^custom:/, ""));
    if (own) {
      const { base_url, api_key, key_env } = own;
      wanted["provider"] = COMPATIBLE;
      wanted["base_url"] ??= base_url;
      wanted["api_key"] ??= api_key ?? (typeof key_env === "string" ? variable(key_env) : undefined);
      return null;
    }
    const usual = KNOWN_PROVIDERS.get(name);
    if (usual) {
      wanted["provider"] = usual.provider;
      if (isEmpty(wanted["base_url"]) && usual.base_url) wanted["base_url"] = usual.base_url;
      return null;
    }
    if (OURS.has(name) || !(isTheirs || name.startsWith("custom:") || NOT_HERE.has(name))) return null; // or the schema's error
    return `${JSON.stringify(name)} is not available here. If the server speaks OpenAI's protocol, set provider: custom and base_url`;
  }

  function terminal(): void {
    rename("terminal.backend", "terminal.env_type");
    const given = at(tree, ["terminal", "env_type"]) ?? variable("TERMINAL_ENV");
    if (typeof given === "string" && BACKENDS.has(given.trim().toLowerCase()))
      problems.push(
        `terminal.backend is ${given}, but hermes runs commands only on this machine (in a sandbox). Set it to local if that is what you want`,
      );
    const cwd = at(tree, ["terminal", "cwd"]);
    if (typeof cwd === "string" && /^(\.|auto|cwd)?$/.test(cwd.trim())) take(["terminal", "cwd"]);
  }

  function agent(): void {
    const turns = take(["agent", "max_turns"]);
    if (turns !== undefined) {
      const endless = /^"?(none|unlimited|inf|infinite|0|-1)"?$/i.test(JSON.stringify(turns));
      set(["agent", "max_turns"], "agent.max_iterations", endless ? ENDLESS : turns);
      shadowed.push("HERMES_MAX_ITERATIONS"); // as there
    }
    rename("agent.gateway_auto_continue_freshness", "agent.resume_within", (value) =>
      Number(value) === 0 ? ENDLESS : value,
    );
    const disabled = take(["agent", "disabled_toolsets"]);
    if (Array.isArray(disabled) && disabled.length) lost.push("agent.disabled_toolsets (those tools are offered)");
  }

  function approvals(): void {
    const mode = at(tree, ["approvals", "mode"]);
    if (mode === "smart") {
      put(tree, ["approvals", "mode"], "manual");
      warnings.push("approvals.mode smart is manual here: a person is asked, no model decides.");
    }
    const modes = ["cron_mode", "single_query_mode"]
      .map((name) => take(["approvals", name]))
      .filter((one) => one !== undefined);
    if (!modes.length) return;
    const allow = modes.map((one) => typeof one === "string" && /^(approve|allow|off|yolo)$/i.test(one));
    set(["approvals", "cron_mode"], "approvals.unattended", allow.every(Boolean) ? "allow" : "deny");
    if (allow.includes(true) && allow.includes(false))
      warnings.push(
        "approvals.cron_mode and single_query_mode differ; approvals.unattended holds for both, and is deny.",
      );
  }

  function memory(): void {
    const [notes, profile] = ["memory_enabled", "user_profile_enabled"].map((name) =>
      asBoolean(take(["memory", name]) ?? true),
    );
    if (notes === false && profile === false) set(["memory", "memory_enabled"], "memory.provider", ["sessions"]);
    else if (notes === false || profile === false)
      warnings.push("memory.memory_enabled and user_profile_enabled are one switch here: notes are on.");
    const provider = at(tree, ["memory", "provider"]);
    if (typeof provider !== "string" || !MEMORIES.has(provider.trim().toLowerCase())) return;
    take(["memory", "provider"]);
    lost.push(`memory.provider ${provider} (there is no such memory here; the built-in ones are used)`);
  }

  function platforms(): void {
    const all = take(["platforms"]);
    const inner = take(["gateway", "platforms"]);
    const both = { ...(isTree(inner) ? inner : {}), ...(isTree(all) ? all : {}) };
    for (const name of ["telegram", "discord", "slack"]) {
      platform(name, both[name], ["platforms", name]);
      platform(name, take([name]), [name]);
    }
    const { api_server: api, telegram: _t, discord: _d, slack: _s, ...rest } = both;
    if (isTree(api)) {
      const extra = isTree(api["extra"]) ? api["extra"] : {};
      for (const key of ["enabled", "key", "host", "port", "cors_origins", "model_name"])
        set(["platforms", "api_server"], `gateway.api_server.${key}`, api[key] ?? extra[key]);
    }
    for (const [name, one] of Object.entries(rest))
      if (isTree(one) && asBoolean(one["enabled"]) !== false)
        lost.push(`platforms.${name} (there is no such platform here)`);
    rename("unauthorized_dm_behavior", "gateway.strangers");
    rename("group_sessions_per_user", "gateway.shared_groups", (value) => asBoolean(value) === false);
    if (asBoolean(take(["thread_sessions_per_user"])) === true)
      lost.push("thread_sessions_per_user (all in a thread share one session)");
    rename("timezone", "schedule.zone");
  }

  function platform(name: string, given: unknown, from: readonly string[]): void {
    if (!isTree(given)) return;
    const extra = isTree(given["extra"]) ? given["extra"] : {};
    const settings: SettingsTree = { ...extra, ...given };
    const to = (key: string) => `gateway.${name}.${key}`;
    if (asBoolean(settings["enabled"]) === false) set(from, to("enabled"), false);
    set(from, to(name === "slack" ? "bot_token" : "token"), settings["token"] || undefined);
    if (name === "slack") set(from, to("app_token"), settings["app_token"] || undefined);
    const root = settings["base_url"];
    if (typeof root === "string" && root) set(from, to("api_root"), root.replace(/\/bot\/?$/, ""));
    set(from, to("require_mention"), settings["require_mention"]);
    set(from, to("allowed_chats"), list(settings["allowed_chats"] ?? settings["allowed_channels"]));
    set(from, to("free_response_chats"), list(settings["free_response_chats"] ?? settings["free_response_channels"]));
    set(from, to("allowed_users"), list(settings["allowed_users"] ?? settings["allow_from"]));
    const home = settings["home_channel"];
    set(from, to("home_chat"), (isTree(home) ? home["chat_id"] : home) || undefined);
    const used =
      /^(enabled|token|app_token|base_url|base_file_url|require_mention|(allowed|free_response)_(chats|channels)|allowed_users|allow_from|home_channel|extra)$/;
    for (const key of Object.keys(settings))
      if (!used.test(key) && !isEmpty(settings[key])) ignored.push([...from, key].join("."));
  }

  function speech(): void {
    const given = take(["stt", "provider"]);
    const name = typeof given === "string" ? given : "";
    const own = take(["stt", name]);
    const settings = isTree(own) ? own : {};
    const commands = take(["stt", "providers"]);
    const command = isTree(commands) ? at(commands, [name, "command"]) : undefined;
    const server = SPEECH.get(name);
    const from = ["stt", "provider"];
    if (server) {
      set(from, "stt.base_url", settings["base_url"] || variable("STT_OPENAI_BASE_URL") || server.url);
      set(from, "stt.model", settings["model"] || server.model);
      set(from, "stt.api_key", settings["api_key"] || server.keys.map(variable).find(Boolean));
    }
    set(from, "stt.command", command);
    set(from, "stt.language", settings["language"] || undefined);
    const elsewhere = ["HERMES_LOCAL_STT_COMMAND", "STT_OPENAI_BASE_URL", "VOICE_TOOLS_OPENAI_KEY"].some(variable);
    const ours = ["command", "base_url", "api_key"].some((key) => at(tree, ["stt", key]) !== undefined);
    if (name && !server && !ours && !elsewhere)
      lost.push(`stt.provider: ${name} (voice messages are not transcribed; set stt.base_url or stt.command)`);
    drop(["stt"], "local openai groq mistral xai elevenlabs local_command echo_transcripts", isTheirs);
  }

  function logging(): void {
    const level = at(tree, ["logging", "level"]);
    const word = typeof level === "string" ? LEVELS.get(level.trim().toLowerCase()) : undefined;
    if (word) put(tree, ["logging", "level"], word);
    const progress = at(tree, ["display", "platforms"]);
    for (const [name, one] of Object.entries(isTree(progress) ? progress : {})) {
      const value = isTree(one) ? one["tool_progress"] : undefined;
      if (value !== undefined && ["telegram", "discord", "slack"].includes(name))
        set(["display", "platforms", name], `gateway.${name}.tool_progress`, value);
    }
    take(["display", "platforms"]);
  }
}

/** Servers that transcribe speech in the way of OpenAI. */
const SPEECH = new Map(
  Object.entries({
    openai: {
      url: "https://api.openai.com/v1",
      model: "whisper-1",
      keys: ["VOICE_TOOLS_OPENAI_KEY", "OPENAI_API_KEY"],
    },
    groq: { url: "https://api.groq.com/openai/v1", model: "whisper-large-v3-turbo", keys: ["GROQ_API_KEY"] },
  }),
);

/** More model calls than any turn has. */
const ENDLESS = 1_000_000_000;
const BACKENDS = new Set("docker ssh modal daytona singularity vercel_sandbox".split(" "));
const MEMORIES = new Set("honcho mem0 hindsight byterover holographic openviking retaindb supermemory".split(" "));
const NOT_HERE = new Set(
  `nous nous-api openai-codex copilot copilot-acp gemini zai kimi-coding kimi-coding-cn minimax minimax-cn huggingface nvidia xiaomi arcee
  ollama-cloud deepinfra kilocode ai-gateway azure-foundry deepseek alibaba bedrock vertex xai xai-oauth qwen-oauth google-gemini-cli
  minimax-oauth opencode-zen opencode-go stepfun novita moa`.split(/\s+/),
);

const isEmpty = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (isTree(value) && Object.values(value).every(isEmpty));

const list = (value: unknown): unknown => {
  const items = asList(value);
  return Array.isArray(items) && items.length === 0 ? undefined : (items ?? undefined);
};

/** `${NAME}`, but not in rules: there it is a part of a command. */
function expand(tree: SettingsTree, variable: Variable, unset: (name: string) => void): void {
  for (const [key, value] of Object.entries(tree))
    if (!["approvals", "prices", "__proto__"].includes(key)) tree[key] = expanded(value);

  function expanded(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(expanded);
    if (isTree(value)) return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, expanded(inner)]));
    if (typeof value !== "string" || !value.includes("${")) return value;
    return value.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
      const found = variable(name);
      if (found === undefined) unset(name);
      return found ?? "";
    });
  }
}
