// hermes chat, line by line: what is typed while the agent works, and how it ends.
import { existsSync, readFileSync } from "node:fs";
import { watch } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { llm, place, useProgram } from "../fakes/program.ts";

useProgram();

const lastSaid = () => JSON.stringify(llm.requests.at(-1)?.body);

describe("hermes chat", () => {
  it("answers, and leaves when its input ends, saying how to come back", async () => {
    llm.script({ text: "Hello you." });
    const hermes = place.start(["chat"]);
    hermes.type("hi\n");
    await hermes.prints(/Hello you\./);
    hermes.hangUp();
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).toContain("Shutting down… (finalizing session)");
    expect(hermes.stdout()).toMatch(/Resume with: hermes -c [0-9a-f]{8}/);
  });

  it("a message typed while the agent works interrupts it and is the next turn", async () => {
    llm.script([{ text: "on and on", fault: { silence: "text" } }, { text: "of course" }]);
    const hermes = place.start(["chat"]);
    hermes.type("tell me everything\n");
    const held = await llm.nextRequest();
    await held.holding;
    hermes.type("stop, do this instead\n");
    await hermes.prints(/Interrupting current task/);
    await hermes.prints(/of course/);
    expect(await held.closed).toBe("closed-by-client");
    expect(lastSaid()).toContain("do this instead");
    hermes.type("/quit\n");
    expect(await hermes.exit).toBe(0);
  });

  it("/busy queue: the message waits, is listed, and is answered after the turn", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ text: "first", hold: hold.promise }, { text: "second" }]);
    const hermes = place.start(["chat"]);
    hermes.type("/busy queue\none\n");
    await (await llm.nextRequest()).holding;
    hermes.type("two\n/status\n");
    await hermes.prints(/Queued for the next turn/);
    await hermes.prints(/1\. \[queue\] two/);
    hold.resolve();
    await hermes.prints(/second/);
    hermes.type("/quit\n");
    expect(await hermes.exit).toBe(0);
    expect(llm.requests).toHaveLength(2);
  });

  it("/stop ends the turn and keeps the conversation", async () => {
    llm.script([{ text: "so far", fault: { silence: "text" } }, { text: "still here" }]);
    const hermes = place.start(["chat"]);
    hermes.type("one\n");
    await (await llm.nextRequest()).holding;
    hermes.type("/stop\n");
    await hermes.prints(/Stopping…/);
    hermes.type("two\n");
    await hermes.prints(/still here/);
    expect(lastSaid()).toContain("so far");
    hermes.type("/quit\n");
    expect(await hermes.exit).toBe(0);
  });

  it("a turn that was under way when it was killed is taken up again by itself", async () => {
    llm.script([{ text: "lost", fault: { silence: "text" } }, { text: "found" }]);
    const first = place.start(["chat", "--session", "talk"]);
    first.type("one\n");
    await (await llm.nextRequest()).holding;
    first.kill("SIGKILL");
    await first.exit;
    const second = place.start(["chat", "-c"]);
    await second.prints(/found/);
    second.type("/quit\n");
    expect(await second.exit).toBe(0);
    expect(llm.requests).toHaveLength(2);
  });

  it("leaves at once also in the middle of a turn, which goes on next time", async () => {
    llm.script([{ fault: { silence: "accepted" } }, { text: "here it is" }]);
    const first = place.start(["chat", "--session", "talk"]);
    first.type("one\n");
    await llm.nextRequest();
    first.type("/quit\n");
    expect(await first.exit).toBe(0);
    const second = place.start(["chat", "--session", "talk"]);
    await second.prints(/here it is/);
    second.hangUp();
    expect(await second.exit).toBe(0);
  });

  it("a second one on the same home says who has it, where that one serves no API", async () => {
    const first = place.start(["chat"], { API_SERVER_ENABLED: "false" });
    await first.prints(/Type a message/);
    const second = place.start(["chat"]);
    expect(await second.exit).not.toBe(0);
    expect(second.stderr()).toContain(String(first.pid));
    first.hangUp();
    await first.exit;
  });

  it("serves the whole API beside it: jobs, pairing, skills and metrics from another shell", async () => {
    const chat = place.start(["chat"]);
    await chat.prints(/Type a message/);
    const served = join(place.home, "gateway.json");
    const leave = new AbortController();
    const changes = watch(place.home, { signal: leave.signal });
    if (!existsSync(served)) for await (const { filename } of changes) if (filename === "gateway.json") break;
    leave.abort();
    for (const [command, says] of [
      [["cron", "list"], /There are no jobs/],
      [["pairing", "list"], /Nobody is paired/],
    ] as const) {
      const shell = place.start([...command]);
      expect([await shell.exit, shell.stdout()]).toEqual([0, expect.stringMatching(says)]);
    }
    const { url } = JSON.parse(readFileSync(served, "utf8")) as { url: string };
    const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
    for (const path of ["/v1/skills", "/metrics"])
      expect((await fetch(url + path, { headers: { Authorization: `Bearer ${key}` } })).status).toBe(200);
    chat.hangUp();
    expect(await chat.exit).toBe(0);
  });

  it("a second one attaches to the gateway, and a turn outlives the terminal it was begun in", async () => {
    const gateway = place.start(["gateway"]);
    await gateway.prints(/hermes gateway ready on/);
    llm.script({ text: "Hello from afar.", fault: { silence: "text" } });
    const first = place.start(["chat", "--session", "shared"]);
    await first.prints(/Attached to the gateway/);
    first.type("hi\n");
    await first.prints(/Hello from afar/);
    first.hangUp();
    expect(await first.exit).toBe(0);
    const second = place.start(["chat", "--session", "shared"]);
    await second.prints(/Type a message/);
    second.type("/status\n");
    await second.prints(/Working \(thinking/);
    second.type("/stop\n");
    await second.prints(/Stopping…/);
    second.hangUp();
    expect(await second.exit).toBe(0);
    gateway.kill("SIGTERM");
    expect(await gateway.exit).toBe(0);
  });

  it("without a key it is the offline demo, and says so", async () => {
    const hermes = place.start(["chat"], { OPENAI_BASE_URL: "", OPENAI_API_KEY: "" });
    await hermes.prints(/Demo mode: canned replies/);
    hermes.type("hello\n");
    await hermes.prints(/\(offline demo\) You said: hello/);
    hermes.hangUp();
    expect(await hermes.exit).toBe(0);
  });
});
