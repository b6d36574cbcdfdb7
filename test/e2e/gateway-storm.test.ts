// A short one of the storms that `npm run gateway-test` makes at length.
import { expect, it } from "vitest";
import { storm } from "../gateway/storm.ts";

it("people in many chats are answered exactly once, in order, by a gateway that is killed again and again", async () => {
  const lines: string[] = [];
  const { problems } = await storm({ messages: 100, chats: 8, seconds: 12, seed: 1, say: (line) => lines.push(line) });
  expect(problems, lines.join("\n")).toEqual([]);
}, 120_000);
