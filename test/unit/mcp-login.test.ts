// Logins at MCP servers: the whole way of OAuth with a strict authorization server, and what is done where nobody can log in.
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Log } from "../../src/core/ports.ts";
import { forgetLogin } from "../../src/tools/mcp/auth.ts";
import { login } from "../../src/tools/mcp/login.ts";
import { createMcp, type Mcp } from "../../src/tools/mcp/tools.ts";
import { ownerHere } from "../../src/tools/shell/exec.ts";
import { serveFakeMcp } from "../fakes/mcp-server.ts";
import { startOAuth } from "../fakes/oauth.ts";

let home: string;
let oauth: Awaited<ReturnType<typeof startOAuth>>;
let server: Awaited<ReturnType<typeof serveFakeMcp>>;
const open: Mcp[] = [];
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "hermes-login-"));
  oauth = await startOAuth();
  server = await serveFakeMcp({ oauth });
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((mcp) => mcp.close()));
  await Promise.all([oauth.close(), server.close()]);
  rmSync(home, { recursive: true });
});

async function connect(url = server.url) {
  const logged: string[] = [];
  const log: Log = (_, event, fields) => void logged.push(`${event} ${JSON.stringify(fields)}`);
  const mcp = createMcp({ servers: { fake: { url } }, home, roots: [], owner: ownerHere(home), log });
  open.push(mcp);
  await mcp.ready;
  const { signal } = new AbortController();
  return { mcp, logged, call: () => mcp.call("fake", "echo", { text: "hello" }, signal) };
}
async function* lines(...given: string[]) {
  yield* given;
}
/** Goes where a browser would go, and returns where it would end. */
const browse = async (address: string) => (await fetch(address, { redirect: "manual" })).headers.get("location") ?? "";
const file = () => join(home, "mcp-auth", "fake.json");

test("without a login the server is not used and the log names the command; after one it works, and the login is renewed", async () => {
  const { mcp, logged, call } = await connect();
  expect(mcp.tools()).toEqual([]);
  expect(logged.join()).toContain("it wants a login. Run: hermes mcp login fake");
  expect(oauth.seen).toEqual([]); // nothing is begun that nobody can end

  const opened = (address: string) =>
    void browse(address).then(async (back) => {
      const forged = new URL(back);
      forged.searchParams.set("state", "x".repeat(43));
      expect((await fetch(forged)).status).toBe(404);
      expect((await fetch(back)).status).toBe(200);
    });
  expect(await login({ home, name: "fake", url: server.url, open: opened, pasted: lines() })).toBe("done");
  expect(statSync(file()).mode & 0o777).toBe(0o600);
  await vi.waitFor(async () => expect((await call()).ok).toBe(true), 10_000);

  const before = readFileSync(file(), "utf8");
  oauth.tokens.clear(); // they have expired
  expect(await call()).toMatchObject({ ok: true });
  expect(readFileSync(file(), "utf8")).not.toBe(before);

  oauth.tokens.clear();
  oauth.refreshes.clear(); // the login was taken back at the server
  expect((await call()).text).toContain("hermes mcp login fake");
  expect(logged.join()).not.toContain(JSON.parse(before).tokens.access_token);
});

test("where the browser runs on another machine, the address is pasted; a token goes to no other server", async () => {
  const pasted = Promise.withResolvers<string>();
  async function* typed() {
    yield "nonsense";
    yield await pasted.promise;
  }
  const opened = (address: string) => void browse(address).then(pasted.resolve);
  expect(await login({ home, name: "fake", url: server.url, open: opened, pasted: typed() })).toBe("done");
  expect((await connect()).mcp.tools()).not.toEqual([]);

  const given: (string | undefined)[] = [];
  const admits = (authorization?: string) => {
    given.push(authorization);
    return false;
  };
  const another = await serveFakeMcp({ oauth: { issuer: oauth.issuer, admits } });
  expect((await connect(another.url)).mcp.tools()).toEqual([]);
  expect(given).toEqual([undefined]);
  await another.close();

  expect(forgetLogin({ home, name: "fake" })).toBe(true);
  expect((await connect()).mcp.tools()).toEqual([]);
  const free = await serveFakeMcp();
  expect(await login({ home, name: "free", url: free.url, open: () => {}, pasted: lines() })).toBe("unneeded");
  await free.close();
});
