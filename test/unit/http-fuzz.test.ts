// Anything at all as a body, on every route that takes one (as the server describes itself): it is taken, or refused in
// the shape that clients read; never a 5xx, never no answer, and what was refused has left nothing behind.
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type * as z from "zod";
import { clock } from "../../src/platform/clock.ts";
import { startApi, type TestApi } from "../fakes/api.ts";
import { scriptedTool } from "../fakes/scripted.ts";

const EACH = 60;
type Schema = z.core.JSONSchema.JSONSchema;
type Row = { method: string; path: string; schema: Schema };
/** Far longer than any answer takes. */
const HANG_MS = 10_000;

let api: TestApi;
let rows: Row[];
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
  const asking = await api.run({ input: "ask me" });
  (await api.model.next()).answer("", { tool: "danger", args: {} }, { tool: "danger", args: {} });
  await api.entry(asking, "asked");
  const over = await api.run({ input: "be quick" });
  (await api.model.next()).answer("done");
  await api.ended(over, over);
  ids = [asking, over, "run_nonexistent", "%00", "%2e%2e", "x".repeat(600), "__proto__"];
  void (async () => {
    for (;;) (await api.model.next()).answer("fine");
  })();
});
afterAll(() => api.close());

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

/** Mostly what the schema asks for. */
function fitting(schema: Schema, depth = 0): fc.Arbitrary<unknown> {
  const { type, properties, required = [], items, anyOf, oneOf, allOf, enum: values } = schema;
  if ("const" in schema) return fc.constant(schema.const);
  if (values) return fc.constantFrom(...values);
  const ways = [anyOf, oneOf, allOf].flatMap((list) => list ?? []).filter((way) => typeof way === "object");
  if (ways.length && depth < 6) return fc.oneof(...ways.map((way) => fitting(way, depth + 1)));
  switch (type) {
    case "object": {
      const fields = Object.entries(properties ?? {}).flatMap(([name, field]) =>
        typeof field === "object" && depth < 6 ? [[name, fitting(field, depth + 1)] as const] : [],
      );
      return fc.record(Object.fromEntries(fields), { requiredKeys: required.filter((name) => properties?.[name]) });
    }
    case "array":
      return fc.array(typeof items === "object" && !Array.isArray(items) ? fitting(items, depth + 1) : fc.jsonValue(), {
        maxLength: 4,
      });
    case "string":
      return fc.oneof(
        fc.string({ maxLength: 40 }),
        fc.constantFrom("go", "s", "once", "deny", "queue", ...ids.slice(0, 3)),
      );
    case "integer":
      return fc.integer({ min: -2, max: 1_000 });
    case "number":
      return fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(0, 1, -1));
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

const headers = fc.record(
  {
    "Idempotency-Key": fc.oneof(fc.constantFrom("a", "b", "", "two words"), fc.string({ maxLength: 300 })),
    "X-Hermes-Session-Key": fc.oneof(fc.constantFrom("user", ""), fc.string({ maxLength: 300 })),
    "X-Hermes-Session-Id": fc.oneof(fc.constantFrom("s", ""), fc.string({ maxLength: 30 })),
  },
  { requiredKeys: [] },
);

// ── Answers ───────────────────────────────────────────────────────────────────────────────────────────

/** What a refusal must not change; turns go on meanwhile. */
const left = () =>
  JSON.stringify(
    api.disk
      .sessions({ limit: 1e6 })
      .map(({ session, title }) => [
        session,
        title,
        api.journal(session).filter(({ kind }) => kind === "accepted").length,
      ])
      .toSorted(),
  );

async function answers(row: Row, id: string, body: string, more: Record<string, string>): Promise<void> {
  const before = left();
  const path = row.path.replaceAll(/\{[a-z]+\}/g, id);
  const sent = Object.fromEntries(Object.entries(more).filter(([, value]) => /^[\t\x20-\x7e\x80-\xff]*$/.test(value)));
  const response = await Promise.race([
    api.call(row.method, path, body, sent),
    clock.sleep(HANG_MS).then(() => Promise.reject(new Error("no answer"))),
  ]);
  const { status } = response;
  const text = await Promise.race([
    response.text(),
    clock.sleep(HANG_MS).then(() => Promise.reject(new Error("an answer without end"))),
  ]);
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
  expect(left()).toBe(before);
}

/** One test for each row, though the rows are known only when it runs. */
const everyRow = async (bodyFor: (row: Row) => fc.Arbitrary<string>) => {
  expect(rows.length).toBeGreaterThan(2);
  for (const row of rows)
    await fc.assert(
      fc.asyncProperty(bodyFor(row), fc.constantFrom(...ids), headers, (body, id, more) =>
        answers(row, id, body, more as Record<string, string>),
      ),
      { numRuns: EACH },
    );
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
