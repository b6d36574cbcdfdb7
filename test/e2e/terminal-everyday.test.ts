// hermes chat on a real terminal: what a person uses every day.
import { chmodSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { eventually, holds } from "../fakes/chat-screen.ts";
import { llm, openTerminal, place, useProgram } from "../fakes/program.ts";

useProgram();

/** As an editor that the person uses for a while. */
function editorThat(does: string): string {
  const file = join(place.dir, "my editor");
  writeFileSync(file, `#!/bin/sh\ntrap "" INT\n${does}\n`);
  chmodSync(file, 0o755);
  return `'${file}'`;
}

it("three things to try until the first message, Ctrl+G, /copy, grouped /help, and no mouse mode", async () => {
  writeFileSync(join(place.dir, "package.json"), "{}");
  const answer = "Some *text*, and more — äöü.";
  llm.script({ text: answer });
  const waits = "touch opened; until [ -e go ]; do sleep 0.02; done";
  const editor = editorThat(`grep -q "^my draft$" "$1" && echo "from the editor" >> "$1"; ${waits}`);
  const screen = openTerminal(["chat"], { rows: 60, env: { VISUAL: editor } });
  await screen.shows(/^Things to try in this folder:\n {2}· Explain how .*\n {2}· Run the tests.*\n {2}· .+$/m);
  screen.type("my draft");
  await holds(screen, "my draft");
  screen.key("ctrl+g");
  await eventually(() => existsSync(join(place.dir, "opened")));
  screen.type("\x03"); // is the editor's, which does not care
  writeFileSync(join(place.dir, "go"), "");
  await holds(screen, "my draft\nfrom the editor");
  expect(readdirSync(place.home).filter((name) => name.startsWith("draft-"))).toEqual([]);
  screen.key("enter");
  await screen.shows("Some text, and more");
  await screen.until(() => !screen.text().includes("Things to try"), "the suggestions gone");
  screen.type("/copy\r");
  await screen.shows("Copied the last answer (28 characters).");
  expect(screen.raw()).toContain(`\x1b]52;c;${Buffer.from(answer).toString("base64")}\x07`);
  screen.type("/help\r");
  await screen.shows(/^The running turn\n- \/status .*[^]*^Conversations\n- \/new [^]*^Keys\n- Enter sends/m);
  expect(screen.raw()).not.toMatch(/\x1b\[\?(?:9|100\d|1015|1016)h/);
});

it("an editor that fails, or is not there, is named, and the draft stays; so is a clipboard without a program", async () => {
  const screen = openTerminal(["chat"], { env: { EDITOR: "no-such-editor", DISPLAY: "", WAYLAND_DISPLAY: "" } });
  await screen.shows("Type a message");
  screen.type("my draft");
  screen.key("ctrl+g");
  await screen.shows("The editor (no-such-editor) was not found. Your draft is unchanged.");
  await holds(screen, "my draft");
  screen.key("ctrl+v");
  await screen.shows("To paste a picture, install wl-clipboard");
  await holds(screen, "my draft");
});
