// Server-sent events, whatever the network does to their bytes.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSseParser, type Heard } from "../../src/core/sse.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const heardIn = (...chunks: (string | Uint8Array)[]): Heard[] => {
  const take = createSseParser();
  return chunks.flatMap((chunk) => take(typeof chunk === "string" ? bytesOf(chunk) : chunk));
};
const message = (data: string, more: { id?: string; event?: string } = {}) => ({ id: "", event: "", data, ...more });

describe("an event", () => {
  it("has an id, a name and data", () => {
    expect(heardIn("id: 7\nevent: greeting\ndata: hello\n\n")).toEqual([
      message("hello", { id: "7", event: "greeting" }),
    ]);
  });

  it("has several lines of data joined, also empty ones", () => {
    expect(heardIn("data: a\ndata\ndata:\ndata:  b\n\n")).toEqual([message("a\n\n\n b")]);
  });

  it.each(["\n", "\r\n", "\r"])("ends its lines with %j", (end) => {
    expect(heardIn(["id: 1", "data: a", "", "data: b", "", ""].join(end))).toEqual([
      message("a", { id: "1" }),
      message("b", { id: "1" }),
    ]);
  });

  it("is told as soon as its last line ends, without waiting for what may follow a carriage return", () => {
    expect(heardIn("data: a\r\n\r")).toEqual([message("a")]);
    expect(heardIn("data: a\r\n\r", "\ndata: b\r", "\n\r", "\n")).toEqual([message("a"), message("b")]);
    expect(heardIn("data: a\r", "", "\ndata: b\n\n")).toEqual([message("a\nb")]);
  });

  it("is not told when it was cut off before its end", () => {
    expect(heardIn("data: a\n\nid: 2\ndata: b\n")).toEqual([message("a")]);
    expect(heardIn("data: a\n\ndata: b")).toEqual([message("a")]);
  });

  it("without data is none, and its name is forgotten", () => {
    expect(heardIn("event: x\n\ndata: a\n\n")).toEqual([message("a")]);
  });

  it("keeps the id of the one before it, and takes none with a NUL", () => {
    expect(heardIn("id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n")).toEqual([
      message("a", { id: "1" }),
      message("b", { id: "1" }),
      message("c", { id: "1" }),
      message("d"),
    ]);
  });

  it("loses one space behind the colon, and only that", () => {
    expect(heardIn("data:a\n\ndata:  a \n\n")).toEqual([message("a"), message(" a ")]);
  });

  it("may be preceded by a byte order mark, which is not part of it", () => {
    const marked = bytesOf("\uFEFFdata: a\n\n");
    const twice = bytesOf("\uFEFF\uFEFFdata: a\n\n");
    expect(heardIn(marked.subarray(0, 2), marked.subarray(2))).toEqual([message("a")]);
    expect(heardIn(twice.subarray(0, 2), twice.subarray(2))).toEqual([]); // a second one is part of the line
    expect(heardIn("data: a\n\n\uFEFFdata: b\n\n")).toEqual([message("a")]);
  });

  it("of more than 64 million characters is refused, not kept", () => {
    const take = createSseParser();
    const megabyte = bytesOf("x".repeat(1_000_000));
    expect(() => {
      for (let i = 0; i < 65; i++) take(megabyte);
    }).toThrow(/more than 64000000 characters/);
    const lines = createSseParser();
    const line = bytesOf(`data: ${"x".repeat(999_994)}\n`);
    expect(() => {
      for (let i = 0; i < 65; i++) lines(line);
    }).toThrow(/more than 64000000 characters/);
  });
});

describe("beside events", () => {
  it("comments are told", () => {
    expect(heardIn(": keepalive\n\n:\n:x\n")).toEqual([{ comment: "keepalive" }, { comment: "" }, { comment: "x" }]);
  });

  it("a time to wait is told, if it is a number", () => {
    expect(heardIn("retry: 1000\nretry: soon\nretry: -1\nretry:5\n")).toEqual([{ retry: 1_000 }, { retry: 5 }]);
  });

  it("unknown fields mean nothing", () => {
    expect(heardIn("hello\nx: y\ndatax: z\n\ndata: a\n\n")).toEqual([message("a")]);
  });
});

describe("bytes", () => {
  const ends = fc.constantFrom("\n", "\r\n", "\r");
  const word = fc.string({ unit: fc.constantFrom("a", " ", ":", "é", "漢", "🙂", "\uFEFF", "\0"), maxLength: 8 });
  const field = fc.constantFrom("data", "id", "event", "retry", "", "other");
  const line = fc.oneof(
    fc.constant(""),
    word,
    fc.tuple(field, fc.constantFrom(":", ": "), fc.oneof(word, fc.nat().map(String))).map((parts) => parts.join("")),
  );
  const text = fc.array(fc.tuple(line, ends), { maxLength: 30 }).map((lines) => lines.flat().join(""));

  it("cut anywhere give the same events", () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(), { maxLength: 40 }), (stream, cuts) => {
        const bytes = bytesOf(stream);
        const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
        const pieces = [0, ...places].map((from, index) => bytes.subarray(from, places[index] ?? bytes.length));
        expect(heardIn(...pieces)).toEqual(heardIn(bytes));
        expect(heardIn(...[...bytes].map((byte) => new Uint8Array([byte])))).toEqual(heardIn(bytes));
      }),
      { numRuns: 2_000 },
    );
  });

  it("of any events give those events", () => {
    const plain = fc.string({ unit: "binary" }).map((given) => given.replaceAll(/[\r\n\0]/g, "").toWellFormed());
    const event = fc.record({
      id: plain,
      event: plain,
      lines: fc.array(plain, { minLength: 1, maxLength: 4 }),
      end: ends,
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 5 }), (events) => {
        const wire = events.map(({ id, event: name, lines, end }) =>
          [`id: ${id}`, `event: ${name}`, ...lines.map((one) => `data: ${one}`), "", ""].join(end),
        );
        expect(heardIn(wire.join(""))).toEqual(
          events.map(({ id, event: name, lines }) => ({ id, event: name, data: lines.join("\n") })),
        );
      }),
      { numRuns: 1_000 },
    );
  });
});
