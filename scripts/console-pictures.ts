// Pictures of the web console for the documentation: the real page in a real browser, with the demo model.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openBrowser } from "../test/browser/chromium.ts";
import { makePlace } from "../test/fakes/hermes.ts";

/** `images`: where they go. Returns their names. */
export async function drawConsole(images: string): Promise<string[]> {
  const place = makePlace();
  const server = place.start(["gateway", "--port", "0"]);
  const browser = await openBrowser();
  try {
    await server.prints(/^hermes gateway ready on http:\S+\n/m);
    const [, url = ""] = /ready on (http:\S+)\n/.exec(server.stdout()) ?? [];
    const page = await browser.newPage({ viewport: { width: 1280, height: 780 }, reducedMotion: "reduce" });
    await page.goto(url);
    await page.getByLabel("API key").fill(readFileSync(join(place.home, "api_key"), "utf8").trim());
    await page.getByRole("button", { name: "Sign in" }).click();
    const names: string[] = [];
    const picture = async (name: string) => {
      writeFileSync(join(images, `${name}.png`), await page.screenshot());
      names.push(`${name}.png`);
    };

    await begin(page, "run seq 1 3");
    await over(page);
    await begin(page, "something long: watch the build");
    await page.locator(".call.running").waitFor();
    await begin(page, "run ls -la");
    await over(page);
    await say(page, "now something dangerous");
    await page.getByRole("region", { name: "Approval needed" }).waitFor();
    await picture("console-talk");

    await page.locator('.rail a[href="#/now"]').click();
    await page.getByText("No process runs").waitFor();
    await picture("console-now");

    await page.getByRole("button", { name: "Allow once" }).click();
    await page.getByText("Nothing waits for a person.").waitFor();
    await page.locator('.rail a[href="#/conversations"]').click();
    await page.getByRole("link", { name: /run ls -la/ }).click();
    await page.locator(".turn footer").nth(1).waitFor();
    await page.locator(".turn footer a").last().click();
    await page.locator(".step", { hasText: "Approval" }).waitFor();
    await picture("console-turn");
    return names;
  } finally {
    await browser.close();
    server.kill("SIGKILL");
    await server.exit;
    place.clear();
  }
}

async function begin(page: Page, text: string): Promise<void> {
  await page.getByRole("button", { name: "New conversation" }).click();
  await say(page, text);
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByLabel("Message", { exact: true }).press("Enter");
  await page.locator(".message", { hasText: text }).waitFor();
}

const over = (page: Page) => page.locator(".turn footer").waitFor();
