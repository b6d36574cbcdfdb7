// Stand-in by the screen's author: whoever writes the real one, write over this file.
import { CombinedAutocompleteProvider } from "@earendil-works/pi-tui";
export const createCompletion = (commands: readonly { name: string; description: string }[], cwd: string) =>
  new CombinedAutocompleteProvider([...commands], cwd);
