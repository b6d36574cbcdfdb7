// A request's body, whatever its encoding.
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { isRecord, parsed } from "../llm/validation.ts";

export type Upload = { name: string; type: string; bytes: Buffer };
export type Params = Record<string, unknown>;
type Body = { params: Params; files: Record<string, Upload> };

/** Undefined: the client went away before it was all here. A string: why it cannot be read. */
export async function readBody(request: IncomingMessage): Promise<Body | string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  const bytes = Buffer.concat(chunks);
  const type = request.headers["content-type"] ?? "";
  if (bytes.length === 0) return { params: {}, files: {} };
  if (type.startsWith("application/json")) {
    const value = parsed(bytes.toString("utf8"));
    if (Array.isArray(value)) return { params: { list: value }, files: {} }; // Discord's commands
    return isRecord(value) ? { params: value, files: {} } : "the body is not a JSON object";
  }
  if (type.startsWith("application/x-www-form-urlencoded"))
    return { params: Object.fromEntries(new URLSearchParams(bytes.toString("utf8"))), files: {} };
  if (type.startsWith("multipart/form-data")) return multipart(bytes, type);
  return `the content type is ${JSON.stringify(type)}`;
}

async function multipart(bytes: Buffer, type: string): Promise<Body | string> {
  const params: Params = {};
  const files: Record<string, Upload> = {};
  try {
    const form = await new Response(new Uint8Array(bytes), { headers: { "content-type": type } }).formData();
    for (const [key, value] of form) {
      if (typeof value === "string") params[key] = value;
      else files[key] = { name: value.name, type: value.type, bytes: Buffer.from(await value.arrayBuffer()) };
    }
  } catch {
    return "the multipart body cannot be read";
  }
  return { params, files };
}

/** A value, or its JSON in a string: forms can do no better. */
export const loose = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (typeof value === "string" ? (parsed(value) ?? value) : value), schema);
