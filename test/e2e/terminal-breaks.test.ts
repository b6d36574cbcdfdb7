// What a person sees on a real terminal when the model is in trouble.
import { join } from "node:path";
import { expect, it } from "vitest";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import { type Screen } from "../fakes/pty.ts";

useProgram();

async function chat(): Promise<Screen> {
  const screen = openTerminal(["chat", "--session", "talk"], { cols: 100, rows: 30 });
  await screen.shows("Ctrl+D leaves");
  return screen;
}

it("words of a stream that breaks are taken back, and the answer is begun again", async () => {
  const shown = await chat();
  llm.script({ text: ["Half of an ans"], fault: { cut: "text" } });
  llm.script({ text: "The whole answer." });
  shown.type("hi\r");
  await shown.shows("The whole answer.");
  await shown.shows("The answer is begun again.");
  expect(llm.requests).toHaveLength(2);
  const store = await openSqlite({ file: join(place.home, "hermes.db"), readOnly: true });
  const entries = await store.journal.entries("agent:main:terminal:dm:talk", 0, 100);
  await store.close();
  expect(entries.map(({ kind }) => kind)).toEqual(["accepted", "began", "retracted", "thought", "ended"]);
  expect(entries[0]).toMatchObject({ input: { attended: true } });
});

it("a wait is told with its end, and Esc ends it at once", async () => {
  const shown = await chat();
  llm.script({ fault: { status: 503, retryAfter: 100 } });
  shown.type("hi\r");
  await shown.shows(/Trying again in \d+ s, for up to 2 min/);
  shown.type("\x1b");
  await shown.shows(/stopped|Stopping/i);
  expect(llm.requests).toHaveLength(1);
});

it("an answer that reached its limit is marked for the person", async () => {
  const shown = await chat();
  llm.script({ text: "As far as it we", finish: "length" });
  shown.type("hi\r");
  await shown.shows("[cut off: the model reached its limit of output]");
});
