// A list to choose from, above the editor: type to filter, arrows and Enter to choose, Esc for nothing.
import { fuzzyFilter, Key, matchesKey, SelectList, truncateToWidth } from "@earendil-works/pi-tui";
import type { PickerItem } from "../../../conversation/commands/command.ts";
import { oneLine } from "../clean.ts";
import type { TranscriptLook } from "./transcript.ts";

type OpenPicker = {
  title: string;
  choices: PickerItem[];
  filter: string;
  list: SelectList;
  choose(value: string | null): void;
};

export function createChooser(look: TranscriptLook) {
  let open: OpenPicker | null = null;

  function listed(choices: PickerItem[], filter: string): SelectList {
    const fitting = filter ? fuzzyFilter(choices, filter, ({ label, value }) => `${label} ${value}`) : choices;
    const items = fitting.map(({ value, label, description = "" }) => ({
      value,
      label: oneLine(label),
      description: oneLine(description),
    }));
    const list = new SelectList(items, 10, look.theme.list, { maxPrimaryColumnWidth: 60 });
    list.onSelect = ({ value }) => close(value);
    list.onCancel = () => close(null);
    return list;
  }

  function close(value: string | null): void {
    const was = open;
    open = null;
    was?.choose(value);
  }

  function filtered(filter: string): void {
    if (open) open = { ...open, filter, list: listed(open.choices, filter) };
  }

  return {
    open: (title: string, choices: PickerItem[]): Promise<string | null> =>
      new Promise((choose) => {
        close(null);
        open = { title, choices, filter: "", list: listed(choices, ""), choose };
      }),
    /** True: there was something to choose, and there is not any more. */
    cancel(): boolean {
      const was = open !== null;
      close(null);
      return was;
    },
    /** True: the key was meant for the list. */
    key(data: string): boolean {
      if (!open) return false;
      if (matchesKey(data, Key.backspace)) filtered(open.filter.slice(0, -1));
      else if (data.length === 1 && data >= " ") filtered(open.filter + data);
      else open.list.handleInput(data);
      return true;
    },
    render(width: number, rows: number): string[] {
      if (!open) return [];
      const head = `${look.theme.title(open.title)} ${look.theme.dim(open.filter || "(type to filter, Esc for none)")}`;
      return [truncateToWidth(head, width, "…"), ...open.list.render(width).slice(0, Math.max(3, rows - 8))];
    },
  };
}
