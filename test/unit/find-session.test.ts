// Which conversation a person means, and how they are listed.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fullName } from "../../src/core/session-key.ts";
import type { Store } from "../../src/core/store.ts";
import { clock } from "../../src/platform/clock.ts";
import { findSession } from "../../src/surfaces/terminal/find.ts";
import { listSessions } from "../../src/surfaces/terminal/sessions.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { type Booted, bootEngine } from "../fakes/scripted.ts";

let store: Store;
let booted: Booted;
beforeEach(async () => {
  store = asStore(createMemoryStore());
  booted = await bootEngine({ clock, between: () => store });
});
afterEach(() => booted.engine.drain(0));

const has = async (session: string, title: string) => {
  expect(await booted.engine.create({ session, title })).toBe("created");
  return session;
};
const find = (wanted: string) => findSession(booted.engine, wanted);
const keys = async () => (await store.catalog.sessions({ limit: 100 })).map(({ session }) => session);

describe("a conversation is found by", () => {
  it("its short name", async () => {
    const tea = await has(fullName("tea"), "How to make it");
    expect(await find("tea")).toBe(tea);
    expect(await find(" tea ")).toBe(tea);
  });

  it("its whole key, from wherever it is", async () => {
    const telegram = await has("agent:main:telegram:dm:7", "From the sofa");
    const run = await has("run_1", "By a program");
    const api = await has("my-key", "By the API");
    expect(await find(telegram)).toBe(telegram);
    expect(await find(run)).toBe(run);
    expect(await find("my-key")).toBe(api);
  });

  it("its title, whatever the case, also beyond A to Z", async () => {
    const about = await has(fullName("a1"), "Über die Brücke");
    const russian = await has(fullName("a2"), "Чай");
    expect(await find("ÜBER DIE BRÜCKE")).toBe(about);
    expect(await find("die brücke")).toBe(about);
    expect(await find("чАЙ")).toBe(russian);
  });

  it("a part of its title that no other has", async () => {
    const tea = await has(fullName("a1"), "Make green tea");
    await has(fullName("a2"), "Make coffee");
    expect(await find("Green")).toBe(tea);
  });

  it("the title that its first message gave it", async () => {
    const { session } = await booted.send(fullName("a1"), "Water the plants\nand do not forget the cactus");
    expect(await find("water the plants")).toBe(session);
  });
});

describe("of several", () => {
  it("a name goes before a title, and a whole title before a part", async () => {
    const named = await has(fullName("tea"), "Something else");
    const titled = await has(fullName("a1"), "Green tea");
    await has(fullName("a2"), "tea");
    await has(fullName("a3"), "Green tea and biscuits");
    expect(await find("tea")).toBe(named);
    expect(await find("green tea")).toBe(titled);
  });

  it("that fit alike none is taken: all are listed by name", async () => {
    await has(fullName("a1"), "Make green tea");
    await has("agent:main:telegram:dm:7", "Make black tea");
    await has(fullName("a2"), "Make coffee");
    const error = await find("tea").catch(String);
    expect(error).toContain('Several conversations fit "tea"');
    expect(error).toMatch(/\n {2}a1 +Make green tea/);
    expect(error).toMatch(/\n {2}agent:main:telegram:dm:7 +Make black tea/);
    expect(error).not.toContain("coffee");
  });

  it("with the same title none is taken either", async () => {
    for (const name of ["a1", "a2"]) await has(fullName(name), "Tea");
    await expect(find("tea")).rejects.toThrow(/a1 +Tea\n.*a2 +Tea|a2 +Tea\n.*a1 +Tea/);
  });

  it("only the first ten are listed, and the number of the rest", async () => {
    for (let n = 0; n < 13; n++) await has(fullName(`a${n}`), `Tea ${n}`);
    const lines = (await find("tea").catch(String)).split("\n");
    expect(lines).toHaveLength(12);
    expect(lines.at(-1)).toContain("and 3 more: hermes sessions");
  });
});

describe("what does not fit", () => {
  it.each(["coffee", "", "  ", "te a", "%", "_"])(
    "%j is an error that says how to list them, and begins none",
    async (wanted) => {
      const tea = await has(fullName("a1"), "Make tea");
      await expect(find(wanted)).rejects.toThrow(/There is no conversation ".*"\. List them with: hermes sessions/);
      expect(await keys()).toEqual([tea]);
    },
  );

  it("cannot drive the terminal, whoever gave the title", async () => {
    await has(fullName("a1"), "tea \u001b[2J");
    await has(fullName("a2"), "tea \u202e");
    const error = await find("tea").catch(String);
    expect(error).toMatch(/^[ -~\n]+$/);
  });

  it("is not a part of the work that a conversation gave to another", async () => {
    const session = fullName("a1");
    await has(session, "Make tea");
    await booted.send(`${session}/child/1`, "Boil water", { parent: session });
    await expect(find("boil")).rejects.toThrow("There is no conversation");
  });
});

describe("hermes sessions", () => {
  const list = (json = false) => listSessions({ ...store, limit: 20, json });

  it("shows name and title, and neither children nor what would drive the terminal", async () => {
    const session = fullName("a1");
    await booted.send(session, "Make tea\nnow");
    await booted.send(`${session}/child/1`, "Boil water", { parent: session });
    expect(await list()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d {2}● a1 {13}Make tea\n$/);
    await booted.engine.retitle(session, "Tea \u001b[2J");
    expect(await list()).toContain("a1             Tea \\u001b[2J\n");
    expect(JSON.parse(await list(true))).toMatchObject({ session, title: "Tea \u001b[2J", active: true });
  });

  it("shows how a conversation began that has no title", async () => {
    const session = fullName("a1");
    await booted.send(session, `Make tea now ${"and again ".repeat(20)}\nPlease.`);
    await store.catalog.retitle(session, "");
    expect(await list()).toMatch(/a1 +Make tea now and again .*…\n$/);
  });

  it("shows as many as were asked for, newest first, also where there are many children", async () => {
    const session = await has(fullName("a1"), "First");
    for (let n = 0; n < 5; n++) await booted.send(`${session}/child/${n}`, "Boil water", { parent: session });
    expect((await listSessions({ ...store, limit: 1, json: false })).match(/First/g)).toHaveLength(1);
  });

  it("says so when there are none", async () => {
    expect(await list()).toBe("There are no conversations yet.\n");
    expect(await list(true)).toBe("");
  });
});
