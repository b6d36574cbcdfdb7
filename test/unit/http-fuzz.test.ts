// Anything at all as a body, on every route that takes one (as the server describes itself): it is taken, or refused in
// the shape that clients read; never a 5xx, never no answer, and what was refused has left nothing behind.
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type * as z from "zod";
import { startApi, type TestApi } from "../fakes/api.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const EACH = 20;
type Schema = z.core.JSONSchema.JSONSchema;
type Row = { method: string; path: string; schema: Schema };
/** Far longer than any answer takes. */
const HANG_MS = 10_000;

let api: TestApi;
let rows: Row[];
/** What stands in a path; the first may wait for an approval, the second is over. */
let ids: string[];
beforeAll(async () => {
  const danger = scriptedTool("danger", {
    gate: { gate: "ask", kind: "approval", text: "may I?", choices: ["once", "deny"], timeoutMs: 600_000 },
  });
  api = await startApi({
    tools: [danger],
    settings: { maxRuns: 0, busyMode: "queue", heartbeatMs: 50 },
    limits: { inbox: 1_000, turns: 1_000, text: 10_000 },
  });
  rows = await described();
  const calls = [0, 1].map(() => ({ tool: "danger", args: {} }));
  void (async () => {
    for (;;) {
      const { request, answer } = await api.model.next();
      answer("fine", ...(request.messages.at(-1)?.text === ASK_ME ? calls : []));
    }
  })();
  void (async () => {
    for (;;) (await danger.next()).done("done");
  })();
  const over = await api.run({ input: "be quick" });
  await api.ended(over, over);
  ids = ["", over, "run_nonexistent", "%00", "%2e%2e", "x".repeat(600), "__proto__"];
});
afterAll(() => api.close());

const ASK_ME = "ask me";
async function asking(): Promise<string> {
  const id = await api.run({ input: ASK_ME });
  await api.entry(id, "asked");
  return id;
}
/** Whoever talks to a session that waits for an approval waits with it. */
async function settled(): Promise<string> {
  const id = await asking();
  for (const call of (await api.engine.run(id))?.asking ?? [])
    await api.engine.answer({ session: id, call, allow: true, text: "once", by: "test" });
  await api.ended(id, id);
  return id;
}
const isAnswer = ({ path }: Row) => /\/(?:approval|answer|steer|stop)$/.test(path);

/** The rows that take a body, as the server itself describes them. */
async function described(): Promise<Row[]> {
  type Operation = { requestBody?: { content: { "application/json": { schema: Schema } } } };
  const { body } = await api.json<{ paths: Record<string, Record<string, Operation>> }>("GET", "/openapi.json");
  return Object.entries(body.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { requestBody }]) => {
      const schema = requestBody?.content["application/json"].schema;
      return schema ? [{ method: method.toUpperCase(), path, schema }] : [];
    }),
  );
}

// ── Bodies ────────────────────────────────────────────────────────────────────────────────────────────

/** Mostly what the schema asks for; what may be left out mostly is. */
function fitting(schema: Schema, depth = 0): fc.Arbitrary<unknown> {
  const { type, properties = {}, required = [], items, anyOf, oneOf, allOf, enum: values } = schema;
  if ("const" in schema) return fc.constant(schema.const);
  if (values) return fc.constantFrom(...values);
  const ways = [anyOf, oneOf, allOf].flatMap((list) => list ?? []).filter((way) => typeof way === "object");
  if (ways.length) return fc.oneof(...ways.map((way) => fitting(way, depth + 1)));
  switch (type) {
    case "object": {
      const fields = Object.entries(properties).flatMap(([name, field]) => {
        if (typeof field !== "object" || depth > 5) return [];
        const value = fitting(field, depth + 1);
        const rarely = fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
        return [[name, required.includes(name) ? value : rarely] as const];
      });
      return fc.record(Object.fromEntries(fields));
    }
    case "array":
      return fc.array(typeof items === "object" && !Array.isArray(items) ? fitting(items, depth + 1) : odd, {
        maxLength: 4,
      });
    case "string": {
      const usual = fc.constantFrom("go", "user", "once", "deny", "queue", ...ids.slice(0, 2));
      return fc.oneof({ weight: 3, arbitrary: usual }, { weight: 1, arbitrary: fc.string({ maxLength: 40 }) });
    }
    case "integer":
    case "number": {
      const { minimum: min = 0, maximum: max = 1_000 } = schema;
      const whole = fc.integer({ min: Math.ceil(min), max: Math.floor(Math.min(max, 1e6)) });
      return type === "integer" ? whole : fc.oneof(whole, fc.double({ min, max, noNaN: true }));
    }
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(null, "", " ", "\0", "\ud800", 1e308, -0, [], {}, [[]], "x".repeat(20_000), { length: 1e9 }),
);

/** One place of it, however deep, is something else, is gone, or is there twice. */
const bent = (good: fc.Arbitrary<unknown>) =>
  fc
    .tuple(good, odd, fc.array(fc.nat(5), { maxLength: 4 }), fc.constantFrom("replace", "drop", "wrap", "double"))
    .map(([value, other, path, how]) => bend(value, other, path, how));

function bend(value: unknown, other: unknown, [step, ...path]: number[], how: string): unknown {
  const isPlain = typeof value === "object" && value !== null;
  if (step === undefined || !isPlain || Object.keys(value).length === 0) {
    if (how === "wrap") return [value];
    return how === "double" ? { value, other } : other;
  }
  const names = Object.keys(value);
  const name = names[step % names.length] ?? "";
  const inside = (value as Record<string, unknown>)[name];
  const entries = Object.entries(value).flatMap(([key, one]): [string, unknown][] => {
    if (key !== name) return [[key, one]];
    if (how === "drop" && path.length === 0) return [];
    return [[key, bend(inside, other, path, how)]];
  });
  return Array.isArray(value) ? entries.map(([, one]) => one) : Object.fromEntries(entries);
}

const header = (usual: string[]) =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.string({ maxLength: 300 }) },
  );
const headers = fc
  .record({
    "Idempotency-Key": header(["a", "b", "c"]),
    "X-Hermes-Session-Key": header(["user", "other"]),
    "X-Hermes-Session-Id": header(["s"]),
  })
  .map((all) =>
    Object.fromEntries(Object.entries(all).flatMap(([name, value]) => (isSendable(value) ? [[name, value]] : []))),
  );
/** What the client's own library lets through. */
const isSendable = (value: string | undefined): value is string =>
  value !== undefined && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);

// ── Answers ───────────────────────────────────────────────────────────────────────────────────────────

/** What a refusal must not add to. It may shrink: an answer that is not to be stored is forgotten a moment later. */
const left = () =>
  api.disk.catalog.sessions({ limit: 1e6 }).map(({ session, title }) => {
    const inputs = api.journal(session).filter(({ kind }) => kind === "accepted").length;
    return JSON.stringify([session, title, inputs]);
  });

async function answers(row: Row, id: string, body: string, more: Record<string, string>): Promise<void> {
  const before = new Set(left());
  const path = row.path.replaceAll(/\{[a-z]+\}/g, id);
  const response = await soon(api.call(row.method, path, body, more));
  const { status } = response;
  const text = await soon(response.text());
  expect([status, status >= 200 && status < 500]).toEqual([status, true]);
  if (status < 300) return;
  expect(status).toBeGreaterThanOrEqual(400);
  expect(response.headers.get("Content-Type")).toMatch(/^application\/json/);
  const { error } = JSON.parse(text);
  expect(Object.keys(error).toSorted()).toEqual(["code", "message", "param", "type"]);
  expect(error.message).toMatch(/\S/);
  expect(error.message.length).toBeLessThan(1_000);
  expect(typeof error.type).toBe("string");
  for (const value of [error.code, error.param]) expect(value === null || typeof value === "string").toBe(true);
  expect(left().filter((one) => !before.has(one))).toEqual([]);
}

async function soon<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("no answer, or one without end")), HANG_MS);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** One test for each row, though the rows are known only when it runs. */
const everyRow = async (bodyFor: (row: Row) => fc.Arbitrary<string>) => {
  expect(rows.length).toBeGreaterThan(2);
  for (const row of rows) {
    await api.engine.resume(); // the row before it may have been the pause
    ids[0] = await (isAnswer(row) ? asking() : settled());
    await fc.assert(
      fc.asyncProperty(bodyFor(row), fc.constantFrom(...ids), headers, (body, id, more) =>
        answers(row, id, body, more),
      ),
      { numRuns: EACH },
    );
  }
};

describe("on every route that takes a body", () => {
  it("any JSON is taken or refused in shape", () => everyRow(() => fc.json({ maxDepth: 4 })), 60_000);

  it(
    "what nearly fits is taken or refused in shape",
    () => everyRow((row) => bent(fitting(row.schema)).map((value) => JSON.stringify(value) ?? "null")),
    60_000,
  );

  it(
    "what fits is taken or refused in shape",
    () => everyRow((row) => fitting(row.schema).map((value) => JSON.stringify(value) ?? "null")),
    60_000,
  );

  it(
    "any text is refused in shape",
    () =>
      everyRow(() =>
        fc.oneof(
          fc.string(),
          fc.string({ unit: "binary" }),
          fc.json().map((text) => text.slice(0, -1)),
        ),
      ),
    60_000,
  );
});
