// What people say, on its way in: durable before it is acknowledged, once however often it is brought, changed while it
// waits, with what is attached to it, and only from people we know.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Attachment } from "../../src/core/chat.ts";
import { StoreFault } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { sessionDir } from "../../src/platform/session-dirs.ts";
import { ANNA, BEN, dm } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway, type TestGateway } from "../fakes/gateway.ts";
import { calm } from "../fakes/scripted.ts";

const group = { kind: "group", chat: "chat1" } as const;
const accepted = ({ journal }: TestGateway, session = ANNAS) =>
  journal(session).flatMap((entry) => (entry.kind === "accepted" ? [entry.input.text] : []));

describe("what is said", () => {
  it("goes to the session of its place, and names who said it", async () => {
    const running = await bootGateway();
    const { chat, engine } = running;
    await chat.say("one");
    await chat.say("two", { place: group });
    await chat.say("three", { place: group, from: BEN });
    await chat.say("four", { place: { kind: "thread", chat: "chat1", thread: "t7" }, from: BEN });
    const sessions = await engine.sessions({ limit: 10 });
    expect(sessions.map(({ session }) => session).toSorted()).toEqual([
      "agent:main:telegram:dm:999",
      "agent:main:telegram:group:chat1:1001",
      "agent:main:telegram:group:chat1:999",
      "agent:main:telegram:thread:chat1:t7",
    ]);
    const [first] = running.journal("agent:main:telegram:group:chat1:1001");
    expect(first).toMatchObject({ kind: "accepted", input: { by: "telegram:1001", text: "three", reply: "push" } });
  });

  it("is answered in its own place and nowhere else", async () => {
    const { chat, model } = await bootGateway();
    const places = [dm(ANNA), group, { kind: "thread", chat: "chat1", thread: "t7" } as const];
    for (const [n, place] of places.entries()) {
      await chat.say(`question ${n}`, { place });
      (await model.next()).answer(`answer ${n}`);
    }
    await calm();
    expect(chat.sent().map(({ place, text }) => [place, text])).toEqual([
      [places[0], "answer 0"],
      [places[1], "answer 1"],
      [places[2], "answer 2"],
    ]);
  });

  it("in a group is heard only when it is meant for us", async () => {
    const running = await bootGateway();
    await running.chat.say("just talking", { place: group, addressed: false });
    await running.chat.say("/stop", { place: group, addressed: false });
    await calm();
    expect(running.model.all).toEqual([]);
    expect(running.chat.sent()).toEqual([]);
  });

  it("is acknowledged only when it is durable: a store in trouble leaves nothing, and it comes again", async () => {
    let broken = true;
    const between = (store: Store): Store => ({
      ...store,
      journal: {
        ...store.journal,
        commit: (change) => (broken ? Promise.reject(new StoreFault("no", "disk full")) : store.journal.commit(change)),
      },
    });
    const running = await bootGateway({ between });
    const { chat, clock, model } = running;
    let taken = false;
    const saying = chat.say("hello").then(() => {
      taken = true;
    });
    await clock.pass(2_500);
    expect([taken, chat.deliveries, accepted(running)]).toEqual([false, ["m1", "m1", "m1"], []]);
    expect(chat.sent()).toEqual([]);
    broken = false;
    await clock.pass(1_000);
    await saying;
    expect(accepted(running)).toEqual(["hello"]);
    (await model.next()).answer("hi");
    await calm();
    expect(chat.texts()).toEqual(["hi"]);
  });

  it("whose commit landed without a word is one turn all the same", async () => {
    let trouble = 1;
    const between = (store: Store): Store => ({
      ...store,
      journal: {
        ...store.journal,
        async commit(change) {
          const verdict = await store.journal.commit(change);
          if (change.accepted.length && trouble-- > 0) throw new StoreFault("unknown", "no answer");
          return verdict;
        },
      },
    });
    const running = await bootGateway({ between });
    void running.chat.say("hello");
    await running.clock.pass(3_000);
    expect(accepted(running)).toEqual(["hello"]);
    expect(running.model.all).toHaveLength(1);
  });

  it("twice under one name is one turn, at once, later, and after a restart", async () => {
    const before = await bootGateway();
    const { chat } = before;
    await Promise.all([chat.say("hello", { message: "m7" }), chat.say("hello", { message: "m7" })]);
    await chat.redeliver("m7");
    (await before.model.next()).answer("hi");
    await calm();
    await chat.redeliver("m7");
    before.kill();
    const after = await before.next();
    await chat.redeliver("m7");
    await chat.say("/new");
    await chat.redeliver("m7");
    await calm();
    expect([accepted(before), before.model.all.length, after.model.all.length]).toEqual([["hello"], 1, 0]);
    expect(chat.texts()).toEqual(["hi", "✨ A new conversation. /resume brings the old one back."]);
  });

  it("under the same name in another place is another message", async () => {
    const running = await bootGateway();
    await running.chat.say("hello", { message: "m7" });
    await running.chat.say("hello", { message: "m7", place: group });
    expect(running.model.all).toHaveLength(2);
  });

  it("is taken once, whenever the process dies", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const dying = await bootGateway({ dieAt, busyMode: "queue" });
      void dying.chat.say("one");
      void dying.chat.say("two");
      await calm();
      const died = dying.dead();
      const after = await dying.next();
      await calm();
      expect(accepted(after), `died at ${dieAt}`).toEqual(["one", "two"]);
      if (!died) break;
    }
  });

  it("with nothing in it is nothing", async () => {
    const running = await bootGateway();
    await running.chat.say("  \n ");
    expect(running.model.all).toEqual([]);
  });

  it("that is too long is refused by name, and not brought for ever", async () => {
    const { chat } = await bootGateway({ limits: { text: 10 } });
    await chat.say("x".repeat(11));
    await calm();
    expect(chat.texts()).toEqual(["⚠️ This message has 11 characters; at most 10 fit."]);
  });
});

describe("a message that waits", () => {
  async function waiting(...texts: string[]) {
    const running = await bootGateway({ busyMode: "queue" });
    await running.chat.say("work");
    const call = await running.model.next();
    const names: string[] = [];
    for (const text of texts) names.push(await running.chat.say(text));
    const inbox = async () => (await running.engine.status(ANNAS)).inbox.map(({ text }) => text);
    return { ...running, call, names, inbox };
  }

  it("is changed when it is edited, in its place in the line, as often as it is", async () => {
    const { chat, names, inbox, model, call } = await waiting("a", "b", "c");
    await chat.edit(names[1] ?? "", "B");
    expect(await inbox()).toEqual(["a", "B", "c"]);
    await chat.edit(names[1] ?? "", "b");
    await chat.edit(names[1] ?? "", "B");
    expect(await inbox()).toEqual(["a", "B", "c"]);
    call.answer("done");
    for (const expected of ["a", "B", "c"]) {
      const next = await model.next();
      expect(next.request.messages.at(-1)?.text).toBe(expected);
      next.answer("ok");
    }
  });

  it("that is edited and brought again is not there twice", async () => {
    const running = await waiting("a", "b");
    const [a = ""] = running.names;
    await running.chat.edit(a, "A");
    await running.chat.redeliver(a);
    expect(await running.inbox()).toEqual(["A", "b"]);
  });

  it("is not lost and not doubled by a crash while it is edited", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const first = await waiting("a", "b");
      const dying = await first.next({ dieAt, busyMode: "queue" });
      void dying.chat.edit(first.names[0] ?? "", "A");
      await calm();
      const died = dying.dead();
      const after = await dying.next();
      await calm();
      const inbox = (await after.engine.status(ANNAS)).inbox.map(({ text }) => text);
      expect(
        inbox.filter((text) => text === "A"),
        `died at ${dieAt}`,
      ).toHaveLength(1);
      expect(inbox).not.toContain("a");
      if (!died) break;
    }
  });

  it("is gone when it is deleted, also after it was edited", async () => {
    const { chat, names, inbox } = await waiting("a", "b", "c");
    const [a = "", b = ""] = names;
    await chat.remove(a);
    await chat.edit(b, "B");
    await chat.remove(b);
    expect(await inbox()).toEqual(["c"]);
  });

  it("keeps what it said when the edit does not fit, and its sender is told", async () => {
    const running = await bootGateway({ busyMode: "queue", limits: { inbox: 1 } });
    const { chat, engine } = running;
    await chat.say("work");
    const name = await chat.say("a");
    await chat.edit(name, "A");
    await calm();
    expect((await engine.status(ANNAS)).inbox.map(({ text }) => text)).toEqual(["a"]);
    expect(chat.texts().at(-1)).toMatch(/^⚠️ 1 messages are waiting already/);
  });

  it("keeps its own words when it was said by /queue or /steer", async () => {
    const { chat, engine } = await waiting();
    const steered = await chat.say("/steer left");
    await chat.edit(steered, "/steer right");
    expect((await engine.status(ANNAS)).inbox).toMatchObject([{ mode: "steer", text: "right" }]);
  });

  it("is nobody else's to change", async () => {
    const running = await waiting("a");
    const [a = ""] = running.names;
    await running.chat.say("b", { from: { id: "666", name: "Eve" }, place: dm(ANNA), message: a });
    await running.chat.edit(a, "evil");
    expect(await running.inbox()).toEqual(["a"]);
  });

  it("that begins at the very moment of its edit stays as it was said, once", async () => {
    let running = await bootGateway({ busyMode: "queue", rules: { recoveries: 1 } });
    const { chat } = running;
    await chat.say("poison");
    const name = await chat.say("a");
    for (let crash = 0; crash < 2; crash++) {
      running.kill();
      running = await running.next();
      await calm();
    }
    expect(await running.engine.status(ANNAS)).toMatchObject({ parked: true, inbox: [{ text: "a" }] });
    await chat.edit(name, "A"); // the first thing that anybody says: what waits begins
    expect((await running.model.next()).request.messages.at(-1)?.text).toMatch(/a$/);
    expect((await running.engine.status(ANNAS)).inbox).toEqual([]);
  });

  it("that has begun stays as it was said", async () => {
    const running = await bootGateway();
    const name = await running.chat.say("work");
    await running.model.next();
    await running.chat.edit(name, "play");
    await running.chat.remove(name);
    expect(running.model.all).toHaveLength(1);
    expect(running.model.all[0]?.signal.aborted).toBe(false);
  });
});

describe("an attachment", () => {
  const dirs: string[] = [];
  afterEach(() => {
    for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true });
  });
  const place = () => {
    const dir = mkdtempSync(join(tmpdir(), "hermes-files-"));
    dirs.push(dir);
    return join(dir, "attachments");
  };
  type File = Partial<Omit<Attachment, "load">> & { bytes?: Uint8Array; fails?: string };
  const attached = ({ bytes = Buffer.from("bytes"), fails, ...rest }: File = {}): Attachment => ({
    kind: "file",
    name: "plan.txt",
    mime: "text/plain",
    size: bytes.length,
    load: async (most) => {
      if (fails) throw new Error(fails);
      if (bytes.length > most) throw new Error(`more than ${most}`);
      return bytes;
    },
    ...rest,
  });
  const PNG = { kind: "photo", name: "p.png", mime: "image/png" } as const;

  async function heard(text: string, attachments: Attachment[]) {
    const root = place();
    const files = sessionDir(root, ANNAS);
    const running = await bootGateway({ files: root });
    await running.chat.say(text, { attachments });
    const { request } = await running.model.next();
    const last = request.messages.at(-1);
    return { files, last: last?.role === "user" ? last : { text: "", images: [] }, running };
  }

  it("is kept for the agent under a name of ours, for nobody else to read, and named in the message", async () => {
    const { files, last } = await heard("read this", [attached()]);
    const [path] = readdirSync(files).map((name) => join(files, name));
    expect(last.text).toBe(`read this\n[attached file: ${path} text/plain]`);
    expect(readFileSync(path ?? "", "utf8")).toBe("bytes");
    const modes = [path ?? "", files, dirname(files)].map((one) => statSync(one).mode & 0o777);
    expect(modes).toEqual([0o600, 0o700, 0o700]);
  });

  it.each(["../../etc/passwd", "/etc/passwd", "..", "a/b\0c", "x".repeat(500), "-rf", ".bashrc"])(
    "that is called %j stays in its directory",
    async (name) => {
      const { files, last } = await heard("", [attached({ name })]);
      const names = readdirSync(files);
      expect(names).toHaveLength(1);
      expect(names[0]).toMatch(/^key\d+(-[\w.-]{1,60})?$/);
      expect(last.text).toContain(join(files, names[0] ?? ""));
    },
  );

  it("that is a picture is shown to the model as well; at most four, none over 5 MB, none of another kind", async () => {
    const pictures = Array.from({ length: 5 }, () => attached(PNG));
    const { last } = await heard("look", [
      attached({ ...PNG, bytes: Buffer.alloc(5_000_001) }),
      attached({ ...PNG, mime: "image/svg+xml" }),
      ...pictures,
    ]);
    expect(last.images).toHaveLength(4);
    expect(last.images?.[0]).toEqual({ mime: "image/png", data: Buffer.from("bytes").toString("base64") });
    expect(last.text.match(/\[attached photo: /g)).toHaveLength(7);
  });

  it("that is too large, cannot be had, or is one too many is named, and the rest is kept", async () => {
    const { files, last } = await heard("here", [
      attached({ name: "said.iso", size: 20_000_001 }),
      attached({ name: "lied.iso", size: 0, bytes: Buffer.alloc(20_000_001) }),
      attached({ name: "gone.txt", fails: "404" }),
      ...Array.from({ length: 8 }, () => attached()),
    ]);
    expect(last.text).toMatch(/said\.iso .*it has more than 20 MB/);
    expect(last.text).toMatch(/lied\.iso .*more than 20000000/);
    expect(last.text).toMatch(/gone\.txt .*404/);
    expect(last.text).toMatch(/at most 10 are taken/);
    expect(readdirSync(files)).toHaveLength(7);
  });

  it("alone is a message", async () => {
    const { last } = await heard("", [attached()]);
    expect(last.text).toMatch(/^\[attached file: /);
  });

  it("of a stranger is not loaded", async () => {
    let loads = 0;
    const { chat } = await bootGateway({ files: place() });
    const file: Attachment = { ...attached(), load: async () => Buffer.from(String(loads++)) };
    await chat.say("open it", { from: { id: "666", name: "Eve" }, attachments: [file] });
    expect(loads).toBe(0);
  });

  it("of a message that is brought again is not loaded again", async () => {
    const { files, running } = await heard("read this", [attached()]);
    await running.chat.redeliver("m1");
    expect(readdirSync(files)).toHaveLength(1);
  });
});
