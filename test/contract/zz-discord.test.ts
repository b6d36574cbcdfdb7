import { chatContract } from "./chat.ts";
import { discordRig } from "./chat-discord.ts";
chatContract("discord", discordRig);
