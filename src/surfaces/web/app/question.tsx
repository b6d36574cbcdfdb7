// What the agent asks: the full command, where it would run and why, and a button for each answer.
import { useState } from "preact/hooks";
import { choiceAnswer, choiceText, noAnswer } from "../../../conversation/choice.ts";
import type { AskedQuestion } from "../../../conversation/commands/command.ts";
import { printable } from "../../../platform/logline.ts";
import { questionName } from "./conversation.ts";
import { clockOf } from "./format.ts";
import { Markdown } from "./markdown.tsx";
import { submits } from "./page.tsx";
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
  const isApproval = kind === "approval";
  const offered = isApproval ? choices.filter((choice) => choice !== "deny") : choices;
  return (
    <section class={`question ${kind}`} aria-label={questionName(question)}>
      <h2>{questionName(question)}</h2>
      {about && (
        <pre class="command as-is" tabIndex={0}>
          {visible(about.command)}
        </pre>
      )}
      {about && !text.includes(`in ${about.cwd}`) && (
        <p class="where soft small long">
          in <code>{visible(about.cwd)}</code>
        </p>
      )}
      <div class="why">
        <Markdown
          text={visible(about && text.startsWith(about.command) ? text.slice(about.command.length).trim() : text)}
        />
      </div>
      {about?.hosts && <p class="where soft small long">It may reach {about.hosts.map(visible).join(", ")}.</p>}
      {outcome && <p class="error">{outcome}</p>}
      <form class="wrap" onSubmit={submits(() => give(isApproval ? noAnswer(words) : { allow: true, text: words }))}>
        <div class="wrap">
          {offered.map((choice, at) => (
            <button
              key={choice}
              type="button"
              class={at === 0 && isApproval ? "primary" : ""}
              disabled={sending}
              title={choiceText(question, choice)}
              onClick={() => void give(choiceAnswer(kind, choice))}
            >
              {LABELS[choice] && isApproval ? LABELS[choice] : choice}
            </button>
          ))}
        </div>
        <div class="words grow">
          <input
            class="grow"
            value={words}
            onInput={(event) => setWords(event.currentTarget.value)}
            aria-label={isApproval ? "Reason for a no" : "Answer in your own words"}
            placeholder={isApproval ? "Why not (optional)" : "In your own words"}
          />
          <button type="submit" class={isApproval ? "danger" : ""} disabled={sending || (!isApproval && !words)}>
            {isApproval ? "Deny" : "Answer"}
          </button>
        </div>
      </form>
      <p class="until soft small long">
        {isApproval
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
