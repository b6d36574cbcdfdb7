// What a conversation is shown on: the screen, or plain lines.
import type { PickerItem } from "../../conversation/commands/command.ts";
import type { Facts } from "../../conversation/facts.ts";
import type { Pen } from "../../conversation/updates.ts";

export type View = Pen & {
  /** What is always shown, whenever something of it has changed. */
  facts(facts: Facts): void;
  /** An answer to a command. Markdown. */
  say(text: string): void;
  /** What became of a message. */
  acknowledge(line: string): void;
  /** Something could not be done. */
  complain(text: string): void;
  /** The person's own command: what it prints, and that it is over. */
  output(text: string): void;
  outputEnded(): void;
  /** From here on another conversation is shown. */
  enter(heading: string): void;
  /** Null: the person chose nothing. */
  choose(title: string, choices: PickerItem[]): Promise<string | null>;
  showThoughts?(on: boolean): void;
  /** To be changed and sent (again), before what is being typed. */
  draft(text: string): void;
};
