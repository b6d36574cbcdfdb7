// The choices of what the agent asks, above the editor. Nothing is chosen before the person has
// moved to it, so that an Enter meant for the editor never allows anything.
import { Key, matchesKey, truncateToWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { answerIn, choiceAnswer, choiceText } from "../../../conversation/choice.ts";
import type { AskedQuestion as Asked } from "../../../conversation/commands/command.ts";
import type { Answer } from "../../../core/runtime.ts";
import { oneLine } from "../clean.ts";
import type { Theme } from "./theme.ts";

export type QuestionPanel = ReturnType<typeof createQuestion>;

export function createQuestion() {
  let question: Asked | null = null;
  let selected = -1;

  return {
    /** True: it is another one than before. */
    show(next: Asked | null): boolean {
      if (question?.call === next?.call) return false;
      question = next;
      selected = -1;
      return true;
    },
    current: () => question,
    /** For a key while nothing is being typed: an answer, the beginning of one that is to be typed, or whether the key was
     *  used. */
    key(data: string): Answer | string | boolean {
      if (!question) return false;
      const { choices } = question;
      const step = matchesKey(data, Key.down) ? 1 : matchesKey(data, Key.up) ? -1 : 0;
      if (step && choices.length) {
        const from = selected === -1 && step === -1 ? choices.length : selected;
        selected = (from + step + choices.length) % choices.length;
        return true;
      }
      const chosen = matchesKey(data, Key.enter) ? choices[selected] : undefined;
      if (question.kind === "approval" && chosen === "deny") return "no, ";
      return chosen === undefined ? false : choiceAnswer(question.kind, chosen);
    },
    /** For a line that was entered: an answer if it is one in so many words, or the number of a choice. */
    word(line: string): Answer | null {
      if (!question) return null;
      const said = line.trim();
      const numbered = /^\d$/.test(said) ? question.choices[Number(said) - 1] : undefined;
      return numbered === undefined ? answerIn(question, said) : choiceAnswer(question.kind, numbered);
    },
    /** The choices, each on one line where the screen is low; what is asked stands in full at the end of the transcript. */
    render(theme: Theme, width: number, isLow: boolean): string[] {
      if (!question) return [];
      const asked = question;
      const choices = asked.choices.flatMap((choice, i) => {
        const paint = (line: string) => (i === selected ? theme.accent(theme.title(line)) : line);
        const [first = "", second, ...rest] = wrapTextWithAnsi(
          `${i === selected ? "❯" : " "} ${i + 1}. ${oneLine(choiceText(asked, choice))}`,
          Math.max(1, width),
        );
        if (second === undefined) return [paint(first)];
        if (isLow) return [paint(truncateToWidth(`${first} …`, width, "…"))];
        return [first, truncateToWidth(`     ${second}${rest.length ? "…" : ""}`, width, "…")].map(paint);
      });
      const how = asked.choices.length ? "↑↓ and Enter, or type its number, yes or no" : "type your answer";
      return [...choices, theme.faint(truncateToWidth(how, width, "…"))];
    },
  };
}
