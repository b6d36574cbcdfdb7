// What the tests of OpenAI's protocol share: an API that is closed after each test, with OpenAI's own SDK as its client.
import OpenAI, { APIError } from "openai";
import { KEY, type StartOptions, type TestApi } from "./api.ts";
import { start as startApi } from "./runs.ts";

export const MODEL = "hermes-agent";
/** A picture of one pixel, as base64. */
export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export const clientOf = ({ url }: Pick<TestApi, "url">, more: Partial<ConstructorParameters<typeof OpenAI>[0]> = {}) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0, ...more });

export async function start(options: StartOptions = {}) {
  const api = await startApi(options);
  return { ...api, client: clientOf(api) };
}

/** The error of a call that the SDK rejects. */
export async function refused(promise: Promise<unknown>): Promise<APIError> {
  const error: unknown = await promise.then(
    () => new Error("It was not refused."),
    (reason: unknown) => reason,
  );
  if (error instanceof APIError) return error;
  throw error;
}
