// What a client sends, over real sockets where a client library would not send the bad thing.
import { once } from "node:events";
import { createServer, IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect, Socket } from "node:net";
import * as fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import * as z from "zod";
import { BODY_LIMIT, parse, readJson } from "../../src/surfaces/http/server/body.ts";
import { envelope, Problem } from "../../src/surfaces/http/server/problem.ts";

type Outcome = { value: unknown } | { problem: Problem };

const outcomeOf = async (reading: Promise<unknown>): Promise<Outcome> => {
  try {
    return { value: await reading };
  } catch (error) {
    if (error instanceof Problem) return { problem: error };
    throw error;
  }
};

/** A request with this body, all of it there. */
const arrived = (body: string | Uint8Array) => {
  const request = new IncomingMessage(new Socket());
  request.push(Buffer.from(body));
  request.push(null);
  return request;
};
const read = (body: string | Uint8Array, limit?: number) => outcomeOf(readJson(arrived(body), limit));
const refusal = async (body: string | Uint8Array, limit?: number) => {
  const outcome = await read(body, limit);
  if ("value" in outcome) throw new Error(`It was taken: ${JSON.stringify(outcome.value)}`);
  return { status: outcome.problem.status, code: outcome.problem.code, message: outcome.problem.message };
};

describe("a body", () => {
  it("is the object that was sent", async () => {
    expect(await read('{"input":"hello ☕","n":[1,{"deep":null}]}')).toEqual({
      value: { input: "hello ☕", n: [1, { deep: null }] },
    });
    expect(await read(" \n{} ")).toEqual({ value: {} });
  });

  it("that is empty is undefined", async () => {
    expect(await read("")).toEqual({ value: undefined });
  });

  it.each(["{", '{"a":}', "input=hello", "{'a':1}", " ", "\0", '{"a":1}{"b":2}', "NaN", "\u{feff}{}"])(
    "that is not JSON is refused: %j",
    async (text) => {
      const { status, code, message } = await refusal(text);
      expect([status, code]).toEqual([400, "invalid_json"]);
      expect(message).toContain("Invalid JSON");
    },
  );

  it.each(["[]", '[{"input":"x"}]', "null", "true", "1", '"text"'])(
    "that is JSON but not an object is refused: %s",
    async (text) => {
      const { status, message } = await refusal(text);
      expect(status).toBe(400);
      expect(message).toContain("must be a JSON object");
    },
  );

  it.each([
    ["a stray byte", [0xff]],
    ["a character cut short", [0xe2, 0x98]],
    ["a character written too long", [0xc0, 0xaf]],
    ["half of a pair", [0xed, 0xa0, 0x80]],
  ])("that is not UTF-8 is refused: %s", async (_, bytes) => {
    const { status, message } = await refusal(Buffer.from([...Buffer.from('{"a":"'), ...bytes, ...Buffer.from('"}')]));
    expect(status).toBe(400);
    expect(message).toContain("UTF-8");
  });

  it("repeats little of what it refuses", async () => {
    const { message } = await refusal(`{"key": ${"secret".repeat(1_000)}`);
    expect(message.length).toBeLessThanOrEqual(300);
    expect(message.match(/secret/g)?.length ?? 0).toBeLessThan(8);
  });
});

describe("the depth of a body", () => {
  const nested = (levels: number, [open = "", close = ""]: string[]) =>
    `${open.repeat(levels)}1${close.repeat(levels)}`;
  const arrays = (levels: number) => `{"a":${nested(levels - 1, ["[", "]"])}}`;
  const objects = (levels: number) => nested(levels, ['{"a":', "}"]);

  it("may be 64", async () => {
    expect(await read(arrays(64))).toEqual({ value: JSON.parse(arrays(64)) });
    expect(await read(objects(64))).toEqual({ value: JSON.parse(objects(64)) });
  });

  it("may not be 65", async () => {
    for (const text of [arrays(65), objects(65)]) expect((await refusal(text)).message).toContain("64 levels");
  });

  it("is not found in texts, whatever they are escaped with", async () => {
    const brackets = "[".repeat(100);
    for (const text of [brackets, `\\"${brackets}`, `"${brackets}`, `\\\\"${brackets}`, `☕\n${brackets}`])
      expect(await read(JSON.stringify({ text, [text]: [] }))).toEqual({ value: { text, [text]: [] } });
  });

  it("is counted over siblings, not summed", async () => {
    const wide = { all: Array.from({ length: 1_000 }, () => [{ a: [] }]) };
    expect(await read(JSON.stringify(wide))).toEqual({ value: wide });
  });

  it.each(["[", '{"a":', '[{"":', "[[]", '"a"['])("of ten million bytes of %s is refused", async (unit) => {
    const text = unit.repeat(Math.floor(BODY_LIMIT / unit.length));
    expect((await refusal(text)).message).toContain("64 levels");
  });
});

describe("the name __proto__", () => {
  it.each([
    '{"__proto__":{"admin":true}}',
    '{"a":[{"b":{"__proto__":null}}]}',
    '{"\\u005f_proto__":1}',
    '{"__prot\\u006F__":1}',
    '{"\\u005F\\u005f\\u0070\\u0072\\u006f\\u0074\\u006f\\u005f\\u005f":1}',
  ])("is refused as a field: %s", async (text) => {
    const { status, message } = await refusal(text);
    expect(status).toBe(400);
    expect(message).toContain("__proto__");
  });

  it("is a text like any other, and so are other names", async () => {
    const body = { input: "what is __proto__?", constructor: 1, prototype: { constructor: 2 }, "é\u0001": [null] };
    expect(await read(JSON.stringify(body))).toEqual({ value: body });
    expect(await read('{"a":"\\u005f_proto__"}')).toEqual({ value: { a: "__proto__" } });
  });
});

// ── Real sockets ──────────────────────────────────────────────────────────────────────────────────────

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
});

async function serve(limit: number) {
  const outcomes: Promise<Outcome>[] = [];
  const server = createServer((request, response) => {
    const answer = (outcome: Outcome) => {
      const status = "problem" in outcome ? outcome.problem.status : 200;
      response.writeHead(status).end(JSON.stringify("problem" in outcome ? envelope(outcome.problem) : outcome.value));
      return outcome;
    };
    outcomes.push(outcomeOf(readJson(request, limit)).then(answer));
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  /** A client that has sent its headers, and sends its body as the test says. */
  const client = async (framing: string) => {
    const socket = connect(port, "127.0.0.1");
    sockets.push(socket);
    let heard = "";
    socket.on("data", (chunk) => {
      heard += String(chunk);
    });
    const post = () => socket.write(`POST / HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n`);
    const arrival = once(server, "request");
    post();
    await arrival;
    const hear = async (text: string) => {
      while (!heard.includes(text)) await once(socket, "data");
      const said = heard;
      heard = "";
      return said;
    };
    const chunk = (part: string | Buffer) => {
      socket.write(`${Buffer.byteLength(part).toString(16)}\r\n`);
      socket.write(part);
      socket.write("\r\n");
    };
    return { socket, post, chunk, hear };
  };
  const only = async (): Promise<Outcome> => {
    expect(outcomes).toHaveLength(1);
    return (await outcomes[0]) as Outcome;
  };
  return { client, only };
}

describe("a body that comes in pieces", () => {
  it("is put together, also when a character is cut in two", async () => {
    const { client } = await serve(1_000);
    const { socket, chunk, hear } = await client("Transfer-Encoding: chunked");
    const bytes = Buffer.from('{"a":"☕"}');
    chunk(bytes.subarray(0, 7));
    chunk(bytes.subarray(7));
    socket.write("0\r\n\r\n");
    expect(await hear("☕")).toContain(" 200 OK");
  });

  it("may be exactly as large as the limit, and is refused one byte later, before its end", async () => {
    const { client } = await serve(20);
    const { socket, post, chunk, hear } = await client("Transfer-Encoding: chunked");
    chunk('{"text":');
    chunk('"012345678"}');
    socket.write("0\r\n\r\n");
    expect(await hear("012345678")).toContain(" 200 OK");

    post();
    chunk('{"text":');
    chunk('"0123456789"}');
    // Nothing said that this was the end.
    const answer = await hear("body_too_large");
    expect(answer).toContain(" 413 ");

    // What still comes is thrown away, and the connection is as good as new.
    for (let n = 0; n < 100; n += 1) chunk("x".repeat(50_000));
    socket.write("0\r\n\r\n");
    post();
    chunk('{"again":1}');
    socket.write("0\r\n\r\n");
    expect(await hear("again")).toContain(" 200 OK");
  });

  it.each(["Content-Length: 100", "Transfer-Encoding: chunked"])(
    "and is cut off is refused, never taken for the whole: %s",
    async (framing) => {
      const { client, only } = await serve(1_000);
      const { socket } = await client(framing);
      socket.end(framing.startsWith("C") ? '{"a":1}' : '7\r\n{"a":1}\r\n');
      const outcome = await only();
      expect("problem" in outcome && [outcome.problem.status, outcome.problem.code]).toEqual([400, "incomplete_body"]);
    },
  );

  it("and whose client vanishes is refused", async () => {
    const { client, only } = await serve(1_000);
    const { socket } = await client("Content-Length: 100");
    socket.resetAndDestroy();
    const outcome = await only();
    expect("problem" in outcome && outcome.problem.code).toBe("incomplete_body");
  });

  it("and is asked for after its client has gone is refused, not waited for", async () => {
    const gone = new IncomingMessage(new Socket());
    gone.on("error", () => {});
    gone.destroy(new Error("aborted"));
    await new Promise((closed) => gone.once("close", closed));
    const outcome = await outcomeOf(readJson(gone));
    expect("problem" in outcome && outcome.problem.code).toBe("incomplete_body");
  });
});

describe("any bytes at all", () => {
  const json = fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text));
  const object = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })).map((o) => Buffer.from(JSON.stringify(o)));
  const hurt = fc.tuple(fc.oneof(json, object), fc.nat(), fc.uint8Array({ maxLength: 3 })).map(([bytes, at, put]) => {
    const cut = at % (bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, cut), put, bytes.subarray(cut + 1)]);
  });
  const syntax = fc.array(fc.constantFrom("[", "]", "{", "}", '"', "\\", ":", ",", "1", "\\u005f", "__proto__", "a"));

  it("are an object as JSON reads it, or a refusal in the 400s", async () => {
    const bytes = fc.oneof(
      fc.uint8Array(),
      json,
      object,
      hurt,
      syntax.map((parts) => Buffer.from(parts.join(""))),
    );
    await fc.assert(
      fc.asyncProperty(bytes, fc.integer({ min: 1, max: 200 }), async (body, limit) => {
        const outcome = await read(body, limit);
        if ("problem" in outcome) {
          expect(outcome.problem.status).toBe(body.length > limit ? 413 : 400);
          expect(outcome.problem.message.length).toBeLessThanOrEqual(300);
        } else if (body.length === 0) expect(outcome.value).toBeUndefined();
        else expect(outcome.value).toEqual(JSON.parse(Buffer.from(body).toString()));
      }),
      { numRuns: 1_000 },
    );
  });
});

// ── Shapes ────────────────────────────────────────────────────────────────────────────────────────────

const message = z.strictObject({ role: z.enum(["user", "assistant"]), content: z.string().min(1) });
const schema = z.strictObject({
  input: z.union([z.string().min(1), z.array(message).min(1)]),
  session: z.string("must be text").optional(),
  title: z.string().max(20).optional(),
  steps: z.int().min(1).max(90).optional(),
  share: z.number().gt(0).lt(1).optional(),
  all: z.boolean().optional(),
  link: z.url().optional(),
  id: z.string().regex(/^run_/).optional(),
  names: z.array(z.string()).max(2).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  choice: z.union([z.literal("once"), z.literal("deny")], "must be once or deny").optional(),
  part: z
    .discriminatedUnion("type", [z.object({ type: z.literal("text") }), z.object({ type: z.literal("file") })])
    .optional(),
});

const wrong = (value: unknown) => {
  try {
    parse(schema, value);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error("It was taken.");
};

describe("a shape", () => {
  it("that fits is what the schema makes of it", () => {
    const value = { input: [{ role: "user", content: "hi" }], all: false };
    expect(parse(schema, value)).toEqual(value);
    expect(parse(z.object({ n: z.number().default(3) }), {})).toEqual({ n: 3 });
  });

  it.each([
    [{ input: "" }, "input: must not be empty", "input"],
    [{ input: [] }, "input: must not be empty", "input"],
    [{}, "input: must be a string or an array", "input"],
    [{ input: 5 }, "input: must be a string or an array", "input"],
    [{ input: [{ role: "user" }] }, "input.0.content: must be a string", "input.0.content"],
    [{ input: [{ role: "x", content: "a" }] }, "input.0.role: must be one of user, assistant", "input.0.role"],
    [{ input: "a", session: 1 }, "session: must be text", "session"],
    [{ input: "a", title: "x".repeat(21) }, "title: must have at most 20 characters", "title"],
    [{ input: "a", steps: 0 }, "steps: must be at least 1", "steps"],
    [{ input: "a", steps: 91 }, "steps: must be at most 90", "steps"],
    [{ input: "a", steps: 1.5 }, "steps: must be a whole number", "steps"],
    [{ input: "a", share: 0 }, "share: must be more than 0", "share"],
    [{ input: "a", share: 1 }, "share: must be less than 1", "share"],
    [{ input: "a", all: "false" }, "all: must be true or false", "all"],
    [{ input: "a", link: "x" }, "link: must be a valid url", "link"],
    [{ input: "a", id: "x" }, "id: is not valid", "id"],
    [{ input: "a", names: ["a", "b", "c"] }, "names: must have at most 2 items", "names"],
    [{ input: "a", headers: { x: 1 } }, "headers.x: must be a string", "headers.x"],
    [{ input: "a", choice: "maybe" }, "choice: must be once or deny", "choice"],
    [{ input: "a", part: { type: "sound" } }, "part.type: must be one of text, file", "part.type"],
    [{ input: "a", more: 1 }, "more: is not a known field", "more"],
  ])("that does not fit is named: %j", (value, text, param) => {
    const problem = wrong(value);
    expect([problem.status, problem.message, problem.param]).toEqual([400, text, param]);
  });

  it.each([[undefined], [null], [[]], ["text"]])("that is no object at all has no field to name: %j", (value) => {
    const problem = wrong(value);
    expect([problem.message, problem.param]).toEqual(["The body must be an object", null]);
  });

  it("is not repeated at length", () => {
    const long = "x".repeat(10_000);
    for (const value of [
      { input: "a", [long]: 1 },
      { input: "a", headers: { [long]: 1 } },
      { input: "a", choice: long },
      { input: [{ role: long, content: "a" }] },
    ]) {
      const problem = wrong(value);
      expect(problem.message.length).toBeLessThanOrEqual(300);
      expect(problem.message).not.toContain("x".repeat(51));
      expect(problem.param?.length).toBeLessThanOrEqual(150);
    }
  });

  it("is taken or refused with a short reason, whatever it is", () => {
    const part = fc.oneof(fc.jsonValue(), fc.constant("x".repeat(1_000)));
    const names = fc.constantFrom("input", "session", "steps", "headers", "part", "other", "y".repeat(500));
    fc.assert(
      fc.property(fc.oneof(part, fc.dictionary(names, part)), (value) => {
        try {
          parse(schema, value);
        } catch (error) {
          expect(error).toBeInstanceOf(Problem);
          expect((error as Problem).message.length).toBeLessThanOrEqual(300);
        }
      }),
      { numRuns: 700 },
    );
  });
});
