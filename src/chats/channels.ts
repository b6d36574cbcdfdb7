// All chat channels. To add one, write its folder and add it to the table; see docs/recipes.md.

import { discord } from "./discord/channel.ts";
import type { ChatChannel } from "./shared/channel.ts";
import { slack } from "./slack/channel.ts";
import { telegram } from "./telegram/channel.ts";
import { webhook } from "./webhook/channel.ts";

const TABLE = { telegram, discord, slack, webhook };

export const CHANNELS: ReadonlyMap<string, ChatChannel> = new Map(Object.entries(TABLE));

type Sections = { [Name in keyof typeof TABLE]: (typeof TABLE)[Name]["settings"] };

/** For the schema of the configuration: the section of each channel. */
export const channelSections: Sections = sections();

/** And the variables that set their keys. */
export const channelVariables: Readonly<Record<string, { key: string }>> = Object.fromEntries(
  [...CHANNELS].flatMap(([name, { variables }]) =>
    Object.entries(variables).map(([variable, key]) => [variable, { key: `gateway.${name}.${key}` }]),
  ),
);

function sections(): Sections {
  const all = Object.fromEntries([...CHANNELS].map(([name, { settings }]) => [name, settings]));
  if (!hasAll(all)) throw new TypeError("A channel has no section.");
  return all;
}

/** What the compiler cannot know of `fromEntries`. */
function hasAll(all: object): all is Sections {
  return Object.keys(TABLE).every((name) => name in all);
}
