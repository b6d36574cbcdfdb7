// One conversation of an editor: what is sent into it, and everything that is shown of it. The session is followed as long as
// the editor has it open, so turns that others begin (a background process, a terminal) are shown too.
import {
  type AgentContext,
  type ContentBlock,
  methods,
  type PermissionOptionKind,
  RequestError,
  type RequestPermissionRequest,
  type SessionConfigOption,
  type SessionModeState,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import { choiceAnswer, choiceText, noAnswer } from "../../conversation/choice.ts";
import type { CommandContext, CommandSources } from "../../conversation/commands/command.ts";
import { commandIn, EDITOR_COMMANDS, findCommand, runCommand } from "../../conversation/commands/commands.ts";
import { modeWhileAsked } from "../../conversation/modes.ts";
import { pagesOf } from "../../core/pages.ts";
import type { AcceptRequest, Runtime, Update } from "../../core/runtime.ts";
import type { Ask, Effort, EndedBy, Entry, Mode, Outcome } from "../../core/session.ts";
import { shortName } from "../../core/session-key.ts";
import { onAbort } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { describeCall } from "./calls.ts";
import { failure, messageIn, refused } from "./prompt.ts";
import { createUpdates, said } from "./updates.ts";

/** What every conversation of one editor has in common. */
export type AcpShared = CommandSources & {
  runtime: Runtime;
  client: AgentContext;
  /** The editor is gone: nothing is sent any more, and nothing is stopped because of it. */
  closed: AbortSignal;
  workspace: string;
  /** The one that answers if none is chosen. */
  model: string;
  mode: Mode;
  newKey(): string;
  now(): number;
};
type AcpSessionOptions = AcpShared & {
  session: string;
  /** For the system prompt of every turn: where the editor's folder is, if that is not the workspace. */
  instructions: string;
};
export type AcpSession = ReturnType<typeof createAcpSession>;

type PromptEnd = { stopReason: StopReason };
type OpenPrompt = { turn: string; end: PromiseWithResolvers<PromptEnd> };
type EditorQuestion = { turn: string; ask: Ask; off: AbortController };

const BY = "editor";
const MOST_MODELS = 200;
const AGAIN_MS = 1_000;
const EDITOR_MODES = [
  { id: "ask", name: "Ask", description: "The agent asks before it does what its policy does not allow by itself." },
  { id: "deny", name: "Never ask, deny", description: "Nothing is asked. What needs an approval is not run." },
  { id: "allow", name: "Never ask, allow", description: "Nothing is asked. All but forbidden commands run." },
] as const;
type EditorMode = (typeof EDITOR_MODES)[number]["id"];
const optionKind = (choice: string): PermissionOptionKind =>
  choice === "deny" ? "reject_once" : choice === "once" ? "allow_once" : "allow_always";
const STOP_REASONS: Record<EndedBy, StopReason> = {
  length: "max_tokens",
  filter: "refusal",
  iterations: "max_turn_requests",
};

type ConfigChoice = { value: string; name: string; description?: string };
const choice = (id: "mode" | "model", name: string, currentValue: string, options: ConfigChoice[]) =>
  ({ type: "select", id, name, category: id, currentValue, options }) satisfies SessionConfigOption;

export function createAcpSession(options: AcpSessionOptions) {
  const { runtime, client, closed, session, workspace, window } = options;
  const sessionId = shortName(session);
  const gone = new AbortController();
  const release = onAbort(closed, () => gone.abort());
  let approvals: EditorMode = "ask";
  let { mode } = options;
  let effort: Effort | undefined;
  let model: string | undefined;
  let models: readonly string[] = [options.model];
  let title = "";
  /** Open prompts by the id of their input. */
  const prompts = new Map<string, OpenPrompt>();
  /** Prompts that are being accepted: their entries may be read before their ids are known here. */
  const accepting = new Set<Promise<unknown>>();
  const questions = new Map<string, EditorQuestion>();
  /** Turns in which nobody is asked. */
  const unattended = new Set<string>();
  const endedBy = new Map<string, EndedBy>();
  const failures = new Map<string, string>();
  const isMine = (turn: string) => prompts.has(turn) || promptsOf(turn).length > 0;
  const updates = createUpdates({ workspace, window, isMine });

  /** Never rejects: an editor that is gone is no failure of the turn. */
  const send = (update: SessionUpdate): Promise<void> =>
    client.notify(methods.client.session.update, { sessionId, update }).catch(() => gone.abort());

  /** Shows what was said so far, if `replay`, and follows from there. Returns when all of that is shown. */
  async function open(replay: boolean): Promise<void> {
    const { entries: last = 0, title: named = "" } = (await runtime.summary(session)) ?? {};
    title = named;
    for await (const page of pagesOf(runtime, session, 0, last))
      for (const entry of page) {
        note(entry);
        if (entry.kind === "accepted") ({ model } = entry.input);
        const past = updates.past(entry);
        if (replay) for (const update of past) await send(update);
        if (gone.signal.aborted) return;
      }
    void follow(String(last));
    for (const call of questions.keys()) present(call);
  }

  /** When the store or the gateway fails, prompts hear of it, and the session is followed again as soon as it can be (I26). */
  async function follow(from: string): Promise<void> {
    let at = from;
    while (!gone.signal.aborted) {
      try {
        for await (const update of runtime.follow(session, at, gone.signal)) {
          await show(update);
          at = update.cursor;
        }
        return;
      } catch (error) {
        for (const { end } of prompts.values()) end.reject(failure(error));
        await clock.sleep(AGAIN_MS, gone.signal);
      }
    }
  }

  async function show(update: Update): Promise<void> {
    if ("entry" in update && update.entry.kind === "accepted") await Promise.allSettled(accepting);
    for (const one of updates.live(update)) await send(one);
    if (!("entry" in update)) return;
    const { entry } = update;
    note(entry);
    if (entry.kind === "asked" && !unattended.has(entry.turn)) present(entry.call);
    if (entry.kind === "ended") void retitle();
  }

  /** Keeps what an entry changes of prompts and questions. */
  function note(entry: Entry): void {
    switch (entry.kind) {
      case "accepted":
        if (entry.input.unattended) unattended.add(entry.input.id);
        break;
      case "joined": {
        const prompt = prompts.get(entry.input);
        if (prompt) prompt.turn = entry.turn;
        break;
      }
      case "withdrawn":
        prompts.get(entry.input)?.end.resolve({ stopReason: "cancelled" });
        unattended.delete(entry.input);
        break;
      case "asked":
        questions.set(entry.call, { turn: entry.turn, ask: entry.ask, off: new AbortController() });
        break;
      case "decided":
      case "acted":
        dropQuestion(entry.call);
        break;
      case "thought":
        if (entry.endedBy) endedBy.set(entry.turn, entry.endedBy);
        break;
      case "failed":
        failures.set(entry.turn, entry.reason);
        break;
      case "ended":
        ended(entry.turn, entry.outcome);
        break;
      default:
    }
  }

  function ended(turn: string, outcome: Outcome): void {
    for (const [call, question] of questions) if (question.turn === turn) dropQuestion(call);
    const why = endedBy.get(turn);
    for (const { end } of promptsOf(turn))
      if (outcome === "failed") end.reject(new RequestError(-32603, failures.get(turn) ?? "The turn failed."));
      else end.resolve({ stopReason: outcome === "completed" ? (why ? STOP_REASONS[why] : "end_turn") : "cancelled" });
    for (const known of [unattended, endedBy, failures]) known.delete(turn);
  }

  const promptsOf = (turn: string) => [...prompts.values()].filter((prompt) => prompt.turn === turn);

  function dropQuestion(call: string): void {
    questions.get(call)?.off.abort();
    questions.delete(call);
  }

  // ── Questions ───────────────────────────────────────────────────────────────────────────────────────

  function present(call: string): void {
    const question = questions.get(call);
    if (question?.ask.kind === "question") void ask(question);
    else if (question) void requestPermission(call, question).catch(() => {});
  }

  /** Editors have no way to ask for words while a prompt is open. So the prompt ends here, and the next one is the answer. */
  async function ask({ turn, ask: { text, choices } }: EditorQuestion): Promise<void> {
    await send(said(`\n\n${[text, ...choices.map((choice) => `- ${choice}`)].join("\n")}\n`));
    for (const { end } of promptsOf(turn)) end.resolve({ stopReason: "end_turn" });
  }

  async function requestPermission(call: string, { ask, off }: EditorQuestion): Promise<void> {
    const { content = [], ...shown } = describeCall(updates.callOf(call), workspace);
    const request: RequestPermissionRequest = {
      sessionId,
      toolCall: {
        toolCallId: call,
        ...shown,
        content: [...content, { type: "content", content: { type: "text", text: ask.text } }],
      },
      options: ask.choices.map((choice) => ({
        optionId: choice,
        name: choice === "deny" ? "No" : choiceText(ask, choice),
        kind: optionKind(choice),
      })),
    };
    const until = { cancellationSignal: off.signal, stopWaitingOnCancel: true };
    const asked = client.request(methods.client.session.requestPermission, request, until);
    // An editor that cannot ask, or whose user dismissed the question, has not said yes.
    const { outcome } = await asked.catch(() => ({ outcome: { outcome: "cancelled" as const } }));
    if (off.signal.aborted || gone.signal.aborted) return; // decided elsewhere, or still open for whoever looks next
    const chosen = outcome.outcome === "selected" && ask.choices.includes(outcome.optionId) ? outcome.optionId : null;
    const answer = chosen === null ? noAnswer() : choiceAnswer(ask.kind, chosen);
    await runtime.answer({ session, call, ...answer, by: BY });
  }

  // ── Prompts ─────────────────────────────────────────────────────────────────────────────────────────

  /** Registered here before anything of its turn is handled. */
  function accept(text: string, more: Partial<AcceptRequest>): Promise<OpenPrompt> {
    const { instructions, newKey } = options;
    const accepted = runtime
      .accept({
        session,
        source: "acp",
        key: newKey(),
        text,
        mode: questions.size ? modeWhileAsked(mode) : mode,
        reply: "pull",
        attended: true,
        ...(approvals !== "ask" && { unattended: approvals }),
        ...(model && { model }),
        ...(effort && { options: { effort } }),
        ...(instructions && { instructions }),
        ...more,
      })
      .then(({ id }) => register(id, id));
    accepting.add(accepted);
    const over = () => void accepting.delete(accepted);
    accepted.then(over, over);
    return accepted;
  }

  function register(input: string, turn: string): OpenPrompt {
    const prompt = { turn, end: Promise.withResolvers<PromptEnd>() };
    prompts.set(input, prompt);
    const over = () => void prompts.delete(input);
    prompt.end.promise.then(over, over);
    return prompt;
  }

  async function prompt(blocks: readonly ContentBlock[], signal: AbortSignal): Promise<PromptEnd> {
    const { text, images } = messageIn(blocks);
    const typed = images.length ? null : commandIn(text);
    const opened = typed ? obey(typed) : (answerQuestion(text) ?? accept(text, images.length ? { images } : {}));
    const off = onAbort(signal, () => void (closed.aborted || cancel()));
    try {
      const one = await opened;
      return one ? await one.end.promise : { stopReason: "end_turn" };
    } finally {
      off();
    }
  }

  /** Null: nothing is asked. */
  function answerQuestion(text: string): Promise<OpenPrompt> | null {
    const [call, question] = [...questions].find(([, { ask }]) => ask.kind === "question") ?? [];
    if (call === undefined || !question || !text) return null;
    const one = register(call, question.turn);
    const given = { session, call, ...choiceAnswer("question", text), by: BY };
    return runtime.answer(given).then((first) => {
      if (first) return one;
      one.end.resolve({ stopReason: "cancelled" });
      return accept(text, {}); // it was answered, or its time was over, just now
    });
  }

  async function obey({ name, rest }: { name: string; rest: string }): Promise<OpenPrompt | null> {
    const command = findCommand(EDITOR_COMMANDS, name);
    if (!command) throw refused(`Unknown command /${name}. See /help.`);
    const { text, refused: why, send: message } = await runCommand(command, commandContext(), rest);
    if (text ?? why) await send(said(`${text ?? why}\n`));
    if (!message) return null;
    const { text: words, ...how } = message;
    return accept(words, how);
  }

  /** Stops the turn that runs, and the prompts of this editor that wait behind it. */
  async function cancel(): Promise<boolean> {
    await Promise.allSettled(accepting);
    const { turn } = await runtime.status(session);
    const turns = new Set([...prompts.values()].map((one) => one.turn));
    if (turn) turns.add(turn.id);
    for (const id of turns) await runtime.stop({ session, turn: id });
    return turns.size > 0;
  }

  function commandContext(): CommandContext {
    return {
      ...options,
      surface: "editor",
      by: BY,
      isAdmin: true,
      name: sessionId,
      help: () => EDITOR_COMMANDS.map(({ name, description }) => `- \`/${name}\` ${description}`).join("\n"),
      mode: () => mode,
      setMode: (next) => {
        mode = next;
      },
      model: () => model ?? options.model,
      setModel,
      effort: () => effort,
      setEffort: (next) => {
        effort = next;
      },
      yolo: () => approvals === "allow",
      setYolo,
      findSession: async () => null,
      newSession: () => session,
      stop: async () => ((await cancel()) ? "stopped" : "nothing"),
    };
  }

  // ── Settings ────────────────────────────────────────────────────────────────────────────────────────

  async function retitle(): Promise<void> {
    const { title: now = "" } = (await runtime.summary(session).catch(() => null)) ?? {};
    if (now === title) return;
    title = now;
    await send({ sessionUpdate: "session_info_update", title });
  }

  async function setModel(name: string | undefined): Promise<void> {
    model = name;
    await send({ sessionUpdate: "config_option_update", configOptions: settings().configOptions });
  }

  async function setYolo(on: boolean): Promise<void> {
    approvals = on ? "allow" : "ask";
    await send({ sessionUpdate: "current_mode_update", currentModeId: approvals });
    await send({ sessionUpdate: "config_option_update", configOptions: settings().configOptions });
  }

  function setMode(id: string): void {
    const known = EDITOR_MODES.find((one) => one.id === id);
    if (!known) throw refused(`There is no mode ${id}.`);
    approvals = known.id;
  }

  function settings(): { modes: SessionModeState; configOptions: SessionConfigOption[] } {
    const now = model ?? options.model;
    const choices = [...new Set([now, ...models])].slice(0, MOST_MODELS);
    return {
      modes: { currentModeId: approvals, availableModes: [...EDITOR_MODES] },
      configOptions: [
        choice(
          "mode",
          "Approvals",
          approvals,
          EDITOR_MODES.map(({ id, ...words }) => ({ value: id, ...words })),
        ),
        choice(
          "model",
          "Model",
          now,
          choices.map((value) => ({ value, name: value })),
        ),
      ],
    };
  }

  return {
    open,
    prompt,
    cancel,
    settings,
    async setMode(id: string): Promise<void> {
      setMode(id);
      await send({ sessionUpdate: "config_option_update", configOptions: settings().configOptions });
    },
    async setOption(id: string, value: unknown): Promise<SessionConfigOption[]> {
      if (typeof value !== "string") throw refused(`${id} must be text.`);
      if (id === "model") model = value === options.model ? undefined : value;
      else if (id === "mode") {
        setMode(value);
        await send({ sessionUpdate: "current_mode_update", currentModeId: approvals });
      } else throw refused(`There is no option ${id}.`);
      return settings().configOptions;
    },
    /** What an editor can only be told once it knows the session: commands, models, and `notice`. */
    async introduce(notice: string): Promise<void> {
      const availableCommands = EDITOR_COMMANDS.map(({ name, description, argument }) => ({
        name,
        description,
        ...(argument && { input: { hint: argument } }),
      }));
      await send({ sessionUpdate: "available_commands_update", availableCommands });
      if (notice) await send(said(notice));
      ({ names: models } = await options.models().catch(() => ({ names: models })));
      await send({ sessionUpdate: "config_option_update", configOptions: settings().configOptions });
    },
    /** Nothing is shown or asked any more. What runs goes on. */
    close(): void {
      gone.abort();
      release();
    },
  };
}
