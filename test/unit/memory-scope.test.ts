// Whose memory a conversation uses. Nothing of one scope reaches another.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createFilesMemory } from "../../src/memory/files.ts";
import { nameOf, openNotebook } from "../../src/memory/notebook.ts";
import { parentTurnOf, scopeOf } from "../../src/memory/scope.ts";
import { createSessionsMemory } from "../../src/memory/sessions.ts";
import { commitOf, entryOf, joined } from "../contract/store.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

describe("the scope", () => {
  it.each([
    ["agent:main:terminal:dm:abc", "local"],
    ["agent:main:terminal:dm:abc/child/run_1.call_1_0.0", "local"],
    ["agent:main:telegram:dm:999", "telegram:999"],
    ["agent:main:telegram:dm:999#3", "telegram:999"],
    ["agent:main:slack:dm:D1:1700.5", "slack:D1"],
    ["agent:main:telegram:group:chat1:u1", "telegram:chat1:u1"],
    ["agent:main:telegram:group:chat1:u1#2", "telegram:chat1:u1"],
    ["agent:main:telegram:group:chat1", "telegram:shared:group:chat1"],
    ["agent:main:discord:channel:c1:u1", "discord:c1:u1"],
    ["agent:main:discord:thread:c1:th1", "discord:shared:thread:c1:th1"],
    ["agent:main:discord:thread:c1:th1:u1", "discord:c1:u1"],
    ["run_1", "session:run_1"],
    ["my own name", "session:my own name"],
    ["run_1/child/run_2.call_1_0.0", "session:run_1"],
    ["agent:main:telegram:dm:", "session:agent:main:telegram:dm:"],
    ["agent:main:telegram:elsewhere:5", "session:agent:main:telegram:elsewhere:5"],
    ["agent:main:api:dm:abc", "session:agent:main:api:dm:abc"],
    ["agent:main:schedule:abc", "session:agent:main:schedule:abc"],
    ["run_1#2", "session:run_1#2"],
    ["agent:main:key:dm:ann", "session:agent:main:key:dm:ann"],
    ["agent:main:session:dm:run_1", "session:agent:main:session:dm:run_1"],
    ["agent:main:terminal", "session:agent:main:terminal"],
  ])("of %j is %j", (session, scope) => {
    expect(scopeOf({ session })).toBe(scope);
  });

  it("of an API client is its key; in a chat the platform knows better who speaks", () => {
    expect(scopeOf({ session: "run_1", by: "ann" })).toBe("key:ann");
    expect(scopeOf({ session: "run_1/child/run_2.call_1_0.0", by: "ann" })).toBe("key:ann");
    expect(scopeOf({ session: "agent:main:telegram:dm:999", by: "ann" })).toBe("telegram:999");
    expect(scopeOf({ session: "agent:main:terminal:dm:a", by: "ann" })).toBe("local");
    expect(scopeOf({ session: "agent:main:api:dm:abc", by: "ann" })).toBe("key:ann");
    expect(scopeOf({ session: "agent:main:background:1", by: "telegram:7" })).toBe("session:agent:main:background:1");
  });

  it("of a child is known by the turn that made it", () => {
    expect(parentTurnOf("s/child/run_2.call_1_0.0")).toBe("run_2");
    expect(parentTurnOf("s")).toBeNull();
  });
});

// ── Properties ────────────────────────────────────────────────────────────────────────────────────────

/** Few and alike, so that they meet: also words that mean something to us. */
const id = fc.constantFrom(
  "1",
  "12",
  "-1",
  "a",
  "A",
  "shared",
  "group",
  "thread",
  "dm",
  "local",
  "key",
  "session",
  "a.b",
);
const platform = fc.constantFrom("telegram", "discord", "local");
/** A conversation, and who it is with, told apart by hand. */
const talk = fc.oneof(
  fc.tuple(id).map(([name]) => ({ session: `agent:main:terminal:dm:${name}`, who: "the terminal" })),
  fc.tuple(platform, id, fc.option(id)).map(([p, chat, thread]) => ({
    session: ["agent", "main", p, "dm", chat, ...(thread ? [thread] : [])].join(":"),
    who: JSON.stringify(["dm", p, chat]),
  })),
  fc.tuple(platform, fc.constantFrom("group", "channel"), id, fc.option(id)).map(([p, kind, chat, user]) => ({
    session: ["agent", "main", p, kind, chat, ...(user ? [user] : [])].join(":"),
    who: JSON.stringify(user ? ["user", p, chat, user] : [kind, p, chat]),
  })),
  fc.tuple(platform, id, id, fc.option(id)).map(([p, chat, thread, user]) => ({
    session: ["agent", "main", p, "thread", chat, thread, ...(user ? [user] : [])].join(":"),
    who: JSON.stringify(user ? ["user", p, chat, user] : ["thread", p, chat, thread]),
  })),
  fc
    .tuple(
      fc.oneof(
        id,
        fc.tuple(id, id).map((parts) => parts.join(":")),
        fc.string({ minLength: 1, maxLength: 5 }),
      ),
      fc.option(id),
    )
    .map(([session, by]) => ({
      session,
      ...(by && { by }),
      who: JSON.stringify(by ? ["key", by] : ["session", session]),
    })),
);
const withChild = fc.tuple(talk, fc.boolean(), fc.constantFrom("", "#2", "#3")).map(([one, child, begun]) => {
  const session = one.session.startsWith("agent:main:") ? `${one.session}${begun}` : one.session;
  return { ...one, session: child ? `${session}/child/run_1.call_1_0.0` : session };
});

it("two conversations have one scope exactly when they are with the same one", () => {
  fc.assert(
    fc.property(withChild, withChild, (a, b) => {
      expect(scopeOf(a) === scopeOf(b)).toBe(a.who === b.who);
    }),
    { numRuns: 4_000, seed: 1 },
  );
});

it("two scopes never have one directory, also where the file system does not tell capitals apart", () => {
  const scope = fc.oneof(
    withChild.map(scopeOf),
    fc.string({ unit: "binary", minLength: 1, maxLength: 300 }),
    fc.string({
      unit: fc.constantFrom("\ud800", "\ud801", "\ufffd", "é", "e\u0301", ".", "/", "\\", "~", "%", "A", "a"),
      minLength: 1,
      maxLength: 4,
    }),
  );
  fc.assert(
    fc.property(scope, scope, (a, b) => {
      const [one, other] = [nameOf(a), nameOf(b)];
      expect(one.toLowerCase() === other.toLowerCase()).toBe(a === b);
      expect(one).toMatch(/^[a-z0-9_.%~-]{1,200}$/);
      expect([".", "..", "memory.md", "user.md"]).not.toContain(one);
    }),
    { numRuns: 4_000, seed: 2 },
  );
});

it("what was said in one scope is never recalled in another", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(withChild, { minLength: 2, maxLength: 12, selector: ({ session }) => session }),
      async (talks) => {
        const store = asStore(createMemoryStore());
        await joined(store);
        for (const [i, { session }] of talks.entries())
          await store.journal.commit(
            commitOf(session, 0, { entries: [entryOf(1, `t${i}`, `the teapot of ${i} is blue`)] }),
          );
        const { prefetch } = createSessionsMemory({ ...store, clock: { now: () => 1e12 } });
        for (const talk of talks) {
          const whose = { scope: scopeOf(talk), session: talk.session.split("/child/", 1)[0] ?? "" };
          const text = (await prefetch?.("where is the teapot", whose, new AbortController().signal)) ?? "";
          const found = [...text.matchAll(/teapot of (\d+)/g)].map(([, i]) => talks[Number(i)]?.who);
          expect(found.every((who) => who === talk.who)).toBe(true);
        }
      },
    ),
    { numRuns: 100, seed: 3 },
  );
});

it("what was said before a chat was begun anew is found, also in the threads of a direct chat", async () => {
  const store = asStore(createMemoryStore());
  await joined(store);
  const sessions = ["telegram:dm:7", "telegram:dm:7#2", "telegram:dm:7#5", "telegram:dm:7:topic", "telegram:group:1:7"];
  for (const [i, key] of sessions.entries())
    await store.journal.commit(
      commitOf(`agent:main:${key}`, 0, { entries: [entryOf(1, `t${i}`, `teapot number ${i}`)] }),
    );
  const { prefetch } = createSessionsMemory({ ...store, clock: { now: () => 2_000 } });
  const found = async (key: string) => {
    const session = `agent:main:${key}`;
    const text = await prefetch?.(
      "where is the teapot",
      { scope: scopeOf({ session }), session },
      new AbortController().signal,
    );
    return text
      ?.match(/(?<=number )\d/g)
      ?.sort()
      .join("");
  };
  expect(await found("telegram:dm:7#3")).toBe("013");
  expect(await found("telegram:dm:7#5")).toBe("013"); // itself is before the model anyway
  expect(await found("telegram:dm:7:other")).toBe("03");
  expect(await found("telegram:group:1:7#2")).toBe("4");
});

it("what was noted in one scope is never in the prompt of another", async () => {
  const base = mkdtempSync(join(tmpdir(), "hermes-scope-"));
  try {
    let n = 0;
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(withChild, { minLength: 2, maxLength: 6, selector: scopeOf }), async (talks) => {
        const notebook = openNotebook(join(base, String(n++)));
        const files = createFilesMemory({ notebook, redact: (text) => text });
        const { signal } = new AbortController();
        const whose = talks.map((talk) => ({ scope: scopeOf(talk), session: talk.session }));
        for (const [i, one] of whose.entries())
          await files.handleToolCall?.("memory", { action: "add", target: "user", text: `teapot ${i}` }, one, signal);
        for (const [i, one] of whose.entries()) {
          const text = await files.systemPromptBlock?.(one, signal);
          expect(text?.match(/teapot \d+/g)).toEqual([`teapot ${i}`]);
        }
        expect(new Set(await notebook.scopes())).toEqual(new Set(whose.map(({ scope }) => scope)));
      }),
      { numRuns: 60, seed: 4 },
    );
  } finally {
    rmSync(base, { recursive: true });
  }
});
