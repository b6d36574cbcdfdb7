// Three things to try in a folder, by what is there.
import { openDir, realInside } from "../../platform/confined.ts";

const MOST_ENTRIES = 500;
const SHOWN = 3;
const MANIFESTS =
  /^(?:package\.json|pyproject\.toml|setup\.py|Cargo\.toml|go\.mod|pom\.xml|build\.gradle(?:\.kts)?|Makefile|Gemfile|composer\.json)$/;

/** Each with whether it fits a folder with these names. */
const IDEAS: readonly [text: string, fits: (names: readonly string[]) => boolean][] = [
  ["Explain how this project is organised", has(MANIFESTS)],
  ["Run the tests and fix what fails", has(MANIFESTS)],
  ["Review the changes that are not committed yet", has(/^\.git$/)],
  ["Summarise the README in five sentences", has(/^readme\b/i)],
  ["Write a README for this folder", (names) => names.length > 0 && !has(/^readme\b/i)(names)],
  ["Say what is in this folder, and what is worth cleaning up", (names) => names.length > 0],
  ["Find the largest files here", (names) => names.length > 0],
  ["Make a web page with a clock, in one file", () => true],
  ["Write a script that renames photos by their date", () => true],
  ["What can you do for me?", () => true],
];

/** Never rejects. */
export async function suggestionsIn(dir: string): Promise<string[]> {
  try {
    await using opened = await openDir(await realInside(dir, []));
    const names = (await opened.entries(MOST_ENTRIES)).map(({ name }) => name);
    return IDEAS.filter(([, fits]) => fits(names))
      .slice(0, SHOWN)
      .map(([text]) => text);
  } catch {
    return []; // a folder that cannot be read
  }
}

function has(name: RegExp) {
  return (names: readonly string[]) => names.some((one) => name.test(one));
}
