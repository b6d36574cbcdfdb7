// Two terminals of one home, and what is said when something outside is wrong.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it } from "vitest";
import { NO_SERVER } from "../../src/core/errors.ts";
import { holds, rests } from "../fakes/chat-screen.ts";
import { llm, openTerminal, place, useProgram } from "../fakes/program.ts";

useProgram();

const YOLO = { HERMES_YOLO_MODE: "yes" };

const occupied = async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port };
};

it("a second terminal attaches although the configured port is taken by another program", async () => {
  const { server, port } = await occupied();
  llm.script({ text: "Here is the answer." });
  const first = place.start(["chat", "--plain"], { API_SERVER_PORT: String(port) });
  await first.prints(/Type a message/);
  const second = place.start(["chat", "--plain"], { API_SERVER_PORT: String(port) });
  await second.prints(/Attached to the terminal at http:/);
  second.type("hello\n");
  await second.prints(/Here is the answer\./);
  for (const terminal of [second, first]) {
    terminal.hangUp();
    expect(await terminal.exit).toBe(0);
  }
  server.close();
});

it("of two terminals that start together, one attaches to the other", async () => {
  const terminals = [place.start(["chat", "--plain"]), place.start(["chat", "--plain"])];
  await Promise.all(terminals.map((terminal) => terminal.prints(/Type a message/)));
  expect(terminals.filter((terminal) => terminal.stdout().includes("Attached to"))).toHaveLength(1);
});

it("when the owner is killed, the attached terminal takes over: the draft, what is shown, the turn and a new message", async () => {
  const command = "echo 'half of it'; until [ -e go ]; do sleep 0.02; done";
  llm.script([
    { text: "An earlier answer." },
    { calls: [{ name: "terminal", args: { command } }] },
    { text: "Gone on after the restart." },
    { text: "And the draft is answered." },
  ]);
  const owner = place.start(["chat", "--plain"], YOLO);
  await owner.prints(/Type a message/);
  const screen = openTerminal(["chat"], { env: YOLO });
  await screen.shows("Attached to the terminal at http:");
  screen.type("hello\r");
  await screen.shows("An earlier answer.");
  screen.type("run it\r");
  await screen.shows(/^ {2}half of it$/m);
  screen.type("my draft");
  await holds(screen, "my draft");
  owner.kill("SIGKILL");
  await screen.shows("This one takes over.");
  await screen.shows("Gone on after the restart.");
  await rests(screen);
  await holds(screen, "my draft");
  expect(screen.lines().filter((line) => line === "An earlier answer.")).toHaveLength(1);
  screen.key("enter");
  await screen.shows("And the draft is answered.");
  screen.type("/quit\r");
  expect(await screen.exit).toBe(0);
});

it("when the owner leaves, one of two attached terminals takes over, the other attaches to it, and no message is lost", async () => {
  llm.script([{ text: "First answer." }, { text: "Second answer." }]);
  const owner = place.start(["chat", "--plain"]);
  await owner.prints(/Type a message/);
  const others = [place.start(["chat", "--plain"]), place.start(["chat", "--plain"])];
  await Promise.all(others.map((terminal) => terminal.prints(/Attached to the terminal/)));
  owner.hangUp();
  expect(await owner.exit).toBe(0);
  for (const terminal of others) terminal.type("hello\n");
  await Promise.all(others.map((terminal) => terminal.prints(/(?:First|Second) answer\./)));
  const printed = others.map((terminal) => terminal.stdout());
  expect(printed.filter((text) => text.includes("This one takes over."))).toHaveLength(1);
  expect(printed.filter((text) => text.split("Attached to the terminal").length === 3)).toHaveLength(1);
  expect(llm.requests).toHaveLength(2);
  for (const terminal of others) terminal.hangUp();
  expect(await Promise.all(others.map((terminal) => terminal.exit))).toEqual([0, 0]);
});

it("a terminal that does not serve is named to the second one", async () => {
  const off = { API_SERVER_ENABLED: "false" };
  const first = place.start(["chat", "--plain"], off);
  await first.prints(/Type a message/);
  const second = place.start(["chat", "--plain"], off);
  expect(await second.exit).toBe(1);
  expect(second.stderr()).toBe(
    `hermes: hermes is already running (PID ${first.pid}). Close it, or set another HERMES_HOME.\n`,
  );
});

it("a refused key sends the user to setup", async () => {
  llm.script({ fault: { status: 401 } });
  const hermes = place.start(["run", "hello"]);
  hermes.hangUp();
  expect(await hermes.exit).toBe(1);
  expect(hermes.stderr()).toMatch(/HTTP 401: .*\. Check the key with: hermes setup/);
});

it("a server that is not there is said to be not there", async () => {
  const { server, port } = await occupied();
  server.close();
  const hermes = place.start(["--plain", "say hello"], { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` });
  await hermes.prints(/Trying again/);
  expect(hermes.stdout()).toContain(NO_SERVER);
});
