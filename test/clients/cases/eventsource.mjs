// packages: eventsource
import assert from "node:assert/strict";
import { EventSource } from "eventsource";

const { HERMES_URL: url, HERMES_KEY: key } = process.env;
const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
const body = JSON.stringify({ input: 'play:[{"text": ["t", "wo"]}]' });
const { run_id } = await (await fetch(`${url}/v1/runs`, { method: "POST", headers, body })).json();
const source = new EventSource(`${url}/v1/runs/${run_id}/events`, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...headers } }),
});
// It connects again by itself after the end, and must be told that there is no more. Then it closes for good.
const closed = Promise.withResolvers();
source.addEventListener("error", ({ code }) => {
  if (source.readyState === EventSource.CLOSED) closed.resolve(code);
});
let text = "";
const ended = Promise.withResolvers();
source.addEventListener("message", ({ data }) => {
  const event = JSON.parse(data);
  if (event.event === "message.delta") text += event.delta;
  if (event.event === "run.completed") ended.resolve(event.output);
});
assert.equal(await ended.promise, "two");
assert.equal(text, "two");
const awake = setInterval(() => {}, 1_000); // its own timer does not keep a process alive
assert.equal(await closed.promise, 204);
clearInterval(awake);
