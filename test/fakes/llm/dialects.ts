// Servers of chat completions that do not take the same requests, with what they say when they refuse one. Taken from their
// documentation and from reports of their refusals.
import { createHash } from "node:crypto";
import { signatureOf } from "./anthropic-request.ts";
import type { ChatRequest } from "./chat-request.ts";
import { isRecord, problem } from "./validation.ts";
import type { Problem } from "./wire.ts";

export type Dialect = {
  /** The name of a model by which a client knows whom it speaks to, wherever it is served. */
  model: string;
  callId: string;
  /** What carries reasoning; `nth`: its place among the thoughts of an answer. */
  reasoning(pieces: string[], nth: number): object[];
  /** What stands beside a call. */
  call?(call: { name: string; args: string }, index: number): object;
  /** A call comes in one piece. */
  wholeCalls?: boolean;
  /** A stream ends with its usage, also if nobody asked for it. */
  usage?: boolean;
  /** What it wants beyond what all of them do. */
  rules(request: ChatRequest): Problem[];
  /** As it words a refusal; like OpenAI if this is not there. */
  refusal?(problem: Problem): { status: number; body: unknown };
  /** As it words any other failure. */
  failure?(status: number, message: string): unknown;
};

type Message = ChatRequest["messages"][number];
type Assistant = Extract<Message, { role: "assistant" }>;
const FIELDS = ["reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "prefix"] as const;
type Field = (typeof FIELDS)[number] | "thinking" | "extra_content" | "index";

const inField = (field: string) => (pieces: string[]) => pieces.map((piece) => ({ content: null, [field]: piece }));

export const DIALECTS = {
  openai: {
    model: "fake-model",
    callId: "call_",
    reasoning: inField("reasoning_content"),
    rules: (request) => [
      ...unknownFields(request, ["reasoning_content"], (at, field) =>
        problem(`Unrecognized request argument supplied: messages[${at}].${field}`),
      ),
      ...calls(request).flatMap(({ id }) =>
        /^[a-zA-Z0-9_-]{1,40}$/.test(id)
          ? []
          : [problem(`Invalid 'tool_calls[0].id': ${id} must have 1 to 40 letters, digits, '_' or '-'.`)],
      ),
    ],
  },
  gemini: {
    model: "gemini-3-pro-preview",
    callId: "function-call-",
    wholeCalls: true,
    // It thinks and does not show it; what it wants back is beside the first call.
    reasoning: () => [],
    call: (call, index) =>
      index === 0 ? { extra_content: { google: { thought_signature: thoughtSignature(call) } } } : {},
    rules: (request) => [
      ...unknownFields(request, ["extra_content"], (at, field) =>
        problem(`Invalid JSON payload received. Unknown name "${field}" at 'messages[${at}]': Cannot find field.`),
      ),
      ...unsigned(request),
      ...unknownWords(request),
    ],
    refusal: ({ message }) => ({
      status: 400,
      body: [{ error: { code: 400, message, status: "INVALID_ARGUMENT" } }],
    }),
  },
  deepseek: {
    model: "deepseek-v4-pro",
    callId: "call_00_",
    reasoning: inField("reasoning_content"),
    rules: (request) =>
      withCalls(request).flatMap(({ message }) =>
        message.reasoning_content
          ? []
          : [
              {
                message: "The `reasoning_content` in the thinking mode must be passed back to the API.",
                code: "invalid_request_error",
              },
            ],
      ),
  },
  kimi: {
    model: "kimi-k2.5",
    callId: "functions.terminal:",
    reasoning: inField("reasoning_content"),
    rules: (request) =>
      withCalls(request).flatMap(({ at, message }) =>
        message.reasoning_content?.trim()
          ? []
          : [
              problem(
                `thinking is enabled but reasoning_content is missing in assistant tool call message at index ${at}`,
              ),
            ],
      ),
    refusal: ({ message }) => ({ status: 400, body: { error: { message, type: "invalid_request_error" } } }),
  },
  mistral: {
    model: "magistral-medium-latest",
    callId: "",
    wholeCalls: true,
    usage: true,
    reasoning: (pieces) =>
      pieces.map((text) => ({ content: [{ type: "thinking", thinking: [{ type: "text", text }] }] })),
    rules: (request) => [
      ...(request.stream_options ? [extra(["stream_options", "include_usage"])] : []),
      // Mistral's own SDK sends `prefix` and `index` with every answer that it gives back.
      ...unknownFields(request, ["thinking", "prefix", "index"], (at, field) =>
        extra(["messages", at, "assistant", field]),
      ),
      ...mistralOrder(request),
      ...calls(request).flatMap(({ id }) =>
        /^[a-zA-Z0-9]{9}$/.test(id)
          ? []
          : [
              {
                message: `Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`,
                type: "invalid_function_call",
                code: "3280",
              },
            ],
      ),
    ],
    refusal: ({ message, type, code }) =>
      code === "extra_forbidden"
        ? { status: 422, body: { object: "error", message: { detail: [JSON.parse(message)] }, type, code: null } }
        : { status: 400, body: { object: "error", message, type, param: null, code: code ?? null } },
  },
  groq: {
    model: "openai/gpt-oss-120b",
    callId: "fc_",
    reasoning: (pieces) => pieces.map((piece) => ({ reasoning: piece, channel: "analysis" })),
    rules: (request) =>
      unknownFields(request, [], (at, field) =>
        problem(
          `'messages.${at}' : for 'role:assistant' the following must be satisfied[('messages.${at}' : property '${field}' is unsupported)]`,
        ),
      ),
    refusal: ({ message }) => ({ status: 400, body: { error: { message, type: "invalid_request_error" } } }),
  },
  openrouter: {
    model: "anthropic/claude-sonnet-4.5",
    callId: "toolu_",
    reasoning: (pieces, index) => {
      const detail = { type: "reasoning.text", format: "anthropic-claude-v1", index };
      const signature = signatureOf(pieces.join(""));
      return [
        ...pieces.map((text) => ({ content: "", reasoning: text, reasoning_details: [{ ...detail, text }] })),
        { content: "", reasoning: null, reasoning_details: [{ ...detail, signature }] },
      ];
    },
    rules: (request) =>
      assistants(request).flatMap(({ at, message }) =>
        (message.reasoning_details ?? []).every(({ text, signature }) => signature === signatureOf(String(text)))
          ? []
          : [problem(`messages.${at}.content.0: Invalid \`signature\` in \`thinking\` block`)],
      ),
    refusal: ({ message }) => {
      const raw = JSON.stringify({ type: "error", error: { type: "invalid_request_error", message } });
      const error = { message: "Provider returned error", code: 400, metadata: { raw, provider_name: "Anthropic" } };
      return { status: 400, body: { error, user_id: "user_fake" } };
    },
    failure: (code, message) => ({ error: { message, code, metadata: { provider_name: "Anthropic" } } }),
  },
  /** Before Anthropic. */
  litellm: {
    model: "claude-sonnet-4-5",
    callId: "toolu_",
    reasoning: (pieces) => [
      ...pieces.map((thinking) => ({
        content: "",
        reasoning_content: thinking,
        thinking_blocks: [{ type: "thinking", thinking, signature: "" }],
      })),
      {
        content: "",
        reasoning_content: "",
        thinking_blocks: [{ type: "thinking", thinking: "", signature: signatureOf(pieces.join("")) }],
      },
    ],
    rules: (request) =>
      assistants(request).flatMap(({ at, message: { thinking_blocks = [] } }) =>
        thinking_blocks.every(({ thinking, signature }) => signature === signatureOf(thinking))
          ? []
          : [problem(`messages.${at}.content.0: Invalid \`signature\` in \`thinking\` block`)],
      ),
    refusal: ({ message }) => ({
      status: 400,
      body: { error: { message: `litellm.BadRequestError: AnthropicException - ${message}`, type: null, code: "400" } },
    }),
  },
  "llama.cpp": {
    model: "gemma-3-12b-it",
    callId: "",
    reasoning: inField("reasoning_content"),
    rules: (request) => [...alternating(request), ...noPictures(request, LLAMA_PICTURES)],
    // What its templates and its missing projector say comes as an error of the server.
    refusal: ({ message }) => ({ status: 500, body: { error: { code: 500, message, type: "server_error" } } }),
  },
  vllm: {
    model: "Qwen/Qwen3-32B",
    callId: "chatcmpl-tool-",
    reasoning: inField("reasoning"),
    rules: (request) => noPictures(request, "Qwen/Qwen3-32B is not a multimodal model"),
    refusal: ({ message }) => ({
      status: 400,
      body: { error: { message, type: "BadRequestError", param: null, code: 400 } },
    }),
  },
  ollama: {
    model: "qwen3:8b",
    callId: "call_",
    reasoning: inField("reasoning"),
    rules: () => [],
    refusal: ({ message }) => ({
      status: 400,
      body: { error: { message, type: "invalid_request_error", param: null, code: null } },
    }),
  },
} as const satisfies Record<string, Dialect>;

const LLAMA_PICTURES = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj";

// ── What they look at ─────────────────────────────────────────────────────────────────────────────────

const assistants = ({ messages }: ChatRequest) =>
  messages.flatMap((message, at) => (message.role === "assistant" ? [{ at, message }] : []));
const withCalls = (request: ChatRequest) => assistants(request).filter(({ message }) => message.tool_calls);
const calls = (request: ChatRequest) => assistants(request).flatMap(({ message }) => message.tool_calls ?? []);

function unknownFields(
  request: ChatRequest,
  known: readonly Field[],
  refuse: (at: number, field: Field) => Problem,
): Problem[] {
  const has = (message: Assistant): Field[] => [
    ...FIELDS.filter((field) => message[field] !== undefined),
    ...(Array.isArray(message.content) && message.content.some(({ type }) => type === "thinking")
      ? ["thinking" as const]
      : []),
    ...(["extra_content", "index"] as const).filter((field) =>
      (message.tool_calls ?? []).some((call) => call[field] !== undefined),
    ),
  ];
  return assistants(request).flatMap(({ at, message }) =>
    has(message)
      .filter((field) => !known.includes(field))
      .map((field) => refuse(at, field)),
  );
}

const extra = (loc: (string | number)[]): Problem => ({
  message: JSON.stringify({ type: "extra_forbidden", loc: ["body", ...loc], msg: "Extra inputs are not permitted" }),
  type: "invalid_request_error",
  code: "extra_forbidden",
});

/** The first call of each answer since the user last spoke; the word of Google's own for calls of others is taken. */
function unsigned(request: ChatRequest): Problem[] {
  const since = request.messages.findLastIndex(({ role }) => role === "user");
  return withCalls(request).flatMap(({ at, message }) => {
    const [first] = message.tool_calls ?? [];
    const signature = first?.extra_content?.google.thought_signature;
    if (at < since || !first) return [];
    const { name, arguments: args } = first.function;
    if (!signature)
      return [
        problem(
          "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, " +
            "and missing thought_signature may lead to degraded model performance. Additional data, function call " +
            `\`default_api:${name}\` , position ${at + 1}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.`,
        ),
      ];
    const good = signature === "skip_thought_signature_validator" || signature === thoughtSignature({ name, args });
    return good ? [] : [problem("Thought signature is not valid.")];
  });
}

/** Bound to the call, so that one that comes back at another is found out. */
function thoughtSignature({ name, args }: { name: string; args: string }): string {
  const same = JSON.stringify(JSON.parse(args));
  return createHash("sha256").update(`${name} ${same}`).digest("base64");
}

const SCHEMA_WORDS = new Set(
  (
    "type format title description nullable enum default items properties required anyOf minItems maxItems minimum " +
    "maximum minLength maxLength pattern minProperties maxProperties propertyOrdering example"
  ).split(" "),
);

function unknownWords({ tools = [] }: ChatRequest): Problem[] {
  const look = (schema: unknown, path: string): Problem[] => {
    if (!isRecord(schema)) return [];
    const unknown = Object.keys(schema).filter((word) => !SCHEMA_WORDS.has(word));
    const properties = isRecord(schema.properties) ? Object.values(schema.properties) : [];
    const branches = Array.isArray(schema.anyOf) ? schema.anyOf : [];
    return [
      ...unknown.map((word) =>
        problem(`Invalid JSON payload received. Unknown name "${word}" at '${path}': Cannot find field.`),
      ),
      ...(Array.isArray(schema.type)
        ? [problem(`Invalid value at '${path}.type', Proto field is not repeating, cannot start list.`)]
        : []),
      ...(schema.enum && schema.type !== "string" ? [problem(`${path}.enum: only allowed for STRING type`)] : []),
      ...properties.flatMap((inner, i) => look(inner, `${path}.properties[${i}].value`)),
      ...look(schema.items, `${path}.items`),
      ...branches.flatMap((inner, i) => look(inner, `${path}.any_of[${i}]`)),
    ];
  };
  return tools.flatMap((tool, i) => look(tool.function.parameters, `tools[0].function_declarations[${i}].parameters`));
}

const MISTRAL_NEXT: Record<string, string[]> = {
  system: ["user", "assistant", "system"],
  user: ["assistant", "system", "user"],
  tool: ["assistant", "tool"],
};

function mistralOrder({ messages }: ChatRequest): Problem[] {
  return messages.flatMap((message, i) => {
    const before = messages[i - 1];
    if (!before) return [];
    const called = before.role === "assistant" && before.tool_calls;
    const next = before.role === "assistant" ? (called ? ["tool"] : ["user", "assistant"]) : MISTRAL_NEXT[before.role];
    if (next?.includes(message.role)) return [];
    const type = "invalid_request_message_order";
    return [{ message: `Unexpected role '${message.role}' after role '${before.role}'`, type, code: "3230" }];
  });
}

/** As the templates of Gemma and of older Mistral models say it. */
function alternating({ messages }: ChatRequest): Problem[] {
  const wrong = messages.some(({ role }, i) => role === "user" && messages[i - 1]?.role === "user");
  const lists = messages.some(
    ({ role, content }) => role === "user" && Array.isArray(content) && content.every(({ type }) => type === "text"),
  );
  return [
    ...(wrong ? [problem("Conversation roles must alternate user/assistant/user/assistant/...")] : []),
    ...(lists ? [problem("Failed to parse messages: Unsupported content part type")] : []),
  ];
}

function noPictures({ messages }: ChatRequest, why: string): Problem[] {
  const some = messages.some(
    ({ role, content }) =>
      role === "user" && Array.isArray(content) && content.some(({ type }) => type === "image_url"),
  );
  return some ? [problem(why)] : [];
}
