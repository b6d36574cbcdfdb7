// The schema of the configuration: all keys, their defaults, the values they accept, and the variables that set them.
import * as z from "zod";
import { formats, VENDORS, type Vendor } from "../core/providers.ts";

// Variables are always text and YAML values are often quoted, so every type also reads its text form.
const asNumber = (value: unknown) =>
  typeof value === "string" && /^\s*-?\d+(\.\d+)?\s*$/.test(value) ? Number(value) : value;
const asBoolean = (value: unknown) => {
  const text = String(value).trim().toLowerCase();
  if (["true", "yes", "on", "1"].includes(text)) return true;
  return ["false", "no", "off", "0"].includes(text) ? false : value;
};
const onOff = (value: unknown) => {
  const on = asBoolean(value);
  return typeof on === "boolean" ? (on ? "on" : "off") : value;
};
const asWord = (value: unknown) => (typeof value === "string" ? value.trim().toLowerCase() : value);
const asList = (value: unknown) => {
  if (typeof value === "number") return [value];
  if (typeof value !== "string") return value;
  return value
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
};

const within = (kind: string, min: number, max: number) =>
  `must be ${kind} ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
const whole = (min: number, max = Number.MAX_SAFE_INTEGER) => {
  const needs = within("a whole number", min, max);
  return z.preprocess(asNumber, z.int(needs).min(min, needs).max(max, needs));
};
const seconds = (min: number) => {
  const needs = within("a number of seconds", min, Number.MAX_SAFE_INTEGER);
  return z.preprocess(asNumber, z.number(needs).min(min, needs));
};
/** US dollars per million tokens. */
const price = () => {
  const needs = within("a number", 0, Number.MAX_SAFE_INTEGER);
  return z.preprocess(asNumber, z.number(needs).min(0, needs));
};
const yesNo = () => z.preprocess(asBoolean, z.boolean("must be true or false"));
const oneOf = <const T extends readonly string[]>(...words: T) =>
  z.preprocess(asWord, z.enum(words, `must be ${words.length > 1 ? "one of " : ""}${words.join(", ")}`));
const text = () => z.string("must be text (in quotes, if it looks like a number)").trim().min(1, "must not be empty");
const rules = () => z.array(text(), "must be a list").default([]);
const webAddress = () => {
  const needs = "must be an address such as http://127.0.0.1:9999/v1";
  return z
    .string(needs)
    .trim()
    .regex(/^https?:\/\/[^\s/]+/, needs);
};
const texts = () => z.preprocess(asList, z.array(text(), "must be a list")).default([]);
/** Ids never change owners; user names can. */
const ids = (shape: RegExp, needs: string) =>
  z
    .preprocess(asList, z.array(z.preprocess(String, z.string().regex(shape, `must be ${needs}`)), "must be a list"))
    .default([]);

/** An absent or empty section gets its defaults, an empty value counts as not set, and an unknown key is an error. */
const section = <T extends z.ZodRawShape>(shape: T) =>
  z.preprocess(
    (value) => {
      if (value === null || value === undefined) return {};
      if (typeof value !== "object" || Array.isArray(value)) return value;
      return Object.fromEntries(Object.entries(value).filter(([key, v]) => v !== null || !Object.hasOwn(shape, key)));
    },
    z.strictObject(shape, { error: "must be a section: keys and values, indented below it" }),
  );

const BUSY_MODES = ["interrupt", "queue", "steer"] as const;
const PROVIDERS = ["auto", ...formats] as const;
const DIGITS = /^\d+$/;

type Account = { api_key?: string | undefined; base_url?: string | undefined };
const account = ({ addressVariable }: Vendor): z.ZodType<Account> => {
  const api_key = text().optional();
  return addressVariable ? section({ api_key, base_url: webAddress().optional() }) : section({ api_key });
};

const chat = (shape: RegExp, needs: string) => ({
  api_root: webAddress().optional(),
  allowed_users: ids(shape, needs),
  admin_users: ids(shape, needs),
  busy_input_mode: oneOf(...BUSY_MODES).optional(),
});

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
      }),
      "must be a list",
    )
    .default([]),
  agent: section({
    max_iterations: whole(1).default(90),
    max_concurrent_turns: whole(1).default(32),
    restart_drain_timeout: drainTimeout.default(DRAIN_TIMEOUT.default),
    auto_resume: yesNo().default(true),
    clarify_timeout: seconds(1).default(3600),
    exit_watchdog: seconds(1).default(30),
  }),
  display: section({
    busy_input_mode: oneOf(...BUSY_MODES).default("interrupt"),
    compact: yesNo().default(false),
    show_reasoning: yesNo().default(false),
    tool_progress: oneOf("off", "new", "all", "verbose").default("all"),
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
    mode: oneOf("manual", "off").default("manual"),
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
    telegram: section({
      token: text().optional(),
      /** The public address where Telegram delivers updates; without it we poll. */
      webhook_url: webAddress().optional(),
      ...chat(DIGITS, "a numeric user id"),
    }),
    discord: section({ token: text().optional(), ...chat(DIGITS, "a numeric user id") }),
    slack: section({
      bot_token: text().optional(),
      app_token: text().optional(),
      ...chat(/^[UW][A-Z0-9]+$/, "a member id such as U012AB3CD"),
    }),
    webhook: section({
      /** Without a secret the webhook channel is off. */
      secret: text().min(16, "must have at least 16 characters").optional(),
      /** The address that gets the answers. */
      url: webAddress().optional(),
    }),
  }),
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
  TELEGRAM_BOT_TOKEN: { key: "gateway.telegram.token" },
  TELEGRAM_API_ROOT: { key: "gateway.telegram.api_root" },
  TELEGRAM_ALLOWED_USERS: { key: "gateway.telegram.allowed_users" },
  DISCORD_BOT_TOKEN: { key: "gateway.discord.token" },
  DISCORD_API_ROOT: { key: "gateway.discord.api_root" },
  DISCORD_ALLOWED_USERS: { key: "gateway.discord.allowed_users" },
  SLACK_BOT_TOKEN: { key: "gateway.slack.bot_token" },
  SLACK_APP_TOKEN: { key: "gateway.slack.app_token" },
  SLACK_API_ROOT: { key: "gateway.slack.api_root" },
  OTEL_EXPORTER_OTLP_ENDPOINT: { key: "telemetry.endpoint" },
  SLACK_ALLOWED_USERS: { key: "gateway.slack.allowed_users" },
};

/** Keys whose values are never shown: those with the name of a secret, and the environment and headers of MCP
 *  servers. */
export const isSecretKey = (key: string): boolean =>
  /(^|\.)(api_key|key|token|bot_token|app_token|secret)(\.|$)|^mcp_servers\..*\.(env|headers)(\.|$)|^telemetry\.headers(\.|$)/.test(
    key,
  );

/** All keys, dotted; `*` stands for an item of a list, or for a name that the user chose. */
export const knownKeys = (): string[] => keysBelow(z.toJSONSchema(schema, { io: "input" }), "");

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
