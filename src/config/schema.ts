// The schema of the configuration: all keys, their defaults, the values they accept, and the variables that set them.
import * as z from "zod";
import { channelSections, channelVariables } from "../chats/channels.ts";
import { formats, VENDORS, type Vendor } from "../core/providers.ts";
import { MODES } from "../core/session.ts";
import {
  asBoolean,
  asList,
  databaseAddress,
  offWord,
  oneOf,
  onOff,
  price,
  rules,
  seconds,
  section,
  text,
  texts,
  toolProgress,
  webAddress,
  whole,
  yesNo,
} from "../platform/setting-kinds.ts";

const PROVIDERS = ["auto", ...formats] as const;

type Account = { api_key?: string | undefined; base_url?: string | undefined };
const account = ({ addressVariable }: Vendor): z.ZodType<Account> => {
  const api_key = text().optional();
  return addressVariable ? section({ api_key, base_url: webAddress().optional() }) : section({ api_key });
};
export const DRAIN_TIMEOUT = { key: "agent.restart_drain_timeout", default: 60 };
export const drainTimeout = seconds(0);

export const schema = section({
  model: section({
    default: text().optional(),
    provider: oneOf(...PROVIDERS).default("auto"),
    base_url: webAddress().optional(),
    api_key: text().optional(),
    /** Context window in tokens, if the default is wrong. */
    context_length: whole(1_000).optional(),
    /** Seconds of silence after which a model call is ended; the default depends on the length of the input. */
    stale_timeout: seconds(1).optional(),
  }),
  /** Set by the vendors' own variables. `model.api_key` and `model.base_url` take precedence. */
  providers: section(Object.fromEntries(VENDORS.map((vendor) => [vendor.name, account(vendor)]))),
  fallback_providers: z
    .array(
      section({
        provider: oneOf(...PROVIDERS).default("auto"),
        model: text(),
        base_url: webAddress().optional(),
        api_key: text().optional(),
        context_length: whole(1_000).optional(),
      }),
      "must be a list",
    )
    .default([]),
  agent: section({
    max_iterations: whole(1).default(90),
    max_concurrent_turns: whole(1).default(32),
    restart_drain_timeout: drainTimeout.default(DRAIN_TIMEOUT.default),
    auto_resume: yesNo().default(true),
    /** Turns that were cut longer ago are not resumed by themselves. */
    resume_within: seconds(0).default(3600),
    clarify_timeout: seconds(1).default(3600),
    exit_watchdog: seconds(1).default(30),
  }),
  display: section({
    busy_input_mode: oneOf(...MODES).default("interrupt"),
    /** What becomes of the messages that wait when the person stops the turn at a terminal. */
    queued_after_stop: oneOf("run", "edit").default("run"),
    compact: yesNo().default(false),
    show_reasoning: yesNo().default(false),
    tool_progress: toolProgress().default("all"),
    theme: oneOf("auto", "dark", "light", "mono").default("auto"),
    /** Print lines only, never redraw. */
    plain: yesNo().default(false),
    /** Source of a conversation's title: its first message, or a model that has read its first turn. */
    titles: oneOf("message", "model").default("message"),
  }),
  /** Keyed by the name of the model. */
  prices: z
    .record(
      z.string(),
      section({ input: price(), output: price(), cached: price().optional() }),
      "must be a section: the name of a model, and its prices below it",
    )
    .default({}),
  terminal: section({
    env_type: oneOf("local").default("local"),
    timeout: seconds(1).default(180),
    cwd: text().optional(),
    sandbox: oneOf("auto", "off", "required").default("auto"),
    /** What commands in the sandbox can reach: nothing, hosts that a person allows, or every public host. */
    network: z.preprocess(onOff, oneOf("off", "ask", "on")).default("ask"),
    /** Hosts and presets that are allowed without asking. */
    network_allow: texts(),
    /** Megabytes for one command and everything it starts; half of the memory by default. */
    memory: whole(64).optional(),
    /** Directories that tools may write to, besides the working directory. */
    writable: texts(),
    /** Paths in home directories that sandboxed commands may read, besides programs. */
    readable: texts(),
  }),
  approvals: section({
    mode: z.preprocess(offWord, oneOf("manual", "off")).default("manual"),
    timeout: seconds(1).default(300),
    unattended: oneOf("deny", "allow").default("deny"),
    /** Who decides on approvals in a chat: the person whose turn it is, or only admins, who are asked in their
     *  private chats. */
    chat: oneOf("asker", "admins").default("asker"),
    deny: rules(),
    allow: rules(),
  }),
  memory: section({
    /** The memories in use; an empty list means none. */
    provider: z
      .preprocess(asList, z.array(oneOf("files", "sessions", "http", "mcp"), "must be a list"))
      .default(["files", "sessions"]),
    /** Milliseconds that a turn waits for memory at its start. */
    recall_timeout: whole(0).default(300),
    http: section({ url: webAddress().optional(), token: text().optional() }),
    mcp: section({
      server: text().optional(),
      add_tool: text().optional(),
      search_tool: text().optional(),
      text_argument: text().optional(),
      query_argument: text().optional(),
      scope_argument: text().optional(),
      key_argument: text().optional(),
    }),
  }),
  mcp_servers: z
    .record(
      z.string(),
      section({
        command: z
          .preprocess((value) => (typeof value === "string" ? [value] : value), z.array(text(), "must be a list"))
          .optional(),
        args: z.array(z.string("must be text"), "must be a list").default([]),
        env: z.record(z.string(), z.string("must be text"), "must be a section").default({}),
        /** Working directory of the program; by default a directory of its own. */
        cwd: text().startsWith("/", "must be an absolute path").optional(),
        sandbox: yesNo().default(false),
        readable: texts(),
        network: yesNo().default(true),
        url: webAddress().optional(),
        headers: z.record(z.string(), z.string("must be text"), "must be a section").default({}),
        enabled: yesNo().default(true),
        /** Which of its tools are offered: these, or all but those. */
        tools: section({ include: texts(), exclude: texts() }),
      })
        .refine(
          ({ command, url }) => (command === undefined) !== (url === undefined),
          "must have either command or url",
        )
        .refine(({ command, sandbox }) => command !== undefined || !sandbox, "can have a sandbox only with command"),
      "must be a section: a name and its settings for each server",
    )
    .default({}),
  gateway: section({
    api_server: section({
      enabled: yesNo().default(true),
      host: text().default("127.0.0.1"),
      port: whole(0, 65_535).default(8642),
      key: text().optional(),
      cors_origins: texts(),
      /** Host names of a proxy, besides our own addresses. */
      allowed_hosts: texts(),
      max_concurrent_runs: whole(0).default(10),
      /** Requests per minute from one address; 0 means no limit. */
      rate_limit: whole(0).default(0),
      model_name: text().optional(),
    }),
    ...channelSections,
    /** What somebody who is not on the list hears in a private chat: how to pair, or nothing. */
    strangers: oneOf("pair", "ignore").default("pair"),
    /** Whether all in a group share one conversation. */
    shared_groups: yesNo().default(false),
  }),
  schedule: section({ zone: text().optional() }),
  /** What one goal may use before it is paused; 0: no limit. */
  goals: section({
    max_turns: whole(0).default(20),
    max_tokens: whole(0).default(2_000_000),
    max_cost: price().default(5),
    max_time: seconds(0).default(14_400),
  }),
  skills: section({ external_dirs: texts() }),
  /** Voice messages: by a server with OpenAI's API, or by a command. */
  stt: section({
    enabled: yesNo().default(true),
    base_url: webAddress().optional(),
    api_key: text().optional(),
    model: text().default("whisper-1"),
    language: text().optional(),
    command: text().optional(),
    timeout: seconds(1).default(120),
  }),
  web: section({ search: section({ url: webAddress().optional() }) }),
  /** Addresses that are called at the end of each turn. */
  webhooks: z
    .array(section({ url: webAddress(), secret: text().min(16, "must have at least 16 characters") }), "must be a list")
    .default([]),
  telemetry: section({
    /** Where spans are sent (OTLP over HTTP); without it nothing is sent. */
    endpoint: webAddress().optional(),
    headers: z.record(z.string(), z.string("must be text"), "must be a section").default({}),
    /** Whether spans contain the text of conversations. */
    content: yesNo().default(false),
  }),
  /** Where conversations are stored; without `url`, in a file in the home. */
  store: section({ url: databaseAddress().optional() }),
  /** Several nodes on one PostgreSQL. With a secret this process is one of them. */
  cluster: section({
    secret: text().min(16, "must have at least 16 characters").optional(),
    /** Where the other nodes reach this one; by default where its API listens. */
    address: webAddress().optional(),
    /** Whether all nodes have the same working directory. */
    workspace: oneOf("shared", "local").default("local"),
  }),
  retention: section({ runs_days: whole(0).default(30) }),
  logging: section({ level: oneOf("debug", "info", "warn", "error").default("info") }),
});

export type Config = Frozen<z.output<typeof schema>>;
type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** This variable turns approvals off, so an unclear value is an error and not a yes. */
const yolo = (value: string) => {
  const on = asBoolean(value);
  if (on === true) return "off";
  return on === false ? undefined : value;
};

const vendorVariables = ({ name, keyVariable, addressVariable }: Vendor) => [
  [keyVariable, { key: `providers.${name}.api_key` }] as const,
  ...(addressVariable ? [[addressVariable, { key: `providers.${name}.base_url` }] as const] : []),
];

export const VARIABLES: Readonly<Record<string, { key: string; read?: (value: string) => string | undefined }>> = {
  HERMES_INFERENCE_MODEL: { key: "model.default" },
  LLM_MODEL: { key: "model.default" },
  ...Object.fromEntries(VENDORS.flatMap(vendorVariables)),
  HERMES_MAX_ITERATIONS: { key: "agent.max_iterations" },
  HERMES_GATEWAY_BUSY_INPUT_MODE: { key: "display.busy_input_mode" },
  HERMES_RESTART_DRAIN_TIMEOUT: { key: DRAIN_TIMEOUT.key },
  HERMES_EXIT_WATCHDOG_S: { key: "agent.exit_watchdog" },
  HERMES_YOLO_MODE: { key: "approvals.mode", read: yolo },
  API_SERVER_ENABLED: { key: "gateway.api_server.enabled" },
  API_SERVER_HOST: { key: "gateway.api_server.host" },
  API_SERVER_PORT: { key: "gateway.api_server.port" },
  API_SERVER_KEY: { key: "gateway.api_server.key" },
  API_SERVER_CORS_ORIGINS: { key: "gateway.api_server.cors_origins" },
  API_SERVER_MODEL_NAME: { key: "gateway.api_server.model_name" },
  TERMINAL_ENV: { key: "terminal.env_type" },
  TERMINAL_CWD: { key: "terminal.cwd", read: (value) => (value === "." ? undefined : value) },
  TERMINAL_TIMEOUT: { key: "terminal.timeout" },
  STT_OPENAI_BASE_URL: { key: "stt.base_url" },
  STT_OPENAI_MODEL: { key: "stt.model" },
  VOICE_TOOLS_OPENAI_KEY: { key: "stt.api_key" },
  HERMES_LOCAL_STT_COMMAND: { key: "stt.command" },
  HERMES_LOCAL_STT_LANGUAGE: { key: "stt.language" },
  SEARXNG_URL: { key: "web.search.url" },
  HERMES_TIMEZONE: { key: "schedule.zone" },
  OTEL_EXPORTER_OTLP_ENDPOINT: { key: "telemetry.endpoint" },
  HERMES_STORE_URL: { key: "store.url" },
  HERMES_CLUSTER_SECRET: { key: "cluster.secret" },
  HERMES_CLUSTER_ADDRESS: { key: "cluster.address" },
  HERMES_CLUSTER_WORKSPACE: { key: "cluster.workspace" },
  ...channelVariables,
};

/** Keys whose values are never shown: those with the name of a secret, and the environment and headers of MCP
 *  servers. */
export const isSecretKey = (key: string): boolean =>
  /(^|\.)(api_key|key|token|bot_token|app_token|secret)(\.|$)|^mcp_servers\..*\.(env|headers)(\.|$)|^telemetry\.headers(\.|$)|^store\.url$/.test(
    key,
  );

/** All keys, dotted; `*` stands for an item of a list, or for a name that the user chose. */
export const knownKeys = (): string[] => keysBelow(z.toJSONSchema(schema, { io: "input" }), "");

/** The names of the keys in a section, such as `agent` or `mcp_servers.files`. */
export const knownBelow = (section: string): string[] => {
  const parts = section.split(".");
  const below = knownKeys()
    .map((key) => key.split("."))
    .filter((names) => parts.every((part, depth) => names[depth] === part || names[depth] === "*"));
  return [...new Set(below.map((names) => names[parts.length] ?? ""))];
};

/** The names in the key of a value or a section, or null if there is no such key. A name that the user chose may contain dots:
 *  `prices.gpt-5.1.input`. */
export const pathOfKey = (key: string): string[] | null => {
  const keys = knownKeys().map((known) => known.split("."));
  for (let depth = Math.max(...keys.map(({ length }) => length)); depth > 0; depth -= 1)
    for (const names of keys.filter(({ length }) => length >= depth)) {
      const pattern = names.slice(0, depth).map((name) => (name === "*" ? "(.+)" : `(${name})`));
      const found = new RegExp(`^${pattern.join("\\.")}$`).exec(key);
      if (found) return found.slice(1);
    }
  return null;
};

const keysBelow = (node: z.core.JSONSchema._JSONSchema, key: string): string[] => {
  if (typeof node === "boolean") return [key];
  const { properties, additionalProperties, items } = node;
  if (properties)
    return Object.entries(properties).flatMap(([name, child]) =>
      keysBelow(child, key === "" ? name : `${key}.${name}`),
    );
  const each = Array.isArray(items) ? undefined : (items ?? additionalProperties);
  return typeof each === "object" && each.properties ? keysBelow(each, `${key}.*`) : [key];
};
