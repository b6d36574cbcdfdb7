// Two terminals of one home, and what is said when something outside is wrong.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it } from "vitest";
import { NO_SERVER } from "../../src/core/errors.ts";
import { llm, place, useProgram } from "../fakes/program.ts";

useProgram();

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
  await second.prints(/Attached to the gateway at http:/);
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
