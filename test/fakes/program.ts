// The program as a real process beside a fake provider: both anew for each test of the file that says `useProgram`.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { makePlace, type Place } from "./hermes.ts";
import { type FakeLlm, startFakeLlm } from "./llm/server.ts";
import { onTerminal, type Screen } from "./pty.ts";

export let llm: FakeLlm;
export let place: Place;
let running: Pick<Screen, "kill" | "exit">[] = [];

type ProgramOptions = {
  llm?: Parameters<typeof startFakeLlm>[0];
  env?: NodeJS.ProcessEnv;
  /** config.yaml */
  config?: string;
  /** False: nothing tells the program of the provider. */
  knowsProvider?: boolean;
};

export function useProgram(options: ProgramOptions = {}): void {
  const { env = {}, config, knowsProvider = true } = options;
  beforeEach(async () => {
    llm = await startFakeLlm(options.llm);
    const provider = { OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: "k", LLM_MODEL: "fake-model" };
    place = makePlace({ ...(knowsProvider && provider), ...env });
    running = [];
    if (config) configure(config);
  });
  afterEach(async () => {
    for (const one of running) one.kill("SIGTERM");
    await Promise.all(running.map(({ exit }) => exit));
    place.clear();
    await llm.close();
    expect(llm.violations).toEqual([]);
  });
}

/** config.yaml, of these lines. */
export function configure(...lines: string[]): void {
  mkdirSync(place.home, { recursive: true, mode: 0o700 });
  writeFileSync(join(place.home, "config.yaml"), lines.map((line) => `${line}\n`).join(""), { mode: 0o600 });
}

export const closeAfterTest = (one: Pick<Screen, "kill" | "exit">): void => void running.push(one);

/** On a terminal that is closed after the test. */
export function openTerminal(args: string[], size?: Parameters<typeof onTerminal>[2]): Screen {
  const terminal = onTerminal(place, args, size);
  closeAfterTest(terminal);
  return terminal;
}

/** `hermes gateway`, ready when this returns. */
export async function openGateway(env: NodeJS.ProcessEnv = {}) {
  const hermes = place.start(["gateway", "--port", "0"], env);
  await hermes.prints(/^hermes gateway ready on http:\S+\n/m);
  return { hermes, url: /ready on (http:\S+)\n/.exec(hermes.stdout())?.[1] ?? "" };
}
