// Schemas of tools, as servers of MCP write them, in the words that all providers take.
import { describe, expect, it } from "vitest";
import { commonSchema } from "../../src/llm/schema.ts";
import { schemaProblems } from "../fakes/llm/validation.ts";

const object = (properties: object, required: string[] = []) => ({
  type: "object",
  properties,
  ...(required.length && { required }),
});

describe("a common schema", () => {
  it.each<[string, Record<string, unknown>, unknown]>([
    ["nothing", {}, object({})],
    ["no properties", { type: "object" }, object({})],
    [
      "words that only some know",
      {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        $id: "x",
        type: "object",
        properties: {
          n: { type: "integer", exclusiveMinimum: 0, multipleOf: 2, maximum: 9 },
          at: { type: "string", format: "date-time" },
          mail: { type: "string", format: "email", description: "whose" },
        },
        required: ["n", "not there"],
        additionalProperties: false,
      },
      object(
        {
          n: { type: "integer", maximum: 9 },
          at: { type: "string", format: "date-time" },
          mail: { type: "string", description: "whose" },
        },
        ["n"],
      ),
    ],
    [
      "alternatives at the top",
      {
        type: "object",
        properties: { a: { type: "string" } },
        anyOf: [
          { properties: { b: { type: "string" } }, required: ["a", "b"] },
          { properties: { c: { type: "number" } }, required: ["a", "c"] },
        ],
      },
      object({ a: { type: "string" }, b: { type: "string" }, c: { type: "number" } }, ["a"]),
    ],
    [
      "alternatives instead of an object",
      { oneOf: [object({ a: { type: "string" } }, ["a"]), object({ b: { type: "string" } }, ["b"])] },
      object({ a: { type: "string" }, b: { type: "string" } }),
    ],
    [
      "all of several",
      { allOf: [object({ a: { type: "string" } }, ["a"]), object({ b: { type: "string" } })], description: "both" },
      { description: "both", ...object({ a: { type: "string" }, b: { type: "string" } }, ["a"]) },
    ],
    [
      "lists of anything",
      object({ a: { type: "array" }, b: { type: "array", items: {} }, c: { items: { type: "number" } } }),
      object({
        a: { type: "array", items: { type: "string" } },
        b: { type: "array", items: { type: "string" } },
        c: { type: "array", items: { type: "number" } },
      }),
    ],
    [
      "null and several types",
      object({ a: { type: ["string", "null"] }, b: { type: ["string", "number"], description: "either" } }),
      object({
        a: { type: "string" },
        b: {
          description: "either",
          anyOf: [
            { type: "string", description: "either" },
            { type: "number", description: "either" },
          ],
        },
      }),
    ],
    [
      "a choice with null",
      object({ a: { anyOf: [{ type: "string" }, { type: "null" }], description: "maybe" } }),
      object({ a: { type: "string", description: "maybe" } }),
    ],
    [
      "constants and choices",
      object({
        a: { const: "x" },
        b: { enum: ["x", null, "y"] },
        c: { type: "integer", enum: [1, 2], description: "how" },
      }),
      object({
        a: { type: "string", enum: ["x"] },
        b: { type: "string", enum: ["x", "y"] },
        c: { type: "integer", description: "how (One of: 1, 2)" },
      }),
    ],
    [
      "references, also around in a circle",
      {
        type: "object",
        properties: { tree: { $ref: "#/$defs/Node", description: "the root" } },
        $defs: {
          Node: object({ name: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/Node" } } }),
        },
      },
      object({
        tree: {
          description: "the root",
          ...object({ name: { type: "string" }, children: { type: "array", items: { type: "string" } } }),
        },
      }),
    ],
    ["names that no provider takes", object({ "a b": { type: "string" }, ok: true }, ["a b"]), object({ ok: {} })],
  ])("of %s", (_, given, common) => {
    expect(commonSchema(given)).toEqual(common);
    expect(schemaProblems(commonSchema(given))).toEqual([]);
  });

  it("is the same object every time, so that a request stays the same", () => {
    const schema = object({ a: { type: "string" } });
    expect(commonSchema(schema)).toBe(commonSchema(schema));
  });

  it("has an end, however references multiply", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 30 }, (_, i) => [
        `n${i}`,
        object(Object.fromEntries(["a", "b", "c"].map((key) => [key, { $ref: `#/$defs/n${i + 1}` }]))),
      ]),
    );
    const common = commonSchema({ type: "object", properties: { all: { $ref: "#/$defs/n0" } }, $defs });
    expect(JSON.stringify(common).length).toBeLessThan(200_000);
  });
});
