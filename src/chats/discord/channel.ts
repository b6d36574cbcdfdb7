import { section, text } from "../../platform/setting-kinds.ts";
import { defineChannel, peopleSettings, peopleVariables } from "../shared/channel.ts";

export const discord = defineChannel({
  label: "Discord",
  for: "people",
  settings: section({ token: text().optional(), ...peopleSettings(/^\d+$/, "a numeric user id") }),
  variables: {
    DISCORD_BOT_TOKEN: "token",
    DISCORD_API_ROOT: "api_root",
    ...peopleVariables("DISCORD", "CHANNELS"),
  },
  secretOf: ({ enabled, token }) => (enabled ? token : undefined),
  open: async ({ token = "", api_root: apiRoot }, { notes, ...world }) => {
    const [{ createDiscord }, { cursorsIn }, { sessionIn }] = await Promise.all([
      import("./discord.ts"),
      import("./cursors.ts"),
      import("./saved-session.ts"),
    ]);
    return createDiscord({ ...world, token, apiRoot, cursors: cursorsIn(notes), session: sessionIn(notes, token) });
  },
});
