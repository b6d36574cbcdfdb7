// The editor, with a word in its border on what Enter will do.
import { Editor, type EditorTheme, type TUI, visibleWidth } from "@earendil-works/pi-tui";
import { fitting } from "./transcript.ts";

/** A wide character and the cursor. With less, the editor divides its lines without end. */
const NARROWEST = 4;
/** What is pasted or taken back must not drive the terminal: U+009B begins a sequence just as Esc [ does. */
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
const HIGH_CONTROLS = /[\x80-\x9f]/g; // the editor knows the others, some as keys

export class Prompt extends Editor {
  label = "";

  constructor(tui: TUI, theme: EditorTheme) {
    super(tui, theme, { autocompleteMaxVisible: 8 });
    // A text leaves the editor when it is durable, not when Enter is pressed (see screen.ts).
    this.disableSubmit = true;
  }

  override setText(text: string): void {
    super.setText(text.replaceAll(CONTROLS, ""));
  }

  override handleInput(data: string): void {
    const typed = data.replaceAll(HIGH_CONTROLS, "");
    if (typed) super.handleInput(typed);
  }

  override render(width: number): string[] {
    return fitting(super.render(Math.max(NARROWEST, width)), width);
  }

  protected override renderTopBorder(width: number, hidden: number): string {
    const label = ` ${this.label} `;
    const room = width - visibleWidth(label) - 2;
    if (!this.label || hidden > 0 || room < 0) return super.renderTopBorder(width, hidden);
    return this.borderColor(`──${label}${"─".repeat(room)}`);
  }
}
