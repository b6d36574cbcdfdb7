// A person's talk with the agent: everything that can be entered, and what is shown of it. How it is typed and shown
// is the view's business. Whatever is entered is durable, or done, when `enter` returns; when it throws, nothing was.
import { keptText } from "../../conversation/commands/answers.ts";
import type { AskedQuestion, CommandResult, CommandSources } from "../../conversation/commands/command.ts";
import {
  commandIn,
  findCommand,
  runCommand,
  TERMINAL_COMMANDS,
  type Typed,
} from "../../conversation/commands/commands.ts";
import { fenced } from "../../conversation/export.ts";
import { after, type Facts, factsOf, nothingIn } from "../../conversation/facts.ts";
import { MODE, modeWhileAsked, takenText } from "../../conversation/modes.ts";
import { spentPlus } from "../../conversation/spent.ts";
import { createTeller } from "../../conversation/updates.ts";
import { messageOf } from "../../core/errors.ts";
import { entriesOf, pagesOf } from "../../core/pages.ts";
import type { AcceptRequest, Answer, Receipt, Runtime } from "../../core/runtime.ts";
import type { Effort, Image, Input, Mode } from "../../core/session.ts";
import { shortName } from "../../core/session-key.ts";
import { commandContext } from "./commands.ts";
import type { View } from "./view.ts";

export type TalkOptions = CommandSources & {
  runtime: Runtime;
  view: View;
  mode: Mode;
  /** What waits when a turn is stopped runs, or comes back to be edited. */
  queuedAfterStop: "run" | "edit";
  /** The one that answers if none is chosen. */
  model: string;
  newSession(): string;
  newKey(): string;
  now(): number;
  /** Pictures that a message names. Throws if one of them cannot be sent. */
  imagesIn(text: string): Promise<Image[]>;
  /** The person's own command. `text` is what a model may be shown of its output. */
  shell(command: string, print: (text: string) => void, signal: AbortSignal): Promise<{ code: number; text: string }>;
  save(file: string, text: string): Promise<string>;
  /** Into the clipboard. What became of it, for people. */
  copy(text: string): Promise<string>;
  /** That conversation is left for another one. */
  switched(from: string): void;
  leave(): void;
};
export type Talk = ReturnType<typeof createTalk>;

/** Entries that are read to know where a conversation stands, and turns that are shown again of it. */
const READ = 2_000;
const SHOWN = 10;

export function createTalk(options: TalkOptions) {
  const { runtime, view } = options;
  let facts: Facts = nothingIn("", "", options.mode, options.model);
  let following = new AbortController();
  let chosenModel: string | undefined;
  let chosenEffort: Effort | undefined;
  /** Whether approvals are granted in the open conversation (/yolo). */
  let isYolo = false;
  /** A message that may or may not have arrived: sent again, it must be the same one. */
  let unsure: { text: string; key: string } | null = null;
  /** What the person's own commands said, for the next message. */
  let carried = "";
  let running: AbortController | null = null;
  /** The turn that the last message begins, if it does: it may not be shown yet, or still be on its way. */
  let begun = Promise.resolve("");

  const now = (next: Facts) => {
    facts = next;
    view.facts(facts);
  };

  /** Shows that conversation from its last turns on, and follows it. */
  async function open(session: string, heading?: string): Promise<void> {
    following.abort();
    following = new AbortController();
    const { signal } = following;
    const [status, summary] = await Promise.all([runtime.status(session), runtime.summary(session)]);
    const read = Math.max(0, (summary?.entries ?? 0) - READ);
    const recent = await entriesOf(runtime, session, read);
    if (signal.aborted) return; // another one was opened meanwhile
    const inputs = new Map(recent.flatMap((e) => (e.kind === "accepted" ? [[e.input.id, e.input]] : [])));
    const start = recent.filter(({ kind }) => kind === "began").at(-SHOWN) ?? recent[0];
    // What a fork begins with is of no turn.
    const earlier = start?.turn && !inputs.has(start.turn) ? await inputOf(start.turn) : null;
    if (earlier) inputs.set(earlier.id, earlier);

    const empty = nothingIn(session, summary?.title ?? "", facts.mode, options.model);
    const next = factsOf(empty, status, recent, options.now());
    const said = recent.findLast((e) => e.kind === "accepted")?.input;
    chosenModel = said?.model;
    chosenEffort = said?.options?.effort;
    next.model = chosenModel ?? next.model;
    if (session !== facts.session) isYolo = false;

    view.enter(heading ?? (recent.length ? `▸ ${next.title || shortName(session)}` : ""));
    now(next);
    const first = start ? start.seq - 1 : 0;
    void follow(session, first, recent.at(-1)?.seq ?? 0, inputs, signal);
    if (read > 0) void countEarlier(session, read, signal);
  }

  async function inputOf(turn: string): Promise<Input | null> {
    const [accepted] = await runtime.turn(turn);
    return accepted?.kind === "accepted" ? accepted.input : null;
  }

  /** Tells from the entry `from` on; what comes after `known` changes the facts. */
  async function follow(session: string, from: number, known: number, inputs: Map<string, Input>, signal: AbortSignal) {
    const tell = createTeller(view, inputs);
    try {
      for await (const update of runtime.follow(session, String(from), signal)) {
        if (signal.aborted) return;
        tell(update);
        if (!("entry" in update) || update.entry.seq <= known) continue;
        now(after(facts, update.entry));
        if (update.entry.kind === "ended" || update.entry.kind === "began") void retitled(session, signal);
      }
    } catch (error) {
      if (!signal.aborted) view.complain(messageOf(error));
    }
  }

  async function retitled(session: string, signal: AbortSignal): Promise<void> {
    const { title = "" } = (await runtime.summary(session).catch(() => null)) ?? {};
    if (!signal.aborted && title !== facts.title) now({ ...facts, title });
  }

  /** What a long conversation has cost before the part that was read to show it. */
  async function countEarlier(session: string, upTo: number, signal: AbortSignal): Promise<void> {
    try {
      for await (const page of pagesOf(runtime, session, 0, upTo)) {
        if (signal.aborted) return;
        let { spent } = facts;
        for (const entry of page) if (entry.kind === "thought") spent = spentPlus(spent, entry.model, entry.usage);
        now({ ...facts, spent });
      }
    } catch {
      // What could not be read is not counted; nobody is kept from talking by that.
    }
  }

  async function send(text: string, more: Partial<AcceptRequest> = {}): Promise<void> {
    const accepting = accept(text, more);
    begun = accepting.then(({ id, applied }) => (applied === "began" ? id : "")).catch(() => "");
    const receipt = await accepting;
    const words = takenText(receipt);
    unsure = null;
    if (!more.task) carried = "";
    if (receipt.paused) view.say(words);
    else if (words) view.acknowledge(words);
  }

  async function accept(text: string, more: Partial<AcceptRequest>): Promise<Receipt> {
    const whole = more.task ? text : carried + text;
    const key = unsure?.text === whole ? unsure.key : options.newKey();
    const images = more.images ?? (await options.imagesIn(text));
    unsure = { text: whole, key };
    return runtime.accept({
      session: facts.session,
      source: "terminal",
      key,
      text: whole,
      mode: facts.mode,
      reply: "pull",
      attended: true,
      ...(chosenModel && { model: chosenModel }),
      ...(chosenEffort && { options: { effort: chosenEffort } }),
      ...(isYolo && { unattended: "allow" }),
      ...(images.length && { images }),
      ...more,
    });
  }

  /** `!command`; with `!!` the model is not told of it. */
  async function runShell(command: string, told: boolean): Promise<void> {
    running = new AbortController();
    view.output(`$ ${command}\n`);
    try {
      const { code, text } = await options.shell(command, (out) => view.output(out), running.signal);
      view.outputEnded();
      const how = running.signal.aborted ? "stopped" : code === 0 ? "" : `exit ${code}`;
      if (told) carried += `${fenced("", `$ ${command}\n${text.trimEnd()}${how && `\n[${how}]`}`)}\n\n`;
      view.say([how && `■ ${how}`, told && "Goes with your next message."].filter(Boolean).join(" · "));
    } catch (error) {
      view.complain(messageOf(error));
    } finally {
      running = null;
    }
  }

  async function obey({ name, rest }: Typed): Promise<void> {
    const command = findCommand(TERMINAL_COMMANDS, name);
    if (!command) throw new Error(`Unknown command /${name}. See /help.`);
    const context = commandContext({
      ...options,
      facts,
      setMode: (mode) => now({ ...facts, mode }),
      setModel(model) {
        chosenModel = model;
        now({ ...facts, model: model ?? options.model });
      },
      effort: () => chosenEffort,
      setEffort(effort) {
        chosenEffort = effort;
      },
      yolo: () => isYolo,
      setYolo(on) {
        isYolo = on;
      },
      // Not `facts` again: the model may have been chosen by this very command.
      model: () => facts.model,
      stop,
    });
    await show(await runCommand(command, context, rest));
  }

  async function show({ refused, open: opened, draft, text, title, send: message }: CommandResult): Promise<void> {
    if (refused !== undefined) throw new Error(refused);
    if (opened && opened.session !== facts.session) await open(opened.session, opened.heading);
    if (title !== undefined) now({ ...facts, title });
    if (draft !== undefined) view.draft(draft);
    if (text) view.say(text);
    if (message) {
      const { text: words, ...how } = message;
      await send(words, how);
    }
  }

  /** True: something was at work and is being stopped. The turn that is shown, never another one. */
  async function stop(scope: "turn" | "tree" = "turn"): Promise<boolean> {
    if (running) {
      running.abort();
      return true;
    }
    const { session, turn: shown } = facts;
    const turn = shown?.id ?? (await begun);
    const background = scope === "tree" && (await runtime.status(session)).background.length > 0;
    if (!turn && !background) return false;
    // First, or the next one would begin when this turn ends.
    if (options.queuedAfterStop === "edit")
      await takeBack(facts.waiting).catch((error: unknown) => view.complain(messageOf(error)));
    const stopped = await runtime.stop({ session, turn, scope });
    return shown !== null || background || stopped !== "over";
  }

  /** Puts waiting messages back into the editor, unless a turn has taken them up. */
  async function takeBack(waiting: Facts["waiting"]): Promise<void> {
    const withdrawn = await Promise.all(waiting.map(({ id }) => runtime.withdraw(facts.session, id)));
    const taken = waiting.filter((_, i) => withdrawn[i]).map(({ text }) => text);
    if (taken.length) view.draft(taken.join("\n"));
  }

  /** False: that is not asked any more. */
  async function answer(question: AskedQuestion, given: Answer): Promise<boolean> {
    const { session } = facts;
    const first = await runtime.answer({ session, call: question.call, ...given, by: "terminal" });
    const kept = first ? await keptText(runtime, session, question, given).catch(() => "") : "";
    if (kept) view.aside(kept);
    return first;
  }

  return {
    open,
    stop,
    answer,
    facts: () => facts,
    /** A turn runs, or the person's own command. */
    busy: () => facts.turn !== null || running !== null,
    /** A command, `!command`, or a message. `other`: not what the mode says but the other way. */
    async enter(typed: string, other = false): Promise<void> {
      const text = typed.trim();
      const command = typed.startsWith("/") ? commandIn(text) : null;
      const [, bangs = "", line = ""] = /^(!!?)\s*(.+)$/s.exec(typed) ?? [];
      if (text === "") return;
      if (command) {
        await obey(command);
      } else if (line) {
        if (running) throw new Error("Your last command still runs: Esc or Ctrl+C stops it.");
        void runShell(line, bangs === "!");
      } else {
        const mode = other ? MODE[facts.mode].other : facts.mode;
        await send(text, { mode: facts.asking.length ? modeWhileAsked(mode) : mode });
      }
    },
    /** The message that would run last is taken back, to be changed. */
    takeBack: () => takeBack(facts.waiting.slice(-1)),
    close: () => {
      following.abort();
      running?.abort();
    },
  };
}
