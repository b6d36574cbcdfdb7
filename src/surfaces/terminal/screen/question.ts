// The choices of what the agent asks, above the editor. Nothing is chosen before the person has
// moved to it, so that an Enter meant for the editor never allows anything.
import { Key, matchesKey, truncateToWidth } from "@earendil-works/pi-tui";
import type { Question as Asked } from "../facts.ts";
import { oneLine } from "./clean.ts";
import type { Theme } from "./theme.ts";

export type Question = ReturnType<typeof createQuestion>;
export type Reply = { allow: boolean; text: string };

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
    /** For a key while nothing is being typed: an answer, or whether the key was used. */
    key(data: string): Reply | boolean {
      if (!question) return false;
      const { choices } = question;
      const step = matchesKey(data, Key.down) ? 1 : matchesKey(data, Key.up) ? -1 : 0;
      if (step && choices.length) {
        const from = selected === -1 && step === -1 ? choices.length : selected;
        selected = (from + step + choices.length) % choices.length;
        return true;
      }
      const chosen = matchesKey(data, Key.enter) ? choices[selected] : undefined;
      return chosen === undefined ? false : replyOf(question, chosen);
    },
    /** For a line that was entered: an answer if it is one in so many words, or the number of a choice. */
    word(line: string): Reply | null {
      if (!question) return null;
      const word = line.trim().toLowerCase();
      const numbered = /^\d$/.test(word) ? question.choices[Number(word) - 1] : undefined;
      const chosen = numbered ?? question.choices.find((choice) => choice.toLowerCase() === word);
      if (chosen !== undefined) return replyOf(question, chosen);
      if (question.kind === "question") return null;
      if (/^(approve|yes|ok|y|👍)$/.test(word)) return { allow: true, text: "once" };
      return /^(deny|no|n|👎)$/.test(word) ? { allow: false, text: SAID_NO } : null;
    },
    /** The choices; what is asked stands in full at the end of the transcript. */
    render(theme: Theme, width: number): string[] {
      if (!question) return [];
      const choices = question.choices.map((choice, i) => {
        const line = `${i === selected ? "❯" : " "} ${i + 1}. ${oneLine(choice)}`;
        return truncateToWidth(i === selected ? theme.accent(theme.title(line)) : line, width, "…");
      });
      const how = question.choices.length ? "↑↓ and Enter, or type the word" : "type your answer";
      return [...choices, theme.faint(truncateToWidth(how, width, "…"))];
    },
  };
}

const SAID_NO = "The user said no.";

function replyOf({ kind }: Asked, choice: string): Reply {
  if (kind === "question") return { allow: true, text: choice };
  return choice === "deny" ? { allow: false, text: SAID_NO } : { allow: true, text: choice };
}
