// Telegram's posts to us. A post without the secret gets no information. A post is answered with 200 once it is taken; until then
// Telegram sends it again.

import { createHash, timingSafeEqual } from "node:crypto";
import type { Update } from "grammy/types";
import { ConfigError } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";
import { within } from "../../core/wait.ts";
import { jsonIn, toObject } from "../../platform/json.ts";
import type { Receive } from "../shared/channel.ts";

const HEADER = "x-telegram-bot-api-secret-token";
/** Telegram hangs up after a minute. */
const PATIENCE_MS = 50_000;

/** `take` returns false if the update was not taken. */
export function hookOf(
  secret: string,
  { clock, take }: { clock: Clock; take(update: Update): Promise<boolean> },
): Receive {
  if (!/^[\w-]{16,256}$/.test(secret))
    throw new ConfigError(
      "The secret of Telegram's webhook needs 16 to 256 letters, digits, - and _: anybody could post to us without it.",
    );
  const wanted = digest(secret);
  return async (raw, headers) => {
    const given = headers[HEADER];
    if (typeof given !== "string" || !timingSafeEqual(digest(given), wanted))
      return refused(401, "The secret is wrong.");
    const update = jsonIn(Buffer.from(raw).toString("utf8"));
    if (!isUpdate(update)) return refused(400, "This is no update.");
    const taken = await within(clock, PATIENCE_MS, take(update));
    return taken ? { status: 200, body: {} } : refused(503, "Not taken yet; bring it again.");
  };
}

const digest = (text: string) => createHash("sha256").update(text).digest();
const refused = (status: number, error: string) => ({ status, body: { error } });

/** Only Telegram knows the secret: of its own words the number is enough to go by. */
const isUpdate = (value: unknown): value is Update => Number.isSafeInteger(toObject(value)["update_id"]);
