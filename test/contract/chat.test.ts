import { chatContract } from "./chat.ts";
import { telegramRig } from "./chat-telegram.ts";

chatContract("telegram", telegramRig);
