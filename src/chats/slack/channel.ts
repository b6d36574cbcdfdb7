import { section, text } from "../../platform/setting-kinds.ts";
import { defineChannel, peopleSettings, peopleVariables } from "../shared/channel.ts";

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
    ...peopleVariables("SLACK", "CHANNELS"),
  },
  secretOf: ({ enabled, bot_token, app_token }) => (enabled ? app_token && bot_token : undefined),
  open: async ({ bot_token: botToken = "", app_token: appToken = "", api_root: apiRoot }, world) => {
    const { createSlack } = await import("./slack.ts");
    return createSlack({ ...world, botToken, appToken, apiRoot });
  },
});
