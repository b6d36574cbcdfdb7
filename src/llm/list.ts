// The models that an endpoint offers, by its own word. One question, bounded in time and size.
import type { Fault } from "../core/ports.ts";
import { textWithin } from "../platform/capped.ts";
import { classify } from "./classify.ts";
import type { Endpoint } from "./endpoint.ts";

const LONGEST_LIST = 16_000_000;

/** In alphabetical order. Never throws. */
export async function listModels(endpoint: Endpoint, ms: number): Promise<string[] | Fault> {
  if (endpoint.provider === "demo") return [endpoint.model];
  const signal = AbortSignal.timeout(ms);
  try {
    return await ask(endpoint, signal);
  } catch (error) {
    const reason = `${endpoint.baseUrl} did not list its models within ${ms / 1_000} s`;
    return signal.aborted ? { end: "fault", kind: "stalled", reason } : classify(error);
  }
}

async function ask({ provider, baseUrl, apiKey }: Endpoint, signal: AbortSignal): Promise<string[] | Fault> {
  const { providerFetch } = await import("./wire.ts");
  const anthropic = provider === "anthropic";
  const url = `${baseUrl.replace(/\/+$/, "")}/models${anthropic ? "?limit=1000" : ""}`;
  const bearer: Record<string, string> = apiKey ? { authorization: `Bearer ${apiKey}` } : {};
  const headers = anthropic ? { "x-api-key": apiKey, "anthropic-version": "2023-06-01" } : bearer;
  const response = await providerFetch(url, { headers, signal });
  const body = parsed(await textWithin(response.body, LONGEST_LIST));
  if (!response.ok) {
    const elsewhere = response.status < 400 && "it points to another address, and that is not followed";
    return classify({ statusCode: response.status, message: elsewhere || response.statusText, error: body });
  }
  const ids = idsOf(body);
  if (ids) return ids;
  return { end: "fault", kind: "garbled", reason: `${url} answers, but not with a list of models` };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function idsOf(body: unknown): string[] | null {
  if (!isObject(body) || !Array.isArray(body["data"])) return null;
  const models: unknown[] = body["data"];
  const ids = models.flatMap((model) => (isObject(model) && typeof model["id"] === "string" ? [model["id"]] : []));
  return [...new Set(ids)].sort();
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
