// Session keys: what is built is read as the same, and nothing from outside can forge another key.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  apiSession,
  backgroundSession,
  type ChatKey,
  chatSession,
  childSession,
  fullName,
  jobSession,
  parseKey,
  rootOf,
  shortName,
} from "../../src/core/session-key.ts";

/** Ids with every sign that means something in a key. */
const hostile = fc.oneof(
  fc.string({
    unit: fc.constantFrom(":", "#", "/", "%", "%3A", " ", "2", "a", "/child/", "agent:main:"),
    minLength: 1,
  }),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 }),
);
const platform = fc.constantFrom("telegram", "discord", "slack", "webhook");
const generation = fc.integer({ min: 1, max: 12 });
const place = (kind: ChatKey["place"]["kind"], chat: string, thread: string | null) => ({
  kind,
  chat,
  ...(thread !== null && { thread }),
});
const chat: fc.Arbitrary<ChatKey> = fc.oneof(
  fc
    .tuple(platform, hostile, fc.option(hostile), generation)
    .map(([p, id, thread, n]) => ({ platform: p, place: place("dm", id, thread), generation: n })),
  fc
    .tuple(platform, fc.constantFrom("group" as const, "channel" as const), hostile, fc.option(hostile), generation)
    .map(([p, kind, id, user, n]) => ({
      platform: p,
      place: place(kind, id, null),
      ...(user !== null && { user }),
      generation: n,
    })),
  fc.tuple(platform, hostile, hostile, fc.option(hostile), generation).map(([p, id, thread, user, n]) => ({
    platform: p,
    place: place("thread", id, thread),
    ...(user !== null && { user }),
    generation: n,
  })),
);

describe("a session's key", () => {
  it("is read as what it was built from, whatever a platform calls its chats, threads and people", () => {
    fc.assert(
      fc.property(chat, (built) => {
        expect(parseKey(chatSession(built))).toEqual({ of: "chat", ...built });
      }),
      { numRuns: 2_000, seed: 1 },
    );
  });

  it("of a job, a background task or an API session holds any id", () => {
    fc.assert(
      fc.property(hostile, (id) => {
        expect(parseKey(jobSession(id))).toEqual({ of: "job", id });
        expect(parseKey(backgroundSession(id))).toEqual({ of: "background", id });
        expect(parseKey(apiSession(id))).toEqual({ of: "api", id });
      }),
      { numRuns: 2_000, seed: 2 },
    );
  });

  it("of a child says who made it", () => {
    const child = childSession("agent:main:telegram:dm:999#2", "run_1", "call_1_0", 3);
    expect(child).toBe("agent:main:telegram:dm:999#2/child/run_1.call_1_0.3");
    expect(parseKey(child)).toEqual({ of: "child", parent: "agent:main:telegram:dm:999#2", turn: "run_1" });
    expect(rootOf(child)).toBe("agent:main:telegram:dm:999#2");
    expect(rootOf("run_1")).toBe("run_1");
  });

  it("of the terminal goes by its name", () => {
    const session = fullName("tea");
    expect(parseKey(session)).toEqual({ of: "terminal", name: "tea" });
    expect(shortName(session)).toBe("tea");
    expect(fullName(session)).toBe(session);
    expect(shortName("agent:main:telegram:dm:7")).toBe("agent:main:telegram:dm:7");
  });

  it.each([
    ["run_0123", "run"],
    ["my own name", "named"],
    ["", "named"],
    ["agent:main:terminal", "unknown"],
    ["agent:main:telegram", "unknown"],
    ["agent:main:telegram:dm:", "unknown"],
    ["agent:main:telegram:dm:7#1", "unknown"], // the first one has no number
    ["agent:main:telegram:dm:7#02", "unknown"],
    ["agent:main:telegram:dm:%37", "unknown"], // another way to write 7
    ["agent:main:telegram:dm:1:2:3", "unknown"],
    ["agent:main:telegram:thread:7", "unknown"],
    ["agent:main:telegram:elsewhere:7", "unknown"],
    ["agent:main:api:group:7", "unknown"],
    ["agent:main:schedule:dm:7", "unknown"],
    ["agent:main:background:", "unknown"],
    ["agent:other:telegram:dm:7", "unknown"],
  ])("%j is %s", (session, of) => {
    expect(parseKey(session).of).toBe(of);
  });

  it("is one of ours only if it would be built the same again", () => {
    const key = fc.string({
      unit: fc.constantFrom(
        "agent:main:",
        "telegram:",
        "dm:",
        "thread:",
        "group:",
        "7",
        ":",
        "#2",
        "#0",
        "%20",
        "%",
        "/",
      ),
      maxLength: 10,
    });
    fc.assert(
      fc.property(key, (session) => {
        const parsed = parseKey(session);
        if (parsed.of === "chat") expect(chatSession(parsed)).toBe(session);
        if (parsed.of === "job") expect(jobSession(parsed.id)).toBe(session);
      }),
      { numRuns: 5_000, seed: 3 },
    );
  });
});
