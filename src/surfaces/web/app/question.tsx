// What the agent asks: the full command, where it would run and why, and a button for each answer.
import { useState } from "preact/hooks";
import { choiceAnswer, choiceText, noAnswer } from "../../../conversation/choice.ts";
import type { AskedQuestion } from "../../../conversation/commands/command.ts";
import { printable } from "../../../platform/logline.ts";
import { questionName } from "./conversation.ts";
import { clockOf } from "./format.ts";
import { Markdown } from "./markdown.tsx";
import { answer } from "./talk.ts";

export function QuestionCard({ session, question }: { session: string; question: AskedQuestion }) {
  const { kind, text, choices, about, call, until } = question;
  const [words, setWords] = useState("");
  const [outcome, setOutcome] = useState("");
  const [sending, setSending] = useState(false);
  const give = async (given: Parameters<typeof answer>[2]) => {
    setSending(true);
    setOutcome(await answer(session, call, given));
    setSending(false);
  };
  const offered = kind === "approval" ? choices.filter((choice) => choice !== "deny") : choices;
  return (
    <section class={`question ${kind}`} aria-label={questionName(question)}>
      <h2>{questionName(question)}</h2>
      {about && (
        <pre class="command" tabIndex={0}>
          {visible(about.command)}
        </pre>
      )}
      {about && !text.includes(`in ${about.cwd}`) && (
        <p class="where">
          in <code>{visible(about.cwd)}</code>
        </p>
      )}
      <div class="why">
        <Markdown
          text={visible(about && text.startsWith(about.command) ? text.slice(about.command.length).trim() : text)}
        />
      </div>
      {about?.hosts && <p class="where">It may reach {about.hosts.map(visible).join(", ")}.</p>}
      {outcome && <p class="error">{outcome}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void give(kind === "approval" ? noAnswer(words) : { allow: true, text: words });
        }}
      >
        <div class="choices">
          {offered.map((choice, at) => (
            <button
              key={choice}
              type="button"
              class={at === 0 && kind === "approval" ? "primary" : ""}
              disabled={sending}
              title={choiceText(question, choice)}
              onClick={() => void give(choiceAnswer(kind, choice))}
            >
              {LABELS[choice] && kind === "approval" ? LABELS[choice] : choice}
            </button>
          ))}
        </div>
        <div class="words">
          <input
            value={words}
            onInput={(event) => setWords(event.currentTarget.value)}
            aria-label={kind === "approval" ? "Reason for a no" : "Answer in your own words"}
            placeholder={kind === "approval" ? "Why not (optional)" : "In your own words"}
          />
          <button
            type="submit"
            class={kind === "approval" ? "danger" : ""}
            disabled={sending || (kind === "question" && !words)}
          >
            {kind === "approval" ? "Deny" : "Answer"}
          </button>
        </div>
      </form>
      <p class="until">
        {kind === "approval"
          ? `Denied if nobody answers by ${clockOf(until)}.`
          : `After ${clockOf(until)} the agent goes on without an answer.`}
      </p>
    </section>
  );
}

const LABELS: Record<string, string> = {
  once: "Allow once",
  session: "Allow in this conversation",
  always: "Always allow",
};

/** What is not seen but would make a command read as another one is written out; line ends and tabs stay. */
const visible = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.split("\t").map(printable).join("\t"))
    .join("\n");
