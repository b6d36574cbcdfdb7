// The web console in a real browser: what a first load weighs and takes, how soon a long conversation is there, how it scrolls, and how
// many frames it draws while 200 tokens of Markdown a second stream in. The server and the browser are processes of their own.

import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { buildConsole } from "../scripts/console.ts";
import { openBrowser } from "../test/browser/chromium.ts";
import { LONG, seedLong } from "../test/browser/long.ts";
import { makePlace } from "../test/fakes/hermes.ts";
import { median, percentile, report } from "./figure.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const TOKENS_A_SECOND = 200;
const FRAME_MS = 1_000 / 60;
const SECONDS = process.argv.includes("--quick") ? 3 : 10;
const LOADS = process.argv.includes("--quick") ? 3 : 9;

const provider = createServer((request, response) => {
  request.resume();
  request.on("end", () => void answer(response));
});
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
const { port } = provider.address() as AddressInfo;
const place = makePlace({ OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: "k", LLM_MODEL: "m" });
const kilobytes = (await buildConsole(root, `${root}dist/console/`)).bytes / 1_000;
await seedLong(place);
const server = place.start(["gateway", "--port", "0"]);
await server.prints(/^hermes gateway ready on http:\S+\n/m);
const [, url = ""] = /ready on (http:\S+)\n/.exec(server.stdout()) ?? [];
const browser = await openBrowser();
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(url);
  await page.getByLabel("API key").fill(readFileSync(join(place.home, "api_key"), "utf8").trim());
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "New conversation" }).waitFor();

  const loads: number[] = [];
  const opens: number[] = [];
  for (let count = 0; count < LOADS; count++) {
    await page.goto("about:blank");
    const began = performance.now();
    await page.goto(`${url}/#/conversations`);
    await page.getByRole("button", { name: "New conversation" }).waitFor();
    loads.push(performance.now() - began);
    const opened = performance.now();
    await page.evaluate(`location.hash = ${JSON.stringify(`#/conversations/${encodeURIComponent(LONG)}`)}`);
    await page.getByText("Question number 1999", { exact: true }).waitFor();
    opens.push(performance.now() - opened);
  }

  await page.evaluate(COUNT_FRAMES());
  await page.evaluate(`(async () => {
    const box = document.querySelector(".transcript");
    for (let at = 0; at < ${SECONDS * 60}; at++) {
      box.scrollBy(0, -120);
      await new Promise(requestAnimationFrame);
    }
  })()`);
  const scrolled = (await page.evaluate("stopFrames()")) as number[];

  await page.getByRole("button", { name: "New conversation" }).click();
  await page.getByLabel("Message", { exact: true }).fill("stream");
  await page.getByLabel("Message", { exact: true }).press("Enter");
  await page.locator(".answer.live").waitFor();
  await page.evaluate(COUNT_FRAMES());
  await sleep(SECONDS * 1_000);
  const streamed = (await page.evaluate("stopFrames()")) as number[];

  report([
    { name: "first load, compressed", value: kilobytes, unit: "kB", goal: { value: 120 } },
    { name: "load → the console can be used", value: median(loads), unit: "ms", goal: { value: 1_000 } },
    {
      name: "a conversation of 10,000 entries → its end is shown",
      value: median(opens),
      unit: "ms",
      goal: { value: 1_000 },
    },
    { name: "scrolling it: a frame, p95", value: percentile(scrolled, 95), unit: "ms", goal: { value: 2 * FRAME_MS } },
    { name: "200 tokens/s: a frame, median", value: median(streamed), unit: "ms", goal: { value: 1.05 * FRAME_MS } },
    { name: "200 tokens/s: a frame, p95", value: percentile(streamed, 95), unit: "ms", goal: { value: 2 * FRAME_MS } },
  ]);
} finally {
  await browser.close();
  server.kill("SIGKILL");
  await server.exit;
  place.clear();
  provider.close();
  provider.closeAllConnections();
}

/** From here on, the time of each frame is kept until `stopFrames()`. */
function COUNT_FRAMES(): string {
  return `(() => {
    const frames = []; let last = performance.now(); let on = true;
    const frame = (now) => { frames.push(now - last); last = now; if (on) requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
    globalThis.stopFrames = () => { on = false; return frames.slice(1); };
  })()`;
}

/** Markdown, in OpenAI's wire format, for a little longer than it is watched. */
async function answer(response: ServerResponse): Promise<void> {
  const words =
    "Some **bold** words, a `piece of code` and a [link](https://example.org).\n\n- one item\n- another\n\n".split(
      /(?<= )/,
    );
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const event = (delta: object, finish: string | null) =>
    response.write(
      `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
    );
  const began = performance.now();
  const total = (SECONDS + 2) * TOKENS_A_SECOND;
  for (let sent = 0; sent < total && !response.destroyed; ) {
    const due = Math.floor(((performance.now() - began) / 1_000) * TOKENS_A_SECOND);
    for (; sent < Math.min(due, total); sent++) event({ content: words[sent % words.length] }, null);
    await sleep(5);
  }
  event({}, "stop");
  response.end("data: [DONE]\n\n");
}
