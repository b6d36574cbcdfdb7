// The store cannot be read or written for a while. What a chat is shown of a turn, its questions above all, is there once the
// store is well again, and nothing of it ends the process (a rejection that nobody handles fails this file).
import { describe, expect, it } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import type { Channel, Gate } from "../../src/core/ports.ts";
import type { Store } from "../../src/core/store.ts";
import { createLocalChat } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway } from "../fakes/gateway.ts";
import { createMemoryStore } from "../fakes/memory-store.ts";
import { bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

type Op = "get" | "set" | "list";

/** One kind of access to some notes fails until it is well. */
function illness(op: Op, prefix: string) {
  const failing = { now: true, times: 0 };
  const check = (asked: Op, key: string) => {
    if (!failing.now || asked !== op || !key.startsWith(prefix)) return;
    failing.times++;
    throw new StoreFault("no", "the disk failed");
  };
  const between = ({ notes, ...store }: Store): Store => ({
    ...store,
    notes: {
      get: async (key) => {
        check("get", key);
        return notes.get(key);
      },
      set: async (key, value) => {
        check("set", key);
        await notes.set(key, value);
      },
      swap: async (key, from, to) => {
        check("set", key);
        return notes.swap(key, from, to);
      },
      list: async (key) => {
        check("list", key);
        return notes.list(key);
      },
    },
  });
  return { failing, between };
}

const cutWhile =
  (isCut: () => boolean) =>
  <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get: (target, name) => (isCut() ? () => Promise.reject(new StoreFault("no", "cut")) : Reflect.get(target, name)),
    });

/** A turn that has asked for an approval while the store was ill. */
async function asking(op: Op, prefix: string) {
  const { failing, between } = illness(op, prefix);
  const gate: Gate = {
    gate: "ask",
    kind: "approval",
    text: "rm -rf x",
    choices: ["once", "deny"],
    timeoutMs: 300_000,
  };
  const tool = scriptedTool("do", { gate });
  const running = await bootGateway({ tools: [tool], between });
  await running.chat.say("clean up");
  (await running.model.next()).answer("", { tool: "do", args: {} });
  await running.entry(ANNAS, "asked");
  await calm();
  return { ...running, failing, tool };
}

describe("a chat whose notes cannot be used for a while", () => {
  it.each([
    ["list", "asked/"],
    ["get", "asked/"],
    ["set", "ask/"],
    ["set", "asked/"],
  ] as const)("(%s %s) sees the question and the work once they can", async (op, prefix) => {
    const { chat, clock, failing, tool } = await asking(op, prefix);
    const buttons = () => chat.sent().flatMap((said) => said.buttons.flat());
    await clock.pass(20_000);
    expect(buttons()).toEqual([]);
    failing.now = false;
    await clock.pass(40_000);
    expect(buttons()).toHaveLength(2);
    await chat.say("ok");
    await calm();
    await clock.pass(5_000);
    expect(failing.times).toBeGreaterThan(0);
    expect(tool.all).toHaveLength(1);
    expect(chat.texts().join("\n")).toContain("⚙️ do");
    expect(chat.violations).toEqual([]);
  });

  it("sees an old question without its buttons from the next turn on, though its end could not be shown", async () => {
    const { failing, between } = illness("list", "asked/");
    failing.now = false;
    const gate: Gate = { gate: "ask", kind: "approval", text: "rm x", choices: ["once", "deny"], timeoutMs: 300_000 };
    const tool = scriptedTool("do", { gate });
    const { chat, model, clock } = await bootGateway({ tools: [tool], between });
    const buttons = () => chat.sent().flatMap((said) => said.buttons.flat());
    await chat.say("clean up");
    (await model.next()).answer("", { tool: "do", args: {} });
    await clock.pass(5_000);
    expect(buttons()).toHaveLength(2);
    failing.now = true;
    await chat.say("ok");
    (await tool.next()).done("done");
    (await model.next()).answer("All clean.");
    await clock.pass(100);
    failing.now = false;
    expect([chat.texts().at(-1), buttons().length]).toEqual(["All clean.", 2]);
    await chat.say("and now?");
    (await model.next()).answer("Nothing.");
    await clock.pass(5_000);
    expect(buttons()).toEqual([]);
  });

  it("sees no second message of a turn that goes on after a crash, once it can be read which one it had", async () => {
    const { failing, between } = illness("get", "live/");
    const tool = scriptedTool("do", {});
    const before = await bootGateway({ tools: [tool], between });
    await before.chat.say("clean up");
    (await before.model.next()).answer("", { tool: "do", args: {} });
    await tool.next();
    await before.clock.pass(1_000);
    expect([before.chat.texts(), failing.times]).toEqual([["⚙️ do"], 0]); // a turn that began here is asked for nowhere
    before.kill();
    const { chat, model, clock } = await before.next();
    (await model.next()).answer("", { tool: "do", args: {} });
    (await tool.next()).done("done");
    await clock.pass(1_000);
    expect(failing.times).toBeGreaterThan(0);
    expect(chat.texts()).toEqual(["⚙️ do"]);
    failing.now = false;
    await clock.pass(10_000);
    expect(chat.texts()).toEqual([expect.stringContaining("✓ do")]);
    (await model.next()).answer("All clean.");
    await clock.pass(5_000);
    expect(chat.texts()).toEqual(["All clean."]);
  });

  it("gets a part of a reply that could not be noted once more, marked, and then the rest", async () => {
    let failures = 1;
    const between = ({ notes, ...store }: Store): Store => {
      const set: Store["notes"]["set"] = async (key, value) => {
        const isDone = key.startsWith("out/") && JSON.stringify(value).includes('"done":1');
        if (isDone && failures-- > 0) throw new StoreFault("no", "the disk failed");
        await notes.set(key, value);
      };
      return { ...store, notes: { ...notes, set } };
    };
    const { chat, model, clock } = await bootGateway({ between });
    await chat.say("tell me much");
    (await model.next()).answer(`${"a ".repeat(2_000)}\n\n${"b ".repeat(100)}`);
    await clock.pass(60_000);
    const starts = chat.texts().map((text) => text.slice(0, 12));
    expect([starts.slice(0, 2), starts.length]).toEqual([["a a a a a a ", "(Sent again:"], 3]);
  });

  it("has its answer in the message that showed the work, though that could not be noted at first", async () => {
    const { failing, between } = illness("set", "live/");
    const tool = scriptedTool("do", {});
    const { chat, model, clock } = await bootGateway({ tools: [tool], between });
    await chat.say("clean up");
    (await model.next()).answer("", { tool: "do", args: {} });
    (await tool.next()).done("done");
    await clock.pass(5_000);
    expect(chat.texts()).toEqual(["✓ do"]);
    expect(failing.times).toBeGreaterThan(0);
    failing.now = false;
    (await model.next()).answer("All clean.");
    await clock.pass(5_000);
    expect(chat.texts()).toEqual(["All clean."]);
  });
});

it("a turn that comes back to its node is looked up: another node may have sent its reply", async () => {
  const clock = handClock();
  const disk = createMemoryStore({ shared: true, now: clock.monotonic });
  let isCut = false;
  const cuttable = cutWhile(() => isCut);
  const between = ({ journal, nodes, ...store }: Store): Store => ({
    ...store,
    journal: cuttable(journal),
    nodes: cuttable(nodes),
  });
  const here = await bootGateway({ clock, disk, between, node: { address: "http://here", version: "1" } });
  await here.chat.say("work");
  await here.model.next();
  isCut = true;
  const model = scriptedModel();
  const channel: Channel = {
    send: async ({ key }) => {
      disk.notes.set(`out/${key}`, { done: 0, trying: true });
      return new Promise(() => {});
    },
  };
  const there = await bootEngine({ clock, disk, model, channel, node: { address: "http://there", version: "1" } });
  const taken = model.next();
  await clock.pass(8_000);
  (await taken).answer("done");
  await calm();
  there.kill();
  await clock.pass(6_000);
  expect(disk.nodes.reap()).toEqual(["2"]); // by a third node, which has no room for the turn
  isCut = false;
  await clock.pass(5_000);
  expect(here.chat.texts()).toEqual(["(Sent again: the first copy may not have arrived.)\ndone"]);
});

it("a message that has become the answer stays when its node is lost before it could say so", async () => {
  const clock = handClock();
  const disk = createMemoryStore({ shared: true, now: clock.monotonic });
  const platform = createLocalChat({ clock });
  const never = new Promise<never>(() => {});
  const between = ({ notes, journal, ...store }: Store): Store => ({
    ...store,
    notes: {
      ...notes,
      set: (key, value) => (key.startsWith("live/") && value === undefined ? never : notes.set(key, value)),
    },
    journal: {
      ...journal,
      commit: (commit) => (commit.entries.some(({ kind }) => kind === "delivered") ? never : journal.commit(commit)),
    },
  });
  const tool = scriptedTool("do", {});
  const node = (name: string) => ({ address: `http://${name}`, version: "1" });
  const lost = await bootGateway({ clock, disk, between, chats: [platform], tools: [tool], node: node("lost") });
  await lost.chat.say("work");
  (await lost.model.next()).answer("", { tool: "do", args: {} });
  const call = await tool.next();
  await clock.pass(3_000);
  call.done("done");
  (await lost.model.next()).answer("The answer.");
  await clock.pass(3_000);
  expect(lost.chat.texts()).toEqual(["The answer."]);
  lost.kill();
  const heir = await bootGateway({ clock, disk, chats: [platform], tools: [tool], node: node("heir") });
  await clock.pass(9_000);
  expect(disk.journal.load(ANNAS)?.state.turn).toBeNull();
  expect(heir.chat.texts()).toEqual(["The answer."]);
});

it("a message that could not be noted goes when another node has sent the answer", async () => {
  const clock = handClock();
  const disk = createMemoryStore({ shared: true, now: clock.monotonic });
  let isCut = false;
  const cuttable = cutWhile(() => isCut);
  const between = ({ journal, nodes, notes, ...store }: Store): Store => ({
    ...store,
    journal: cuttable(journal),
    nodes: cuttable(nodes),
    notes: cuttable(notes),
  });
  const here = await bootGateway({ clock, disk, between, node: { address: "http://here", version: "1" } });
  await here.chat.say("work");
  const call = await here.model.next();
  isCut = true;
  call.say("The answer.");
  await clock.pass(3_000);
  expect(here.chat.texts()).toEqual(["The answer."]);
  const model = scriptedModel();
  const sent: string[] = [];
  const channel: Channel = {
    send: async ({ text }) => {
      sent.push(text);
      return "sent";
    },
  };
  await bootEngine({ clock, disk, model, channel, node: { address: "http://there", version: "1" } });
  const taken = model.next();
  await clock.pass(8_000);
  isCut = false;
  (await taken).answer("The answer.");
  await clock.pass(5_000);
  expect([sent, here.chat.texts()]).toEqual([["The answer."], []]);
});

it("a question that another node has left is over with the next turn here", async () => {
  const clock = handClock();
  const disk = createMemoryStore({ shared: true, now: clock.monotonic });
  const { chat, model } = await bootGateway({ clock, disk, node: { address: "http://here", version: "1" } });
  const talk = async (text: string) => {
    await chat.say(text);
    (await model.next()).answer("yes");
    await calm();
  };
  await talk("one");
  disk.notes.set(`asked/${ANNAS}/call`, { token: "t", text: "may I?" });
  await talk("two");
  expect(disk.notes.list("asked/")).toEqual([]);
});
