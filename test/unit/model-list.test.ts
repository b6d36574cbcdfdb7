// What servers say of the models that they offer: names, windows and prices, in the shapes that are in use.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { Offer } from "../../src/core/ports.ts";
import type { Endpoint } from "../../src/core/providers.ts";
import { listModels } from "../../src/llm/model-list.ts";
import { createModel } from "../../src/llm/provider.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

let server: Server | null = null;
let llm: FakeLlm | null = null;
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
  await llm?.close();
  [server, llm] = [null, null];
});

const endpointAt = (baseUrl: string, more: Partial<Endpoint> = {}): Endpoint => ({
  provider: "openai-compatible",
  model: "m",
  baseUrl,
  apiKey: "",
  context: 128_000,
  because: "",
  ...more,
});

async function listed(body: unknown) {
  const made = createServer((_, response) => response.end(JSON.stringify(body)));
  server = made;
  await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
  return listModels(endpointAt(`http://127.0.0.1:${(made.address() as AddressInfo).port}`), 5_000);
}

describe("a list of models", () => {
  it.each<[server: string, model: Record<string, unknown>, offer: Partial<Offer>]>([
    ["OpenAI", { object: "model", owned_by: "openai" }, {}],
    [
      "OpenRouter",
      {
        context_length: 200_000,
        pricing: { prompt: "0.000003", completion: "0.000015", input_cache_read: "0.0000003" },
      },
      { context: 200_000, price: { input: 3, output: 15, cached: 0.3 } },
    ],
    [
      "OpenRouter's free ones",
      { context_length: 8_192, pricing: { prompt: "0", completion: "0" } },
      { price: { input: 0, output: 0 } },
    ],
    [
      "OpenRouter's auto",
      { context_length: 2_000_000, pricing: { prompt: "-1", completion: "-1" } },
      { context: 2_000_000 },
    ],
    ["vLLM", { max_model_len: 32_768, root: "m" }, { context: 32_768 }],
    ["llama.cpp", { meta: { n_ctx: 8_192, n_ctx_train: 131_072, n_params: 1 } }, { context: 8_192 }],
    ["Anthropic", { type: "model", max_input_tokens: 200_000, max_tokens: 64_000 }, { context: 200_000 }],
    ["Groq", { context_window: 131_072, active: true }, { context: 131_072 }],
    ["Mistral", { max_context_length: 32_768, capabilities: {} }, { context: 32_768 }],
    ["LM Studio", { loaded_context_length: 4_096, max_context_length: 131_072 }, { context: 4_096 }],
    ["nonsense", { context_length: "lots", max_model_len: -1, pricing: "cheap" }, {}],
  ])("of %s", async (_, model, offer) => {
    const found = await listed({ object: "list", data: [{ id: "m", ...model }] });
    expect(found).toEqual([expect.objectContaining({ id: "m", ...offer })]);
    if (!offer.price) expect(found).not.toMatchObject([{ price: expect.anything() }]);
  });

  it("may be bare, has each name once, and is in order", async () => {
    expect(await listed([{ id: "b" }, { id: "a" }, { id: "b" }, { name: "?" }])).toEqual([{ id: "a" }, { id: "b" }]);
  });

  it.each([[{ models: [] }], ["ok"], [null]])("that is none is a fault: %j", async (body) => {
    expect(await listed(body)).toMatchObject({ kind: "garbled" });
  });
});

describe("a window that was only a guess", () => {
  const request = {
    session: "s",
    system: "",
    messages: [{ role: "user" as const, text: "hi" }],
    tools: [],
    final: false,
  };
  const hear = { text: () => {}, reasoning: () => {}, alive: () => {} };

  it("is learnt from the server beside the first call, once", async () => {
    llm = await startFakeLlm({ models: ["other", { id: "m", max_model_len: 4_096 }] });
    const model = createModel(endpointAt(llm.url, { guessed: true }));
    expect(model.context).toBe(128_000);
    expect((await model.call(request, hear, new AbortController().signal)).end).toBe("answer");
    await expect.poll(() => model.context).toBe(4_096);
    await model.call(request, hear, new AbortController().signal);
    expect(llm.others).toEqual(["GET /v1/models"]);
  });

  it("stays where the server does not say, and one that was configured is not asked for", async () => {
    llm = await startFakeLlm({ models: [{ id: "m", max_model_len: 4_096 }] });
    const model = createModel(endpointAt(llm.url));
    await model.call(request, hear, new AbortController().signal);
    expect([model.context, llm.others]).toEqual([128_000, []]);
  });
});
