// What keys do. A text stays in the editor until it is durable; what is typed meanwhile comes after it.
import { isKeyRelease, Key, matchesKey } from "@earendil-works/pi-tui";
import type { Facts } from "../../../conversation/facts.ts";
import { MODE } from "../../../conversation/modes.ts";
import type { Answer } from "../../../core/runtime.ts";
import type { openHistory } from "../history.ts";
import type { Talk } from "../talk.ts";
import type { createChooser } from "./choose.ts";
import type { Prompt } from "./prompt.ts";
import type { QuestionPanel } from "./question.ts";

type KeyboardOptions = {
  editor: Prompt;
  question: QuestionPanel;
  chooser: ReturnType<typeof createChooser>;
  history: ReturnType<typeof openHistory>;
  facts(): Facts | null;
  now(): number;
  draw(): void;
  say(text: string): void;
  complain(error: unknown): void;
  unfold(): void;
  suspend(): void;
  /** The text after the person has changed it in their own editor. */
  edit(text: string): Promise<string>;
  /** The file that holds the picture of the clipboard. */
  pasteImage(): Promise<string>;
};

const TWICE_MS = 2_000;
/** A key that was on its way when a question came is not an answer to it. */
const ARMED_MS = 400;
/** What was sent and is longer does not come back with Up: the editor takes a second a key for a megabyte. */
const LONGEST_AGAIN = 20_000;
/** Begins a new line. pi-tui also knows it as Enter; every terminal sends "\r" for that. */
const CTRL_J = "\n";

export function createKeyboard(options: KeyboardOptions) {
  const { editor, question, chooser, history, facts, now, draw, say, complain } = options;
  /** What is entered before there is a talk waits for it. */
  let talking: Promise<Talk> = new Promise(() => {});
  let busy = () => false;
  let leave: (code: number) => void = () => {};
  let interrupted = Number.NEGATIVE_INFINITY;
  /** Typed, or taken back into the editor, while a text was on its way to be durable: comes after it. */
  let held: ((sent: boolean) => void)[] | null = null;
  let asked = 0; // since when the question is there
  let begunFor = ""; // the question that stood there when what is typed was begun: only that one can it answer
  for (const text of history.entries()) editor.addToHistory(text);

  /** True: the key was used. */
  function key(data: string): boolean {
    if (isKeyRelease(data)) return true;
    if (matchesKey(data, Key.ctrl("c"))) return interrupt();
    if (matchesKey(data, Key.ctrl("z"))) return done(options.suspend);
    if (chooser.key(data)) return done(draw);
    if (held) return done(() => held?.push((sent) => (sent ? feed(data) : write(data))));
    if (matchesKey(data, Key.ctrl("o"))) return done(options.unfold);
    if (matchesKey(data, Key.ctrl("g"))) return done(() => void edit());
    if (matchesKey(data, Key.ctrl("v"))) return done(() => void options.pasteImage().then(insertPath, complain));
    if (matchesKey(data, Key.ctrl("r"))) return done(() => void search());
    if (matchesKey(data, Key.ctrl("d")) && !editor.getText()) return done(() => leave(0));
    if (matchesKey(data, Key.escape) && !editor.isShowingAutocomplete() && busy()) return interrupt();
    if (matchesKey(data, Key.alt("up")))
      return done(() => void talking.then((talk) => talk.takeBack()).catch(complain));
    if (matchesKey(data, Key.alt("enter"))) return done(() => submit(true));
    if (!editor.getText() && now() - asked > ARMED_MS) {
      const used = question.key(data);
      if (typeof used === "string") return done(() => editor.insertTextAtCursor(used));
      if (typeof used === "object") return done(() => void reply(used).catch(complain));
      if (used) return done(draw);
    }
    return data !== CTRL_J && matchesKey(data, Key.enter) ? enter(data) : false;
  }
  const done = (act: () => void): true => {
    act();
    return true;
  };

  function enter(data: string): true {
    const { line, col } = editor.getCursor();
    if (editor.isShowingAutocomplete()) {
      const text = editor.getText();
      editor.handleInput(data);
      if (text.startsWith("/") || text === editor.getText()) submit(false);
      else draw();
    } else if (editor.getLines()[line]?.[col - 1] === "\\") {
      editor.handleInput("\x7f");
      editor.insertTextAtCursor("\n");
      draw();
    } else submit(false);
    return true;
  }

  /** Once: stop what runs, or clear the line. Twice: leave. */
  function interrupt(): true {
    if (chooser.cancel()) return done(draw);
    if (now() - interrupted < TWICE_MS) return done(() => leave(130));
    interrupted = now();
    const text = editor.getText();
    void talking
      .then((talk) => talk.stop())
      .then((stopping) => {
        if (stopping) return;
        if (text && text === editor.getText()) {
          remember(editor.getExpandedText());
          editor.setText("");
        }
        say(text ? "Cleared: Up brings it back. Ctrl+C again leaves." : "Nothing is running. Ctrl+C again leaves.");
      })
      .catch(complain);
    return true;
  }

  /** What was typed before, newest first; what is being typed stays behind it. */
  async function search(): Promise<void> {
    const texts = [...new Set(history.entries().toReversed())];
    const choosing = chooser.open(
      "History",
      texts.map((text) => ({ value: text, label: text })),
    );
    draw();
    const chosen = await choosing;
    if (chosen !== null) draft(chosen);
    draw();
  }

  function remember(text: string): void {
    editor.addToHistory(text);
    history.add(text);
  }

  function submit(other: boolean): void {
    const text = editor.getExpandedText();
    if (!text.trim()) return;
    held = [];
    interrupted = Number.NEGATIVE_INFINITY; // what is stopped next is another thing
    void talking
      .then((talk) => send(talk, text, other))
      .then(
        () => {
          if (text.length <= LONGEST_AGAIN) remember(text);
          editor.setText("");
          return true;
        },
        (error: unknown) => {
          complain(error);
          return false;
        },
      )
      .then((sent) => {
        if (!sent && held?.length) editor.insertTextAtCursor("\n");
        release(sent);
      });
  }

  function release(sent: boolean): void {
    const later = held ?? [];
    held = null;
    for (const act of later) act(sent);
    label();
    draw();
  }

  /** What is taken back meanwhile comes after it. */
  async function edit(): Promise<void> {
    held = [];
    try {
      editor.setText(await options.edit(editor.getExpandedText()));
    } catch (error) {
      complain(error);
    }
    release(true);
  }

  function insertPath(path: string): void {
    if (held) return void held.push(() => insertPath(path));
    editor.insertTextAtCursor(/\s/.test(path) ? `@"${path}" ` : `@${path} `);
    draw();
  }

  async function send(talk: Talk, text: string, other: boolean): Promise<void> {
    const asking = question.current();
    const meant = asking?.call === begunFor && !other && !/^[/!]/.test(text);
    const free = asking?.kind === "question" ? { allow: true, text } : null;
    const answer = meant ? (question.word(text) ?? free) : null;
    // Too late for an answer: then it is a message, and nothing is lost.
    if (!asking || !answer || !(await talk.answer(asking, answer))) await talk.enter(text, other);
  }

  async function reply(given: Answer): Promise<void> {
    const asking = question.current();
    const talk = await talking;
    if (asking) await talk.answer(asking, given);
  }

  function feed(data: string): void {
    if (!key(data)) editor.handleInput(data);
  }

  /** It came behind a text that could not be sent: more text, that goes nowhere before the person has seen so. */
  function write(data: string): void {
    if (matchesKey(data, Key.enter)) editor.insertTextAtCursor("\n");
    else editor.handleInput(data);
  }

  function label(): void {
    const current = question.current();
    if (!editor.getText()) begunFor = current?.call ?? "";
    editor.label = labelOf(current?.kind === "question" && current.call === begunFor, facts());
  }
  editor.onChange = label;

  function draft(text: string): void {
    if (held) return void held.push(() => draft(text));
    const typed = editor.getExpandedText();
    editor.setText(typed && typed !== text ? `${text}\n${typed}` : text);
    draw();
  }

  return {
    key,
    draft,
    /** What runs or is asked is another thing now. */
    changed(isAsked: boolean): void {
      if (isAsked) asked = now();
      label();
    },
    /** What was being typed comes back with Up at the next start. */
    stop(): void {
      history.add(editor.getExpandedText());
    },
    start(made: Promise<Talk>, leaving: (code: number) => void): void {
      talking = made;
      leave = leaving;
      made.then(
        (talk) => {
          ({ busy } = talk);
        },
        () => {}, // there is no talk: whoever makes it says why
      );
      process.stdin.on("end", () => leave(129));
    },
  };
}

/** What Enter will do. */
function labelOf(answering: boolean, facts: Facts | null): string {
  if (answering) return "your answer · Alt+Enter: a message instead";
  if (!facts?.turn) return "";
  if (facts.asking.length) return "choose above, or type a message · Esc stops";
  const { enter, other } = MODE[facts.mode];
  return `Enter ${enter} · Alt+Enter ${MODE[other].enter} · Esc stops`;
}
