// What other processes of the same user can see of a gateway's secrets, from its start through a restart.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect } from "vitest";
import { ownerPid } from "../../src/store/sqlite/file.ts";
import { llm, place, useProgram } from "../fakes/program.ts";
import { needs } from "../needs.ts";

const KEY = "canary-api-0123456789abcdef0123456789abcdef";
useProgram({ env: { OPENAI_API_KEY: "sk-canary-model", API_SERVER_KEY: KEY, LLM_MODEL: "m" } });
afterEach(() => {
  const pid = owner();
  if (pid !== null) process.kill(pid, "SIGKILL"); // the second one has no parent that could end it
});

const owner = () => (existsSync(join(place.home, "hermes.db.lock")) ? ownerPid(join(place.home, "hermes.db")) : null);
const environOf = (pid: number) => readFileSync(`/proc/${pid}/environ`, "utf8");

async function answers(): Promise<void> {
  const { url }: { url: string } = JSON.parse(readFileSync(join(place.home, "gateway.json"), "utf8"));
  llm.script({ text: "hello" });
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  const models = async () => (await fetch(`${url}/v1/models`, { headers })).status;
  await expect.poll(models, { timeout: 20_000 }).toBe(200); // it may still be starting
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] });
  const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
  expect(await answer.json()).toMatchObject({ choices: [{ message: { content: "hello" } }] });
  expect(llm.requests.at(-1)?.headers["authorization"]).toBe("Bearer sk-canary-model");
}

(await needs("proc")).it(
  "they are in the environment of none of its processes, and it has them all the same",
  async () => {
    const hermes = place.start(["gateway", "--port", "0"]);
    await hermes.prints(/^hermes gateway ready on /m);
    expect(environOf(hermes.pid)).toContain("HERMES_HOME=");
    expect(environOf(hermes.pid)).not.toContain("canary");
    await answers();

    hermes.kill("SIGUSR2");
    expect(await hermes.exit).toBe(0);
    await expect
      .poll(() => owner() !== null && existsSync(join(place.home, "gateway.json")), { timeout: 20_000 })
      .toBe(true);
    const pid = owner() ?? 0;
    expect(pid).not.toBe(hermes.pid);
    expect(environOf(pid)).not.toContain("canary");
    await answers();
  },
);
