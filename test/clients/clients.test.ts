// The clients of `npm run clients-test` that need nothing but what `npm install` brings, against the program of this checkout.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import pkg from "../../package.json" with { type: "json" };
import { program } from "../fakes/hermes.ts";
import { closeAfterTest, llm, openGateway, place, useProgram } from "../fakes/program.ts";
import { clientCases, playReply, runCase } from "./cases.ts";

const here = clientCases().filter(
  ({ packages }) => packages.length > 0 && packages.every((name) => name in pkg.devDependencies),
);

describe("a client that others have written", () => {
  useProgram({ config: "approvals: {mode: off}" });

  it("is among those that are tested here", () => {
    expect(here.map(({ name }) => name)).toEqual(["acp", "openai-js"]);
  });

  it.each(here)("$name works", { timeout: 60_000 }, async ({ file }) => {
    llm.script(playReply);
    const { hermes, url } = await openGateway();
    closeAfterTest(hermes);
    const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
    const api = { HERMES_URL: url, HERMES_KEY: key, OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key };
    const env = place.env({ HERMES: program, PROVIDER_URL: llm.url, ...api });
    expect(await runCase(process.execPath, { file, cwd: place.dir, env })).toBeNull();
  });
});
