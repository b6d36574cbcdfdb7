import { createHmac } from "node:crypto";
import { section, text, webAddress } from "../../platform/setting-kinds.ts";
import { defineChannel, peopleSettings, peopleVariables, type Receive } from "../shared/channel.ts";

export const telegram = defineChannel({
  label: "Telegram",
  for: "people",
  settings: section({
    token: text().optional(),
    /** The public address where Telegram delivers updates; without it we poll. */
    webhook_url: webAddress().optional(),
    ...peopleSettings(/^\d+$/, "a numeric user id"),
  }),
  variables: {
    TELEGRAM_BOT_TOKEN: "token",
    TELEGRAM_API_ROOT: "api_root",
    ...peopleVariables("TELEGRAM", "CHATS"),
  },
  secretOf: ({ enabled, token }) => (enabled ? token : undefined),
  open: async ({ token = "", api_root: apiRoot, webhook_url: url }, world) => {
    const { createTelegram } = await import("./telegram.ts");
    if (!url) return createTelegram({ ...world, token, apiRoot });
    let receive: Receive = async () => ({ status: 503, body: {} });
    world.listen((raw, headers) => receive(raw, headers));
    // The secret is made from the token: it is the same after a restart, and nobody has to keep it.
    const secret = createHmac("sha256", token).update("webhook").digest("hex");
    const listen = (started: Receive) => {
      receive = started;
    };
    return createTelegram({ ...world, token, apiRoot, webhook: { url, secret, listen } });
  },
});
