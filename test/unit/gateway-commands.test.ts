// Commands that are about the conversation itself.
import { describe, expect, it } from "vitest";
import { CHAT_COMMANDS } from "../../src/conversation/commands/commands.ts";
import type { Gate } from "../../src/core/ports.ts";
import { openJobs } from "../../src/schedule/jobs.ts";
import { ANNA, BEN } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway, type TestGateway } from "../fakes/gateway.ts";
import { calm, scriptedTool } from "../fakes/scripted.ts";

/** Says it and gets this answer from the model. */
async function talk({ chat, model }: TestGateway, text: string, answer: string): Promise<string[]> {
  await chat.say(text);
  const call = await model.next();
  call.answer(answer);
  await calm();
  return call.request.messages.map((message) => message.text);
}
/** What a command answers. */
async function ask({ chat }: TestGateway, command: string): Promise<string> {
  await chat.say(command);
  await calm();
  return chat.texts().at(-1) ?? "";
}

describe("conversations of a chat", () => {
  it("are begun anew, listed, named, and gone back to", async () => {
    const running = await bootGateway();
    await talk(running, "the cat is grey", "Noted.");
    expect(await ask(running, "/title Cats")).toContain("Cats");
    expect(await ask(running, "/new")).toContain("new conversation");
    expect(await talk(running, "who is grey?", "Nobody.")).toEqual(["who is grey?"]);
    const listed = (await ask(running, "/sessions")).split("\n").map((line) => line.trim());
    expect(listed).toEqual(["▸ 2. who is grey?", "1. Cats"]);
    expect(await ask(running, "/resume 1")).toContain("Cats");
    expect(await talk(running, "and now?", "The cat.")).toEqual(["the cat is grey", "Noted.", "and now?"]);
    expect(await ask(running, "/resume 9")).toContain("/sessions lists them");
  });

  it("are listed and gone back to, however many others were talked in since", async () => {
    const running = await bootGateway();
    await talk(running, "the cat is grey", "Noted.");
    await ask(running, "/new");
    await talk(running, "who is grey?", "Nobody.");
    for (let n = 0; n < 201; n++) await running.engine.create({ session: `api:${n}`, title: "" });
    for (let n = 0; n < 201; n++) await running.engine.create({ session: `${ANNAS}9#${n}`, title: "another's" });
    expect(await ask(running, "/sessions")).toBe("▸ 2. who is grey?\n  1. the cat is grey");
    expect(await ask(running, "/resume 1")).toContain("the cat is grey");
  });

  it("lose their last turn by /undo, and do it over by /retry; nothing is deleted", async () => {
    const running = await bootGateway();
    await talk(running, "one", "1");
    await talk(running, "two", "2");
    expect(await ask(running, "/undo")).toBe("↩️ Taken back: two"); // nothing about files: it used no tools
    expect(await ask(running, "/undo files")).toBe((await running.engine.restoreFiles({ session: "" })).summary);
    expect(await talk(running, "three", "3")).toEqual(["one", "1", "three"]);
    await running.chat.say("/retry");
    const again = await running.model.next();
    expect(again.request.messages.map(({ text }) => text)).toEqual(["one", "1", "three"]);
    again.answer("3, again");
    await calm();
    expect(running.chat.texts().at(-1)).toBe("3, again");
    expect(await ask(running, "/sessions")).toContain("1. one");
  });
});

describe("jobs", () => {
  it("are listed, paused, resumed and removed by an admin, and by nobody else", async () => {
    const running = await bootGateway({ lists: { admins: [ANNA.id] } });
    const jobs = openJobs({ notes: running.engine.notes, clock: running.clock, log: () => {} });
    expect(await ask(running, "/cron")).toBe("There are no jobs.");
    const job = await jobs.add({ text: "look", name: "Morning", cron: "0 9 * * *", zone: "UTC", createdBy: "test" });
    const id = "id" in job ? job.id : "";
    expect(await ask(running, "/cron")).toMatch(
      new RegExp(`^- \`${id}\` \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d · Morning$`),
    );
    expect(await ask(running, `/cron pause ${id.slice(0, 6)}`)).toBe("Paused: Morning");
    expect(await ask(running, "/cron")).toBe(`- \`${id}\` paused · Morning`);
    expect(await ask(running, `/cron resume ${id}`)).toBe("Resumed: Morning");
    expect(await ask(running, "/cron remove")).toBe("Which job? /cron lists them with their ids.");
    expect(await ask(running, "/cron dance")).toContain("pause | resume | remove");
    expect(await ask(running, `/cron remove ${id}`)).toBe("Removed: Morning");
    expect(await jobs.list()).toEqual([]);
    const others = await bootGateway({ lists: { admins: [BEN.id] } });
    expect(await ask(others, "/cron")).toBe("Only an admin may do that.");
  });
});

it("/pause holds what is said in any conversation, and says so, until /pause off", async () => {
  const running = await bootGateway({ lists: { admins: [ANNA.id] } });
  expect(await ask(running, "/pause")).toContain("no turn begins until /pause off");
  expect(await ask(running, "hello")).toContain("your message is taken, and waits");
  expect(await ask(running, "/status")).toMatch(/^Waiting to begin.*Paused by /s);
  expect(running.model.all).toEqual([]);
  expect(await ask(running, "/pause off")).toBe("▶ Work goes on.");
  (await running.model.next()).answer("Here I am.");
  await calm();
  expect(running.chat.texts().at(-1)).toBe("Here I am.");
});

it("/goal, /loop and /heartbeat are set, shown and ended in the conversation they are for", async () => {
  const running = await bootGateway({ lists: { admins: [BEN.id] } });
  expect(await ask(running, "/goal --turns 5 --time 2h --tokens 200k Ship it")).toContain("until it is reached");
  expect(await ask(running, "/goal")).toContain("0 of 5 turns, 0 of 200,000 tokens, 0s of 2h.");
  expect(await ask(running, "/goal Another")).toContain("has a goal already");
  expect(await ask(running, "/goal pause")).toContain("The goal is paused");
  expect(await ask(running, "/stop")).toContain("The goal is paused");
  expect(await ask(running, "/goal stop")).toContain("given up");
  expect(await ask(running, "/goal")).toContain("There is no goal.");
  expect(await ask(running, "/goal --tokens many Ship it")).toContain("is no limit");
  expect(await ask(running, "/goal --allow Ship it")).toBe("Only an admin may use --allow.");
  expect(await ask(running, "/loop look")).toContain("how often");
  expect(await ask(running, "/loop every 45m look")).toContain("every 45m");
  expect(await ask(running, "/loop")).toMatch(/^- `[0-9a-f]+` \S+ \S+ · every 45m: look$/);
  expect(await ask(running, "/heartbeat on")).toContain("every 30m");
  expect(await ask(running, "/heartbeat 2h")).toContain("every 2h");
  expect(await ask(running, "/heartbeat")).toContain("Heartbeat every 2h");
  expect(await ask(running, "/loop stop")).toBe("⏹ Stopped: look");
  expect(await ask(running, "/heartbeat off")).toBe("The heartbeat is off.");
  expect(await ask(running, "/loop")).toContain("There are no loops here.");
});

describe("/yolo", () => {
  const gate: Gate = { gate: "ask", kind: "approval", text: "rm", choices: ["once", "deny"], timeoutMs: 60_000 };

  async function acts(running: TestGateway): Promise<void> {
    await running.chat.say("go");
    (await running.model.next()).answer("", { tool: "do", args: {} });
    await calm();
  }

  it("lets everything run that would be asked, also after a crash, in this conversation until it is off", async () => {
    const tool = scriptedTool("do", { gate });
    const first = await bootGateway({ tools: [tool], lists: { admins: [ANNA.id] } });
    expect(await ask(first, "/yolo")).toContain("/yolo off ends this");
    first.kill();
    const running = await first.next({ tools: [tool], lists: { admins: [ANNA.id] } });
    expect(await ask(running, "/status")).toContain("Nothing is asked in this conversation");
    await acts(running);
    expect((await running.engine.status(ANNAS)).asking).toEqual([]);
    (await tool.next()).done("done");
    (await running.model.next()).answer("ok");
    await calm();
    expect(await ask(running, "/yolo off")).toBe("From the next message on I ask again.");
    await acts(running);
    expect((await running.engine.status(ANNAS)).asking).toHaveLength(1);
  });

  it("is for admins, and not for another conversation", async () => {
    const tool = scriptedTool("do", { gate });
    const others = await bootGateway({ tools: [tool], lists: { admins: [BEN.id] } });
    expect(await ask(others, "/yolo")).toBe("Only an admin may do that.");
    const running = await bootGateway({ tools: [tool], lists: { admins: [ANNA.id] } });
    await ask(running, "/yolo");
    await ask(running, "/new");
    expect(await ask(running, "/status")).not.toContain("Nothing is asked");
  });
});

describe("what can be asked about a conversation", () => {
  it("is its model, which can be another one and the usual one again", async () => {
    const running = await bootGateway();
    const how = "/model NAME chooses another model, /model default the configured one.";
    expect(await ask(running, "/model")).toBe(`This conversation uses demo:one. ${how}\n- demo:two`);
    expect(await ask(running, "/model demo:two")).toBe("This conversation now uses demo:two.");
    expect(await ask(running, "/model two")).toBe('The endpoint has no model "two". Did you mean demo:two?');
    expect(await ask(running, "/model")).toBe(`This conversation uses demo:two. ${how}\n- demo:one`);
    await running.chat.say("hello there");
    (await running.model.next()).answer("hi");
    await calm();
    const accepted = running.journal(ANNAS).find((entry) => entry.kind === "accepted");
    expect(accepted?.kind === "accepted" && accepted.input.model).toBe("demo:two");
    expect(await ask(running, "/model default")).toBe("This conversation now uses demo:one.");
  });

  it("is how much its model reasons, and can be chosen", async () => {
    const running = await bootGateway();
    expect(await ask(running, "/reasoning")).toBe("Reasoning in this conversation: default, as the model decides.");
    expect(await ask(running, "/reasoning a lot")).toBe("Say one of: minimal, low, medium, high, default.");
    expect(await ask(running, "/reasoning high")).toBe("Reasoning in this conversation: high.");
    await running.chat.say("hello there");
    const call = await running.model.next();
    expect(call.request.options?.effort).toBe("high");
    call.answer("hi");
    await calm();
    expect(await ask(running, "/reasoning default")).toContain("as the model decides");
    await running.chat.say("and now?");
    expect((await running.model.next()).request.options?.effort).toBeUndefined();
  });

  it("is what was said, what fills the window, and who asks", async () => {
    const running = await bootGateway();
    expect(await ask(running, "/history")).toBe("Nothing was said yet.");
    expect(await ask(running, "/context")).toBe("Nothing was said yet.");
    await talk(running, "one\n  cat", "1");
    await talk(running, "two", "2");
    expect(await ask(running, "/history")).toBe("- **you** one cat\n- **hermes** 1\n- **you** two\n- **hermes** 2");
    expect(await ask(running, "/history 2")).toBe("- **you** two\n- **hermes** 2");
    await running.engine.accept({
      session: ANNAS,
      source: "x",
      key: "1",
      by: "x:2",
      text: "three",
      mode: "queue",
      reply: "pull",
    });
    (await running.model.next()).answer("3");
    await calm();
    expect(await ask(running, "/history 2")).toBe("- **x:2** three\n- **hermes** 3");
    expect(await ask(running, "/history all")).toBe("Say /history and a number from 1 to 50.");
    expect(await ask(running, "/context")).toBe(
      "The model is shown about 33 tokens of 1,000 (3 %). /compress makes it less.\n" +
        "- messages to the model (3): 18\n- its answers and calls (3): 15",
    );
    expect(await ask(running, "/diff")).toBe("Not known: there are no tools that change files.");
    expect(await ask(running, "/whoami")).toBe(`You are telegram:999, an admin. This conversation is \`${ANNAS}\`.`);
  });

  it("is what it cost, what was recalled, what can be looked up, and what commands there are", async () => {
    const running = await bootGateway();
    await talk(running, "hello there", "hi");
    expect(await ask(running, "/usage")).toMatch(
      /^- (\S+): 1 calls, 2 tokens in, 1 out\nThe price of \1 is not known\./,
    );
    expect(await ask(running, "/memory")).toBe("Nothing was recalled for your last message.");
    expect(await ask(running, "/skills")).toContain("brew-tea");
    const help = await ask(running, "/help");
    expect(help.split("\n")).toEqual(CHAT_COMMANDS.map(({ name, description }) => `/${name} ${description}`));
    expect(help.length).toBeLessThanOrEqual(2_000); // one message of Discord
    expect(await ask(running, "/dance")).toBe("Unknown command /dance. See /help.");
  });
});
