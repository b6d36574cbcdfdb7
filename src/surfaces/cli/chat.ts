// hermes chat: a conversation line by line, that goes on while the agent works. Whatever is typed is durable before it is
// acknowledged; Ctrl+C stops the turn, twice leaves.
import type { Interface } from "node:readline/promises";
import { messageOf } from "../../core/errors.ts";
import type { Runtime, Status } from "../../core/runtime.ts";
import type { Mode } from "../../core/session.ts";
import { createProgress } from "./progress.ts";

export type ChatOptions = {
  runtime: Runtime;
  session: string;
  newSession(): string;
  newKey(): string;
  mode: Mode;
  banner: string;
  lines: Interface;
  write(text: string): void;
  now(): number;
  /** What can be looked up, for a person. */
  skills(): Promise<string>;
  /** That conversation is left for a new one. */
  switched(from: string): void;
};

type Question = Status["asking"][number];

const TWICE_MS = 2_000;
const ACK = {
  began: "",
  interrupt: "⚡ Interrupting current task. I'll respond to your message shortly.",
  queue: "⏳ Queued for the next turn. I'll respond once the current task finishes.",
  steer: "⏩ Steered into current run. Your message arrives after the next tool call.",
};
const HELP = `/stop [all]      stop the current turn (also Ctrl+C); all: also children and background processes
/approve [session | always], /deny [reason]   answer what is asked (also: yes, no, session, always)
/status          what is going on, and what waits
/busy MODE       what a message does while I work: interrupt, queue or steer
/withdraw N      take back the N-th waiting message
/compress        summarise the conversation for the model
/skills          what I can look up
/memory          what memory had to say to your last message (notes: hermes memory list)
/new             start a new conversation
/quit            leave (also Ctrl+D); what runs is taken up again next time`;

/** Returns the exit code. */
export async function chat(options: ChatOptions): Promise<number> {
  const { runtime, lines, write, now } = options;
  let { session, mode } = options;
  const typed = lines[Symbol.asyncIterator](); // from now on no line is lost, whatever we wait for
  let over = false; // its input has ended: what was typed is still done, but nobody is asked for more
  lines.once("close", () => {
    over = true;
  });
  const prompt = () => {
    if (!over) lines.prompt();
  };
  let watching = watch(session, (await runtime.status(session)).since);
  let asking: Question | null = null;
  let interrupted = Number.NEGATIVE_INFINITY;
  let code = 0;
  write(`${options.banner}\n`);
  const [left] = (await runtime.status(session)).asking; // since before this process
  if (left) ask(left);
  prompt();

  lines.on("SIGINT", () => {
    if (now() - interrupted < TWICE_MS) {
      code = 130;
      lines.close();
      return;
    }
    interrupted = now();
    void stop().then((stopped) => write(stopped ? "" : "\nNothing is running. Ctrl+C again to leave.\n"));
  });

  for await (const line of { [Symbol.asyncIterator]: () => typed }) {
    try {
      if (await handle(line)) break;
    } catch (error) {
      write(`${messageOf(error)}\n`);
    }
    prompt();
  }
  watching.abort();
  return code;

  /** True: leave. */
  async function handle(typed: string): Promise<boolean> {
    const line = typed.trim();
    const [command = "", argument = ""] = typed.startsWith("/") ? line.split(/\s+/, 2) : [""];
    if (line === "") return false;
    if (asking && !command && (await decide(line))) return false;
    switch (command) {
      case "":
        await say(line);
        break;
      case "/quit":
      case "/exit":
        return true;
      case "/stop":
        if (!(await stop(argument === "all"))) write("Nothing is running.\n");
        break;
      case "/status":
        write(await describe());
        break;
      case "/busy":
        if (argument !== "interrupt" && argument !== "queue" && argument !== "steer")
          write(`Messages ${mode} while I work. Choose: /busy interrupt | queue | steer\n`);
        else {
          mode = argument;
          write(`From now on messages ${mode} while I work.\n`);
        }
        break;
      case "/withdraw": {
        const { inbox } = await runtime.status(session);
        const input = inbox[Number(argument) - 1];
        const done = input && (await runtime.withdraw(session, input.id));
        write(done ? `Taken back: ${input.text}\n` : "There is no such waiting message; /status lists them.\n");
        break;
      }
      case "/approve":
      case "/deny": {
        if (!asking) write("Nothing is asked just now.\n");
        else if (command === "/deny") await decided(asking, false, line.slice(6).trim() || "The user said no.");
        else await decided(asking, true, argument || "once");
        break;
      }
      case "/compress":
        await say("/compress", "compress");
        break;
      case "/skills":
        write(await options.skills());
        break;
      case "/memory":
        write(await recalled());
        break;
      case "/new":
        watching.abort();
        options.switched(session);
        session = options.newSession();
        watching = watch(session, "0");
        write(`A new conversation: ${session}\n`);
        break;
      case "/help":
        write(`${HELP}\n`);
        break;
      default:
        write(`There is no ${command}. /help lists what there is; a message may start with a space.\n`);
    }
    return false;
  }

  async function say(text: string, task?: "compress") {
    const request = { session, source: "terminal", key: options.newKey(), text, mode, reply: "pull" as const };
    const { applied } = await runtime.accept({ ...request, ...(task && { task }) });
    if (ACK[applied]) write(`${ACK[applied]}\n`);
  }

  async function stop(all = false): Promise<boolean> {
    const { turn, background } = await runtime.status(session);
    if (!turn && !(all && background.length)) return false;
    await runtime.stop({ session, turn: turn?.id ?? "", scope: all ? "tree" : "turn" });
    return true;
  }

  /** Only a clear word is an answer; anything else is a message, and the question stays. */
  async function decide(line: string): Promise<boolean> {
    const question = asking;
    if (!question) return false;
    const isQuestion = question.kind === "question";
    const yes = /^(approve|yes|ok|y|👍|once|session|always)$/i.test(line);
    const no = /^(deny|no|n|👎)$/i.test(line);
    if (!yes && !no && !isQuestion) return false;
    const text = isQuestion ? line : yes ? line : "The user said no.";
    await decided(question, isQuestion || yes, text);
    return true;
  }

  async function decided({ call }: Question, allow: boolean, text: string) {
    await runtime.answer({ session, call, allow, text, by: "terminal" });
    asking = null;
  }

  function ask(question: Question) {
    if (asking?.call === question.call) return;
    asking = question;
    write(`\n? ${question.text}\n  [${question.choices.join(" / ")}]\n`);
  }

  async function describe(): Promise<string> {
    const { turn, inbox, parked, background, unsaved } = await runtime.status(session);
    const now = turn ? `Working (${turn.phase}, model call ${turn.thoughts + 1}).` : parked ? "Parked." : "Idle.";
    const waiting = inbox.map(({ mode, text }, i) => `  ${i + 1}. [${mode}] ${text.slice(0, 80)}\n`).join("");
    const running = background
      .map(({ id, command }) => `  ${id} in the background: ${command.slice(0, 80)}\n`)
      .join("");
    const memory = unsaved.length ? `  Memory still to be written: ${unsaved.join(", ")}\n` : "";
    return `${now} Session ${session}. ${inbox.length} waiting.\n${waiting}${running}${memory}`;
  }

  async function recalled(): Promise<string> {
    const { entries = 0 } = (await runtime.summary(session)) ?? {};
    const last = (await runtime.entries(session, Math.max(0, entries - 100), 100)).findLast(
      (entry) => entry.kind === "thought",
    );
    return last?.kind === "thought" && last.recalled
      ? `${last.recalled}\n`
      : "Nothing was recalled for your last message.\n";
  }

  function watch(key: string, cursor: string): AbortController {
    const over = new AbortController();
    const show = createProgress({ answer: write, aside: (line) => write(`  ${line}\n`) });
    void (async () => {
      for await (const update of runtime.follow(key, cursor, over.signal)) {
        const entry = "entry" in update ? update.entry : null;
        show(update);
        if (entry?.kind === "asked") {
          ask({ call: entry.call, ...entry.ask });
        }
        if (entry?.kind === "acted" && asking?.call === entry.call) asking = null;
        if (entry?.kind === "ended") prompt();
      }
    })().catch((error: unknown) => write(`\n${messageOf(error)}\n`));
    return over;
  }
}
