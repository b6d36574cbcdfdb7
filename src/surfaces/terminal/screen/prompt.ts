// The editor, with a word in its border on what Enter will do.
import { Editor, type EditorTheme, type TUI, visibleWidth } from "@earendil-works/pi-tui";

export class Prompt extends Editor {
  label = "";

  constructor(tui: TUI, theme: EditorTheme) {
    super(tui, theme, { autocompleteMaxVisible: 8 });
    // A text leaves the editor when it is durable, not when Enter is pressed (see screen.ts).
    this.disableSubmit = true;
  }

  protected override renderTopBorder(width: number, hidden: number): string {
    const label = ` ${this.label} `;
    const room = width - visibleWidth(label) - 2;
    if (!this.label || hidden > 0 || room < 0) return super.renderTopBorder(width, hidden);
    return this.borderColor(`──${label}${"─".repeat(room)}`);
  }
}
