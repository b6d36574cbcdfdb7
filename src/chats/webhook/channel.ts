import { section, text, webAddress } from "../../platform/setting-kinds.ts";
import { defineChannel } from "../shared/channel.ts";

export const webhook = defineChannel({
  label: "Webhook",
  for: "program",
  settings: section({
    /** Without a secret the webhook channel is off. */
    secret: text().min(16, "must have at least 16 characters").optional(),
    /** The address that gets the answers. */
    url: webAddress().optional(),
  }),
  variables: {},
  secretOf: ({ secret }) => secret,
  open: async ({ secret = "", url }, { clock, log, notes, listen }) => {
    const { createWebhook } = await import("./webhook.ts");
    const chat = createWebhook({ clock, log, notes, secret, url });
    listen(chat.receive);
    return chat;
  },
});
