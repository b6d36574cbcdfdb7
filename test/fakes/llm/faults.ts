// The model faults of RELIABILITY.md by name, as replies, so that one test can go through all of them. Two of its list
// are no reply: an endless tool loop is a script that always calls, an abort that races with the end is a `hold`.
import type { Fault, Reply } from "./reply.ts";

const WORDS = ["Grüße, ", "naïve ", "世界 ", "👋"];
const CALL = { name: "terminal", args: { command: "ls -la" } };
const text = (fault: Fault): Reply => ({ text: WORDS, fault });

export const FAULTS = {
  "reset before headers": text({ cut: "accepted" }),
  "reset after headers": text({ cut: "headers" }),
  "reset after text": text({ cut: "text" }),
  "reset inside tool arguments": { text: WORDS, calls: [CALL], fault: { cut: "arguments" } },
  "connection closed after text": text({ cut: "text", by: "close" }),
  "body ends after text": text({ cut: "text", by: "end" }),
  "body ends inside tool arguments": { text: WORDS, calls: [CALL], fault: { cut: "arguments", by: "end" } },

  "half-open": text({ silence: "accepted" }),
  stall: text({ silence: "headers" }),
  "stall after text": text({ silence: "text" }),
  "stall inside tool arguments": { text: WORDS, calls: [CALL], fault: { silence: "arguments" } },
  "one byte at a time": text({ byteEvery: 0 }),

  "429, seconds": text({ status: 429, retryAfter: 1 }),
  "429, date": text({ status: 429, retryAfter: new Date("2037-01-01T00:00:00Z") }),
  "429, absent": text({ status: 429 }),
  "429, 0": text({ status: 429, retryAfter: 0 }),
  "429, 10⁹": text({ status: 429, retryAfter: 1e9 }),
  "500": text({ status: 500 }),
  "502": text({ status: 502 }),
  "503": text({ status: 503 }),
  "529": text({ status: 529 }),
  "401": text({ status: 401 }),
  "403": text({ status: 403 }),
  "context overflow": text("context-overflow"),
  "redirect to another host": text({ redirect: "http://127.0.0.2:65535/v1/elsewhere" }),

  "error event": text({ errorEvent: "overloaded" }),
  "error event before text": text({ errorEvent: "server", at: "headers" }),
  "context overflow as an event": text({ errorEvent: "context-overflow", at: "headers", failed: true }),
  CRLF: text("crlf"),
  "split UTF-8": text("split-utf8"),
  BOM: text("bom"),
  comments: text("comments"),
  "no last blank line": text("no-last-blank-line"),
  "a long line": text({ longLine: 1_000_000 }),
  "[DONE] missing": text("no-done"),
  "[DONE] twice": text("done-twice"),
  "HTML instead": text("html"),

  "truncated tool JSON": { calls: [{ name: "terminal", args: '{"command": "rm -rf /tm' }] },
  "tool JSON cut by the length limit": { calls: [{ name: "terminal", args: '{"command": "l' }], finish: "length" },
  "duplicate call ids": {
    calls: [
      { ...CALL, id: "call_same" },
      { ...CALL, id: "call_same" },
    ],
  },
  "interleaved parallel arguments": {
    calls: [CALL, { name: "terminal", args: { command: "echo 世界" } }, { name: "terminal", args: { command: "pwd" } }],
    interleave: true,
  },
  "unknown tool": { calls: [{ name: "no_such_tool", args: {} }] },
  "wrong argument types": { calls: [{ name: "terminal", args: { command: ["ls"], timeout: "soon" } }] },
  "arguments that are no object": { calls: [{ name: "terminal", args: "[1, 2]" }] },
  "__proto__ in arguments": {
    calls: [{ name: "terminal", args: '{"command": "ls", "__proto__": {"polluted": true}}' }],
  },
  "200 calls at once": { calls: Array.from({ length: 200 }, () => CALL) },
  "empty reply": {},
  "no finish reason": { text: WORDS, finish: null },
  "unknown finish reason": { text: WORDS, finish: { raw: "bored" } },
} satisfies Record<string, Reply>;
