import { expect, it } from "vitest";
import { clock } from "../../src/platform/clock.ts";
import { openSignIns } from "../../src/surfaces/web/sign-ins.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

it("a sign-in on one node counts on another once that has looked, and no longer once it is revoked", async () => {
  const { notes } = asStore(createMemoryStore());
  const [one, two] = [await openSignIns({ notes, clock }), await openSignIns({ notes, clock })];
  const { signIn, cookie, token } = await one.begin("a browser");
  const headers = { cookie: `hermes_console=${cookie}`, "x-hermes-token": token };
  await two.read();
  expect([one.of(headers)?.id, two.of(headers)?.id]).toEqual([signIn.id, signIn.id]);
  await one.revoke(signIn.id);
  await two.read();
  expect([one.of(headers), two.of(headers)]).toEqual([null, null]);
});
