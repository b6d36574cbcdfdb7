// The table of slash commands, against those who read it.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CHAT_COMMANDS, commandIn, findCommand, TERMINAL_COMMANDS } from "../../src/conversation/commands/commands.ts";

describe.each([
  ["the terminal", TERMINAL_COMMANDS, "docs/terminal.md"],
  ["chats", CHAT_COMMANDS, "docs/gateway.md"],
])("the commands of %s", (_, commands, docs) => {
  it("have names of their own", () => {
    const names = commands.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
    expect(new Set(names).size).toBe(names.length);
  });

  it(`stand in ${docs}, and there is no other`, () => {
    const [, table = ""] = /## Slash commands\n(.*?)\n## /s.exec(readFileSync(docs, "utf8")) ?? [];
    const documented = new Set(Array.from(table.matchAll(/`\/([a-z]+)/g), ([, name]) => name));
    const names = commands.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
    expect(documented).toEqual(new Set(names));
  });
});

it("the menu of every chat platform takes them", () => {
  expect(CHAT_COMMANDS.length).toBeLessThanOrEqual(100);
  for (const { name, description } of CHAT_COMMANDS) {
    expect(name).toMatch(/^[a-z0-9_]{1,32}$/); // Telegram
    expect(description.length).toBeGreaterThan(0);
    expect(description.length).toBeLessThanOrEqual(100); // Discord
  }
});

describe("what is typed", () => {
  it.each([
    ["/stop", { name: "stop", rest: "" }],
    ["/Stop  ALL ", { name: "stop", rest: "ALL" }],
    ["/title two\nlines", { name: "title", rest: "two\nlines" }],
    ["/usr/bin is full", null],
    ["/ stop", null],
    ["stop", null],
  ])("%j is the command %j", (text, command) => {
    expect(commandIn(text)).toEqual(command);
  });

  it("finds a command by its name or another one, and nothing that every object has", () => {
    expect(findCommand(TERMINAL_COMMANDS, "exit")?.name).toBe("quit");
    expect(findCommand(CHAT_COMMANDS, "exit")).toBeUndefined();
    expect(findCommand(CHAT_COMMANDS, "constructor")).toBeUndefined();
  });
});
