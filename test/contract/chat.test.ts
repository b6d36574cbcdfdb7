import { chatContract } from "./chat.ts";
import { discordRig } from "./chat-discord.ts";
import { slackRig } from "./chat-slack.ts";
import { telegramRig } from "./chat-telegram.ts";

chatContract("telegram", telegramRig);
chatContract("discord", discordRig);
chatContract("slack", slackRig);
