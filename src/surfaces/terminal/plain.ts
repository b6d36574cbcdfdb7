// The talk in plain lines: for pipes, dumb terminals and screen readers. Nothing is drawn over, nothing moves, and every
// line says in words what it is.
import { createInterface } from "node:readline";
import { bodyOf, type CallBody, excerptOf, headOf } from "../../conversation/calls.ts";
import { answerIn, choiceAnswer, choiceText } from "../../conversation/choice.ts";
import type { AskedQuestion } from "../../conversation/commands/command.ts";
import { lasting, MARK, type Pen } from "../../conversation/updates.ts";
import { messageOf } from "../../core/errors.ts";
import { clean } from "./clean.ts";
import type { Surface } from "./open.ts";
import type { Talk } from "./talk.ts";

type Io = { input: NodeJS.ReadableStream; output: NodeJS.WritableStream & { isTTY?: boolean }; now(): number };

const TWICE_MS = 2_000;

/** The part of a view that tells of turns: the answer goes one way, everything about it another. */
export function linePen(answer: (text: string) => void, aside: (line: string) => void): Pen {
  let open = false; // a line of the answer
  const end = () => {
    if (open) answer("\n");
    open = false;
  };
  const beside = (line: string) => {
    end();
    aside(line);
  };
  return {
    message() {},
    answer(text) {
      answer(text);
      open = !text.endsWith("\n");
    },
    settled: end,
    reset: () => beside("[the answer starts over]"),
    thinks() {},
    started(call) {
      const { name, about, counts } = headOf(call);
      beside(["→", name, about, counts].filter(Boolean).join(" "));
    },
    printed() {}, // nothing is drawn over: its result says it
    acted(call) {
      const { name, about, counts } = headOf(call);
      const body = bodyOf(call);
      const [what, how] = body.kind === "diff" ? [[name, about, counts], []] : [[name], [counts]];
      const line = [MARK[call.outcome], ...what, call.outcome].filter(Boolean).join(" ");
      const took = [...how, lasting(call.ms)].filter(Boolean).join(", ");
      beside([`${line} (${took})`, ...excerpt(body)].join("\n"));
    },
    asked: ({ text, choices }) => beside(`? ${text}\n  [${choices.join(" / ")}]`),
    decided: (allow, text) => beside(decidedLine(allow, text)),
    aside: beside,
    notice(line) {
      if (line) beside(line);
    },
    ended: end,
  };
}

function excerpt(body: CallBody): string[] {
  const { shown, left, isBeginning } = excerptOf(body);
  const more = left > 0 ? [`… ${left} more lines`] : [];
  return (isBeginning ? [...shown, ...more] : [...more, ...shown]).map((line) => `    ${line}`);
}

export const decidedLine = (allow: boolean, text: string): string => `${allow ? "Allowed" : "Denied"}: ${text}`;

export function openPlain({ input, output, now }: Io): Surface {
  const terminal = output.isTTY === true;
  // Lines are edited by the terminal itself: an editor of our own would move the cursor.
  const lines = createInterface({ input, output, prompt: terminal ? "> " : "", terminal: false });
  let begun = false; // a line: with the prompt, or with what a command has printed
  const write = (text: string) => {
    if (begun) output.write("\n");
    begun = false;
    output.write(clean(text));
  };
  const pen = linePen(write, (line) => write(`  ${line}\n`));
  const typed: string[] = []; // and not yet looked at
  const wanting: ((line: string | null) => void)[] = [];
  let over = false; // its input has ended: what was typed is still done, but nobody is asked for more
  // Who asked last is answered first: a list to choose from, within a command.
  lines.on("line", (line) => {
    begun = false;
    const wants = wanting.pop();
    if (wants) wants(line);
    else typed.push(line);
  });
  lines.once("close", () => {
    over = true;
    for (const wants of wanting.splice(0)) wants(null);
  });
  const nextLine = () =>
    new Promise<string | null>((resolve) => {
      const [line = null] = typed.splice(0, 1);
      if (line !== null || over) resolve(line);
      else wanting.push(resolve);
    });
  const prompt = () => {
    if (over) return;
    lines.prompt();
    begun = terminal;
  };
  let asking: AskedQuestion | null = null;
  let printed = ""; // last, by the person's own command

  /** Only a clear word answers an approval; anything else is a message, and the question stays. */
  async function answered(talk: Talk, line: string): Promise<boolean> {
    if (!asking || line.startsWith("/")) return false;
    const free = asking.kind === "question" ? choiceAnswer(asking.kind, line) : null;
    const given = answerIn(asking, line) ?? free;
    return given !== null && (await talk.answer(asking, given));
  }

  /** Line by line, until there are no more. */
  async function hear(talk: Talk): Promise<void> {
    prompt();
    for (let line = await nextLine(); line !== null; line = await nextLine()) {
      try {
        if (!(await answered(talk, line.trim()))) await talk.enter(line);
      } catch (error) {
        write(`${messageOf(error)}\n`);
      }
      prompt();
    }
  }

  return {
    ...pen,
    asked(ask) {
      pen.settled();
      const choices = ask.choices.map((choice) => `  ${choice}: ${choiceText(ask, choice)}\n`);
      const why = ask.kind === "approval" ? "  (as in: no, use another folder)\n" : "";
      write(
        `\n? ${ask.text}\n${ask.kind === "question" ? `  [${ask.choices.join(" / ")}]\n` : choices.join("")}${why}`,
      );
    },
    ended(outcome, ms) {
      pen.ended(outcome, ms);
      prompt();
    },
    facts: (facts) => {
      [asking = null] = facts.asking;
    },
    say: (text) => write(`${text.trimEnd()}\n`),
    acknowledge: (line) => write(`${line}\n`),
    complain: (text) => write(`${text}\n`),
    output(text) {
      write(text);
      printed = text;
    },
    outputEnded() {
      begun = !printed.endsWith("\n");
    },
    enter: (heading) => write(heading && `${heading}\n`),
    draft: (text) => write(`Taken back: ${text}\n`), // a line that is typed cannot be changed by us
    async choose(title, choices) {
      const list = choices.map(({ label, description = "" }, i) => `${i + 1}. ${label} ${description}`.trimEnd());
      write(`${title}\n${list.join("\n")}\nIts number, or Enter for none:\n`);
      prompt();
      return choices[Number(await nextLine()) - 1]?.value ?? null;
    },
    start(talking, leave) {
      let interrupted = Number.NEGATIVE_INFINITY;
      process.on("SIGINT", () => {
        if (!terminal || now() - interrupted < TWICE_MS) return leave(130);
        interrupted = now();
        void talking
          .then((talk) => talk.stop())
          .then((stopped) => write(stopped ? "" : "\nNothing is running. Ctrl+C again to leave.\n"))
          .catch((error: unknown) => write(`${messageOf(error)}\n`));
      });
      void talking.then(hear).then(
        () => leave(0),
        () => {}, // there is no talk: whoever makes it says why
      );
    },
    stop: () => lines.close(),
  };
}
