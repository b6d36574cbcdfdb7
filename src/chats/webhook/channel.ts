import { section, text, webAddress } from "../../platform/setting-kinds.ts";
import { defineChannel } from "../shared/channel.ts";

export const webhook = defineChannel({
  label: "Webhook",
  for: "program",
  settings: section({
    /** Without it there is no such channel. */
    secret: text().min(16, "must have at least 16 characters").optional(),
    /** Where answers are posted to. */
    url: webAddress().optional(),
  }),
  variables: {},
  secretOf: ({ secret }) => secret,
  open: async ({ secret = "", url }, { clock, log, listen }) => {
    const { createWebhook } = await import("./webhook.ts");
    const chat = createWebhook({ clock, log, secret, url });
    listen(chat.receive);
    return chat;
  },
});
