// hermes models, and what `hermes doctor` says about the model: which endpoint, why, and what it offers.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { Endpoint } from "../../src/core/providers.ts";
import { listModels } from "../../src/llm/model-list.ts";
import { startFakeLlm } from "../fakes/llm/server.ts";
import { configure, llm, place, useProgram } from "../fakes/program.ts";

const KEY = "made-up-canary-0123456789";
useProgram({ llm: { apiKey: KEY, models: ["zebra-1", "fake-model"] }, knowsProvider: false });

async function run(args: string[], env: NodeJS.ProcessEnv = {}) {
  const hermes = place.start(args, env);
  const code = await hermes.exit;
  expect(hermes.stdout() + hermes.stderr()).not.toContain("canary");
  return { code, stdout: hermes.stdout(), stderr: hermes.stderr() };
}
const own = () => ({ OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: KEY, LLM_MODEL: "fake-model" });

describe("hermes models", () => {
  it("says who answers and why, the fallbacks in order, and what the endpoint offers", async () => {
    configure(
      "fallback_providers:",
      "  - {provider: anthropic, model: second}",
      "  - {model: third, base_url: 'http://127.0.0.2/v1'}",
    );
    const { code, stdout, stderr } = await run(["models"], own());
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.split("\n")).toEqual([
      `model     fake-model via openai-compatible at ${llm.url} (a base URL is set)`,
      "fallback  second via anthropic at https://api.anthropic.com/v1 (configured)",
      "fallback  third via openai-compatible at http://127.0.0.2/v1 (a base URL is set)",
      "",
      `2 models at ${llm.url}:`,
      "* fake-model",
      "  zebra-1",
      "",
    ]);
    expect(llm.others).toEqual(["GET /v1/models"]);
  });

  it.each(["openai-compatible", "openai", "anthropic"])("asks as %s wants to be asked", async (provider) => {
    configure("model:", `  provider: ${provider}`, "  default: zebra1", `  base_url: ${llm.url}`, `  api_key: ${KEY}`);
    const { code, stdout, stderr } = await run(["models"]);
    expect(code).toBe(1); // its own model is not among them
    expect(stderr).toContain('The endpoint has no model "zebra1". Did you mean zebra-1?');
    expect(stdout).toContain("zebra-1");
  });

  it("gives programs the same, without the key", async () => {
    const { code, stdout } = await run(["models", "--json"], own());
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      model: {
        provider: "openai-compatible",
        model: "fake-model",
        base_url: llm.url,
        context_length: 128_000,
        because: "a base URL is set",
      },
      fallbacks: [],
      models: ["fake-model", "zebra-1"],
    });
  });

  it.each([[[]], [["--json"]]])("says in a sentence what is wrong, with exit 1 (%j)", async (flags) => {
    const { code, stdout, stderr } = await run(["models", ...flags], { ...own(), OPENAI_API_KEY: "wrong-canary" });
    expect(code).toBe(1);
    expect(stdout).toContain("fake-model");
    expect(stderr).toMatch(/^hermes: Cannot list the models at \S+: HTTP 401: .+ Check the key with: hermes setup\n$/);
    if (flags.length > 0) expect(JSON.parse(stdout)).toMatchObject({ error: { kind: "auth" } });
  });

  it("lists what there is to choose from where no model is named yet, and says what to set", async () => {
    const { code, stdout, stderr } = await run(["models"], { ...own(), LLM_MODEL: "" });
    expect(code).toBe(78);
    expect(stdout).toContain("zebra-1");
    expect(stderr).toContain("model.default is not set");
  });

  it("has nothing to ask where the demo answers", async () => {
    const { code, stdout } = await run(["models"]);
    expect(code).toBe(0);
    expect(stdout).toBe("model     offline demo, a script (no key and no base URL is set)\n");
  });

  it("does not let a name drive the terminal", async () => {
    const odd = await startFakeLlm({ models: ["a\u001b[2Jb"] });
    const { stdout } = await run(["models"], { ...own(), OPENAI_BASE_URL: odd.url });
    expect(stdout).toContain("a\\u001b[2Jb");
    await odd.close();
  });
});

describe("hermes doctor", () => {
  it("says which model answers and why, and asks nobody", async () => {
    const { code, stdout } = await run(["doctor"], own());
    expect(code).toBe(0);
    expect(stdout).toContain(`✓ model    fake-model via openai-compatible at ${llm.url} (a base URL is set)\n`);
    expect(llm.others).toEqual([]);
  });

  it("--online asks what is offered", async () => {
    const well = await run(["doctor", "--online"], own());
    expect(well.code).toBe(0);
    expect(well.stdout).toMatch(/^✓ model .*; the server answers and offers 2 models$/m);
    const ill = await run(["doctor", "--online"], { ...own(), OPENAI_API_KEY: "wrong-canary" });
    expect(ill.code).toBe(1);
    expect(ill.stdout).toMatch(/^✗ model .*HTTP 401.* → hermes setup$/m);
  });

  it("counts a model that cannot be chosen as a mistake in the configuration", async () => {
    const { code, stdout } = await run(["doctor"], { ...own(), LLM_MODEL: "" });
    expect(code).toBe(78);
    expect(stdout).toMatch(/^✗ config .*model\.default is not set/m);
  });
});

describe("a list of models", () => {
  let server: Server;
  let endpoint: Endpoint;
  async function serve(listener: RequestListener) {
    server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    endpoint = { provider: "openai-compatible", model: "m", baseUrl, apiKey: KEY, context: 1, because: "" };
  }
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  it("is waited for so long and no longer", async () => {
    await serve(() => {});
    const reason = expect.stringMatching(/did not list its models within 0\.05 s$/);
    expect(await listModels(endpoint, 50)).toEqual({ end: "fault", kind: "stalled", reason });
  });

  it("without an end is given up, in time too", async () => {
    await serve((_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const more = () => response.write(" ".repeat(1_000), () => setImmediate(more));
      more();
    });
    expect(await listModels(endpoint, 300)).toMatchObject({ end: "fault" });
  });

  it("is not looked for where a redirect points, and the key does not go there", async () => {
    await serve((_, response) => response.writeHead(302, { location: `${llm.url}/models` }).end());
    expect(await listModels(endpoint, 5_000)).toMatchObject({
      kind: "bad_request",
      reason: expect.stringMatching(/HTTP 302: .*not followed/),
    });
    expect(llm.others).toEqual([]);
  });

  it.each<[string, string, string, RegExp]>([
    ["a web page", "text/html", "<html>", /web page; is the base URL right/],
    ["no JSON", "text/plain", "hello", /not with a list of models/],
    ["another JSON", "application/json", '{"models": []}', /not with a list of models/],
  ])("that is %s is none", async (_, type, body, reason) => {
    await serve((_request, response) => response.writeHead(200, { "content-type": type }).end(body));
    expect(await listModels(endpoint, 5_000)).toMatchObject({ kind: "garbled", reason: expect.stringMatching(reason) });
  });

  it("has each name once, in order, and nothing that is not a name", async () => {
    const data = [{ id: "b" }, { id: "a" }, { id: "b" }, { id: 3 }, null, "c"];
    await serve((_, response) => response.end(JSON.stringify({ data })));
    expect(await listModels(endpoint, 5_000)).toEqual([{ id: "a" }, { id: "b" }]);
  });
});
