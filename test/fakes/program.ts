// The program as a real process beside a fake provider: both anew for each test of the file that says `useProgram`.
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
    place = makePlace({ ...(knowsProvider && llm.env), ...env });
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
export const configure = (...lines: string[]): void => place.configure(lines.map((line) => `${line}\n`).join(""));

export const closeAfterTest = (one: Pick<Screen, "kill" | "exit">): void => void running.push(one);

/** On a terminal that is closed after the test. */
export function openTerminal(args: string[], size?: Parameters<typeof onTerminal>[2]): Screen {
  const terminal = onTerminal(place, args, size);
  closeAfterTest(terminal);
  return terminal;
}

/** `hermes gateway`, ready when this returns. */
export const openGateway = (env?: NodeJS.ProcessEnv) => place.startGateway(env);
