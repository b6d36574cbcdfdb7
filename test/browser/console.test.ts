// The web console in a real browser, over a real server with the demo model. One browser and one server for all cases; each case has
// conversations of its own.
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../scripts/console.ts";
import { openConsole } from "../../src/surfaces/cli/web.ts";
import { makePlace } from "../fakes/hermes.ts";
import { openBrowser } from "./chromium.ts";
import { LONG, seedLong, TURNS } from "./long.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const LONGEST_FIRST_LOAD = 120_000;

const place = makePlace();
let browser: Browser;
let signedIn: BrowserContext;
let server: ReturnType<typeof place.start>;
let url = "";
let key = "";
let size = 0;
/** What a page complained about; a refused request is not a complaint. */
const complaints: string[] = [];

async function startServer(port = "0"): Promise<void> {
  server = place.start(["gateway", "--port", port]);
  await server.prints(/^hermes gateway ready on http:\S+\n/m);
  url = /ready on (http:\S+)\n/.exec(server.stdout())?.[1] ?? "";
}

async function newPage(context: BrowserContext, where = ""): Promise<Page> {
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      complaints.push(message.text());
  });
  await page.goto(`${url}/${where}`);
  return page;
}

async function signInWithKey(page: Page, given: string): Promise<void> {
  await page.getByLabel("API key").fill(given);
  await page.getByRole("button", { name: "Sign in" }).click();
}

const box = (page: Page) => page.getByLabel("Message", { exact: true });
async function say(page: Page, text: string): Promise<void> {
  await box(page).fill(text);
  await box(page).press("Enter");
}
/** A page with a conversation of its own. */
async function converse(text: string): Promise<Page> {
  const page = await newPage(signedIn);
  await page.getByRole("button", { name: "New conversation" }).click();
  await say(page, text);
  await page.locator(".message", { hasText: text }).first().waitFor();
  return page;
}
const api = (path: string, how: RequestInit = {}) =>
  fetch(`${url}${path}`, { ...how, headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" } });

beforeAll(async () => {
  ({ bytes: size } = await buildConsole(root, `${root}dist/console/`));
  await seedLong(place);
  await startServer();
  key = readFileSync(join(place.home, "api_key"), "utf8").trim();
  browser = await openBrowser();
  signedIn = await browser.newContext();
  const page = await newPage(signedIn);
  await signInWithKey(page, key);
  await page.getByRole("heading", { name: "Conversations" }).waitFor();
  await page.close();
}, 120_000);

afterEach(async () => {
  for (const page of signedIn.pages()) await page.close();
  expect(complaints.splice(0)).toEqual([]);
});

afterAll(async () => {
  await browser?.close();
  server?.kill("SIGKILL");
  await server?.exit;
  place.clear();
});

describe("signing in", () => {
  it("refuses a wrong key in words, and keeps nobody signed in whose sign-in was revoked", async () => {
    const context = await browser.newContext();
    const page = await newPage(context);
    await signInWithKey(page, "wrong");
    await page.getByText("The API key is wrong.").waitFor();
    await signInWithKey(page, key);
    await page.getByRole("heading", { name: "Conversations" }).waitFor();
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict" });

    const { data } = (await (await api("/api/sign-ins")).json()) as { data: { id: string; created_at: number }[] };
    const newest = data.toSorted((a, b) => b.created_at - a.created_at)[0]?.id;
    await api(`/api/sign-ins/${newest}`, { method: "DELETE" });
    await page.getByLabel("API key").waitFor(); // at once: its streams are cut
    await context.close();
  });

  it("takes the link of `hermes web` once", async () => {
    const printed = place.start(["web", "--no-open"]);
    await printed.prints(/#sign-in=\S+\n/);
    const [, link = ""] = /#(sign-in=\S+)\n/.exec(printed.stdout()) ?? [];
    const [first, second] = [await browser.newContext(), await browser.newContext()];
    const page = await newPage(first, `#${link}`);
    await page.getByRole("heading", { name: "Conversations" }).waitFor();
    expect(page.url()).not.toContain("sign-in");
    const late = await newPage(second, `#${link}`);
    await late.getByText("This link was used already").waitFor();
    // For a browser on this machine: through a file that only its user can read, not as an argument of a program.
    const file = join(place.home, "open-console.html");
    const newCode = async () => {
      const { code } = (await (await api("/api/sign-ins/codes", { method: "POST" })).json()) as { code: string };
      return code;
    };
    const printing = { print: async () => {}, complain: () => {} };
    expect(await openConsole({ server: { url, newCode }, program: "/bin/true", file, ...printing })).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await late.goto(`file://${file}`);
    await late.getByRole("heading", { name: "Conversations" }).waitFor();
    await first.close();
    await second.close();
  });

  it("gives another site nothing, though its requests carry the cookie", async () => {
    const page = await converse("hello");
    const session = decodeURIComponent(page.url().split("#/conversations/")[1] ?? "");
    const other = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<p>other</p>"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const foreign = await signedIn.newPage();
    await foreign.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
    const attack = `(async () => {
      const target = ${JSON.stringify(`${url}/api/sessions/${encodeURIComponent(session)}`)};
      const tries = [
        ["DELETE", {}], ["POST", { "Content-Type": "text/plain" }], ["GET", {}],
      ].map(([method, headers]) => fetch(target, { method, headers, credentials: "include",
        ...(method === "POST" && { body: "{}" }) }).then((r) => r.text(), () => "refused"));
      const form = document.createElement("form");
      form.method = "post"; form.action = target + "/messages"; form.enctype = "text/plain"; form.target = "_blank";
      document.body.append(form); form.submit();
      return Promise.all(tries);
    })()`;
    expect(await foreign.evaluate(attack)).toEqual(["refused", "refused", "refused"]);
    expect((await api(`/api/sessions/${encodeURIComponent(session)}`)).status).toBe(200);
    // With the cookie and without the token, as a program on another port would have it.
    const [cookie] = await signedIn.cookies();
    const stolen = { Cookie: `${cookie?.name}=${cookie?.value}` };
    expect((await fetch(`${url}/api/sessions`, { headers: stolen })).status).toBe(401);
    other.close();
  });
});

describe("a conversation", () => {
  it("streams, is typed over, queues, reorders, withdraws and stops", async () => {
    const page = await converse("tell me a story");
    await page.locator(".answer.live").getByText("messenger").waitFor();
    await page.getByText("queue", { exact: true }).click();
    for (const text of ["first in line", "second in line", "third in line"]) await say(page, text);
    const waiting = page.getByRole("region", { name: "Waiting messages" }).getByRole("listitem");
    await expect.poll(() => waiting.count()).toBe(3);
    await waiting.nth(1).getByRole("button", { name: "Move up" }).click();
    await expect.poll(() => waiting.first().innerText()).toContain("second in line");
    await waiting.filter({ hasText: "first in line" }).getByRole("button", { name: "Withdraw" }).click();
    await expect.poll(() => waiting.count()).toBe(2);
    await waiting.filter({ hasText: "third in line" }).getByRole("button", { name: "Edit" }).click();
    await expect.poll(() => box(page).inputValue()).toBe("third in line");
    await page.reload();
    await expect.poll(() => box(page).inputValue()).toBe("third in line"); // a draft outlives a reload
    await page.getByText("interrupt", { exact: true }).click();
    await say(page, "run sleep 60");
    await page.locator(".turn footer", { hasText: "Interrupted" }).waitFor();
    await page.locator(".call.running").waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.locator(".turn footer", { hasText: "Stopped" }).waitFor();
    // What waited comes next, and nothing was doubled.
    await page.locator(".answer", { hasText: "You said: second in line" }).waitFor();
    expect(await page.locator(".message").allInnerTexts()).toEqual([
      "tell me a story",
      "run sleep 60",
      "second in line",
    ]);
  });

  it("takes an approval from the first of two tabs, and tells the second", async () => {
    const page = await converse("something dangerous");
    const card = (one: Page) => one.getByRole("region", { name: "Approval needed" });
    await card(page).getByText("rm -r ./hermes-demo-scratch").waitFor();
    // The card takes room from the transcript, whose end stays in view.
    const below = () =>
      page.locator(".transcript").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
    await expect.poll(below).toBeLessThan(5);
    const second = await newPage(signedIn, new URL(page.url()).hash);
    await card(second).waitFor();
    // Both press before either has heard of the other.
    const told = Promise.withResolvers<unknown>();
    await second.route("**/answer", async (route) => {
      await card(page).getByRole("button", { name: "Allow once" }).click();
      await card(page).waitFor({ state: "detached" });
      const response = await route.fetch();
      told.resolve(await response.json());
      await route.fulfill({ response });
    });
    await card(second).getByRole("button", { name: "Deny" }).click();
    expect(await told.promise).toEqual({ answered: false });
    await second.getByText("Your answer came too late").waitFor();
    await second.getByText("✓ Allowed").waitFor();
    await page.locator(".turn footer").waitFor();
  });

  it("goes on without a gap or a doubled word when the server is killed and started again", async () => {
    const page = await converse("tell me a story");
    await page.locator(".answer.live").getByText("messenger").waitFor();
    const { port } = new URL(url);
    server.kill("SIGKILL");
    await server.exit;
    await page.getByText("The connection to the server is broken").first().waitFor();
    await startServer(port);
    await page.locator(".turn footer").waitFor({ timeout: 25_000 });
    const answers = await page.locator(".answer").allInnerTexts();
    expect(answers).toHaveLength(1);
    expect(answers[0]?.match(/Once there was a messenger/g)).toHaveLength(1);
    await expect.poll(() => page.getByText("The connection to the server is broken").count()).toBe(0);
  });

  it("of 10,000 entries opens at once, draws a part of it, and leads back to its beginning", async () => {
    const page = await newPage(signedIn);
    const began = performance.now();
    await page.goto(`${url}/#/conversations/${encodeURIComponent(LONG)}`);
    await page.getByText(`Question number ${TURNS - 1}`, { exact: true }).waitFor();
    expect(performance.now() - began).toBeLessThan(5_000); // a loaded machine; 0.4 s on a quiet one
    expect(await page.locator(".message").count()).toBeLessThan(100);
    for (let round = 0; round < 8; round++) {
      const before = await page.locator(".turn").count();
      await page.locator(".transcript").evaluate((element) => element.scrollTo(0, 0));
      await expect.poll(() => page.locator(".turn").count()).toBeGreaterThan(before);
    }
    expect(await page.locator(".message").count()).toBeLessThan(120);
  });
});

describe("what models, tools and people say", () => {
  const HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](http://127.0.0.1:9/picture.png)",
    "[x](/api/sessions)",
    '"><svg onload=alert(1)>',
    "<style>*{display:none}</style>",
    "<a href=data:text/html,x>y</a>",
  ];

  const HOSTILE_FILE = "<img src=x onerror=alert(1)>.txt";

  it("stays text: no markup, no script, no request to another host, no link that acts", async () => {
    const outside: string[] = [];
    const page = await newPage(signedIn);
    page.on("request", (request) => {
      if (!request.url().startsWith(url) && !request.url().startsWith("data:")) outside.push(request.url());
    });
    page.on("dialog", (dialog) => {
      complaints.push(dialog.message());
      void dialog.dismiss();
    });
    await page.getByRole("button", { name: "New conversation" }).click();
    // The demo says it again as its answer; the first words become the title.
    await say(page, HOSTILE.join("\n\n"));
    await page.locator(".turn footer").waitFor();
    writeFileSync(join(place.dir, HOSTILE_FILE), "");
    await say(page, "run ls; echo '<script>alert(1)</script>'");
    await page.locator(".turn footer").nth(1).waitFor();
    await page.locator(".call summary").first().click();
    await page.getByText(HOSTILE_FILE).first().waitFor();
    const inside = () =>
      page
        .locator("#main")
        .evaluateAll((parts) =>
          parts.flatMap((part) =>
            [...part.querySelectorAll("img, script, style, iframe, svg[onload]")].map((e) => e.outerHTML),
          ),
        );
    expect(await inside()).toEqual([]);
    const links = await page.locator(".transcript a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    expect(links.filter((href) => !/^(#\/turn\/|http:\/\/127\.0\.0\.1:9\/)/.test(href ?? ""))).toEqual([]);

    const text = HOSTILE.join("\n\n");
    const post = (path: string, body: object) => api(path, { method: "POST", body: JSON.stringify(body) });
    await post("/api/memory", { action: "add", target: "memory", text });
    await post("/api/jobs", { text, name: HOSTILE[0], cron: "0 9 * * *" });
    await post("/v1/skills", { name: "hostile", text: `---\ndescription: ${HOSTILE[0]}\n---\n${text}` });
    const turn = new URL((await page.locator(".turn footer a").last().getAttribute("href")) ?? "", page.url()).hash;
    for (const where of [turn, "#/memory", "#/schedules", "#/skills", "#/usage"]) {
      await page.goto(`${url}/${where}`);
      await page
        .getByText(/<img src=x onerror|echo '<script>/)
        .first()
        .waitFor();
      for (const summary of await page.locator("#main summary").all()) await summary.click();
      expect([where, await inside()]).toEqual([where, []]);
    }
    for (const { id } of ((await (await api("/api/jobs")).json()) as { data: { id: string }[] }).data)
      await api(`/api/jobs/${id}`, { method: "DELETE" });
    await api("/v1/skills/hostile", { method: "DELETE" });
    await post("/api/memory", { action: "remove", target: "memory", find: HOSTILE[0] });
    expect(outside).toEqual([]);
  });
});

describe("every page", () => {
  const check = async (page: Page): Promise<string[]> => {
    const run = "axe.run(document, { resultTypes: ['violations'] })";
    const { violations } = (await page.evaluate(run)) as {
      violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
    };
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}\n${node.failureSummary}`));
  };
  const LOOKS = [
    { size: { width: 1280, height: 800 }, colorScheme: "light" },
    { size: { width: 360, height: 740 }, colorScheme: "dark" },
  ] as const;

  it("has nothing that axe finds, wide and light, on a phone and dark, and never scrolls sideways", async () => {
    const page = await converse("something dangerous");
    await page.getByRole("region", { name: "Approval needed" }).waitFor();
    const talk = new URL(page.url()).hash;
    const { data } = (await (await api("/api/now")).json()) as { data: { status: { turn: { id: string } | null } }[] };
    const turn = data.find(({ status }) => status.turn)?.status.turn?.id ?? "";
    await page.evaluate(axe.source); // once: the pages are one document
    const pages = [
      "conversations",
      "now",
      `turn/${turn}`,
      "schedules",
      "memory",
      "skills",
      "people",
      "usage",
      "health",
    ];
    for (const hash of [talk, ...pages.map((name) => `#/${name}`)]) {
      await page.goto(`${url}/${hash}`);
      await page.locator("main :is(h1, .start, .picture)").first().waitFor();
      for (const { size: viewport, colorScheme } of LOOKS) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        const wide = await page.evaluate("document.documentElement.scrollWidth");
        expect([hash, wide, await check(page)]).toEqual([hash, viewport.width, []]);
      }
    }
    await page.goto(`${url}/${talk}`);
    await page.getByRole("button", { name: "Deny" }).click();
    await page.locator(".turn footer").waitFor();
    const stranger = await browser.newContext();
    const signIn = await newPage(stranger);
    await signIn.getByLabel("API key").waitFor();
    await signIn.evaluate(axe.source);
    expect(await check(signIn)).toEqual([]);
    await stranger.close();
  }, 60_000);

  it("shows and changes what it is about: memory, schedules, the course of a turn, usage", async () => {
    const page = await converse("run sleep 0.1");
    await page.locator(".turn footer a").click();
    await page.locator(".step", { hasText: /Model call 2.*first word after/ }).waitFor();
    await page.locator(".step", { hasText: /terminal.*ok · sleep/ }).click();
    await page.getByText('"kind": "acted"').waitFor();

    await page.goto(`${url}/#/memory`);
    await page.getByRole("textbox", { name: "New note" }).fill("Likes tea");
    await page.getByRole("button", { name: "Remember" }).click();
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Text of the note").fill("Likes coffee");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Likes coffee").waitFor();
    expect(await (await api("/api/memory")).json()).toMatchObject({ data: [{ text: "Likes coffee" }] });

    await page.goto(`${url}/#/schedules`);
    await page.getByLabel("What to do").fill("Say good morning");
    await page.getByLabel("When").fill("not a time");
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("When").fill("0 9 * * *");
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByRole("button", { name: "Pause: Say good morning" }).click();
    await page.getByText("paused").waitFor();

    await page.goto(`${url}/#/skills`);
    await page.getByLabel("Name", { exact: true }).fill("tea");
    await page.getByLabel("Text", { exact: true }).fill("How tea is made.");
    await page.getByRole("button", { name: "Add" }).click();
    await page.locator(".skill summary").click();
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Text of tea").fill("How *green* tea is made.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".skill em", { hasText: "green" }).waitFor();
    await page.getByRole("button", { name: "Remove tea" }).click();
    await page.getByRole("button", { name: "Really? Remove tea" }).click();
    await page.getByText("There are no skills yet.").waitFor();

    await page.goto(`${url}/#/health`);
    await page.getByRole("button", { name: "Check the installation" }).click();
    await page.getByText("✓ home").first().waitFor();

    await page.goto(`${url}/#/usage`);
    await page.getByRole("link", { name: "run sleep 0.1" }).waitFor();
    await page.getByRole("img", { name: /^Tokens by day/ }).waitFor();
  });

  it("comes in at most 120 kB", () => {
    expect(size).toBeLessThan(LONGEST_FIRST_LOAD);
  });
});
