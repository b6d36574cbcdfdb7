// Discord: its gateway brings what people say, its REST API takes what we say.
import { createHash } from "node:crypto";
import type {
  APIChatInputApplicationCommandInteraction,
  APIInteraction,
  APIMessage,
  APIMessageComponentInteraction,
  Client,
  GatewayMessageCreateDispatchData,
  GatewayMessageDeleteBulkDispatchData,
  GatewayMessageDeleteDispatchData,
  GatewayMessageUpdateDispatchData,
  REST,
  RESTOptions,
  RouteLike,
} from "discord.js";
import { type Button, type Chat, type Ears, type Place, type Said, SendFault } from "../core/chat.ts";
import { messageOf } from "../core/errors.ts";
import type { Clock, Log, Random } from "../core/ports.ts";
import { openCalls, unanswered } from "./calls.ts";
import { openGateway } from "./discord-gateway.ts";
import { commandText, heardOf, isSaid, type Me, personOf, placeOf, userOf } from "./discord-hear.ts";
import { discordMarkdown, LONGEST } from "./discord-markdown.ts";
import { openLanes } from "./lanes.ts";

type Options = { token: string; apiRoot?: string; clock: Clock; log: Log; random: Random };
type Asked = { body?: unknown; query?: URLSearchParams; auth?: boolean };

const PLATFORM = "discord";
