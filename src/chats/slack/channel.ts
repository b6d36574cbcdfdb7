import { section, text } from "../../platform/setting-kinds.ts";
import { defineChannel, peopleSettings } from "../shared/channel.ts";

export const slack = defineChannel({
  label: "Slack",
  for: "people",
  settings: section({
    bot_token: text().optional(),
    app_token: text().optional(),
    ...peopleSettings(/^[UW][A-Z0-9]+$/, "a member id such as U012AB3CD"),
  }),
  variables: {
    SLACK_BOT_TOKEN: "bot_token",
    SLACK_APP_TOKEN: "app_token",
    SLACK_API_ROOT: "api_root",
    SLACK_ALLOWED_USERS: "allowed_users",
  },
  secretOf: ({ bot_token, app_token }) => app_token && bot_token,
  open: async ({ bot_token: botToken = "", app_token: appToken = "", api_root: apiRoot }, world) => {
    const { createSlack } = await import("./slack.ts");
    return createSlack({ ...world, botToken, appToken, apiRoot });
  },
});
